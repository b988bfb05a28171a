"""A worker leaves when it is told to, whatever the broker does, and nothing is lost."""

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.faust.worker.run import LEAVE_S, ONE_WISH_S
from slidestat.local.broker import LocalBroker
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import Stage, events, produce, wait_until


@pytest.mark.usefixtures("hangups")
def test_a_worker_says_what_it_has_committed(make_stage: MakeStage) -> None:
    """Its last line is where the next worker reads on from, also when its terminal is closed."""
    stage = make_stage(partitions=2, body=BODY)
    source = stage.topology.source
    with stage.worker("a").await_ready() as worker:
        produce(stage.bootstrap, source, events(500))
        stage.await_commit_after(0)
        worker.signal(signal.SIGHUP)
        assert worker.await_end(LEAVE_S) == 0
    found = stage.committed().items()
    told = [f"{source}/{number} up to {offset:,}" for number, offset in sorted(found)]
    assert worker.said().rstrip().endswith(f"committed: {', '.join(told)}")


def test_a_worker_leaves_a_broker_that_is_down(
    own_broker: LocalBroker, tmp_path: Path, topic_name: str
) -> None:
    """With the broker down, a worker says so; SIGTERM ends it within LEAVE_S, with what to do if
    something could not be committed, and a second SIGTERM at once. Workers that are started again
    count everything once.
    """
    bootstrap = own_broker.bootstrap_servers
    source = f"{topic_name}-source"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, 2, 1)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    with stage.worker("a").await_ready() as patient, stage.worker("b").await_ready() as hurried:
        produce(bootstrap, source, events(60_000))
        stage.await_commit_after(0)
        own_broker.kill()
        wait_until(lambda: "brokers do not answer" in patient.said(), "it is told", LEAVE_S)
        patient.signal(signal.SIGTERM)
        hurried.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in hurried.said(), "the first signal is taken", LEAVE_S)
        time.sleep(ONE_WISH_S)
        hurried.signal(signal.SIGTERM)
        assert hurried.await_end(LEAVE_S / 2) == 128 + signal.SIGTERM
        assert "read again by the next worker" in hurried.said()
        # Half as long again for a machine that does other things.
        end = patient.await_end(1.5 * LEAVE_S)
        # Whether all was committed when the broker went is chance.
        unfinished = "could not be committed" in patient.said()
        assert end == (2 if unfinished else 0), patient.said()
        assert ("nothing is lost" in patient.said()) == unfinished
        assert "Traceback" not in patient.said()
    own_broker.restart()
    stage.drain()
    stage.check()
