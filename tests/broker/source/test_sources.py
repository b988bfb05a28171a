"""Several sources, counted together: moved once, in order, whatever they have of partitions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from slidestat.admin.letters import open_letters, send_again
from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.topology import Topology
from slidestat.doctor.permissions import worker_permissions
from slidestat.errors import SlidestatError
from slidestat.repartition import mover as mover_module
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import MOVED_FROM, Move
from tests.broker.outputs.test_queries import get
from tests.broker.source.test_mover import event, moved, send, until_moved
from tests.broker.source.test_repartition import (
    MINUTE,
    NOON,
    assert_exact,
    freeze_in_a_transaction,
)
from tests.broker.workers import Records, Stage, produce, wait_until
from tests.conftest import MakeTopic

PARTITIONS = {"eu": 3, "us": 2}
EVENTS = 30_000
BODY = (
    'span="1m", every="1m", lateness="2s", exactly_once=True,\n'
    "    statistics=(Count(epsilon=0.01),), key_field='who',\n"
    "    computed=[\"user || '@' || site as who\"], sources={sources!r},\n"
)


def history(begin: int, end: float, count: int, seed: int) -> Iterator[bytes]:
    """Events of the minutes between, in order but for a second and a half; the first is none."""
    if not begin:
        yield b"no event"
    random = np.random.default_rng(seed)
    times = NOON + np.sort(random.integers(begin * MINUTE, int(end * MINUTE), count))
    times -= random.integers(0, 1_500, count)
    users = random.integers(0, 50, count)
    for at, user in zip(times.tolist(), users.tolist(), strict=True):
        yield b'{"user":"u%d","site":"s%d","time":%d}' % (user, user % 7, at)


def test_two_sources_are_one_stream(
    bootstrap_servers: str,
    admin: AdminClient,
    topic_name: str,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    """Of 3 and 2 partitions. The worker that moves is killed in a transaction, one source is
    silent for ten minutes: each record is moved once, with where it was; each figure is exact, and
    written once; no record is late. A letter that is corrected goes to the source that it was on.
    """
    topics = {name: make_topic(name, count) for name, count in PARTITIONS.items()}
    stage = Stage(
        bootstrap_servers, tmp_path, topic_name, "", BODY.format(sources=[*topics.values()])
    )
    moved_to = stage.topology.events_topic
    sent: list[bytes] = []

    def bring(names: list[str], begin: int, end: float, count: int) -> None:
        for name in names:
            for number in range(PARTITIONS[name]):
                own = list(history(begin, end, count // 5, begin + 10 * number + len(sent)))
                produce(stage.bootstrap, topics[name], [(None, it) for it in own], number)
                sent.extend(own)

    def await_moved() -> None:
        count = lambda: sum(map(len, stage.read(moved_to).values()))  # noqa: E731
        wait_until(lambda: count() == len(sent), "all are moved", 120)

    bring(["eu", "us"], 0, 20, EVENTS)
    with stage.worker("a") as a, stage.worker("b") as b:
        mover = freeze_in_a_transaction(admin, stage, [a, b])
        mover.kill()
        other = b if mover is a else a
        await_moved()
        # What comes now, comes of one partition after the other: within the lateness.
        for names, minute in ((["eu"], 30), (["us", "eu"], 40)):
            bring(names, minute, minute + 0.005, 1_000)
            await_moved()
        stage.await_settled([other], 120)

        def lag() -> list[object]:
            _, body = get(other.url, f"/topologies/{stage.name}/status")
            return [it["repartition"] for it in body["workers"] if "repartition" in it]

        none = {"records": 0, "seconds": 0.0}
        wanted = [none | {"sources": dict.fromkeys(topics.values(), none)}]
        wait_until(lambda: lag() == wanted, "nothing is behind", 30)
        other.stop()
    assert_each_has_its_place(stage.read(moved_to), {it: stage.read(it) for it in topics.values()})
    expected = stage.check()
    assert expected.counters.late == 0
    assert expected.counters.dead == sent.count(b"no event")
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
    assert send_again(stage.bootstrap, stage.topology, topic, corrected).sent == len(letters) == 1
    back = stage.read(source)[1][before:]
    assert [record.value for record in back] == [b"{}"]
    assert all(MOVED_FROM not in record.headers for record in back)


@pytest.fixture
def topology(topic_name: str, make_topic: MakeTopic) -> Topology:
    make_topic("in-eu", 2)
    return Topology(
        name=topic_name,
        sources=[f"{topic_name}-in-*"],
        span="1h",
        every="1m",
        lateness="5s",
    )


def test_topics_of_a_pattern_come_and_go(
    bootstrap_servers: str,
    topology: Topology,
    make_topic: MakeTopic,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that comes is read from its beginning. The move goes on without one that is
    deleted. One that is left out of the pattern, and is there, is refused.
    """
    monkeypatch.setattr(mover_module, "_LOOK_S", 0.5)
    eu, us = (f"{topology.name}-in-{name}" for name in ("eu", "us"))
    of_eu, of_us = (replace(topology, source=it, sources=()) for it in (eu, us))
    assert prepare_topics(bootstrap_servers, topology) == 2
    mover = ElectedMover(Move(bootstrap_servers, topology))
    try:
        mover.elect([0])
        send(bootstrap_servers, of_eu, [event("a", 0)], 1)
        until_moved(bootstrap_servers, topology, 1)
        make_topic("in-us", 5)
        send(bootstrap_servers, of_us, [event("b", place) for place in range(9)], 4)
        until_moved(bootstrap_servers, topology, 10)
        asked = worker_permissions(bootstrap_servers, topology)
        used = [finding.found for finding in asked if finding.check == "source"]
        assert [found.partition(":")[0] for found in used] == [eu, us]
        with pytest.raises(SlidestatError, match=f"has records of '{us}', which is no source of"):
            prepare_topics(bootstrap_servers, replace(topology, sources=[f"{eu}*"]))
        admin.delete_topics([us])[us].result(30)
        send(bootstrap_servers, of_eu, [event("c", 60)], 0)
        until_moved(bootstrap_servers, topology, 11)
        assert mover.failure is None
    finally:
        mover.stop()
    prepare_topics(bootstrap_servers, replace(topology, sources=[f"{eu}*"]))
    places = [record.headers[MOVED_FROM] for _, record in moved(bootstrap_servers, topology)]
    wanted = Counter([f"{eu}/0", f"{eu}/1", *[f"{us}/4"] * 9])
    assert Counter(it.decode().rpartition("/")[0] for it in places) == wanted


def test_sources_that_are_missing_or_compacted_are_refused(
    bootstrap_servers: str, topology: Topology, make_topic: MakeTopic
) -> None:
    name = topology.name
    named = [f"{name}-in-eu", f"{name}-out"]
    with pytest.raises(SlidestatError, match=f"There is no topic '{name}-out'"):
        prepare_topics(bootstrap_servers, replace(topology, sources=named))
    with pytest.raises(SlidestatError, match="There is no topic yet that matches"):
        prepare_topics(bootstrap_servers, replace(topology, sources=[f"{name}-on-*"]))
    make_topic("in-table", 2, {"cleanup.policy": "compact"})
    with pytest.raises(SlidestatError, match=f"'{name}-in-table' is compacted"):
        prepare_topics(bootstrap_servers, topology)
