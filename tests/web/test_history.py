"""The history of a key over HTTP, read from the output topic of a real broker from its end."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.kafka.read.scan import Clock
from slidestat.live.live_topology import LiveTopology
from slidestat.options import LOOPBACK
from slidestat.schemas.emission import Emission, Figure
from slidestat.web.address import listen
from slidestat.web.answers.history import MOST_EMISSIONS, OutputHistory
from slidestat.web.peers import Peers
from tests.engine.streams import START_MS
from tests.web.serving import TOPOLOGY, Held, get, one_event_each, start

EVERY_MS = 60_000
FIRST_MS = START_MS // EVERY_MS * EVERY_MS

pytestmark = pytest.mark.asyncio


def clock_of(calls_in_four_seconds: float) -> Clock:
    """A clock on which so many looks at it take the four seconds that a history may take."""
    looks = itertools.count()
    return lambda: next(looks) * 4.0 / calls_in_four_seconds


def ends(body: dict[str, Any]) -> list[int]:
    return [emission["window_end_ms"] for emission in body["emissions"]]


@pytest.fixture
def output(
    bootstrap_servers: str, make_topic: Callable[..., str]
) -> Callable[[list[tuple[str, int]]], Topology]:
    """`output([(key, window_end_ms), ...])`: TOPOLOGY, whose output topic has these emissions."""

    numbers = itertools.count()

    def make(emissions: list[tuple[str, int]]) -> Topology:
        topic = make_topic(f"{next(numbers)}-statistics", 1, {"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20})
        for offset, (key, end) in enumerate(emissions):
            figures = [Figure("count", float(offset), float(offset), float(offset), EVERY_MS)]
            emission = Emission("orders", key, end, figures, "events", 0, offset)
            for name, value in JsonCodec().records(emission):
                producer.produce(topic, value, name)
            producer.poll(0)
        producer.produce(topic, b"of somebody else", None)
        assert producer.flush(60) == 0
        return replace(TOPOLOGY, output=topic.removesuffix("-statistics"))

    return make


@asynccontextmanager
async def answering(
    topology: Topology, bootstrap: str, clock: Clock, *keys: str
) -> AsyncIterator[str]:
    """The URL of a worker that has these keys, and reads this topology's output."""
    held = Held(topology, [0])
    held.take(0, one_event_each(keys))
    live = LiveTopology(topology, held)
    live.ready([0])
    address = listen(LOOPBACK, 0)
    history = OutputHistory(bootstrap, "", clock)
    served = await start(address, live, Peers(address, dict), history)
    try:
        yield served.url
    finally:
        await served.runner.cleanup()


async def asked(topology: Topology, bootstrap: str, clock: Clock, key: str) -> dict[str, Any]:
    async with answering(topology, bootstrap, clock, key) as url:
        answer = await get(url, f"/topologies/orders/keys/{quote(key, safe='')}/history")
        assert answer.status == 200, answer.body
        body: dict[str, Any] = answer.json
        return body


@pytest.mark.parametrize("looks", [0, 100, 600, 3_000, 9_000, 1_000_000])
async def test_what_is_read_is_the_newest_without_a_hole(
    output: Callable[..., Topology], bootstrap_servers: str, looks: int
) -> None:
    """However much of the topic can be read in time: the emissions end with the newest one, none
    is missing after the time that the answer names, and what was cut off is told.
    """
    ticks = [FIRST_MS + tick * EVERY_MS for tick in range(250)]
    topology = output([(f"k{i}", end) for end in ticks for i in range(40)])
    body = await asked(topology, bootstrap_servers, clock_of(looks or 0.5), "k7")
    found = ends(body)
    after = body.get("complete_after_ms")
    if looks == 1_000_000:
        assert found == ticks
        assert "cut" not in body
        assert after is None
    elif looks in (0, 100):
        assert found == []
        assert body["cut"] == "The history is not known: older records were not read in 4 s."
        assert after is None
    else:
        assert 0 < len(found) < len(ticks)
        assert found == ticks[-len(found) :]
        assert [end for end in ticks if end > after] == [end for end in found if end > after]
        assert after in (found[0], found[0] - EVERY_MS)
        assert body["cut"].startswith("The history begins after 20")
        assert body["cut"].endswith(": older records were not read in 4 s.")


async def test_the_newest_of_many(output: Callable[..., Topology], bootstrap_servers: str) -> None:
    """A key has its newest 300 emissions, and the answer names the one before them."""
    ticks = [FIRST_MS + tick * EVERY_MS for tick in range(MOST_EMISSIONS + 7)]
    topology = output([("a", end) for end in ticks])
    body = await asked(topology, bootstrap_servers, clock_of(1e9), "a")
    assert ends(body) == ticks[7:]
    assert body["complete_after_ms"] == ticks[6]
    assert body["cut"].endswith(": it has the newest 300 emissions.")
    whole = await asked(
        output([("a", end) for end in ticks[7:]]), bootstrap_servers, clock_of(1e9), "a"
    )
    assert ends(whole) == ticks[7:]
    assert "cut" not in whole


async def test_of_one_end_the_last_holds(
    output: Callable[..., Topology], bootstrap_servers: str
) -> None:
    """What was written again, as after a restart, replaces what was before; keys that look like
    another one, and records that are none of the topology's, are not in.
    """
    keys = ['a"', "a", 'a",0', "[a]*", "a"]
    topology = output([(key, FIRST_MS + i % 2 * EVERY_MS) for i in range(2) for key in keys])
    body = await asked(topology, bootstrap_servers, clock_of(1e9), "a")
    assert [(e["key"], e["source_offset"]) for e in body["emissions"]] == [("a", 4), ("a", 9)]
    for key in keys[:1] + keys[2:4]:
        body = await asked(topology, bootstrap_servers, clock_of(1e9), key)
        assert {e["key"] for e in body["emissions"]} == {key}
        assert len(body["emissions"]) == 2


@pytest.mark.parametrize(
    "name", ['"a"', '"a",', '"a",x]', '"a",null]', '"a",1]x', '"a",' + "9" * 5000]
)
async def test_keys_that_are_no_emissions(
    output: Callable[..., Topology], bootstrap_servers: str, name: str
) -> None:
    """What others write to the topic, by keys that begin as ours, is passed over."""
    topology = output([("a", FIRST_MS), ("a", FIRST_MS + EVERY_MS)])
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(f"{topology.output}-statistics", b"{}", f'["orders",{name}')
    assert producer.flush(60) == 0
    body = await asked(topology, bootstrap_servers, clock_of(1e9), "a")
    assert ends(body) == [FIRST_MS, FIRST_MS + EVERY_MS]
    assert "cut" not in body


async def test_a_topic_without_records(
    make_topic: Callable[..., str], bootstrap_servers: str
) -> None:
    """Nothing is there, and nothing was cut off."""
    topic = make_topic("empty-statistics", 1)
    topology = replace(TOPOLOGY, output=topic.removesuffix("-statistics"))
    body = await asked(topology, bootstrap_servers, clock_of(1e9), "a")
    assert body == {"topology": "orders", "key": "a", "emissions": []}
