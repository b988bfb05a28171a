"""Start workers by forking a process that has imported all of their modules (worker_forks.py)."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO

_PROGRAM = Path(__file__).with_name("worker_forks.py")
_MESSAGE_BYTES = 1024


class ForkedProcess:
    """A process of `slidestat ARGUMENTS...`, with the methods of subprocess.Popen."""

    def __init__(self, arguments: Sequence[str], output: IO[bytes]) -> None:
        self._server = _fork_server()
        self.pid = self._server.fork(arguments, output)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, minus the number of the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.exit_code(self.pid)
        return self.returncode

    def wait(self, timeout_s: float) -> int:
        """Its exit code; subprocess.TimeoutExpired if it runs on for so long."""
        until = time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.pid), timeout_s)
            time.sleep(0.01)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class _ForkServer:
    """The process that forks, and what it told of those that have ended."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._codes: dict[int, int] = {}
        atexit.register(self._end)

    def fork(self, arguments: Sequence[str], output: IO[bytes]) -> int:
        request = {
            "arguments": list(arguments),
            "environment": dict(os.environ),
            "folder": str(Path.cwd()),
        }
        message = json.dumps(request).encode()
        socket.send_fds(self._socket, [message], [output.fileno()])
        while True:
            pid, code = self._receive()
            if code is None:
                self._codes.pop(pid, None)
                return pid
            self._codes[pid] = code

    def exit_code(self, pid: int) -> int | None:
        self._socket.setblocking(False)
        try:
            while True:
                ended, code = self._receive()
                assert code is not None
                self._codes[ended] = code
        except BlockingIOError:
            return self._codes.get(pid)
        finally:
            self._socket.setblocking(True)

    def _receive(self) -> tuple[int, int | None]:
        message = self._socket.recv(_MESSAGE_BYTES)
        assert message, "the process that forks workers has ended"
        pid, code = json.loads(message)
        return pid, code

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _fork_server() -> _ForkServer:
    return _ForkServer()
