"""How large a key's state is: measured, by running the topology's synopses on made-up events.

A bound on paper would be for the worst case; the size for a key depends on how many events it has
in the span, so that number is varied.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import Column, Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics import Items
from slidestat.declare.statistics.runner import Runner
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder, as_made_up
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch

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


def _measure(topology: Topology, count: int) -> Footprint:
    span_ms = topology.every_ms if topology.span_length.of_events else topology.span_length.length
    # Nothing is emitted or published, and none of the made-up events is late.
    never = f"{topology.times.latest} events" if topology.is_sequence else "36525d"
    quiet = replace(topology, every=never, lateness="0s", publish=(), alerts=(), repartition=False)
    start_ms = min(_START_MS, topology.times.latest - span_ms)
    # A partition's first event waits for a second one.
    made = max(count, 2)
    times = start_ms + np.arange(made, dtype=np.int64) // (made // count) * span_ms // count
    records = _records(quiet, times)
    offsets = np.arange(made, dtype=np.int64)
    batch = RecordBatch(
        topology.source,
        0,
        offsets,
        [_KEY.encode()] * made,
        records,
        times.tolist(),
        start_offset=0,
    )
    decoder = _Unconditional(quiet)
    processor = PartitionProcessor(quiet, topology.source, 0, _NoStore(), decoder)
    effects = processor.process(batch)
    snapshot = processor.snapshot()
    state = snapshot.states[_KEY] if snapshot is not None else None
    if state is None or effects.dead_letters or effects.late:
        raise RuntimeError(f"the events made up for {topology.name} were not all counted")
    sizes = map(len, decode_key_state(state).synopses)
    return Footprint(
        count, len(state), dict(zip(dict.fromkeys(topology.runners), sizes, strict=True))
    )


def _records(topology: Topology, times: npt.NDArray[np.int64]) -> list[bytes]:
    """Return events at `times` of one key, with every field that the topology reads."""
    rng = np.random.default_rng(0)
    values: dict[FieldPath, Iterable[object]] = {
        column.path: _items(rng, len(times), _named(topology, column.path))
        for column in topology.columns.items
    }
    values |= {
        column.path: _numbers(rng, column, len(times)) for column in topology.columns.numbers
    }
    if topology.time_path is not None:
        values[topology.time_path] = map(topology.times.written, times.tolist())
    if topology.key_path is not None:
        values[topology.key_path] = [_KEY] * len(times)
    if not values:  # Nothing is read but what Kafka keeps of a record.
        return [b"{}"] * len(times)
    encode = msgspec.json.encode
    return [
        encode(_nested(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True)
    ]


def _numbers(rng: np.random.Generator, column: Column, count: int) -> list[float]:
    numbers = rng.lognormal(np.log(_MEDIAN), 1.0, count).round(3)
    limits = column.limits or Limits()
    clipped: list[float] = np.clip(numbers, limits.least, limits.most).tolist()
    return clipped


def _named(topology: Topology, path: FieldPath) -> list[str]:
    """Return the items of a field that statistics name, which are taken as the most frequent
    ones.
    """
    named = [
        item
        for statistic in topology.statistics
        if isinstance(statistic, Items) and statistic.path(topology.value_path) == path
        for item in statistic.items
    ]
    return list(dict.fromkeys(named))


def _items(rng: np.random.Generator, count: int, named: Sequence[str]) -> list[str]:
    shares = 1 / np.arange(1, _ITEMS + 1)
    drawn = rng.choice(_ITEMS, count, p=shares / shares.sum()).tolist()
    return [named[i] if i < len(named) else f"item-{i}" for i in drawn]


def _nested(fields: Iterable[tuple[FieldPath, object]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for path, value in fields:
        inner = record
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return record


class _Unconditional(EventDecoder):
    """A decoder of events that takes all conditions as true, and computed fields as if they were in
    the records.
    """

    def __init__(self, topology: Topology) -> None:
        every = [replace(statistic, where="") for statistic in topology.statistics]
        super().__init__(replace(as_made_up(topology), where="", statistics=every))
        self._count = len(topology.columns.conditions)

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: npt.ArrayLike = (),
    ) -> EventColumns:
        columns = super().decode(records, keys, timestamps)
        holds = np.ones(len(columns.rows), bool)
        return replace(columns, conditions=(holds,) * self._count)


class _NoStore:
    """The store of a partition that is new."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(self, _start: str = "") -> Iterator[tuple[str, bytes]]:
        return iter(())

    def checkpoint(self) -> bytes | None:
        return None


# Format the memory of a key for people.

_UNITS = ("bytes", "kB", "MB", "GB")


def footprint_line(topology: Topology, measured: Iterable[Footprint]) -> str:
    """Return one line on the memory of a key, for the one who starts a worker."""
    sizes = ", ".join(
        f"{bytes_text(footprint.state_bytes)} with {footprint.events:,}" for footprint in measured
    )
    kept = "" if topology.sees_span_alone else f"; keys are kept {keeping_text(topology)}"
    return f"{topology.name}: memory of a key by its events in the span, measured: {sizes}{kept}"


def keeping_text(topology: Topology) -> str:
    """Return how long the state of a key is kept, and why, if that is for ever."""
    if topology.forget_ms is not None:
        return f"until the last event is {topology.forget_after or topology.span} old"
    if topology.span_length.of_events:
        return f"for ever: the last {topology.span} of a key never leave its window"
    labelled = zip(topology.labels, topology.statistics, strict=True)
    landmarks = ", ".join(label for label, statistic in labelled if statistic.is_landmark)
    return f"for ever: {landmarks} tells of all events since the first"


def bytes_text(count: int) -> str:
    """Return a size to two or three digits: 285 bytes, 4.2 kB, 354 kB."""
    size = float(count)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            break
        size /= 1_000
    digits = 1 if unit != _UNITS[0] and size < 9.95 else 0
    return f"{size:.{digits}f} {unit}"
