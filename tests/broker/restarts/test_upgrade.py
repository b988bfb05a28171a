"""A group whose states an older version wrote, and one that a newer version has."""

import shutil

import msgspec

from slidestat.admin.state_reset import ChangelogWriter
from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY
from tests.broker.conftest import MakeStage
from tests.broker.workers import Stage, events, produce


def write_checkpoints(stage: Stage, version: int) -> None:
    """Store the checkpoints anew as version 1 had them, under this version's number: offset, event
    time and four counters; it knew neither ids of topics nor how the clock goes on.
    """
    writer = ChangelogWriter(stage.bootstrap, stage.changelog)
    for partition, found in stage.checkpoints().items():
        counters = found.counters
        counts = counters.read, counters.counted, counters.dead, counters.late
        position = found.next_offset, found.max_time, counts
        stored = msgspec.msgpack.encode((version, position, stage.topology.state_label))
        writer.send(partition, CHECKPOINT_KEY, stored)
    writer.flush()


def test_workers_of_a_group_are_upgraded_one_by_one(make_stage: MakeStage) -> None:
    """What version 1 stored is taken over, in an empty folder, by one worker and then by a second
    one that joins: counters, states and emissions are those of a worker that never stopped. What a
    newer version stored is refused, and the worker says what to run; the group's other partition
    is left as it is.
    """
    stage = make_stage(partitions=2)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(6_000))
    stage.drain()
    write_checkpoints(stage, 1)
    shutil.rmtree(stage.data_dir())
    with stage.worker("a").await_ready() as first:
        produce(stage.bootstrap, source, events(3_000, start=6_000))
        stage.await_settled([first])
        with stage.worker("b").await_ready() as second:
            produce(stage.bootstrap, source, events(3_000, start=9_000))
            stage.await_settled([first, second])
            first.stop()
            second.stop()
    assert stage.check().counters.counted == 12_000
    before = stage.read(stage.topology.output_topic)

    write_checkpoints(stage, 99)
    produce(stage.bootstrap, source, events(3_000, start=12_000))
    shutil.rmtree(stage.data_dir("a"))
    with stage.worker("a") as older:
        assert older.await_end() == 2
    assert "has version 99" in older.said()
    assert "Run the version that wrote it" in older.said()
    assert stage.read(stage.topology.output_topic) == before
