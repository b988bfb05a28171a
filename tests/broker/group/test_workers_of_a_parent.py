"""`slidestat run --workers N`: processes of one group under one parent, as a user sees them."""

import re
import signal
import subprocess
from pathlib import Path

from slidestat.admin.query import find_worker
from tests.broker.conftest import MakeStage
from tests.broker.group.test_balance import shares
from tests.broker.workers import (
    DRAIN_S,
    START_S,
    STOP_S,
    Worker,
    events,
    produce,
    wait_until,
    write_topology,
)


def children(parent: int) -> list[int]:
    """The ids of the processes that it has started, the oldest first."""
    found = subprocess.run(
        ["/usr/bin/env", "ps", "-o", "pid=", "--sort=start_time", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(map(int, found.stdout.split()))


def test_one_that_dies_is_started_again_and_one_signal_ends_all(make_stage: MakeStage) -> None:
    """Both share the partitions, and any of them answers for all. One is killed: the parent says
    so and starts it again, and what was written is that of an undisturbed worker. SIGTERM to the
    parent lets both flush and leave.
    """
    stage = make_stage(partitions=4)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(4_000))
    with stage.worker("all", None, "--workers", "2") as parent:
        wait_until(lambda: "2 | " in parent.said(), "the second worker", START_S)
        wait_until(lambda: shares(stage, parent) == [2, 2], "even shares", START_S)
        assert find_worker(stage.topology, stage.data_dir("all")) in parent.said()
        stage.await_settled([parent])
        victim = children(parent.pid)[1]
        produce(stage.bootstrap, source, events(4_000, start=4_000))
        subprocess.run(["/usr/bin/env", "kill", "-KILL", str(victim)], check=True)
        told = "worker 2 ended by signal 9, and is started again in"
        wait_until(lambda: told in parent.said(), told, STOP_S)
        produce(stage.bootstrap, source, events(4_000, start=8_000))
        stage.await_settled([parent])
        wait_until(lambda: shares(stage, parent) == [2, 2], "even shares again", START_S)
        assert victim not in children(parent.pid)
        folders = sorted(p.name for p in stage.data_dir("all").iterdir())
        assert folders == ["worker-1", "worker-2"]
        last = children(parent.pid)
        parent.stop()
        assert len(re.findall(r"\n[12] \| \S+ \S+ stopping, within", parent.said())) == 2
        assert not any(Path(f"/proc/{pid}").exists() for pid in last)
    stage.check()


def test_a_refusal_ends_all_and_is_told_once(make_stage: MakeStage, tmp_path: Path) -> None:
    """With the exit code of one worker, also where the first one was content, and in JSON."""
    stage = make_stage(partitions=2)
    missing = write_topology(
        tmp_path, "nothing", f"{stage.name}-not-there", 'span="1h", every="1m",'
    )
    for form in ("text", "json"):
        options = ("--workers", "3", "--log", form)
        with Worker(missing, tmp_path / form, stage.bootstrap, options) as parent:
            assert parent.await_end() == 2, parent.said()
            assert parent.said().count("There is no topic") == 1
            assert parent.said().startswith("error: " if form == "text" else "{")
    # The folder of the second is another topology's.
    produce(stage.bootstrap, stage.topology.source, events(100))
    other = make_stage(partitions=1, name="other")
    produce(stage.bootstrap, other.topology.source, events(100))
    with other.worker("x", stage.data_dir("all") / "worker-2").await_ready() as worker:
        worker.stop()
    with stage.worker("all", None, "--workers", "2") as parent:
        assert parent.await_end() == 2, parent.said()
        assert parent.said().count("belongs to") == 1
        assert "\nerror: The data folder" in parent.said()
        assert re.search(r"\n1 \| \S+ \S+ stopping, within", parent.said())


def test_what_a_parent_leaves_when_it_is_killed(make_stage: MakeStage) -> None:
    """No worker goes on without it: they flush and leave as after a SIGTERM."""
    stage = make_stage(partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(100))
    with stage.worker("all", None, "--workers=1").await_ready() as parent:
        (pid,) = children(parent.pid)
        parent.signal(signal.SIGKILL)
        wait_until(lambda: not _runs(pid), "the worker has ended", STOP_S + DRAIN_S)


def _runs(pid: int) -> bool:
    """Whether a process does, and is not only one whose end nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
