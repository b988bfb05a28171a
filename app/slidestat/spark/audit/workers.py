"""The part of an audit inside Spark's Python workers that judges the figures of each key."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import (
    ALWAYS,
    FOREVER_MS,
    UNMARKED,
    Charge,
    ColumnName,
    Declaration,
)
from slidestat.spark.audit.events.runs import Run, unpack
from slidestat.spark.audit.key import Emitted, Finding, KeyEvents, KeyJudge, RunningAudit
from slidestat.spark.lake.wire_columns import arrow_schema, struct_type

# Events of a key that others may yet come before: its runs are in order, and overlap.


class WaitingEvents:
    """A queue that orders the events of runs by time, and by places where times are equal. It holds
    the events behind the beginning of the last run: as many as the source is out of order, and one
    batch.
    """

    def __init__(self, texts: int) -> None:
        nothing = np.zeros(0, np.int64)
        self._nothing = Run(nothing, nothing, [pa.array([], pa.string())] * texts)
        self._events = self._nothing

    def next(self, events: Run, until_ms: int) -> Run:
        """Take further events, none of them before those that were given out, and give out in
        order what lies before `until_ms`; no event comes from before that any more.
        """
        known = _in_order(_joined(self._events, events))
        count = int(np.searchsorted(known.times, until_ms))
        self._events = _part(known, slice(count, None))
        return _part(known, slice(0, count))

    def rest(self) -> Run:
        """Give out all that waits."""
        events, self._events = self._events, self._nothing
        return events


def _joined(first: Run, second: Run) -> Run:
    if not len(first.times) or not len(second.times):
        return first if len(first.times) else second
    return Run(
        np.concatenate([first.times, second.times]),
        np.concatenate([first.places, second.places]),
        [pa.concat_arrays(both) for both in zip(first.texts, second.texts, strict=True)],
    )


def _in_order(events: Run) -> Run:
    later, same = np.diff(events.times), np.diff(events.places)
    if np.all((later > 0) | ((later == 0) & (same >= 0))):
        return events
    order = np.lexsort((events.places, events.times))
    place = pa.array(order)
    texts = [column.take(place) for column in events.texts]
    return Run(events.times[order], events.places[order], texts)


def _part(events: Run, rows: slice) -> Run:
    return Run(events.times[rows], events.places[rows], [column[rows] for column in events.texts])


Auditor = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""A task of `mapInArrow`."""


class FigureRow(msgspec.Struct, frozen=True):
    """A row of an audit: `fault` is empty if all is well; without a figure, `statistic` is null."""

    event_key: str
    window_end_ms: int
    provisional: bool
    fault: str
    statistic: str | None = None
    window_ms: int | None = None
    window_events: int | None = None
    quantile: float | None = None
    item: str | None = None
    at_least: float | None = None
    below: float | None = None
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    exact: float | None = None
    events: int | None = None
    unit: str | None = None
    promised: float | None = None
    observed: float | None = None
    window: str | None = None


class Bounds(NamedTuple):
    """The bounds of a declaration in a partition: up to when it was emitted, from when windows have
    all of their events, and where the declaration was in charge.
    """

    watermark_ms: int
    complete_from_ms: int
    charges: tuple[Charge, ...] = ALWAYS


# A partition without a counted event has no watermark: nothing is due, all is audited.
_UNBOUNDED = Bounds(-FOREVER_MS, -FOREVER_MS)


# The columns by which an audit reads a key, in this order: runs of events by their first event,
# emissions at their windows' end and before the events of that moment; and their places on the
# topic.
SORTED_COLUMNS = ("source_partition", "event_key", "at", "is_event", "place")
FINDINGS_TOGETHER = 4_096
_Place = tuple[int, str]


class Followed(Protocol):
    """A key whose events and emissions go by in order of time (`RunningAudit`)."""

    def go_on(
        self, events: KeyEvents, emitted: Iterable[Emitted], reached_ms: int
    ) -> Iterator[Any]:
        """Take the next events and emissions, up to `reached_ms`, and yield what is found."""

    def end(self, events: KeyEvents) -> Iterator[Any]:
        """Take the last events, and yield what is found."""


