"""A log that lost its end and uses its offsets again: by its topic, it is still the same one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.doctor.examination import unread_records
from slidestat.doctor.finding import Verdict
from slidestat.engine.records import LogMark, record_checksum
from slidestat.kafka.connection import require_broker
from slidestat.kafka.read.same_log import first_difference
from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage, events, produce, read_topic, wait_until

SOURCE, COMPARED = "source", "compared"
BODY = 'span="10m", every="1s", windows=("10m",), lateness="1s", statistics=(Count(),)'
KEPT, LOST, NEW = 800, 200, 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lost-tail")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[LocalBroker]:
    """A broker whose folders a test may change."""
    with LocalBroker(folder / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        made = admin.create_topics([NewTopic(topic, 1, 1) for topic in (SOURCE, COMPARED)])
        for topic in made.values():
            topic.result(30)
        yield broker


def test_where_logs_part(broker: LocalBroker) -> None:
    """A record that was marked is found; another checksum, epoch or end is a difference; an epoch
    that is not known is none.
    """
    bootstrap = broker.bootstrap_servers
    produce(bootstrap, COMPARED, [(b"k", b"v"), (None, b""), (b"", None), (b"k", b"v")])
    (records,) = read_topic(bootstrap, COMPARED).values()
    for record in records:
        checksum = record_checksum(record.timestamp, record.key, record.value)
        found = {
            (record.offset, 0, checksum): None,
            (record.offset, -1, checksum): None,
            (record.offset, 0, checksum + 1): record.offset,
            (record.offset, 7, checksum): record.offset,
        }
        for mark, first in found.items():
            assert first_difference(bootstrap, COMPARED, 0, LogMark(*mark)) == first, mark
    assert first_difference(bootstrap, COMPARED, 0, LogMark(6, 0, 0)) == 4


def test_a_lost_tail_is_noticed(broker: LocalBroker, folder: Path) -> None:
    """By a worker that runs, by one that starts, and by `doctor`, where the log has grown beyond
    what was read. With --allow-loss, what has the offsets now is counted as lost, once.
    """
    bootstrap, log = broker.bootstrap_servers, folder / "broker" / "kafka" / f"{SOURCE}-0"
    stage = Stage(bootstrap, folder, "t", SOURCE, BODY)
    produce(bootstrap, SOURCE, events(KEPT))
    shutil.copytree(log, folder / "copy")
    produce(bootstrap, SOURCE, events(LOST, start=KEPT))
    text = f"Records {KEPT} to {KEPT + LOST - 1} of {SOURCE!r} partition 0 are not those that were"
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        broker.kill()
        shutil.rmtree(log)
        shutil.move(folder / "copy", log)
        broker.restart()
        produce(bootstrap, SOURCE, events(NEW, start=KEPT + LOST, keys=3))
        wait_until(lambda: not worker.is_running(), "the running worker ends", 60)
        assert text in worker.said()
    with stage.worker() as worker:
        assert worker.await_end(60) == 2
        assert text in worker.said()
        assert "--allow-loss" in worker.said()
    (found,) = unread_records(bootstrap, stage.topology, require_broker(bootstrap))
    assert found.verdict is Verdict.BAD
    assert text in found.found

    for options in (["--allow-loss"], []):
        with stage.worker("a", None, *options).await_ready() as worker:
            stage.await_settled([worker])
            assert ("and counted as lost" in worker.said()) == bool(options)
            worker.stop()
        counters = stage.counters()
        assert counters.lost == LOST
        assert counters.read == counters.counted + counters.dead + counters.late
