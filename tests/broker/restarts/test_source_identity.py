"""A source is the topic that it was, not whichever goes by its name: real topics, deleted and made
anew.
"""

import signal

from confluent_kafka.admin import AdminClient

from slidestat.admin.state_reset import ChangelogWriter
from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY, Checkpoint, encode_checkpoint
from slidestat.kafka.topic_identity import topic_id
from tests.broker.away.test_worker_errors import complaint, remake_topic
from tests.broker.conftest import MakeStage
from tests.broker.restarts.test_replay import ended_well
from tests.broker.workers import events, produce, wait_until


def test_a_source_made_anew_while_the_worker_was_stopped(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """It has more records than the old one had, so no offset tells: none is passed over, or counted
    with the old states, and what is advised counts all of them.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    stage.drain()
    before = stage.read(stage.topology.output_topic)
    remake_topic(admin, source)
    produce(stage.bootstrap, source, events(20_000, start=90_000))
    with stage.worker() as worker:
        said = complaint(worker)
    assert f"The source {source!r} was deleted and made anew" in said
    assert topic_id(stage.bootstrap, source) in said
    assert f"slidestat replay {stage.name}" in said
    assert stage.counters().read == 10_000
    assert stage.read(stage.topology.output_topic) == before
    ended_well(stage)
    assert stage.counters().counted == 20_000
    stage.drain()


def test_a_source_made_anew_under_a_running_worker(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """Nothing of the new one is counted, whatever its offsets are."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        before = stage.read(stage.topology.output_topic)
        remake_topic(admin, source)
        produce(stage.bootstrap, source, events(20_000, start=90_000))
        said = complaint(worker)
    assert f"The source {source!r} was deleted" in said
    assert f"slidestat replay {stage.name}" in said
    assert stage.counters().read == 10_000
    assert stage.read(stage.topology.output_topic) == before


def test_a_frozen_worker_counts_nothing_of_a_source_made_anew(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """It was frozen before the topic went and woke when the new one was there: no error of a fetch
    can have told it.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        before = stage.read(stage.topology.output_topic)
        worker.signal(signal.SIGSTOP)
        remake_topic(admin, source)
        produce(stage.bootstrap, source, events(20_000, start=90_000))
        worker.signal(signal.SIGCONT)
        said = complaint(worker)
    assert f"The source {source!r} was deleted" in said
    assert stage.counters().read == 10_000
    assert stage.read(stage.topology.output_topic) == before


def test_a_state_without_an_id_takes_the_first_that_it_finds(make_stage: MakeStage) -> None:
    """One of a version that went by names says which topic it takes for its own, keeps to it, also
    if nothing new has come, and goes on as if it had never stopped.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    stage.drain()
    found = topic_id(stage.bootstrap, source)
    (checkpoint,) = stage.checkpoints().values()
    assert checkpoint.topic_id == found
    old = ChangelogWriter(stage.bootstrap, stage.changelog)
    nameless = Checkpoint(checkpoint.next_offset, checkpoint.max_time, checkpoint.counters)
    old.send(0, CHECKPOINT_KEY, encode_checkpoint(nameless, stage.topology.state_label))
    old.flush()
    with stage.worker().await_ready() as worker:
        wait_until(lambda: stage.checkpoints()[0].topic_id == found, "the id is stored", 30)
        assert found in worker.said()
        worker.stop()
    produce(stage.bootstrap, source, events(10_000, start=10_000))
    assert "id" not in stage.drain().said()
    stage.check()