def auditor(
    declarations: Mapping[str, Declaration], bounds: Mapping[tuple[int, str], Bounds]
) -> Auditor:
    """Return the audit of keys that come one after another, sorted by `SORTED_COLUMNS`, by
    declarations that read the same of events, each under its fingerprint; emissions of others are
    ignored. `bounds` are by partition and fingerprint.
    """

    def begin(partition: int, name: str) -> list[RunningAudit]:
        return [
            RunningAudit(
                KeyJudge(
                    declaration,
                    name,
                    *bounds.get((partition, mark), _UNBOUNDED),
                    is_marked=mark != UNMARKED,
                ),
                mark,
            )
            for mark, declaration in declarations.items()
        ]

    def audit_sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = next(iter(declarations.values())).columns
        found = followed(batches, names, begin)
        while some := list(islice(found, FINDINGS_TOGETHER)):
            yield from finding_table(some).to_batches()

    return audit_sorted


def followed(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[ColumnName],
    begin: Callable[[int, str], Sequence[Followed]],
) -> Iterator[Any]:
    """Yield what is found of keys that come one after another, sorted by `SORTED_COLUMNS`, by those
    that `begin` returns for the partition and the name of each.
    """

    def columns_of(run: Run) -> KeyEvents:
        return KeyEvents(run.times, run.places, dict(zip(names, run.texts, strict=True)))

    place: _Place | None = None
    waiting = WaitingEvents(len(names))
    audits: Sequence[Followed] = []
    for batch in batches:
        for piece in _pieces(batch, len(names)):
            if piece.place != place:
                yield from _ended(audits, columns_of(waiting.rest()))
                place, audits = piece.place, begin(*piece.place)
            events = columns_of(waiting.next(piece.events, piece.reached_ms))
            for audit in audits:
                yield from audit.go_on(events, piece.emitted, piece.reached_ms)
    yield from _ended(audits, columns_of(waiting.rest()))


def _ended(audits: Iterable[Followed], last: KeyEvents) -> Iterator[Any]:
    for audit in audits:
        yield from audit.end(last)


class _Piece(NamedTuple):
    """A part of a key: the events of its runs, and its emissions, which go up to `reached_ms`;
    events beyond that may be followed by others.
    """

    place: _Place
    events: Run
    emitted: list[Emitted]
    reached_ms: int


def _pieces(batch: pa.RecordBatch, texts: int) -> Iterator[_Piece]:
    """Yield what a batch has of each key."""
    if not batch.num_rows:
        return
    partitions, keys = batch.column("source_partition"), batch.column("event_key")
    is_other = pc.or_(
        pc.not_equal(keys[1:], keys[:-1]), pc.not_equal(partitions[1:], partitions[:-1])
    )
    starts = np.flatnonzero(is_other.to_numpy(zero_copy_only=False)) + 1
    edges = [0, *starts.tolist(), batch.num_rows]
    at, is_event = batch.column("at"), batch.column("is_event").to_numpy(zero_copy_only=False)
    places, values = batch.column("place"), batch.column("value")
    marks = batch.column("declaration")
    for start, stop in pairwise(edges):
        emitted = [
            Emitted(at[row].as_py(), places[row].as_py(), values[row].as_py(), marks[row].as_py())
            for row in (np.flatnonzero(~is_event[start:stop]) + start).tolist()
        ]
        place = partitions[start].as_py(), keys[start].as_py()
        events = unpack(batch.slice(start, stop - start), texts)
        yield _Piece(place, events, emitted, at[stop - 1].as_py())


_NO_FIGURE = Figure("", None, None, None)
_OF_FIGURE = [n for n in FigureRow.__struct_fields__ if n in Figure.__struct_fields__]
_FIGURE = attrgetter(*_OF_FIGURE)


def finding_table(findings: Sequence[Finding]) -> pa.Table:
    """Return a table of `FigureRow`."""
    figures = [_FIGURE(finding.figure or _NO_FIGURE) for finding in findings]
    verdicts = [finding.verdict for finding in findings]
    columns = {
        "event_key": [finding.key for finding in findings],
        "window_end_ms": [finding.window_end_ms for finding in findings],
        "provisional": [finding.provisional for finding in findings],
        "fault": [finding.violation for finding in findings],
        **{name: [it[place] for it in figures] for place, name in enumerate(_OF_FIGURE)},
        "exact": [None if it is None or it.exact is None else float(it.exact) for it in verdicts],
        **{
            name: [None if it is None else getattr(it, name) for it in verdicts]
            for name in ("events", "unit", "promised", "observed")
        },
    }
    columns["statistic"] = [it.figure and it.figure.statistic for it in findings]
    columns["confidence"] = [it.figure and it.figure.confidence for it in findings]
    return pa.table(columns, schema=_schema())


@lru_cache(maxsize=1)
def _schema() -> pa.Schema:
    return arrow_schema(struct_type(FigureRow))
