"""The fields of records, as a reader gives them: which of the events count is not known yet."""

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
from slidestat.engine.decoding.event_columns import Refusal
from slidestat.engine.events import joined_texts

Int64s = npt.NDArray[np.int64]
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

    rows: Int64s
    keys: pa.Array | None
    times: Int64s | None
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[pa.Array, ...]
    judged: Judged | None = None
    errors: dict[FieldPath, Errors] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    passed_over: list[int] = field(default_factory=list)


class RecordReader(Protocol):
    """A reader of records, field by field."""

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of the readable records and a refusal for each of the others; never
        raises.
        """
        ...


class Interleaving:
    """A merge of the columns of two groups of records, in order of the records' `rows` int64[m]."""

    def __init__(self, first: Int64s, second: Int64s) -> None:
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


def placed_at(rows: Int64s, columns: FieldColumns) -> FieldColumns:
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
    first: Mapping[int, Why], second: Mapping[int, Why], order: Int64s, shift: int
) -> dict[int, Why]:
    """Return values by place of both, in that order: the places of the second come after `shift` of
    the first.
    """
    if not first and not second:
        return {}
    place_of = np.argsort(order).tolist()
    shifted = {place + shift: why for place, why in second.items()}
    return {place_of[place]: why for place, why in ({**first} | shifted).items()}
