"""What a partition publishes: its synopses of each tick, exactly, and then its clock."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from slidestat.admin.replay_plan import plan_replay
from slidestat.declare.forms.resolved import require_audited
from slidestat.declare.statistics import (
    AgeOfLast,
    Count,
    LandmarkCount,
    Mean,
    Norm,
    Sum,
    Variance,
)
from slidestat.declare.statistics.runner import Work
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.publishing import SynopsisRecord, SynopsisTopic, published_statistics
from slidestat.errors import SlidestatError
from slidestat.schemas.sequence import decode_clock
from slidestat.schemas.synopsis import (
    ClockKey,
    SynopsisHeaders,
    SynopsisKey,
    decode_key,
)
from tests.engine.cases import EVERY_STATISTIC, Case, cases_of, laws, topology
from tests.engine.memory import PARTITION, Output, Partition
from tests.engine.model import Event, Model

PARTITIONS = 5

# How a number is written as an item is the decoder's affair.
OF_ITEMS = ("distinct", "lean_distinct", "top", "items", "item_counts")
OF_NUMBERS = tuple(s for s in EVERY_STATISTIC if s.kind not in OF_ITEMS)

TOPOLOGIES = {
    "partitions": topology(publish="partition", statistics=OF_NUMBERS),
    "partitions, late": topology(publish="partition", lateness="150ms"),
    "keys": topology(publish=("a", "b", "k1"), statistics=OF_NUMBERS),
    "keys, late": topology(publish=("a", "c"), every="70ms", lateness="200ms"),
}


def published(topology: Topology, outputs: list[Output]) -> list[SynopsisRecord]:
    """What was published, in order."""
    items: list[Any] = [rest for kind, _, rest in outputs if kind == "published"]
    return list(SynopsisTopic(topology, PARTITIONS).records(items, PARTITION))


def streams(topology: Topology, model: Model) -> Iterator[tuple[str, list[Event]]]:
    """The counted events of each stream that is published, by time."""
    for key, events in model.of_key().items():
        if topology.publishes_partitions:
            yield topology.source, events
        elif key in topology.publish:
            yield key, events


def synopses(topology: Topology, events: list[Event]) -> list[bytes]:
    """The synopses of exactly these events of one stream."""
    times = np.array([event.time for event in events], np.int64)
    work = Work(
        np.array([0, len(events)]),
        times,
        {c.path: np.array([float(e.value) for e in events]) for c in topology.columns.numbers},
        {},
        np.zeros(2, np.int64),
        np.empty(0, np.int64),
        np.array([1]),
    )
    return [runner.run([None], work).states[0] for runner in dict.fromkeys(topology.runners)]


@laws
@given(cases_of(TOPOLOGIES))
def test_a_synopsis_has_exactly_the_events_before_its_tick(case: Case) -> None:
    """At each tick after events that the watermark has passed: the bytes that one fed with the
    events before the tick alone has, of the ones since the last gap of a span; and no others.
    """
    topology, model = case.topology, Model(case.topology, case.records)
    expected = {}
    for stream, events in streams(topology, model):
        times = [event.time for event in events]
        for tick in {(time // topology.every_ms + 1) * topology.every_ms for time in times}:
            passed = bisect_left(model.watermarks, tick)
            if passed == len(model.records):
                continue
            known = events[: bisect_left(times, tick)]
            for i in range(len(known) - 1, 0, -1):
                if known[i].time - known[i - 1].time >= topology.span_length.length:
                    known = known[i:]
                    break
            for statistic, data in zip(
                published_statistics(topology), synopses(topology, known), strict=True
            ):
                offset = model.records[passed].offset
                expected[SynopsisKey(topology.name, statistic, stream, "events/3"), tick] = (
                    offset,
                    data,
                )
    partition = Partition(topology, case.records, case.random)
    partition.live()
    found = {}
    for record in published(topology, partition.outputs):
        key = decode_key(record.key)
        if isinstance(key, SynopsisKey):
            headers = SynopsisHeaders.decode(record.headers)
            found[key, record.timestamp] = (headers.source_offset, record.value)
    assert found == expected


@laws
@given(cases_of(TOPOLOGIES))
def test_a_clock_follows_all_that_it_vouches_for(case: Case) -> None:
    """Each record that moves the watermark past a tick brings one clock, to every partition of the
    topic; no synopsis of a tick up to the clock's comes after it; a stream's all go to one place.
    """
    topology, model = case.topology, Model(case.topology, case.records)
    ticks = [
        w // topology.every_ms * topology.every_ms if w > float("-inf") else w
        for w in model.watermarks
    ]
    expected = [
        (int(tick), record.offset)
        for before, tick, record in zip([float("-inf"), *ticks], ticks, model.records, strict=False)
        if tick > before
    ]
    partition = Partition(topology, case.records, case.random)
    partition.live()
    places = 1 if topology.publishes_partitions else PARTITIONS
    clocks: dict[int, list[tuple[int, int]]] = {place: [] for place in range(places)}
    place_of: dict[str, int] = {}
    for record in published(topology, partition.outputs):
        key = decode_key(record.key)
        if isinstance(key, ClockKey):
            clock = decode_clock(record.value)
            assert (clock.parties, clock.tick_ms) == (PARTITIONS, record.timestamp)
            clocks[record.partition].append((clock.tick_ms, clock.source_offset))
        else:
            assert place_of.setdefault(key.key, record.partition) == record.partition
            assert all(tick < record.timestamp for tick, _ in clocks[record.partition])
    assert all(told == expected for told in clocks.values())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"publish": "keys"}, "publish is 'keys'"),
        ({"publish": ("",)}, "publish is"),
        (
            {"publish": "partition", "span": "9 events", "statistics": (AgeOfLast(),)},
            "age_of_last counts back",
        ),
        (
            {"publish": "partition", "span": "9 events", "forget_after": "1h"},
            "with forget_after",
        ),
        ({"publish": "partition", "span": "9 events", "every": "3 events"}, "every is '3 events'"),
        ({"publish": "partition", "statistics": (LandmarkCount(),)}, "landmark_count"),
        ({"publish": "partition", "statistics": (Norm(),)}, "norm"),
        ({"source": "t-synopses", "publish": ("a",)}, "which this topology writes"),
        ({"source": "u-synopses", "publish": ("a",), "output": "u"}, "which this topology writes"),
    ],
)
def test_what_cannot_be_published_is_refused(fields: dict, said: str) -> None:
    """Each with the field at fault."""
    declared = {"name": "t", "source": "events", "span": "1h", "every": "1m", **fields}
    with pytest.raises(SlidestatError, match=said):
        Topology(**declared)


def test_statistics_of_one_synopsis_are_published_once() -> None:
    """Under the name of the first of them."""
    declared = topology(statistics=(Sum(), Mean(), Count(), Variance()), publish="partition")
    assert published_statistics(declared) == ["sum", "mean", "count"]


@pytest.mark.parametrize("key_field", ["key", "kafka:key"])
def test_whole_partitions_need_no_key(key_field: str) -> None:
    """Neither in the record nor beside it, and what is there may be of any kind."""
    declared = Topology(
        name="t",
        source="events",
        span="1s",
        every="100ms",
        statistics=(Count(),),
        key_field=key_field,
        publish="partition",
    )
    columns = EventDecoder(declared).decode(
        [b'{"time": 1000000000000}', b'{"time": 1000000000001, "key": []}'], [None, b"\xff"], [1, 1]
    )
    assert (columns.times.tolist(), columns.refusals) == ([10**12, 10**12 + 1], [])


@pytest.mark.parametrize("publish", ["partition", ("a",)])
def test_what_reads_figures_of_keys_refuses_one_that_publishes(
    publish: str | tuple[str, ...],
) -> None:
    """An audit where no key has figures, and a replay whose first windows lack events, before
    anything is read.
    """
    declared = topology(publish=publish)
    if publish == "partition":
        with pytest.raises(SlidestatError, match="emits no figure that could be recomputed"):
            require_audited(declared)
    else:
        require_audited(declared)
    with pytest.raises(SlidestatError, match="publishes for a referee"):
        plan_replay("127.0.0.1:1", declared, "2026-05-01T12:00:00Z", "latest", "again")
