"""A source that is not partitioned by the key: workers stop before they give a part for a whole."""

import json
import time

import pytest
from confluent_kafka import Producer

from tests.broker.away.test_worker_errors import complaint
from tests.broker.conftest import MakeStage
from tests.broker.workers import Stage, events, produce, wait_until

NOON = 1_700_000_000_000
# More than a source has that is looked at again while a worker runs.
MANY = 20_500


def event(key: str, time_ms: int) -> bytes:
    return json.dumps({"key": key, "time": time_ms, "value": 1}).encode()


def emitted(stage: Stage) -> int:
    return sum(map(len, stage.read(stage.topology.output_topic).values()))


def assert_told(said: str, key: str = "") -> None:
    assert f"The key '{key}" in said
    assert "is in partitions 0 and 1 of" in said
    assert "slidestat produce" in said
    assert "docs/many-parties.md" in said


@pytest.mark.parametrize("count", [60, 60_000])
def test_records_without_a_key_are_refused_at_the_start(count: int, make_stage: MakeStage) -> None:
    """Null keys go to any partition, so a key of the events lies in all: nothing is emitted, also
    when it is started again. Each key used to come out of each partition, with its bounds.
    """
    stage = make_stage(partitions=2)
    source = stage.topology.source
    half = [(None, value) for _, value in events(count)]
    for partition in range(2):
        produce(stage.bootstrap, source, half[partition::2], partition)
    for _ in range(2):
        with stage.worker() as worker:
            assert_told(complaint(worker), "k")
    assert emitted(stage) == 0
    assert not any(stage.committed().values())


def test_records_without_a_key_may_lie_where_their_key_belongs(make_stage: MakeStage) -> None:
    """What counts is where the events of a key lie, not how they came there."""
    stage = make_stage(partitions=2)
    for partition in range(2):
        own = [(None, event(f"k{partition}", NOON + 1_000 * i)) for i in range(60)]
        produce(stage.bootstrap, stage.topology.source, own, partition)
    stage.drain()
    assert stage.check().counters.counted == 120


def test_a_topic_that_was_empty_is_looked_at_as_it_fills(make_stage: MakeStage) -> None:
    """Its worker has read one partition when the other's records are there: it looks at both before
    it emits anything of them.
    """
    stage = make_stage(partitions=2)
    with stage.worker().await_ready() as worker:
        spread = [(None, event(f"k{i % 7}", NOON + 1_000 * i)) for i in range(400)]
        # In a transaction: both partitions have theirs in the same moment.
        name = stage.topology.source
        producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        for i, (_, value) in enumerate(spread):
            producer.produce(name, value, partition=i % 2)
        producer.commit_transaction(60)
        assert_told(complaint(worker), "k")
    assert emitted(stage) == 0


def emitted_of(stage: Stage, partition: int) -> int:
    return len(stage.read(stage.topology.output_topic)[partition])


def test_a_key_that_comes_to_a_second_partition_stops_its_worker_before_the_figure(
    make_stage: MakeStage,
) -> None:
    """Nothing was wrong with what the topic had; the batch with the key leads to no emission."""
    stage = make_stage(partitions=2)
    source = stage.topology.source
    produce(stage.bootstrap, source, [(None, v) for _, v in events(MANY, keys=40)], 0)
    produce(stage.bootstrap, source, [(None, event("other", NOON))] * 2, 1)
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        before = emitted(stage)
        later = [event("k7", NOON), *[event("k7", NOON + 3_600_000)] * 9]
        produce(stage.bootstrap, source, [(None, value) for value in later], 1)
        assert_told(complaint(worker), "k7")
    assert emitted(stage) == before
    assert emitted_of(stage, 1) == 0


def test_a_restarted_worker_remembers_the_keys_that_it_has(make_stage: MakeStage) -> None:
    """What came to the other partition while it was down, it compares with its states: the records
    that made these are not looked at again.
    """
    stage = make_stage(partitions=2)
    source = stage.topology.source
    produce(stage.bootstrap, source, [(None, v) for _, v in events(500, keys=9)], 0)
    stage.drain()
    before = emitted(stage)
    later = [event("k7", NOON), *[event("k7", NOON + 3_600_000)] * 9]
    produce(stage.bootstrap, source, [(None, value) for value in later], 1)
    with stage.worker() as worker:
        assert_told(complaint(worker), "k7")
    assert emitted(stage) == before


def test_a_key_of_two_workers_is_found_by_their_notes(make_stage: MakeStage) -> None:
    """Each holds one partition and sees nothing of the other's records: what they commit tells."""
    stage = make_stage(partitions=2)
    source = stage.topology.source
    produce(stage.bootstrap, source, [(None, v) for _, v in events(MANY, keys=40)], 0)
    produce(stage.bootstrap, source, [(None, event("other", NOON))] * 2, 1)
    with stage.worker("a").await_ready() as a, stage.worker("b").await_ready() as b:
        wait_until(
            lambda: all("ready, partitions" in w.said().rsplit("given up", 1)[-1] for w in (a, b)),
            "each has a partition",
            60,
        )
        stage.await_settled([a, b])
        time.sleep(7)  # In which each has read the other's note.
        before = emitted(stage)
        later = [event("k7", NOON), *[event("k7", NOON + 3_600_000)] * 9]
        produce(stage.bootstrap, source, [(None, value) for value in later], 1)
        wait_until(lambda: not (a.is_running() and b.is_running()), "one has found it", 60)
        stopped = b if a.is_running() else a
        assert_told(complaint(stopped), "k7")
        assert emitted(stage) == before
