"""The demo's workers: processes of the real command, in one consumer group."""

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from slidestat.errors import SlidestatError

_STOP_S = 30.0


class Workers:
    """A group of `count` workers of a topology file; they are ended, by their process ids, when the
    context is left.
    """

    def __init__(self, topology_file: Path, bootstrap: str, folder: Path, count: int) -> None:
        self._commands = {
            folder / f"worker-{number}": [
                *(sys.executable, "-m", "slidestat", "run", str(topology_file)),
                # What is waited for is that everything is committed.
                *("--checkpoint-interval", "1s"),
                *("--bootstrap", bootstrap),
                *("--data-dir", str(folder / f"worker-{number}")),
            ]
            for number in range(1, count + 1)
        }
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for folder, command in self._commands.items():
            with folder.with_suffix(".log").open("wb") as log:
                self._processes[folder] = subprocess.Popen(  # noqa: S603  our own command
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def check(self) -> None:
        """Raise SlidestatError with its last words if a worker has ended by itself."""
        for folder, process in self._processes.items():
            if process.poll() is not None:
                words = folder.with_suffix(".log").read_text(errors="replace").strip()[-2000:]
                raise SlidestatError(
                    f"A worker of the demo ended with exit code {process.returncode}:\n{words}",
                    "Run `make demo` again; if it ends so again, this is a bug in slidestat.",
                )
