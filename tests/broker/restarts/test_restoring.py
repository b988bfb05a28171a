"""Tables from their changelogs: many keys, compacted, emptied, cut off."""

import re
import resource
import shutil
from contextlib import closing

import pytest
import rocksdict
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from slidestat.errors import SlidestatError
from slidestat.faust.restore import CHANGELOG_KEY, unreadable_changelog
from slidestat.kafka.read.scan import open_scanner, scan
from tests.broker.away.test_worker_errors import complaint, remake_topic
from tests.broker.conftest import MakeStage
from tests.broker.workers import end_offsets, events, produce, wait_until
from tests.conftest import MakeTopic

MANY_KEYS = 100_000


def configure(admin: AdminClient, topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def delete_records(admin: AdminClient, topic: str, before: dict[int, int]) -> None:
    """Delete a compacted topic's records before these offsets by partition."""
    configure(admin, topic, cleanup_policy="compact,delete")
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]

    def deleted() -> bool:
        try:
            for future in admin.delete_records(wanted).values():
                future.result(30)
        except Exception as error:  # noqa: BLE001 - the new policy takes a moment
            return "POLICY" not in str(error)
        return True

    wait_until(deleted, f"records of {topic} are deleted", 30)
    configure(admin, topic, cleanup_policy="compact")


@pytest.mark.long
def test_many_keys_written_at_once_survive(make_stage: MakeStage) -> None:
    """100,000 keys, written in a few flushes by a worker that is killed in between, are restored
    from the changelog whole; the worker tells how many records that took.
    (faust-streaming/faust 333)
    """
    stage = make_stage(partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(120_000, keys=MANY_KEYS))
    with stage.worker() as worker:
        stage.await_commit_after(0)
        worker.kill()
    stage.drain()
    shutil.rmtree(stage.data_dir())
    produce(stage.bootstrap, stage.topology.source, events(10_000, start=120_000, keys=MANY_KEYS))
    said = stage.drain().said()
    restored = re.search(r"restored states from ([\d,]+) changelog records in [\d.]+ s", said)
    assert restored, said
    assert int(restored[1].replace(",", "")) > 0.6 * MANY_KEYS
    expected = stage.check()
    assert stage.tables() == expected.tables


