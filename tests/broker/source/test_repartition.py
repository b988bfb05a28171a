"""A source that is not partitioned by the key, with `repartition = true`: moved once, in order."""

import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
from aiokafka.partitioner import murmur2
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from slidestat.engine.emissions.emission_codec import JsonCodec
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.workers import START_S, Stage, Worker, produce, wait_until

NOON = 1_700_000_000_000
MINUTE = 60_000
PARTITIONS = 3
EVENTS = 150_000
BAD = 40
BODY = (
    'span="1m", every="1m", lateness="2s", repartition=True, statistics=(Count(epsilon=0.01),),\n'
    "    key_field='who', computed=[\"user || '@' || site as who\"],\n"
)


def history(partition: int) -> Iterator[bytes]:
    """Events of forty minutes, in order but for a second and a half; some are none."""
    random = np.random.default_rng(partition)
    times = NOON + np.sort(random.integers(0, 40 * MINUTE, EVENTS // PARTITIONS))
    times -= random.integers(0, 1_500, len(times))
    users = random.integers(0, 50, len(times))
    for place, (at, user) in enumerate(zip(times.tolist(), users.tolist(), strict=True)):
        if place % (len(times) // BAD) == 7:
            yield b"no event"
        yield b'{"user":"u%d","site":"s%d","time":%d}' % (user, user % 7, at)


def end_of(admin: AdminClient, topic: str, isolation: IsolationLevel) -> int:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = admin.list_offsets(
        dict.fromkeys(places, OffsetSpec.latest()), isolation_level=isolation
    )
    return sum(answer.result().offset for answer in found.values())


def freeze_in_a_transaction(admin: AdminClient, stage: Stage, workers: list[Worker]) -> Worker:
    """The worker that moves records, stopped while some of them are written and not committed."""
    topic = stage.topology.events_topic

    def begins() -> bool:
        assert all(worker.is_running() for worker in workers), [w.said() for w in workers]
        return any("moves the records" in worker.said() for worker in workers)

    wait_until(begins, "one begins", START_S)
    mover = next(worker for worker in workers if "moves the records" in worker.said())
    while True:
        mover.signal(signal.SIGSTOP)
        time.sleep(0.05)
        if end_of(admin, topic, IsolationLevel.READ_UNCOMMITTED) > 500 + end_of(
            admin, topic, IsolationLevel.READ_COMMITTED
        ):
            return mover
        mover.signal(signal.SIGCONT)
        time.sleep(0.02)


def test_each_record_is_moved_once_and_in_order(make_stage: MakeStage, admin: AdminClient) -> None:
    """Two workers; the one that moves dies in the middle of a transaction. What it had written of
    that counts for nobody, and every figure of the backlog is right: no record came late.
    """
    stage = make_stage(partitions=PARTITIONS, body=BODY)
    source, topic = stage.topology.source, stage.topology.events_topic
    sent: list[bytes] = []
    for partition in range(PARTITIONS):
        records = list(history(partition))
        produce(stage.bootstrap, source, [(None, value) for value in records], partition)
        sent += records
    with stage.worker("a") as a, stage.worker("b") as b:
        mover = freeze_in_a_transaction(admin, stage, [a, b])
        mover.kill()
        other = b if mover is a else a
        wait_until(
            lambda: sum(map(len, stage.read(topic).values())) == len(sent), "all are moved", 120
        )
        stage.await_settled([other], 120)

        def told() -> list[dict[str, object]]:
            _, body = get(other.url, f"/topologies/{stage.name}/status")
            return [told["repartition"] for told in body["workers"] if "repartition" in told]

        wait_until(lambda: told() == [{"records": 0, "seconds": 0.0}], "nothing is behind", 30)
        with urllib.request.urlopen(f"{other.url}/metrics") as metrics:  # noqa: S310
            text = metrics.read().decode()
        for name in ("records", "seconds"):
            assert f'slidestat_repartition_lag_{name}{{topology="{stage.name}"}} 0.0' in text
        other.stop()
    moved = stage.read(topic)
    assert Counter(r.value for own in moved.values() for r in own) == Counter(sent)
    for partition, own in moved.items():
        for record in own:
            if record.key is not None:
                assert murmur2(record.key) % 2**31 % PARTITIONS == partition
    keyless = sorted(r.value for own in moved.values() for r in own if r.key is None)
    assert keyless == sorted(value for value in sent if value == b"no event")
    expected = stage.check()
    assert expected.counters.late == 0
    assert expected.counters.dead == len(keyless)
    assert_exact(stage, sent)


def assert_exact(stage: Stage, sent: list[bytes]) -> None:
    """Each minute of each key was emitted, with its number of events in the bounds."""
    exact = Counter(
        (f"u{event['user'][1:]}@{event['site']}", event["time"] // MINUTE * MINUTE + MINUTE)
        for event in map(_event, sent)
        if event
    )
    codec = JsonCodec()
    found = {}
    for value in stage.emissions().values():
        emission = codec.decode(value)
        figure = emission.figures[0]
        found[emission.key, emission.window_end_ms] = figure
    newest = max(end for _, end in exact)
    for place, count in exact.items():
        if place[1] < newest:
            assert found[place].lower <= count <= found[place].upper
    assert all(exact[place] for place, figure in found.items() if figure.lower)


def _event(value: bytes) -> dict:
    return msgspec.json.decode(value) if value[:1] == b"{" else {}
