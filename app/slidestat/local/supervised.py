"""The parent's side of the supervisor: start it, send it what to run, read what happened."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from slidestat.errors import SlidestatError
from slidestat.local import supervisor

_SUPERVISOR = Path(supervisor.__file__)
_LONGEST_END_S = 45.0  # the supervisor grants 30 s before it kills


class SupervisedProcess:
    """A process, one at a time, run by a supervisor that ends it when we end, however we end.

    `folder`, if given, is made by the supervisor and removed by it at the end. `held_open` is a
    file descriptor that supervisor and process keep open as long as they live. Raises
    SlidestatError when the supervisor cannot start or cannot make the folder.
    """

    def __init__(self, folder: Path | None = None, held_open: int | None = None) -> None:
        self._folder = folder
        held = [str(held_open)] if held_open is not None else []
        self._supervisor = subprocess.Popen(  # noqa: S603 - our own script, no shell
            # isolated, and without site-packages: nothing a user installs may slow its start
            [sys.executable, "-I", "-S", _SUPERVISOR, str(os.getpid()), folder or "", *held],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's signals go to us, and we decide
            bufsize=0,
            pass_fds=[held_open] if held_open is not None else [],
            env=_environment(),
        )
        self._unread = b""
        self._status: int | None = None
        self.pid: int | None = None
        """The process, None while there is none."""
        self._ready = False
        while not self._ready and self._status is None:
            self._hear(None)
        if not self._ready:
            self.close()
            raise SlidestatError(
                f"The supervisor of the broker could not start or not make {folder}.",
                "Look at the message above, and check that the folder above can be written.",
            )

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def run(self, argv: Sequence[str | Path], log: Path) -> None:
        """Start a process, its output appended to `log`; `wait` returns at its end."""
        self._status = None
        self._tell({"run": [str(argument) for argument in argv], "log": str(log)})
        while self.pid is None and self._status is None:
            self._hear(None)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end of the process: its status, negative for a signal; None if it runs on.

        A supervisor that died counts as SIGKILL, for that is what the process then got.
        """
        until = time.monotonic() + timeout_s
        while self._status is None:
            left = until - time.monotonic()
            self._hear(max(0.0, left))
            if left <= 0:
                break
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal; nothing if it has ended, never to another with its id."""
        self._tell({"signal": int(number)})

    def close(self) -> None:
        """End the process and the supervisor, remove the folder; may be called again."""
        self._tell({"stop": True})
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._supervisor.wait(_LONGEST_END_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        if self._folder is not None:  # a supervisor that was killed could not
            shutil.rmtree(self._folder, ignore_errors=True)
        self.pid = None

    def _tell(self, command: dict[str, object]) -> None:
        pipe = self._supervisor.stdin
        if pipe is None or pipe.closed:
            return
        try:
            os.write(pipe.fileno(), json.dumps(command).encode() + b"\n")
        except BrokenPipeError:  # `wait` returns how the process ended
            return

    def _hear(self, timeout_s: float | None) -> None:
        """Read the next piece of the supervisor's report, if there is one in time."""
        pipe = self._supervisor.stdout
        if pipe is None or pipe.closed:
            self._ended(-signal.SIGKILL)
            return
        ready, _, _ = select.select([pipe], [], [], timeout_s)
        if not ready:
            return
        chunk = os.read(pipe.fileno(), 4096)
        if not chunk:
            self._ended(-signal.SIGKILL)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if "started" in event:
                self.pid = event["started"]
            elif "ready" in event:
                self._ready = True
            elif "exited" in event:
                self._ended(event["exited"])

    def _ended(self, status: int) -> None:
        self.pid = None
        self._status = status


def _environment() -> dict[str, str]:
    """Return our environment, with a UTF-8 locale if there is none, or the JVM reads no path
    outside ASCII.
    """
    if any(name in os.environ for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        return dict(os.environ)
    return {**os.environ, "LC_ALL": "C.UTF-8"}
