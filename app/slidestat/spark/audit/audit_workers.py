"""The part of an audit inside Spark's Python workers: read events, judge the figures of a key."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.audit_charges import ALWAYS, Charge
from slidestat.spark.audit.audit_events import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
    time_of,
)
from slidestat.spark.audit.audit_key import Finding, audit_key, newest
from slidestat.spark.audit.declaration import UNMARKED, Declaration
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.lake.wire_columns import struct_type

# Of a record that is no event, key, time and texts are null, of one that is passed over key and
# texts; its time is null where it has none.
EVENT_COLUMNS = (
    "source_partition int, source_offset long, event_key string, time_ms long, "
    "texts array<string>, passed_over boolean, bytes int"
)
EVENT_NAMES = [column.split()[0] for column in EVENT_COLUMNS.split(", ")]
_NEVER_MS = -(2**62)


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


_Read = tuple[str | None, int | None, list[str | None] | None]


def event_reader(
    declaration: Declaration,
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
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
                    found.append((None, time_of(declaration, record), None))
                    continue
                try:
                    key, time, read = read_event(declaration, record)
                except UnreadableError:
                    found.append((None, None, None))
                else:
                    found.append((key, time, read))
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column("partition"),
                    batch.column("offset"),
                    pa.array([event[0] for event in found], pa.string()),
                    pa.array([event[1] for event in found], pa.int64()),
                    pa.array([event[2] for event in found], pa.list_(pa.string())),
                    pa.array(passed_over, pa.bool_()),
                    pa.array([len(value or b"") for value in values], pa.int32()),
                ],
                EVENT_NAMES,
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


def auditor(
    declarations: Mapping[str, Declaration], bounds: Mapping[tuple[int, str], Bounds]
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The audit of a key by declarations that read the same of events, each under its fingerprint;
    emissions of others are let be. `bounds` are by partition and fingerprint.
    """

    def audit(events: pa.Table, emitted: pa.Table) -> pa.Table:
        side = events if events.num_rows else emitted
        partition, name = (side[c][0].as_py() for c in ("source_partition", "event_key"))
        key = _key(next(iter(declarations.values())), events)
        marks = emitted["declaration"].to_numpy(zero_copy_only=False)
        ticks = emitted["window_end_ms"].to_numpy()
        findings: list[Finding] = []
        for mark, declaration in declarations.items():
            is_own = marks == mark
            emissions, violations = newest(_placed(emitted.filter(pa.array(is_own))))
            of_it = bounds.get((partition, mark), _UNBOUNDED)
            found = audit_key(
                declaration,
                key,
                name,
                emissions,
                *of_it,
                ticks[~is_own].tolist(),
                is_marked=mark != UNMARKED,
            )
            findings += (*violations, *found)
        return _table(findings)

    return audit


def _placed(emitted: pa.Table) -> Iterable[tuple[int, bytes]]:
    return zip(emitted["place"].to_pylist(), emitted["value"].to_pylist(), strict=True)


def _key(declaration: Declaration, events: pa.Table) -> ExactKey:
    times = events["time_ms"].to_numpy()
    offsets = events["source_offset"].to_numpy()
    order = np.lexsort((offsets, times))
    texts = events["texts"].to_pylist()
    columns = {
        name: [texts[row][place] for row in order.tolist()]
        for place, name in enumerate(declaration.columns)
    }
    return ExactKey(times[order], offsets[order], columns)


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
