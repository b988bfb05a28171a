"""No broker is left behind, however the process that started it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from slidestat.local.broker import SupervisedProcess

AwaitGone = Callable[[int | None], None]

# A process that starts a broker, tells what to look for, and does what its argument says.
_PARENT = """
import json, os, sys
from slidestat.local.broker import LocalBroker

broker = LocalBroker()
broker.start()
print(json.dumps({"jvm": broker.pid, "supervisor": broker.supervisor_pid,
                  "folder": str(broker._folder)}), flush=True)
if sys.argv[1] == "raise":
    raise KeyError("an error of the caller's")
if sys.argv[1] == "wait":
    sys.stdin.read()
if sys.argv[1] != "exit without stopping":
    broker.stop()
"""

# A process that is not a JVM, under the same supervisor, with a fork that holds the pipe open.
_FORKING_PARENT = """
import json, os, sys
from pathlib import Path
from slidestat.local.broker import SupervisedProcess

folder = Path(sys.argv[1])
process = SupervisedProcess(folder)
process.run(["sleep", "300"], folder / "log")
fork = os.fork()
if fork:
    print(json.dumps({"child": process.pid, "supervisor": process.supervisor_pid,
                      "fork": fork}), flush=True)
sys.stdin.read()
"""


@contextmanager
def parent(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run `code` in a process, and hear what it has to tell."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [("stop", 0), ("exit without stopping", 0), ("raise", 1), ("wait", -signal.SIGKILL)],
)
@pytest.mark.usefixtures("real_jars")
def test_nothing_stays_when_the_parent_ends(
    behaviour: str, status: int, await_gone: AwaitGone
) -> None:
    """Stop, exit, exception and SIGKILL of the parent each end JVM and supervisor, and the data."""
    with parent(_PARENT, behaviour) as (process, told):
        if behaviour == "wait":
            assert psutil.pid_exists(told["jvm"])
            process.kill()
        assert process.wait(60) == status
        await_gone(told["jvm"])
        await_gone(told["supervisor"])
        assert not Path(told["folder"]).exists()


@pytest.mark.usefixtures("real_jars")
def test_a_killed_supervisor_takes_the_jvm_along(await_gone: AwaitGone) -> None:
    """SIGKILL of the supervisor ends the JVM, and the parent can still stop and tidy up."""
    with parent(_PARENT, "wait") as (process, told):
        os.kill(told["supervisor"], signal.SIGKILL)
        await_gone(told["jvm"])
        process.communicate("", 60)
        assert process.returncode == 0
        assert not Path(told["folder"]).exists()


def test_a_fork_of_the_parent_keeps_nothing_alive(tmp_path: Path, await_gone: AwaitGone) -> None:
    """The parent's end counts even while a fork of it still holds the pipe open."""
    folder = tmp_path / "folder"
    with parent(_FORKING_PARENT, str(folder)) as (process, told):
        process.kill()
        process.wait(60)
        await_gone(told["child"])
        await_gone(told["supervisor"])
        assert psutil.pid_exists(told["fork"])
        assert not folder.exists()


def test_an_interrupt_from_the_terminal_is_the_parents_to_judge(tmp_path: Path) -> None:
    """Ctrl-C does not reach the JVM: other session, and the supervisor ignores the signal."""
    process = SupervisedProcess()
    try:
        process.run(["sleep", "300"], tmp_path / "log")
        assert process.pid is not None
        assert os.getsid(process.pid) == os.getsid(process.supervisor_pid) != os.getsid(0)
        os.kill(process.supervisor_pid, signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM  # so it still obeys
    finally:
        process.close()


def test_a_terminated_supervisor_ends_its_process_and_folder(
    tmp_path: Path, await_gone: AwaitGone
) -> None:
    """SIGTERM, as a machine sends it when it shuts down, ends everything in order."""
    folder = tmp_path / "folder"
    process = SupervisedProcess(folder)
    try:
        process.run(["sleep", "300"], folder / "log")
        child = process.pid
        os.kill(process.supervisor_pid, signal.SIGTERM)
        assert process.wait(30) == -signal.SIGKILL
        await_gone(child)
    finally:
        process.close()
    assert not folder.exists()


def test_a_process_with_lasting_data_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    """Without a folder to remove the process may end cleanly: it gets SIGTERM."""
    log = tmp_path / "log"
    process = SupervisedProcess()
    process.run(["sh", "-c", "trap 'echo clean; exit' TERM; echo up; sleep 300 & wait"], log)
    while "up" not in log.read_text():
        assert process.wait(0.02) is None
    process.close()
    assert "clean" in log.read_text()


def test_a_program_that_cannot_run_is_heard_of(tmp_path: Path) -> None:
    """A program that does not exist ends with the shell's status 127, and the log says why."""
    process = SupervisedProcess()
    try:
        process.run([tmp_path / "nothing"], tmp_path / "log")
        assert process.wait(30) == 127
        assert "No such file" in (tmp_path / "log").read_text()
    finally:
        process.close()
