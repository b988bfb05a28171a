"""The fields of records, as a reader gives them: which of the events count is not known yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

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


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """The fields of the readable records, which stand at `rows` int64[m], rising: `keys` m texts,
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
    """Reads records field by field."""

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """The fields of the records that can be read, and what is wrong with the others; never
        raises.
        """
        ...


def interleaved(first: FieldColumns, second: FieldColumns) -> FieldColumns:
    """The records of both, in order of their rows."""
    both = np.concatenate((first.rows, second.rows))
    order = np.argsort(both, kind="stable")  # It sees that both rise.
    places = pa.array(order)

    def texts(pair: tuple[pa.Array, pa.Array]) -> pa.Array:
        return joined_texts(pair).take(places)

    judged = None
    if first.judged is not None and second.judged is not None:
        judged = _both(first.judged, second.judged, order)
    return FieldColumns(
        rows=both[order],
        keys=None if first.keys is None else texts((first.keys, second.keys)),
        times=None
        if first.times is None or second.times is None
        else np.concatenate((first.times, second.times))[order],
        numbers=tuple(
            np.concatenate(pair)[order] for pair in zip(first.numbers, second.numbers, strict=True)
        ),
        items=tuple(map(texts, zip(first.items, second.items, strict=True))),
        judged=judged,
        errors={
            path: _placed(errors, second.errors[path], order, len(first.rows))
            for path, errors in first.errors.items()
        },
        refusals=sorted([*first.refusals, *second.refusals], key=lambda refusal: refusal.row),
        passed_over=sorted([*first.passed_over, *second.passed_over]),
    )


def placed_at(rows: Int64s, columns: FieldColumns) -> FieldColumns:
    """Say of what was read that its records are at these rows."""
    return replace(
        columns,
        rows=rows[columns.rows],
        refusals=[replace(refusal, row=int(rows[refusal.row])) for refusal in columns.refusals],
        passed_over=rows[columns.passed_over].tolist() if columns.passed_over else [],
    )


def _both(first: Judged, second: Judged, order: Int64s) -> Judged:
    """Put together what was judged of both, in another order than one after another."""
    return Judged(
        np.concatenate((first.counted, second.counted))[order],
        _placed(first.errors, second.errors, order, len(first.counted)),
        tuple(
            np.concatenate(pair)[order]
            for pair in zip(first.conditions, second.conditions, strict=True)
        ),
    )


def _placed(
    first: Mapping[int, Why], second: Mapping[int, Why], order: Int64s, shift: int
) -> dict[int, Why]:
    """Say of places of both, the second's behind `shift` of the first, in that order."""
    if not first and not second:
        return {}
    place_of = np.argsort(order).tolist()
    shifted = {place + shift: why for place, why in second.items()}
    return {place_of[place]: why for place, why in ({**first} | shifted).items()}