def test_a_compacted_changelog_is_restored(make_stage: MakeStage, admin: AdminClient) -> None:
    """With offsets missing everywhere, also where an older folder ends and where the changelog
    does, a worker restores all states: one without its folder, and one in a folder that another
    worker has left behind. (faust-streaming/faust 176)
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    older = stage.data_dir().with_name("older")
    shutil.copytree(stage.data_dir(), older)
    produce(stage.bootstrap, stage.topology.source, events(10_000, start=10_000))
    stage.drain()
    configure(
        admin,
        stage.changelog,
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
        delete_retention_ms="0",
    )

    def compacted() -> bool:
        # A record makes the broker close its segment, and only closed ones are compacted.
        newest = stage.read(stage.changelog)[0][-1]
        produce(stage.bootstrap, stage.changelog, [(newest.key, newest.value)], partition=0)
        return (
            sum(map(len, stage.read(stage.changelog).values()))
            < end_offsets(stage.bootstrap, stage.changelog)[0]
        )

    wait_until(compacted, "the changelog is compacted", 120)
    for folder, start in ((None, 20_000), (older, 25_000)):
        shutil.rmtree(stage.data_dir())
        if folder is not None:
            folder.rename(stage.data_dir())
        produce(stage.bootstrap, stage.topology.source, events(5_000, start=start))
        stage.drain()
        stage.check()


@pytest.mark.parametrize("keep_folder", [True, False])
def test_an_emptied_changelog_keeps_nobody_waiting(
    make_stage: MakeStage, admin: AdminClient, keep_folder: bool
) -> None:
    """A changelog partition without a record, whose offsets do not begin at 0: a worker goes on
    from its tables, and one without tables reads its source from the beginning. Both count
    everything once. (faust-streaming/faust 597)
    """
    stage = make_stage(partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    ends = end_offsets(stage.bootstrap, stage.changelog)
    delete_records(admin, stage.changelog, ends)
    if not keep_folder:
        shutil.rmtree(stage.data_dir())
    produce(stage.bootstrap, stage.topology.source, events(5_000, start=10_000))
    stage.drain()
    stage.check()


def test_emptied_changelogs_keep_no_standby_waiting(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """Two workers, of which each stands by for the other's emptied partition: both are ready, and
    count everything once. (faust-streaming/faust 597)
    """
    stage = make_stage(partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    delete_records(admin, stage.changelog, end_offsets(stage.bootstrap, stage.changelog))
    with stage.worker("a").await_ready() as one, stage.worker("b").await_ready() as other:
        produce(stage.bootstrap, stage.topology.source, events(5_000, start=10_000))
        stage.await_settled([one, other])
        for worker in (one, other):
            worker.stop()
    stage.check()


def test_what_is_deleted_while_it_is_restored_is_missed(
    bootstrap_servers: str, make_topic: MakeTopic, admin: AdminClient
) -> None:
    """Where the record that comes next has been deleted, a reader of all neither waits for it nor
    goes on behind it; one that takes what there is does. (faust-streaming/faust 651)
    """
    topic = make_topic("changelog", config={"cleanup.policy": "compact"})
    produce(bootstrap_servers, topic, [(b"%d" % i, b"state") for i in range(10)], partition=0)
    delete_records(admin, topic, {0: 5})
    with closing(open_scanner(bootstrap_servers)) as consumer:
        assert [m.offset() for m in scan(consumer, topic, {0: 2})] == [5, 6, 7, 8, 9]
    with closing(open_scanner(bootstrap_servers, must_be_whole=True)) as consumer:
        assert [m.offset() for m in scan(consumer, topic, {0: 5})] == [5, 6, 7, 8, 9]
        with pytest.raises(KafkaException) as raised:
            list(scan(consumer, topic, {0: 2}))
        with pytest.raises(SlidestatError, match="has lost records while they were read") as told:
            raise unreadable_changelog(topic, raised.value)
        assert "slidestat replay" in told.value.advice
        delete_records(admin, topic, {0: 10})
        assert not list(scan(consumer, topic, {0: 2}))


def test_a_changelog_that_was_cut_off_is_refused(make_stage: MakeStage, admin: AdminClient) -> None:
    """Where the first records of a changelog are gone, a worker that has them in its tables goes
    on, and one that does not says so: it neither waits for them nor counts without them.
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    delete_records(
        admin, stage.changelog, {0: end_offsets(stage.bootstrap, stage.changelog)[0] // 2}
    )
    with stage.worker("new") as worker:
        said = complaint(worker)
    assert "has lost the first" in said
    assert "slidestat replay" in said
    produce(stage.bootstrap, stage.topology.source, events(5_000, start=10_000))
    stage.drain()
    stage.check()


def test_a_changelog_of_an_older_version_is_read(make_stage: MakeStage, admin: AdminClient) -> None:
    """Records that do not say who wrote them, as versions before epochs left them: a worker goes on
    from them, in its folder and without.
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    stage.drain()
    older = stage.read(stage.changelog)[0]
    remake_topic(admin, stage.changelog, "compact")
    produce(stage.bootstrap, stage.changelog, [(r.key, r.value) for r in older], partition=0)
    kept = stage.data_dir().with_name("kept")
    stage.data_dir().rename(kept)
    produce(stage.bootstrap, stage.topology.source, events(5_000, start=10_000))
    stage.drain()
    stage.check()
    shutil.rmtree(stage.data_dir())
    kept.rename(stage.data_dir())
    (path,) = stage.data_dir().glob("**/*-state-0.db")
    with closing(rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))) as table:
        table.delete(CHANGELOG_KEY)  # as they left tables as well
    produce(stage.bootstrap, stage.topology.source, events(5_000, start=15_000))
    stage.drain()
    stage.check()


def test_a_disk_that_is_full(make_stage: MakeStage) -> None:
    """A file system that takes no more ends a worker with what to do; with room again, the folder
    serves on, and everything is counted once.
    """
    stage = make_stage(partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        room = max(file.stat().st_size for file in stage.data_dir().rglob("*.log"))
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (room, room))
        produce(stage.bootstrap, stage.topology.source, events(40_000, start=10_000, keys=5_000))
        said = complaint(worker)
    assert "There is no room for tables" in said
    assert "nothing is lost" in said
    stage.drain()
    stage.check()


def test_each_worker_stands_by_for_the_other(make_stage: MakeStage) -> None:
    """Of two workers, each also follows the changelog of the other's partitions: the one that is
    left when the other is killed has nothing to restore.
    """
    stage = make_stage(partitions=2)
    with stage.worker("a").await_ready() as one, stage.worker("b").await_ready() as other:
        produce(stage.bootstrap, stage.topology.source, events(10_000))
        stage.await_settled([one, other])
        other.kill()

        def took_over() -> bool:
            return one.said().rpartition("ready, partitions:")[2].startswith(" 0, 1")

        wait_until(took_over, "the other's partition is taken over", 60)
        assert "restored states" not in one.said()
        produce(stage.bootstrap, stage.topology.source, events(5_000, start=10_000))
        stage.await_settled([one])
        one.stop()
    stage.check()
