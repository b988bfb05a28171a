"""The fields of events that are computed from others: keys, numbers and items as columns."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.declare.columns import MAX_ITEM_LENGTH, Column
from slidestat.declare.expressions.expression import ComputedField
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.casts import ROUNDED, texts_of
from slidestat.engine.decoding.evaluation import Computed, Evaluation, error_of
from slidestat.engine.events import texts
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.synopses.core.arrays import Floats


def too_long(most: int) -> str:
    """Return why a whole number is no text of at most so many characters."""
    return f"it is a number of more than {most} characters"


_NOT_WHOLE = "it is rounded: computed numbers are exact below 2^53, whole ones below 2^100"

Errors = dict[int, tuple[Reason, str]]


class ComputedColumns(NamedTuple):
    """The computed fields of n events: their keys, numbered, if those are computed; numbers, NaN
    where there is none, and items, null where there is none, by their paths. And why some have none
    in a field, by their places, with the reason of their letters.
    """

    keys: pa.Array | None
    numbers: dict[FieldPath, Floats]
    items: dict[FieldPath, pa.Array]
    errors: dict[FieldPath, Errors]


class ComputedFields:
    """The evaluator of computed fields; an operator over two numbers costs about 10 ns an event."""

    def __init__(self, topology: Topology) -> None:
        self._computed = topology.computed_fields
        known = (field.expression for field in self._computed.values())
        self.fields = list(dict.fromkeys(field for one in known for field in one.fields))
        """The fields that they read, each with the sort that it is read as."""
        self._key = None if topology.publishes_partitions else topology.key_path
        columns = topology.columns
        self._numbers = [c for c in columns.numbers if c.path in self._computed]
        self._items = [c.path for c in columns.items if c.path in self._computed]

    def __bool__(self) -> bool:
        return bool(self._computed)

    def of(self, rows: int, columns: Mapping[tuple[FieldPath, Sort], Computed]) -> ComputedColumns:
        """Compute them for n events, `rows`, from the `columns` of what is read of them."""
        values: dict[FieldPath, Computed] = {}
        errors: dict[FieldPath, Errors] = {}
        for path, field in self._computed.items():
            known = field.expression
            of_it = {path: columns[path, sort] for path, sort in known.fields}
            values[path] = Evaluation(rows, of_it).column(known.node)
            wrong = values[path].errors
            places = [] if wrong is None else np.flatnonzero(wrong).tolist()
            errors[path] = {
                place: (Reason.NOT_COMPUTABLE, _told(field, error_of(place, known, of_it)))
                for place in places
            }
        keys = None
        if self._key in self._computed:
            field = self._computed[self._key]
            keys = texts(_keys_of(field, values[self._key], errors[self._key]))
            keys = keys.dictionary_encode()
        return ComputedColumns(
            keys,
            {column.path: _numbers_of(values[column.path], column) for column in self._numbers},
            {
                path: texts(_items_of(self._computed[path], values[path], errors[path]))
                for path in self._items
            },
            errors,
        )


def _numbers_of(values: Computed, column: Column) -> Floats:
    found: Floats = values.values.to_numpy(zero_copy_only=False).astype(np.float64)
    if values.rests is None or not column.rounds_down:
        return found
    return np.where(np.less(values.rests, 0), np.nextafter(found, -np.inf), found)


def _items_of(field: ComputedField, values: Computed, errors: Errors) -> list[str | None]:
    """Return the items; one that is too long, or rounded, becomes an error."""
    found = _texts(values)
    for place, text in enumerate(found):
        if field.sort is Sort.NUMBER and text == ROUNDED:
            errors[place] = Reason.BAD_ITEM, _told(field, _NOT_WHOLE)
            found[place] = None
        elif text is not None and len(text) > MAX_ITEM_LENGTH:
            detail = f"it has {len(text)} characters, more than {MAX_ITEM_LENGTH}"
            errors[place] = Reason.BAD_ITEM, _told(field, detail)
    return found


def _keys_of(field: ComputedField, values: Computed, errors: Errors) -> list[str]:
    """Return the keys; a value that is no key becomes an error."""
    found = _texts(values)
    for place, text in enumerate(found):
        error = _key_error(text, field.sort)
        if error and place not in errors:
            errors[place] = Reason.BAD_KEY, _told(field, error)
    return [text or "" for text in found]


def _key_error(text: str | None, sort: Sort) -> str:
    if text is None:
        return "it is NULL"
    if sort is Sort.NUMBER and text == ROUNDED:
        return _NOT_WHOLE
    if sort is Sort.NUMBER and not text.removeprefix("-").isdigit():
        return f"{text} is no whole number of at most 2^53"
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        return f"it has {len(text)} characters, not 1 to {MAX_KEY_LENGTH}"
    return ""


def _texts(values: Computed) -> list[str | None]:
    listed = values.values.to_pylist()
    rests = np.full(len(listed), 0.0 if values.rests is None else values.rests)
    return texts_of(listed, rests.tolist())


def _told(field: ComputedField, detail: str) -> str:
    return f"{field_text(field.path)}: {detail}"
