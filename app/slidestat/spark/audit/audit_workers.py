"""The part of an audit inside Spark's Python workers: read events, judge the figures of a key."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.audit_charges import ALWAYS, Charge
from slidestat.spark.audit.audit_key import Finding, KeyJudge
from slidestat.spark.audit.declaration import UNMARKED, ColumnName, Declaration
from slidestat.spark.audit.events.raw_events import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
    time_of,
)
from slidestat.spark.audit.running_audit import Emitted, KeyEvents, RunningAudit
from slidestat.spark.lake.wire_columns import struct_type

_NEVER_MS = -(2**62)
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


_Read = tuple[str | None, int | None, list[str | None]]


def text_column(number: int) -> str:
    """The name of the column with the texts of one of `Declaration.columns`."""
    return f"text_{number}"


def event_columns(declaration: Declaration) -> str:
    """The columns that `event_reader` makes of a record. Of one that is no event, key, time and
    texts are null, of one that is passed over key and texts; its time is null where it has none.
    """
    texts = "".join(f", {text_column(n)} string" for n in range(len(declaration.columns)))
    return (
        "source_partition int, source_offset long, event_key string, time_ms long,"
        f" passed_over boolean, bytes int{texts}"
    )


def event_reader(
    declaration: Declaration,
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    names = [column.split()[0] for column in event_columns(declaration).split(", ")]
    nothing: list[str | None] = [None] * len(declaration.columns)

    def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: list[_Read] = []
            passed_over: list[bool] = []
            values = batch.column("value").to_pylist()
            for record in map(
                RawRecord, batch.column("key").to_pylist(), values, batch.column("ms").to_pylist()
            ):
                passed_over.append(is_passed_over(declaration, record))
                if passed_over[-1]:
                    found.append((None, time_of(declaration, record), nothing))
                    continue
                try:
                    key, time, read = read_event(declaration, record)
                except UnreadableError:
                    found.append((None, None, nothing))
                else:
                    found.append((key, time, read))
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column("partition"),
                    batch.column("offset"),
                    pa.array([event[0] for event in found], pa.string()),
                    pa.array([event[1] for event in found], pa.int64()),
                    pa.array(passed_over, pa.bool_()),
                    pa.array([len(value or b"") for value in values], pa.int32()),
                    *(
                        pa.array([event[2][place] for event in found], pa.string())
                        for place in range(len(nothing))
                    ),
                ],
                names,
            )

    return read_batches


class Bounds(NamedTuple):
    """Of a declaration in a partition: how far it was emitted, from where on windows have all of
    their events, and where the declaration was in charge.
    """

    watermark_ms: int
    complete_from_ms: int
    charges: tuple[Charge, ...] = ALWAYS


# A partition without a counted event has no watermark: nothing is due, all is audited.
_UNBOUNDED = Bounds(_NEVER_MS, _NEVER_MS)


# What an audit reads of a key, in this order: of events and of emissions alike where they stand in
# time, an emission at its windows' end and before the events of that moment; and their places.
SORTED_COLUMNS = ("source_partition", "event_key", "at", "is_event", "place")
_FINDINGS_TOGETHER = 4_096
_Place = tuple[int, str]


def auditor(
    declarations: Mapping[str, Declaration], bounds: Mapping[tuple[int, str], Bounds]
) -> Auditor:
    """The audit of keys that come one after another, sorted by `SORTED_COLUMNS`, by declarations
    that read the same of events, each under its fingerprint; emissions of others are let be.
    `bounds` are by partition and fingerprint.
    """
    names = next(iter(declarations.values())).columns

    def begin(place: _Place) -> list[RunningAudit]:
        partition, name = place
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

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[Finding]:
        place: _Place | None = None
        audits: list[RunningAudit] = []
        for batch in batches:
            for of_place, events, emitted, reached_ms in _pieces(batch, names):
                if of_place != place:
                    for audit in audits:
                        yield from audit.end()
                    place, audits = of_place, begin(of_place)
                for audit in audits:
                    yield from audit.go_on(events, emitted, reached_ms)
        for audit in audits:
            yield from audit.end()

    def audit_sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = findings(batches)
        while some := list(islice(found, _FINDINGS_TOGETHER)):
            yield from _table(some).to_batches()

    return audit_sorted


def _pieces(
    batch: pa.RecordBatch, names: Sequence[ColumnName]
) -> Iterator[tuple[_Place, KeyEvents, list[Emitted], int]]:
    """Yield what a batch has of each key, and the moment that it goes up to."""
    if not batch.num_rows:
        return
    partitions, keys = batch.column("source_partition"), batch.column("event_key")
    is_other = pc.or_(
        pc.not_equal(keys[1:], keys[:-1]), pc.not_equal(partitions[1:], partitions[:-1])
    )
    starts = np.flatnonzero(is_other.to_numpy(zero_copy_only=False)) + 1
    edges = [0, *starts.tolist(), batch.num_rows]
    at, places = batch.column("at").to_numpy(), batch.column("place").to_numpy()
    is_event = batch.column("is_event").to_numpy(zero_copy_only=False)
    texts = [batch.column(text_column(number)) for number in range(len(names))]
    for start, stop in pairwise(edges):
        own = slice(start, stop)
        chosen = is_event[own]
        of_events = pa.array(chosen)
        columns = {
            name: column[own].filter(of_events) for name, column in zip(names, texts, strict=True)
        }
        emitted = [
            Emitted(
                int(at[row]),
                int(places[row]),
                batch.column("value")[row].as_py(),
                batch.column("declaration")[row].as_py(),
            )
            for row in (np.flatnonzero(~chosen) + start).tolist()
        ]
        events = KeyEvents(at[own][chosen], places[own][chosen], columns)
        yield (partitions[start].as_py(), keys[start].as_py()), events, emitted, int(at[stop - 1])


def _table(findings: list[Finding]) -> pa.Table:
    rows = [
        FigureRow(finding.key, finding.window_end_ms, finding.provisional, finding.violation)
        if finding.figure is None
        else _row(finding, finding.figure)
        for finding in findings
    ]
    columns = {name: [getattr(row, name) for row in rows] for name in FigureRow.__struct_fields__}
    return pa.table(columns, schema=_arrow_schema())


def _row(finding: Finding, figure: Figure) -> FigureRow:
    of_figure = {
        name: getattr(figure, name)
        for name in FigureRow.__struct_fields__
        if name in Figure.__struct_fields__
    }
    row = FigureRow(
        finding.key, finding.window_end_ms, finding.provisional, finding.violation, **of_figure
    )
    verdict = finding.verdict
    if verdict is None:
        return row
    return msgspec.structs.replace(
        row,
        exact=None if verdict.exact is None else float(verdict.exact),
        events=verdict.events,
        unit=verdict.unit,
        promised=verdict.promised,
        observed=verdict.observed,
    )


def _arrow_schema() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(struct_type(FigureRow))
