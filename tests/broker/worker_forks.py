"""A process that has imported all that a worker needs, and forks one for each request.

What it forks is `slidestat` as its extra `worker` brings it: without pandas and SciPy, which other
packages here need, and which pyarrow and numba import where they are. Importing and loading kernels
takes most of a second and a half of a worker's start, and the tests start hundreds of workers;
those of `slidestat run --workers`, and of tests that type the command, are started as users do.

`tests/broker/forked.py` is the other end of its socket.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import warnings
from importlib.abc import MetaPathFinder
from typing import NoReturn

_REQUEST_BYTES = 2**20


class Absent(MetaPathFinder):
    """Finds that these packages are not installed."""

    def find_spec(self, name: str, _path: object, _target: object = None) -> None:
        """Raise ModuleNotFoundError for one of them."""
        if name in ("pandas", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def load() -> None:
    """Import what `slidestat run` does, and load kernels that most topologies need."""
    import slidestat.cli.main
    import slidestat.cli.start_worker
    import slidestat.declare.forms.files
    import slidestat.faust.worker.run
    import slidestat.web.answers.history
    import slidestat.web.server  # noqa: F401
    from slidestat import Count, Sum, Topology
    from slidestat.engine.footprint import measure

    measure(Topology(name="t", source="s", span="1h", every="1m", statistics=(Count(), Sum())))


def serve(requests: socket.socket) -> list[str]:
    """Fork at each request, and tell how each fork ended, until the other end of the socket is
    closed; then all forks are killed. Returns in each fork, with the worker's arguments.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who started this one
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    running: set[int] = set()
    while True:
        ready, _, _ = select.select([requests, wake], [], [])
        if wake in ready:
            wake.recv(4096)
            _tell_ended(requests, running)
        if requests in ready:
            message, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 1)
            if not message:
                _end(running)
            with warnings.catch_warnings():
                # There are threads, of OpenBLAS and jemalloc, which both stand a fork.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                wake.close()
                woken.close()
                requests.close()
                return _become_worker(json.loads(message), descriptors[0])
            os.close(descriptors[0])
            running.add(pid)
            _tell(requests, pid, None)


def _tell_ended(requests: socket.socket, running: set[int]) -> None:
    for pid in sorted(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.remove(pid)
            _tell(requests, pid, os.waitstatus_to_exitcode(status))


def _tell(requests: socket.socket, pid: int, code: int | None) -> None:
    requests.send(json.dumps([pid, code]).encode())


def _end(running: set[int]) -> NoReturn:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _become_worker(request: dict[str, object], output: int) -> list[str]:
    """Have the process as a command is started: its folder, environment, signals and streams."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments, environment, folder = request["arguments"], request["environment"], request["folder"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    os.chdir(str(folder))
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.close(output)
    return arguments


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent())
    gc.disable()
    load()
    # What is here stays as long as any fork: none looks through it for cycles, or copies it.
    gc.freeze()
    gc.enable()
    sys.argv[1:] = serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("slidestat", run_name="__main__", alter_sys=True)
