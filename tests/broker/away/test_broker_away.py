"""A broker that is away for longer than clients are patient: workers wait, say so, and go on."""

import os
import time
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.broker import LocalBroker
from tests.broker.conftest import BODY
from tests.broker.workers import DRAIN_S, Stage, events, produce, wait_until

pytestmark = pytest.mark.long

# Longer than a session, a request and a rebalance may take.
AWAY_S = float(os.environ.get("BROKER_AWAY_S", "75"))
CHUNK = 2_000


@pytest.mark.timeout(900 + AWAY_S)
def test_workers_wait_for_a_broker(
    own_broker: LocalBroker, tmp_path: Path, topic_name: str
) -> None:
    """Under load the broker is killed and comes back after more than a minute. Two workers say each
    half minute that they wait, and go on; all comes out as if nothing had been.
    """
    bootstrap = own_broker.bootstrap_servers
    source = f"{topic_name}-source"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, 4, 1)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    is_over = Event()

    def feed() -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "log_level": 0,
            }
        )
        start = 0
        while not is_over.is_set():
            for key, value in events(CHUNK, start=start):
                producer.produce(source, value, key)
            start += CHUNK
            while producer.flush(1) and not is_over.is_set():
                pass
            is_over.wait(0.1)
        producer.flush(DRAIN_S)

    feeding = Thread(target=feed, daemon=True)
    with stage.worker("a").await_ready() as one, stage.worker("b").await_ready() as two:
        workers = (one, two)
        feeding.start()
        stage.await_commit_after(4 * CHUNK)
        own_broker.kill()
        time.sleep(AWAY_S)
        for worker in workers:
            worker.require_running()
            assert worker.said().count("the brokers do not answer") >= AWAY_S // 35
        own_broker.restart()
        for worker in workers:
            wait_until(
                lambda worker=worker: "the brokers answer again" in worker.said(),  # type: ignore[misc]
                "it is told",
                DRAIN_S,
            )
        before = sum(stage.committed().values())
        stage.await_commit_after(before + 4 * CHUNK)
        is_over.set()
        feeding.join(DRAIN_S)
        stage.await_settled(workers)
        for worker in workers:
            worker.stop()
    stage.check()


@pytest.mark.timeout(900)
def test_workers_wait_for_a_leader(tmp_path: Path, topic_name: str) -> None:
    """One of the broker's two disks fails under load, and so the partitions on it have no leader,
    of the source, of outputs, changelogs or of the group's offsets. Two workers say each half
    minute what they wait for, and go on once the disk is there again; all comes out as if nothing
    had been.
    """
    data, second = tmp_path / "broker", tmp_path / "second"
    disks = {"log.dirs": f"{data / 'kafka'},{second}", "metadata.log.dir": str(data / "kafka")}
    with LocalBroker(data, secured_settings=disks) as broker:
        bootstrap = broker.bootstrap_servers
        source = f"{topic_name}-source"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(source, 4, 1)])[source].result()
        stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
        with stage.worker("a").await_ready() as one, stage.worker("b").await_ready() as two:
            workers = (one, two)
            produce(bootstrap, source, events(10_000))
            stage.await_commit_after(0)
            second.rename(tmp_path / "gone")
            for worker in workers:
                wait_until(
                    lambda worker=worker: "no broker leads" in worker.said(),  # type: ignore[misc]
                    "it is told",
                    DRAIN_S,
                )
            before = [worker.said().count("no broker leads") for worker in workers]
            time.sleep(DRAIN_S)
            for worker, said in zip(workers, before, strict=True):
                worker.require_running()
                assert worker.said().count("no broker leads") > said
            (tmp_path / "gone").rename(second)
            broker.restart()
            produce(bootstrap, source, events(10_000, start=10_000))
            stage.await_settled(workers, 2 * DRAIN_S)
            for worker in workers:
                worker.stop()
        stage.check()
