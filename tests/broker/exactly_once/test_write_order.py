"""Outputs before the changelog, the changelog before the commit: a broker that dies in between."""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.broker import LocalBroker
from tests.broker.away.test_worker_errors import complaint
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import DRAIN_S, Stage, events, produce, wait_until


@pytest.mark.long
def test_a_broker_killed_under_a_worker_costs_nothing(
    own_broker: LocalBroker, tmp_path: Path, topic_name: str
) -> None:
    """A broker killed in a backlog and started again, twice: the worker lives through it, and
    nothing is lost or counted twice. SIGTERM then ends it as ever.
    """
    bootstrap = own_broker.bootstrap_servers
    source = f"{topic_name}-source"
    # Records are on the broker's disk when acknowledged: here the broker's crash is the subject.
    config = {"retention.ms": "-1", "flush.messages": "1"}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, 2, 1, config=config)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    produce(bootstrap, source, events(100_000, late_share=0.001))
    with stage.worker() as worker:
        for start in (100_000, 140_000):
            stage.await_commit_after(start - 100_000)
            own_broker.kill()
            own_broker.restart()
            produce(bootstrap, source, events(40_000, start=start, late_share=0.001))
        stage.await_settled([worker], timeout_s=2 * DRAIN_S)
        worker.stop()
    stage.check()


def test_a_broker_that_goes_while_a_worker_starts(
    own_broker: LocalBroker, tmp_path: Path, topic_name: str
) -> None:
    """After it has answered, and before the worker has joined: the worker ends with what to do."""
    bootstrap = own_broker.bootstrap_servers
    source = f"{topic_name}-source"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, 2, 1)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    with stage.worker() as worker:
        wait_until(lambda: "answers at" in worker.said(), "topics are checked", DRAIN_S)
        own_broker.kill()
        said = complaint(worker)
    assert "The Kafka broker went away while the worker was starting" in said


def test_a_key_is_written_once_a_flush(make_stage: MakeStage) -> None:
    """However many records a batch has for a key, the changelog gets one record for each touched
    key and flush: between two checkpoints of a partition no key comes twice.
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(100_000, keys=50))
    stage.drain()
    flushes: list[Counter[bytes | None]] = [Counter()]
    for record in stage.read(stage.changelog)[0]:
        flushes[-1][record.key] += 1
        if record.key == b"p":
            flushes.append(Counter())
    assert not flushes.pop()
    assert flushes
    assert all(set(flush.values()) == {1} for flush in flushes)
    # 100,000 records of 50 keys in a few flushes, a second apart, and the fence of the worker.
    assert sum(flush.total() for flush in flushes) <= 51 * len(flushes) + 1 < 10_000
