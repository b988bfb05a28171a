"""The fields of structs that expressions read, as columns of Arrow.

Fields are read by the reader's own type while they are of the sorts that the expressions ask for;
what is of another sort is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Computed, doubles
from slidestat.engine.decoding.record_type import expression_paths, reader

Float64s = npt.NDArray[np.float64]

_TYPES: dict[Sort, frozenset[type]] = {
    Sort.NUMBER: frozenset((int, float)),
    Sort.TEXT: frozenset((str,)),
    Sort.TRUTH: frozenset((bool,)),
}
_LARGEST = int(np.finfo(np.float64).max)
_ARROW = {Sort.NUMBER: pa.float64(), Sort.TEXT: pa.large_string(), Sort.TRUTH: pa.bool_()}


class StructValues:
    """Reads `fields`, each with a sort, from structs of the type `record`. A number that no
    statistic reads costs 30 ns.
    """

    def __init__(
        self,
        topology: Topology,
        record: type[msgspec.Struct],
        fields: Sequence[tuple[FieldPath, Sort]],
    ) -> None:
        self._fields = fields
        self._read = {path: reader(record, path) for path, _ in fields}
        # What the reader's own type leaves no doubt about.
        self._certain = {
            path
            for path in expression_paths(topology)
            if len(topology.expression_fields[path] - {Sort.ANY}) == 1
        }

    def of(
        self, events: Sequence[Any], numbers: Mapping[FieldPath, Float64s]
    ) -> dict[tuple[FieldPath, Sort], Computed]:
        """A column of each field; `numbers` are those that are read already."""
        columns: dict[tuple[FieldPath, Sort], Computed] = {}
        for path, sort in self._fields:
            if sort is Sort.NUMBER and path in numbers:
                columns[path, sort] = Computed(doubles(numbers[path]))
            elif path not in self._certain or sort is Sort.ANY:
                columns[path, sort] = column_of(sort, list(map(self._read[path], events)))
            else:
                columns[path, sort] = Computed(_certain(sort, self._read[path], events))
        return columns


def column_of(sort: Sort, values: list[Any]) -> Computed:
    """Values of anything as a column of a sort; those of another are errors."""
    if sort is Sort.ANY:
        return Computed(pa.array([None if value is None else True for value in values]))
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _TYPES[sort]:
        try:
            return Computed(_typed(values, sort))
        except OverflowError:  # A whole number of hundreds of digits.
            pass
    good = [_is_of(value, sort) for value in values]
    taken = [value if is_good else None for value, is_good in zip(values, good, strict=True)]
    errors = np.array(
        [value is not None and not is_good for value, is_good in zip(values, good, strict=True)]
    )
    return Computed(_typed(taken, sort), errors)


def _certain(sort: Sort, read: Callable[[Any], Any], events: Sequence[Any]) -> pa.Array:
    """A field that is None or of a sort."""
    if sort is Sort.NUMBER:
        try:
            return doubles(np.fromiter(map(read, events), np.float64, len(events)))
        except TypeError:  # None is no number.
            pass
    return _typed(list(map(read, events)), sort)


def _typed(values: list[Any], sort: Sort) -> pa.Array:
    if sort is not Sort.NUMBER:
        return pa.array(values, _ARROW[sort])
    return doubles(np.array(values, np.float64))


def _is_of(value: object, sort: Sort) -> bool:
    if type(value) not in _TYPES[sort]:
        return False
    return not isinstance(value, int) or isinstance(value, bool) or abs(value) <= _LARGEST
