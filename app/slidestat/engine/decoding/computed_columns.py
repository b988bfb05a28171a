"""The fields of events that are computed from others: keys, numbers and items as columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.expressions.computed_field import ComputedField
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Evaluation
from slidestat.engine.decoding.field_values import FieldValues, fault_of
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]

# Whole doubles below it are the whole numbers that they look like.
_EXACT = 2**53


class ComputedColumn(NamedTuple):
    """The values of a computed field in n events, null where there is none; and why some have none,
    by their places, with the reason of their letters.
    """

    values: pa.Array
    faults: dict[int, tuple[Reason, str]]


class ComputedColumns:
    """Computes the computed fields of a topology. An operator over two numbers costs about 10 ns an
    event, reading a field for it 30 to 70.
    """

    def __init__(self, topology: Topology, record: type[msgspec.Struct]) -> None:
        self._fields = topology.computed_fields
        self._values = FieldValues(
            topology, record, [field.expression for field in self._fields.values()]
        )
        self._chosen_by = topology.chosen_computed

    def of(
        self, events: Sequence[Any], numbers: Mapping[FieldPath, Float64s]
    ) -> dict[FieldPath, ComputedColumn]:
        """Each computed field of events, as the decoder's type has them; `numbers` are those that
        are read already.
        """
        columns = self._values.of(events, numbers)
        found = {}
        for path, field in self._fields.items():
            of_it = {path: columns[path, sort] for path, sort in field.expression.fields}
            values, wrong = Evaluation(len(events), of_it).column(field.expression.node)
            places = [] if wrong is None else np.flatnonzero(wrong).tolist()
            found[path] = ComputedColumn(
                values,
                {
                    place: (
                        Reason.NOT_COMPUTABLE,
                        _told(field, fault_of(place, field.expression, of_it)),
                    )
                    for place in places
                },
            )
        return found

    def faults(
        self, columns: Mapping[FieldPath, ComputedColumn], conditions: Sequence[Bools]
    ) -> Iterator[tuple[int, Reason, str]]:
        """The places of events that cannot be counted, and why: those without a value in a field
        that somebody takes of them, by the topology's `conditions`.
        """
        for path, column in columns.items():
            chosen_by = self._chosen_by.get(path)
            for place, (reason, detail) in sorted(column.faults.items()):
                if chosen_by is None or any(conditions[known][place] for known in chosen_by):
                    yield place, reason, detail


def numbers_of(column: ComputedColumn) -> Float64s:
    """A computed column as numbers, NaN where there is none."""
    found: Float64s = column.values.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def items_of(field: ComputedField, column: ComputedColumn) -> list[str | None]:
    """A computed column as items; one that is too long is a fault from then on."""
    texts = _texts(column.values)
    for place, text in enumerate(texts):
        if text is not None and len(text) > MAX_ITEM_LENGTH:
            detail = f"it has {len(text)} characters, more than {MAX_ITEM_LENGTH}"
            column.faults[place] = Reason.BAD_ITEM, _told(field, detail)
    return texts


def keys_of(field: ComputedField, column: ComputedColumn) -> list[str]:
    """A computed column as keys; what is none is a fault from then on."""
    texts = _texts(column.values)
    for place, text in enumerate(texts):
        fault = _key_fault(text, field.sort)
        if fault and place not in column.faults:
            column.faults[place] = Reason.BAD_KEY, _told(field, fault)
    return [text or "" for text in texts]


def _key_fault(text: str | None, sort: Sort) -> str:
    if text is None:
        return "it is NULL"
    if sort is Sort.NUMBER and not text.removeprefix("-").isdigit():
        return f"{text} is no whole number of at most 2^53"
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        return f"it has {len(text)} characters, not 1 to {MAX_KEY_LENGTH}"
    return ""


def _texts(values: pa.Array) -> list[str | None]:
    """Texts as they are, numbers and truth values as in JSON, whole numbers as such."""
    listed: list[Any] = values.to_pylist()
    if pa.types.is_floating(values.type):
        listed = [
            int(x) if x is not None and x.is_integer() and abs(x) < _EXACT else x for x in listed
        ]
    return [
        value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in listed
    ]


def _told(field: ComputedField, detail: str) -> str:
    return f"{field_text(field.path)}: {detail}"
