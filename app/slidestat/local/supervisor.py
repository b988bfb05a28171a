"""The process between us and the JVM, so that no broker outlives the process that started it.

It is run as a script, isolated and without site-packages, and imports only a little of the
standard library: it must start in a few hundredths of a second. The parent holds the other end
of its standard input, and speaks in JSON, one object a line:

    {"run": [argument, ...], "log": path}   start a process, its output appended to the log
    {"signal": number}                      send the process a signal
    {"stop": true}                          end the process, remove the folder, end

and reads on standard output `{"ready": true}` once the folder is there, then `{"started": pid}`
and `{"exited": status}`. End of input means the same as stop, and so does another parent than
the one it was started by: a fork of the parent may still hold the pipe open.

    parent dies, SIGKILL included   end of input, or the parent's id changes: stop
    supervisor dies, even so        the kernel kills the JVM (Linux, PR_SET_PDEATHSIG)
    Ctrl-C in the terminal          ignored here, and the JVM is in this session: the parent decides

Arguments: the parent's process id; the folder to make now and to remove at the end, or ""; the
numbers of open file descriptors that the process shall inherit.
A process whose folder is to be removed has nothing to save, so it is killed at once; any other
is asked to end first, and killed after 30 s.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_GRACE_S = 30.0
_PARENT_CHECK_S = 0.5
_PR_SET_PDEATHSIG = 1


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """Return a function that a child runs between fork and exec, so that it gets a signal when this
    process dies: by default one that it cannot outlive.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    supervisor = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != supervisor:  # it died before the kernel knew
            os._exit(1)

    return in_child


class Supervisor:
    """The supervisor of one child at a time and one folder, in talks with the parent."""

    def __init__(self, parent: int, folder: Path | None, held_open: list[int]) -> None:
        self._parent = parent
        self._folder = folder
        self._held_open = held_open
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._unread = b""
        self._die_with_parent = die_with_parent()

    def serve(self) -> None:
        """Carry out the parent's commands until there is nothing to supervise for."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only a handled signal wakes select
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        try:
            if self._folder is not None:
                self._folder.mkdir(mode=0o700)
            self._say({"ready": True})
            while not self._stopping and os.getppid() == self._parent:
                ready, _, _ = select.select([0, wake_read], [], [], _PARENT_CHECK_S)
                if wake_read in ready:
                    os.read(wake_read, 4096)
                self._notice_exit()
                if 0 in ready:
                    self._read_commands()
        finally:
            self._end_child()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _on_terminate(self, *_: object) -> None:
        self._stopping = True

    def _read_commands(self) -> None:
        chunk = os.read(0, 65536)
        if not chunk:
            self._stopping = True
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, command: dict[str, Any]) -> None:
        if "run" in command:
            self._run(command["run"], command["log"])
        elif "signal" in command and self._child is not None:
            self._child.send_signal(command["signal"])
        elif "stop" in command:
            self._stopping = True

    def _run(self, argv: list[str], log: str) -> None:
        with Path(log).open("ab", buffering=0) as output:
            try:
                self._child = subprocess.Popen(  # noqa: S603 - the parent's own words, no shell
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=self._held_open,
                    preexec_fn=self._die_with_parent,  # safe: this process has one thread
                )
            except OSError as error:
                output.write(f"{argv[0]}: {error.strerror}\n".encode())
                self._say({"exited": 127})
                return
        self._say({"started": self._child.pid})

    def _notice_exit(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._say({"exited": self._child.returncode})
            self._child = None

    def _end_child(self) -> None:
        if self._child is None:
            return
        if self._folder is None:
            self._child.terminate()
            try:
                self._child.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
        else:
            self._child.kill()
        self._child.wait()

    def _say(self, event: dict[str, int]) -> None:
        try:
            os.write(1, json.dumps(event).encode() + b"\n")
        except BrokenPipeError:  # the parent is gone
            self._stopping = True


if __name__ == "__main__":
    parent, folder, *held_open = sys.argv[1:]
    Supervisor(int(parent), Path(folder) if folder else None, list(map(int, held_open))).serve()
