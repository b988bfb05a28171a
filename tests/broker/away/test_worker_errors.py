"""What a user sees when a worker cannot run: one sentence, one piece of advice, no stack trace."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.settings import pick_free_ports
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import (
    Stage,
    Worker,
    end_offsets,
    events,
    produce,
    wait_until,
    write_topology,
)


def complaint(worker: Worker) -> str:
    """What a worker that ended by itself says was wrong, checked for its form."""
    code = worker.await_end()
    said = worker.said()
    assert code not in (0, None), said
    assert "Traceback" not in said
    assert said.count("error: ") == 1, said
    assert said.count("what to do: ") == 1, said
    return said[said.index("error: ") :]


def test_broker_that_does_not_answer(tmp_path: Path) -> None:
    """Without a broker at the address, the worker says so and how to start one."""
    file = write_topology(tmp_path, "t", "s", BODY)
    with Worker(file, tmp_path / "data", f"127.0.0.1:{pick_free_ports(1)[0]}") as worker:
        said = complaint(worker)
    assert "No Kafka broker answers at 127.0.0.1" in said
    assert "slidestat broker" in said


def test_source_topic_that_is_missing(make_stage: MakeStage, topic_name: str) -> None:
    """Without the source topic, the worker names it and the command that makes it."""
    stage = make_stage(source=f"{topic_name}-missing")
    with stage.worker() as worker:
        said = complaint(worker)
    assert f"{topic_name}-missing" in said
    assert "slidestat topics create" in said


def test_output_topic_with_fewer_partitions(
    make_stage: MakeStage, make_topic: Callable[..., str]
) -> None:
    """An output topic with 1 partition under a source of 2 is refused with both numbers, before
    anything is read.
    """
    stage = make_stage(partitions=2)
    make_topic("t-statistics", 1)
    with stage.worker() as worker:
        said = complaint(worker)
    assert f"{stage.name}-statistics" in said
    assert "has 1 partition, and the source" in said
    assert "memory of a key" not in worker.said()


def test_data_folder_of_a_running_worker(make_stage: MakeStage) -> None:
    """The second worker in a folder is turned away, the first goes on.
    (faust-streaming/faust 92)
    """
    stage = make_stage(partitions=1)
    with stage.worker() as first:
        first.await_ready()
        with Worker(stage.file, stage.data_dir(), stage.bootstrap) as second:
            said = complaint(second)
        assert "Another worker holds the data folder" in said
        assert "--data-dir" in said
        first.stop()


def test_data_folder_of_another_topology_or_cluster(make_stage: MakeStage) -> None:
    """A folder with the tables of another topology, or written against another cluster, is refused
    with the way out.
    """
    stage = make_stage(partitions=1)
    with stage.worker() as worker:
        worker.await_ready()
        worker.stop()
    label = stage.data_dir() / "slidestat.json"
    text = label.read_text()
    label.write_text(text.replace(stage.group, "slidestat-another"))
    with stage.worker() as worker:
        assert "belongs to slidestat-another" in complaint(worker)
    cluster = text.split('"cluster_id":"')[1].split('"')[0]
    label.write_text(text.replace(cluster, "another"))
    with stage.worker() as worker:
        said = complaint(worker)
    assert "another Kafka cluster" in said
    assert "Delete the folder" in said


def test_data_folder_that_is_a_file(make_stage: MakeStage) -> None:
    """A file in the place of the folder is refused with the system's reason."""
    stage = make_stage(partitions=1)
    stage.data_dir().parent.mkdir()
    stage.data_dir().write_text("")
    with stage.worker() as worker:
        said = complaint(worker)
    assert "cannot be used" in said
    assert "--data-dir" in said


