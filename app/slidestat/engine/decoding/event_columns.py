"""The result of decoding a batch: columns of events, refusals, and records passed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.fields import FieldPath
from slidestat.engine.decoding.computed_columns import Errors
from slidestat.engine.decoding.conditions import Judged
from slidestat.engine.events import joined_texts
from slidestat.engine.records import NO_TIME
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import remark_on_seconds
from slidestat.synopses.core.arrays import Integers


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot be counted: its row in the batch, and why."""

    row: int
    reason: Reason
    detail: str


def _no_rows() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Readable events: `rows` int64[m] in the batch, `keys` m texts, numbered or plain, `times`
    int64[m], `numbers` float64[m] and `items` m texts for each of the topology's columns, NaN and
    null where an event lacks the field, `conditions` bool[m] for each of its conditions; the
    refusals; and the other rows of the batch, which the topology does not count, `passed_over`
    int64[p], with their times, NO_TIME where they have none.
    """

    rows: npt.NDArray[np.int64]
    keys: pa.Array
    times: npt.NDArray[np.int64]
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[pa.Array, ...]
    refusals: list[Refusal]
    conditions: tuple[npt.NDArray[np.bool_], ...] = ()
    passed_over: npt.NDArray[np.int64] = field(default_factory=_no_rows)
    passed_over_times: npt.NDArray[np.int64] = field(default_factory=_no_rows)


def refuse_future(columns: EventColumns, timestamps: npt.ArrayLike, ahead: int) -> EventColumns:
    """Refuse the events whose time lies more than `ahead` ms after their record's timestamp; what
    is passed over has no time there.

    `timestamps` are those of all records of the batch; one that is not positive is ignored.
    """
    stamps = np.asarray(timestamps, np.int64)
    by, wrong = _ahead(columns.times, stamps[columns.rows], ahead)
    _, no_times = _ahead(columns.passed_over_times, stamps[columns.passed_over], ahead)
    if no_times.any():
        times = np.where(no_times, NO_TIME, columns.passed_over_times)
        columns = replace(columns, passed_over_times=times)
    if not wrong.any():
        return columns
    refusals = [
        Refusal(
            row,
            Reason.FROM_THE_FUTURE,
            f"{ms} ms after the record's own timestamp{remark_on_seconds(stamp)}",
        )
        for row, ms, stamp in zip(
            columns.rows[wrong].tolist(),
            by[wrong].tolist(),
            stamps[columns.rows[wrong]].tolist(),
            strict=True,
        )
    ]
    return without(columns, dict(zip(np.flatnonzero(wrong).tolist(), refusals, strict=True)))


def _ahead(
    times: npt.NDArray[np.int64], stamps: npt.NDArray[np.int64], ahead: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return by how much times lie after their timestamps, and where that is too much."""
    by = times - stamps
    return by, (by > ahead) & (stamps > 0)


def without(
    columns: EventColumns,
    errors: Mapping[int, Refusal],
    others: Sequence[int] | npt.NDArray[np.int64] = (),
) -> EventColumns:
    """Return the columns without events at the places of `errors`, refused, and at `others`."""
    kept = np.ones(len(columns.rows), bool)
    kept[[*errors]] = False
    kept[np.asarray(others, np.int64)] = False
    if kept.all():
        return columns
    places = np.flatnonzero(kept)
    taken = pa.array(places)
    return replace(
        columns,
        rows=columns.rows[places],
        keys=columns.keys.take(taken),
        times=columns.times[places],
        numbers=tuple(column[places] for column in columns.numbers),
        items=tuple(column.take(taken) for column in columns.items),
        refusals=sorted([*columns.refusals, *errors.values()], key=lambda refusal: refusal.row),
        conditions=tuple(column[places] for column in columns.conditions),
    )


# The fields of records, as a reader gives them: which of the events count is not known yet.

Why = TypeVar("Why")
Array = TypeVar("Array", bound=npt.NDArray[Any])


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """The fields of the readable records, whose rows are `rows` int64[m], rising: `keys` m texts,
    numbered, and `times` int64[m] milliseconds, None where the records' own are asked for;
    `numbers` float64[m] and `items` m texts for each of the topology's columns, NaN and null where
    a record lacks the field; how the topology's conditions `judged` them, None if it has none; and
    why some have nothing in a computed field, by its path and their places: `errors`. And of the
    other records the refusals, by rows, and the rows that the topology does not count,
    `passed_over`.
    """

    rows: Integers
    keys: pa.Array | None
    times: Integers | None
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[pa.Array, ...]
    judged: Judged | None = None
    errors: dict[FieldPath, Errors] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    passed_over: list[int] = field(default_factory=list)


class RecordReader(Protocol):
    """A reader of records, field by field."""

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of readable records, and a refusal for each other one; never raises."""
        ...


class Interleaving:
    """A merge of the columns of two groups of records, in order of the records' `rows` int64[m]."""

    def __init__(self, first: Integers, second: Integers) -> None:
        both = np.concatenate((first, second))
        self.order = np.argsort(both, kind="stable")  # It sees that both rise.
        self.rows = both[self.order]

    def arrays(self, first: Array, second: Array) -> Array:
        """Put two NumPy arrays in order."""
        return cast(Array, np.concatenate((first, second))[self.order])

    def texts(self, first: pa.Array, second: pa.Array) -> pa.Array:
        """Put two columns of texts in order, numbered if one of them is."""
        return joined_texts((first, second)).take(pa.array(self.order))


def interleaved(first: FieldColumns, second: FieldColumns) -> FieldColumns:
    """Return the records of both, in order of their rows."""
    both = Interleaving(first.rows, second.rows)
    judged = None
    if first.judged is not None and second.judged is not None:
        judged = _both(first.judged, second.judged, both)
    return FieldColumns(
        rows=both.rows,
        keys=None if first.keys is None else both.texts(first.keys, second.keys),
        times=None
        if first.times is None or second.times is None
        else both.arrays(first.times, second.times),
        numbers=tuple(starmap(both.arrays, zip(first.numbers, second.numbers, strict=True))),
        items=tuple(starmap(both.texts, zip(first.items, second.items, strict=True))),
        judged=judged,
        errors={
            path: _placed(errors, second.errors[path], both.order, len(first.rows))
            for path, errors in first.errors.items()
        },
        refusals=sorted([*first.refusals, *second.refusals], key=lambda refusal: refusal.row),
        passed_over=sorted([*first.passed_over, *second.passed_over]),
    )


def placed_at(rows: Integers, columns: FieldColumns) -> FieldColumns:
    """Return columns that were read, with these rows for their records."""
    return replace(
        columns,
        rows=rows[columns.rows],
        refusals=[replace(refusal, row=int(rows[refusal.row])) for refusal in columns.refusals],
        passed_over=rows[columns.passed_over].tolist() if columns.passed_over else [],
    )


def _both(first: Judged, second: Judged, both: Interleaving) -> Judged:
    """Merge the outcomes of the conditions for both."""
    return Judged(
        both.arrays(first.counted, second.counted),
        _placed(first.errors, second.errors, both.order, len(first.counted)),
        tuple(starmap(both.arrays, zip(first.conditions, second.conditions, strict=True))),
    )


def _placed(
    first: Mapping[int, Why], second: Mapping[int, Why], order: Integers, shift: int
) -> dict[int, Why]:
    """Return the values of both by place; the second's places come after `shift` of the first."""
    if not first and not second:
        return {}
    place_of = np.argsort(order).tolist()
    shifted = {place + shift: why for place, why in second.items()}
    return {place_of[place]: why for place, why in ({**first} | shifted).items()}
