"""How large a key's state is: measured, by running the topology's synopses on made-up events.

A bound on paper would be for the worst case; the size for a key depends on how many events it has
in the span, so that number is varied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import Column, Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics import ItemCounts, Items
from slidestat.declare.statistics.runner import Runner
from slidestat.declare.topology import Topology, without_move

# Measuring loads all kernels; reading a remembered measurement needs none of them.
if TYPE_CHECKING:
    import pyarrow as pa

    from slidestat.engine.decoding.event_columns import FieldColumns

EVENTS = (5, 1_000, 100_000)
FORESEEN_EVENTS = 10**9

_START_MS = 1_700_000_000_000
_MEDIAN = 100.0
_ITEMS = 10_000
_KEY = "key"


@dataclass(frozen=True)
class Footprint:
    """A key with `events` events in the span: the bytes of its stored state, and of each synopsis
    in it, which statistics that are kept by equal runners share.
    """

    events: int
    state_bytes: int
    synopsis_bytes: dict[Runner, int]


def measure(topology: Topology) -> list[Footprint]:
    """Return the footprints of a key with 5, 1,000 and 100,000 events in the span.

    The events lie evenly over the span; numbers are log-normal around 100 with three decimals,
    items drawn from 10,000 by Zipf's law, both the same each time. A span of fewer events is
    measured when it is full. Takes less than a second, once the kernels are loaded.
    """
    span = topology.span_length
    counts = dict.fromkeys(min(n, span.length) if span.of_events else n for n in EVENTS)
    return [_measure(topology, count) for count in counts]


def largest_state(topology: Topology, measured: Sequence[Footprint]) -> int:
    """Return the bytes of the state of a key with FORESEEN_EVENTS events in the span, or with as
    many as a span of events holds, extrapolated from `measured`.

    Sizes grow with the logarithm of the events: here half as fast again as between the last two
    measured ones, since they go up and down on the way.
    """
    span = topology.span_length
    events = min(span.length, FORESEEN_EVENTS) if span.of_events else FORESEEN_EVENTS
    *_, before, last = [Footprint(1, 0, {}), *measured]
    growth = (last.state_bytes - before.state_bytes) / max(log(last.events / before.events), 1.0)
    return last.state_bytes + max(0, round(1.5 * growth * log(events / last.events)))


def measured_of(topology: Topology) -> Topology:
    """Return what is measured of a topology: nothing is emitted or published, and none of the
    made-up events is late. Footprints are equal where this and `every` are.
    """
    never = f"{topology.times.latest} events" if topology.is_sequence else "36525d"
    return without_move(
        topology,
        every=never,
        lateness="0s",
        publish=(),
        synopses="",
        alerts=(),
        alert_headers="",
        rankings=(),
        expected=(),
        expected_topic="",
    )


def _measure(topology: Topology, count: int) -> Footprint:
    from slidestat.engine.decoding.decoder import EventDecoder
    from slidestat.engine.keys.key_state import decode_key_state
    from slidestat.engine.keys.stored_keys import NoStates
    from slidestat.engine.partition import PartitionProcessor
    from slidestat.engine.records import RecordBatch

    span_ms = topology.every_ms if topology.span_length.of_events else topology.span_length.length
    quiet = measured_of(topology)
    start_ms = min(_START_MS, topology.times.latest - span_ms)
    # A partition's first event waits for a second one.
    made = max(count, 2)
    times = start_ms + np.arange(made, dtype=np.int64) // (made // count) * span_ms // count
    made_up = [b""] * made
    batch = RecordBatch(
        quiet.source, 0, np.arange(made, dtype=np.int64), made_up, made_up, times.tolist(), 0
    )
    decoder = EventDecoder(quiet, _MadeUp(quiet, times))
    processor = PartitionProcessor(quiet, quiet.source, 0, NoStates(), decoder)
    effects = processor.process(batch)
    snapshot = processor.snapshot()
    state = snapshot.states[_KEY] if snapshot is not None else None
    if state is None or effects.dead_letters or effects.late:
        raise RuntimeError(f"the events made up for {topology.name} were not all counted")
    sizes = map(len, decode_key_state(state).synopses)
    return Footprint(
        count, len(state), dict(zip(dict.fromkeys(topology.runners), sizes, strict=True))
    )


class _MadeUp:
    """A reader of events of one key, made up: every field that the topology reads is in each, what
    is computed as well, and all conditions hold. They never were bytes: encoding and decoding them
    would take most of the time.
    """

    def __init__(self, topology: Topology, times: npt.NDArray[np.int64]) -> None:
        self._topology = topology
        self._times = times

    def read(self, records: Sequence[bytes | None]) -> "FieldColumns":
        """Return the columns, which are as long as the records."""
        from slidestat.engine.decoding.conditions import Judged
        from slidestat.engine.decoding.event_columns import FieldColumns
        from slidestat.engine.events import numbered_texts, texts

        count = len(records)
        columns = self._topology.columns
        rng = np.random.default_rng(0)
        items = {
            column.path: _items(rng, count, _named(self._topology, column.path))
            for column in columns.items
        }
        numbers = {column.path: _numbers(rng, column, count) for column in columns.numbers}
        for path in items.keys() & numbers.keys():
            items[path] = texts([f"{value:.15g}" for value in numbers[path].tolist()])
        holds = np.ones(count, bool)
        return FieldColumns(
            rows=np.arange(count, dtype=np.int64),
            keys=numbered_texts(np.zeros(count, np.int64), texts([_KEY])),
            times=self._times,
            numbers=tuple(numbers[column.path] for column in columns.numbers),
            items=tuple(items[column.path] for column in columns.items),
            judged=Judged(holds, {}, (holds,) * len(columns.conditions)),
        )


def _numbers(rng: np.random.Generator, column: Column, count: int) -> npt.NDArray[np.float64]:
    numbers = rng.lognormal(np.log(_MEDIAN), 1.0, count).round(3)
    limits = column.limits or Limits()
    return np.clip(numbers, limits.least, limits.most)


def _named(topology: Topology, path: FieldPath) -> list[str]:
    """Return the items of a field that statistics name; they count as the most frequent ones."""
    named = [
        item
        for statistic in topology.statistics
        if isinstance(statistic, Items | ItemCounts) and statistic.path(topology.value_path) == path
        for item in statistic.items
    ]
    return list(dict.fromkeys(named))


def _items(rng: np.random.Generator, count: int, named: Sequence[str]) -> "pa.Array":
    from slidestat.engine.events import numbered_texts, texts

    shares = 1 / np.arange(1, _ITEMS + 1)
    drawn = rng.choice(_ITEMS, count, p=shares / shares.sum())
    # Few events have few of them.
    different, places = np.unique(drawn, return_inverse=True)
    names = [named[i] if i < len(named) else f"item-{i}" for i in different.tolist()]
    return numbered_texts(places, texts(names))