def test_database_that_is_damaged(make_stage: MakeStage) -> None:
    """Garbage in any of RocksDB's files is named as damage of the folder, and deleting it is
    advised, which is enough: nothing was committed meanwhile.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(5_000))
    # The log of RocksDB becomes a table file only when the database is opened again.
    stage.drain()
    stage.drain()
    produce(stage.bootstrap, source, events(5_000, start=5_000))
    sound = stage.data_dir().with_name("sound")
    stage.data_dir().rename(sound)
    for damaged in ("CURRENT", "MANIFEST-*", "*.sst"):
        shutil.copytree(sound, stage.data_dir())
        files = list(stage.data_dir().glob(f"**/*-state-0.db/{damaged}"))
        assert files
        for file in files:
            file.write_bytes(b"garbage" * (file.stat().st_size // 7 + 1))
        with stage.worker() as worker:
            said = complaint(worker)
        assert str(stage.data_dir()) in said
        assert "Delete the folder" in said
        shutil.rmtree(stage.data_dir())
    stage.drain()
    stage.check()


def test_source_topic_made_anew(make_stage: MakeStage, admin: AdminClient) -> None:
    """A source topic deleted and made again, shorter than what the state has read, is found out
    before anything is counted.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(5_000))
    stage.drain()
    remake_topic(admin, source)
    produce(stage.bootstrap, source, events(100))
    with stage.worker() as worker:
        said = complaint(worker)
    assert "made anew" in said
    assert source in said


def test_changelog_made_anew(make_stage: MakeStage, admin: AdminClient) -> None:
    """Tables ahead of a changelog that was deleted are found out, and the advice leads on.
    (faust-streaming/faust 158)
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(5_000))
    stage.drain()
    remake_topic(admin, stage.changelog, "compact")
    with stage.worker() as worker:
        said = complaint(worker)
    assert str(stage.data_dir()) in said


def test_changelog_made_anew_that_has_outgrown_a_folder(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """Nothing is mixed with a folder from before the changelog was deleted, also where another
    worker's records have its offsets now: neither by the owner of a partition nor by one that
    stands by. Without it, all is as if nothing had happened. (apache/kafka 22478)
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(2_000))
    stage.drain()
    before = end_offsets(stage.bootstrap, stage.changelog)[0]
    remake_topic(admin, stage.changelog, "compact")
    produce(stage.bootstrap, source, events(2_000, start=2_000, keys=1_000))
    with stage.worker("b").await_ready() as other:
        stage.await_settled([other])
        assert end_offsets(stage.bootstrap, stage.changelog)[0] > before
        with stage.worker() as standby:
            assert "Stop the group's workers, delete their folders" in complaint(standby)
        stage.await_settled([other])
        other.stop()
    produce(stage.bootstrap, source, events(2_000, start=4_000))
    with stage.worker() as worker:
        said = complaint(worker)
    assert str(stage.data_dir()) in said
    assert "made anew" in said
    shutil.rmtree(stage.data_dir())
    stage.drain()
    stage.check()


def test_topology_changed_over_old_state(make_stage: MakeStage) -> None:
    """State of other parameters is never read as if it were the topology's, and nothing of the
    records that met it is committed.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(5_000))
    stage.drain()
    produce(stage.bootstrap, source, events(5_000, start=5_000))
    for old, new in (
        ("Count(epsilon=0.1)", "Count(epsilon=0.2)"),
        ('span="10m"', 'span="11m"'),
        ("Count(epsilon=0.1), Sum(epsilon=0.1)", "Sum(epsilon=0.1),"),
        ("Count(epsilon=0.1), Sum(epsilon=0.1)", "Count(epsilon=0.1),"),
    ):
        write_topology(stage.file.parent, stage.name, source, BODY.replace(old, new))
        with stage.worker() as worker:
            said = complaint(worker)
        assert "was made with another topology" in said
        assert stage.committed() == {0: 5_000}


def test_topology_file_that_is_missing(tmp_path: Path) -> None:
    """A topology file that is not there is named."""
    with Worker(tmp_path / "none.py", tmp_path / "data", "127.0.0.1:1") as worker:
        assert "none.py" in complaint(worker)


def test_sigint_ends_a_worker_as_sigterm_does(make_stage: MakeStage) -> None:
    """Ctrl-C is no error: exit code 0, nothing but progress said."""
    stage: Stage = make_stage(partitions=1)
    with stage.worker() as worker:
        worker.await_ready()
        os.kill(worker.pid, signal.SIGINT)
        assert worker.await_end(10) == 0, worker.said()
        assert "error" not in worker.said()
        assert "Traceback" not in worker.said()


def remake_topic(admin: AdminClient, name: str, cleanup: str = "delete") -> None:
    """Delete a topic and make it again, with one partition."""
    admin.delete_topics([name])[name].result()
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, f"{name} is gone", 30)
    topic = NewTopic(name, 1, 1, config={"retention.ms": "-1", "cleanup.policy": cleanup})
    admin.create_topics([topic])[name].result()
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, f"{name} is there", 30)
