"""Two sources that are not partitioned by the key: moved once, in order, counted together."""

import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from slidestat.admin.letters import open_letters, send_again
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.errors import SlidestatError
from slidestat.repartition.moved_from import MOVED_FROM
from tests.broker.outputs.test_queries import get
from tests.broker.workers import START_S, Records, Stage, Worker, produce, wait_until
from tests.conftest import MakeTopic

NOON = 1_700_000_000_000
MINUTE = 60_000
SOURCES = {"eu": 3, "us": 2}
# Those of the topic that records are moved to.
PARTITIONS = max(SOURCES.values())
EVENTS = 110_000
BAD = 40
BODY = (
    'span="1m", every="1m", lateness="2s", exactly_once=True,\n'
    "    statistics=(Count(epsilon=0.01),), key_field='who',\n"
    "    computed=[\"user || '@' || site as who\"], sources={sources!r},\n"
)


def history(begin: int, end: float, count: int, seed: int) -> Iterator[bytes]:
    """Events of the minutes between, in order but for a second and a half; of a backlog, some are
    none.
    """
    random = np.random.default_rng(seed)
    times = NOON + np.sort(random.integers(begin * MINUTE, int(end * MINUTE), count))
    times -= random.integers(0, 1_500, count)
    users = random.integers(0, 50, count)
    for place, (at, user) in enumerate(zip(times.tolist(), users.tolist(), strict=True)):
        if not begin and place % (count // BAD) == 7:
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


def test_two_sources_are_one_stream(
    bootstrap_servers: str,
    admin: AdminClient,
    topic_name: str,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    """Of 3 and 2 partitions, by two workers. The one that moves dies in the middle of a
    transaction; what it had written of that counts for nobody. Then one source is silent for ten
    minutes. Each record is moved once, with where it was; no record is late; each figure is right,
    and written once. A letter that is corrected goes to the source that its record was on.
    """
    topics = {name: make_topic(name, count) for name, count in SOURCES.items()}
    body = BODY.format(sources=[*topics.values()])
    stage = Stage(bootstrap_servers, tmp_path, topic_name, "", body)
    topic = stage.topology.events_topic
    sent: list[bytes] = []

    def bring(names: list[str], begin: int, end: float, count: int) -> None:
        for name in names:
            for number in range(SOURCES[name]):
                own = list(history(begin, end, count, begin + 10 * number + len(sent)))
                produce(stage.bootstrap, topics[name], [(None, it) for it in own], number)
                sent.extend(own)

    def are_all_moved() -> bool:
        # The end counts markers of transactions, too; it takes less than to read all.
        return end_of(admin, topic, IsolationLevel.READ_COMMITTED) > len(sent) and (
            sum(map(len, stage.read(topic).values())) == len(sent)
        )

    bring(["eu", "us"], 0, 20, EVENTS // sum(SOURCES.values()))
    with stage.worker("a") as a, stage.worker("b") as b:
        mover = freeze_in_a_transaction(admin, stage, [a, b])
        mover.kill()
        other = b if mover is a else a
        wait_until(are_all_moved, "all are moved", 120)
        # What comes now, comes of one partition after the other: within the lateness.
        for names, minute in ((["eu"], 30), (["us", "eu"], 40)):
            bring(names, minute, minute + 0.005, 200)
            wait_until(are_all_moved, "all are moved", 120)
        stage.await_settled([other], 120)

        def told() -> list[dict[str, object]]:
            _, body = get(other.url, f"/topologies/{stage.name}/status")
            return [told["repartition"] for told in body["workers"] if "repartition" in told]

        none = {"records": 0, "seconds": 0.0}
        wanted = [none | {"sources": dict.fromkeys(topics.values(), none)}]
        wait_until(lambda: told() == wanted, "nothing is behind", 30)
        with urllib.request.urlopen(f"{other.url}/metrics") as metrics:  # noqa: S310
            text = metrics.read().decode()
        for name in ("records", "seconds"):
            labels = f'topology="{stage.name}"'
            assert f"slidestat_repartition_lag_{name}{{{labels}}} 0.0" in text
            labels = f'source="{topics["us"]}",{labels}'
            assert f"slidestat_repartition_source_lag_{name}{{{labels}}} 0.0" in text
        other.stop()
    moved = stage.read(topic)
    assert_each_has_its_place(moved, {it: stage.read(it) for it in topics.values()})
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
    written = sum(map(len, stage.read(stage.topology.output_topic).values()))
    assert written == len(stage.emissions())
    assert_letters_go_back(stage, topics["us"])


def assert_each_has_its_place(found: Records, sources: dict[str, Records]) -> None:
    """Each record of a source was moved once, as it was, with its place in a header."""
    wanted = {
        f"{topic}/{number}/{record.offset}": (record.value, record.timestamp)
        for topic, records in sources.items()
        for number, own in records.items()
        for record in own
    }
    places = [
        (record.headers[MOVED_FROM].decode(), (record.value, record.timestamp))
        for own in found.values()
        for record in own
    ]
    assert len(places) == len(wanted)
    assert dict(places) == wanted


def assert_letters_go_back(stage: Stage, source: str) -> None:
    topic = stage.topology.dead_letter_topic
    letters = [
        letter
        for letter in open_letters(stage.bootstrap, topic)
        if any(it.name == MOVED_FROM and f"{source}/1/" in str(it.value) for it in letter.headers)
    ]
    corrected = [msgspec.structs.replace(it, value="{}", key=None) for it in letters]
    before = len(stage.read(source)[1])
    bare = [msgspec.structs.replace(it, headers=()) for it in letters]
    with pytest.raises(SlidestatError, match="has no header moved_from"):
        send_again(stage.bootstrap, stage.topology, topic, bare)
    assert (
        send_again(stage.bootstrap, stage.topology, topic, corrected).sent
        == len(letters)
        > BAD // 2
    )
    back = stage.read(source)[1][before:]
    assert [record.value for record in back] == [b"{}"] * len(letters)
    assert all(MOVED_FROM not in record.headers for record in back)


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
