"""Run the command `slidestat`; where it lacks a package, print what to install."""

import atexit
import gc
import os
import signal
import sys
from typing import Any, NoReturn

from slidestat.extras import advice_on


def _end(number: int, _frame: Any) -> NoReturn:
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; without a package that it needs, end with two lines and exit code 2."""
    if os.getpid() == 1:
        # The first process of a container gets no signal that it has no handler for, and a worker
        # has its own one late: it would be asked to end in vain, and be killed a minute later.
        signal.signal(signal.SIGTERM, _end)
    # Nearly all that a command loads lives as long as it does: looking through that for cycles
    # takes a sixth of a worker's start, and four tenths of a second at its end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    try:
        from slidestat.cli.main import main as run

        run()
    except ModuleNotFoundError as error:
        advice = advice_on(error)
        if not advice:
            raise
        print(f"error: the package {error.name} is not installed.", file=sys.stderr)
        print(f"what to do: {advice}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # Also while the command is loaded.
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
