"""Run the command `slidestat`; where it lacks a package, print what to install."""

import atexit
import gc
import sys

from slidestat.extras import advice_on


def main() -> None:
    """Run the command line; without a package that it needs, end with two lines and exit code 2."""
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


if __name__ == "__main__":
    main()
