"""Conditions over records that msgspec has decoded.

Fields are read by the reader's own type while they are of the sorts that the conditions ask for.
A record that the reader refuses is judged here on its own, whatever is in it: it may be one that
is not asked for.
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
from slidestat.engine.decoding.conditions import Conditions, Judged, doubles
from slidestat.engine.decoding.evaluation import Computed
from slidestat.engine.decoding.record_type import condition_paths, reader, struct_of

Float64s = npt.NDArray[np.float64]

_TYPES: dict[Sort, frozenset[type]] = {
    Sort.NUMBER: frozenset((int, float)),
    Sort.TEXT: frozenset((str,)),
    Sort.TRUTH: frozenset((bool,)),
}
_LARGEST = int(np.finfo(np.float64).max)
_ARROW = {Sort.NUMBER: pa.float64(), Sort.TEXT: pa.large_string(), Sort.TRUTH: pa.bool_()}


class StructConditions:
    """A topology's conditions over structs. A number that no statistic reads costs 30 ns more."""

    def __init__(self, topology: Topology, record: type[msgspec.Struct]) -> None:
        self._conditions = Conditions(topology)
        self._fields = self._conditions.fields
        self._read = {path: reader(record, path) for path, _ in self._fields}
        # What the reader's own type leaves no doubt about.
        self._certain = {
            path
            for path in condition_paths(topology)
            if len(topology.condition_fields[path] - {Sort.ANY}) == 1
        }
        paths = dict.fromkeys(path for path, _ in self._fields)
        alone = struct_of(dict.fromkeys(paths, Any), paths)
        self._decode = msgspec.json.Decoder(alone).decode
        self._read_alone = {path: reader(alone, path) for path in paths}

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def of(self, events: Sequence[Any], numbers: Mapping[FieldPath, Float64s]) -> Judged:
        """Judge events, as the decoder's type has them, by the conditions; `numbers` are those that
        are read already.
        """
        columns: dict[tuple[FieldPath, Sort], Computed] = {}
        for path, sort in self._fields:
            if sort is Sort.NUMBER and path in numbers:
                columns[path, sort] = Computed(doubles(numbers[path]))
            elif path not in self._certain or sort is Sort.ANY:
                columns[path, sort] = _column(sort, list(map(self._read[path], events)))
            else:
                columns[path, sort] = Computed(_certain(sort, self._read[path], events))
        return self._conditions.judged(len(events), columns)

    def of_record(self, record: bytes) -> Judged | None:
        """Judge one record; return None if it cannot be read even so far."""
        try:
            event = self._decode(record)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        columns = {
            (path, sort): _column(sort, [self._read_alone[path](event)])
            for path, sort in self._fields
        }
        return self._conditions.judged(1, columns)


def _column(sort: Sort, values: list[Any]) -> Computed:
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
    faults = np.array(
        [value is not None and not is_good for value, is_good in zip(values, good, strict=True)]
    )
    return Computed(_typed(taken, sort), faults)


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
