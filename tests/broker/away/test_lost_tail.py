"""A log that lost its end and uses its offsets again: by its topic, it is still the same one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.topology import Topology
from slidestat.doctor.examination import unread_records
from slidestat.doctor.finding import Verdict
from slidestat.engine.records import LogMark, record_checksum
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import require_broker
from slidestat.kafka.read.same_log import first_difference
from slidestat.kafka.transactional_producer import LostError
from slidestat.local.broker import LocalBroker
from slidestat.repartition.moved_from import Move
from tests.broker.source.test_mover import moving
from tests.broker.workers import Stage, events, produce, read_topic, wait_until

SOURCE, COMPARED, MOVED = "source", "compared", "moved"
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
        made = admin.create_topics([NewTopic(topic, 1, 1) for topic in (SOURCE, COMPARED, MOVED)])
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


def test_a_mover_notices_a_lost_tail(broker: LocalBroker, folder: Path) -> None:
    """While it runs, and when one begins. With --allow-loss, what has the offsets now is moved."""
    bootstrap, log = broker.bootstrap_servers, folder / "broker" / "kafka" / f"{MOVED}-0"
    topology = Topology(
        name="u", source=MOVED, span="10m", every="1s", lateness="1s", repartition=True
    )
    prepare_topics(bootstrap, topology)
    move = Move(bootstrap, topology)

    def count() -> int:
        return sum(map(len, read_topic(bootstrap, topology.events_topic).values()))

    def append(start: int, records: int) -> None:
        produce(bootstrap, MOVED, events(records, start=start))

    append(0, KEPT)
    shutil.copytree(log, folder / "copy")
    append(KEPT, LOST)

    def replace_log_while_moving() -> None:
        with moving(move) as ended:
            wait_until(lambda: count() == KEPT + LOST, "all is moved", 60)
            broker.kill()
            shutil.rmtree(log)
            shutil.move(folder / "copy", log)
            broker.restart()
            append(KEPT + LOST, NEW)
            wait_until(ended.is_set, "the mover ends", 60)

    with pytest.raises((LostError, KafkaException)):
        replace_log_while_moving()
    assert count() == KEPT + LOST
    text = f"records {KEPT} to {KEPT + LOST - 1} of moved/0"
    with pytest.raises(SlidestatError, match=text), moving(move) as ended:
        wait_until(ended.is_set, "the mover ends", 60)
    with moving(Move(bootstrap, topology, allow_loss=True)):
        wait_until(lambda: count() == KEPT + LOST + NEW, "the new ones are moved", 60)
    with moving(move):
        append(KEPT + LOST + NEW, 10)
        wait_until(lambda: count() == KEPT + LOST + NEW + 10, "one goes on", 60)
