"""The fields of structs that expressions read, as columns of Arrow.

Fields are read by the reader's own type while they are of the sorts that the expressions ask for;
what is of another sort is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.casts import exact_number, number_text, rest_of
from slidestat.engine.decoding.conditions import Conditions, Judged
from slidestat.engine.decoding.evaluation import Computed, doubles
from slidestat.engine.decoding.record_type import expression_paths, reader, struct_of
from slidestat.engine.events import texts
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.rounding import EXACT

Written = Callable[[Sequence[int]], list[int | Decimal | None]]
"""Reads a field of the events at some places once more: the number that it is, below 2^100 or
written as a whole one with all of its digits; None for what is none.
"""

_TYPES: dict[Sort, frozenset[type]] = {
    Sort.NUMBER: frozenset((int, float)),
    Sort.TEXT: frozenset((str,)),
    Sort.TRUTH: frozenset((bool,)),
    Sort.SCALAR: frozenset((str, int, float, bool)),
}
_LARGEST = int(np.finfo(np.float64).max)
_ARROW = {Sort.TEXT: pa.large_string(), Sort.TRUTH: pa.bool_()}


class WrittenNumbers:
    """A reader of the numbers of `records` as they were written, with events at `rows`; the types
    of a reader make doubles of them.
    """

    def __init__(self, records: Sequence[bytes | None], rows: npt.NDArray[np.int64]) -> None:
        self._records = records
        self._rows = rows

    def of(self, path: FieldPath) -> Written:
        """Return what reads those at a path."""

        def numbers(places: Sequence[int]) -> list[int | Decimal | None]:
            struct = struct_of({path: Any}, [path])
            decode = msgspec.json.Decoder(struct, float_hook=Decimal).decode
            read = reader(struct, path)
            return [_written(read(decode(self._records[self._rows[p]] or b""))) for p in places]

        return numbers


class StructValues:
    """A reader of `fields`, each with a sort, from structs of the type `record`. A number that no
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
        # Fields whose values are sure by the reader's own type.
        self._certain = {
            path
            for path in expression_paths(topology)
            if len(topology.expression_fields[path] - {Sort.ANY}) == 1
        }

    def of(
        self, events: Sequence[Any], numbers: Mapping[FieldPath, Floats], written: WrittenNumbers
    ) -> dict[tuple[FieldPath, Sort], Computed]:
        """Return a column a field; `numbers` are read already, `written` has their exact values."""
        columns: dict[tuple[FieldPath, Sort], Computed] = {}
        for path, sort in self._fields:
            if sort is Sort.NUMBER and (path in numbers or path in self._certain):
                found = numbers.get(path)
                if found is None:
                    found = numbers_of(self._read[path], events)
                columns[path, sort] = _of_doubles(found, written.of(path))
            elif path not in self._certain or sort in (Sort.ANY, Sort.SCALAR):
                values = list(map(self._read[path], events))
                columns[path, sort] = column_of(sort, values, written.of(path))
            else:
                values = list(map(self._read[path], events))
                columns[path, sort] = Computed(pa.array(values, _ARROW[sort]))
        return columns


def numbers_of(read: Callable[[Any], Any], events: Sequence[Any]) -> Floats:
    """Return the numbers of a field of events: NaN where an event has none, and an infinity for
    those beyond all doubles.
    """
    with suppress(TypeError, OverflowError):  # None is no number.
        return np.fromiter(map(read, events), np.float64, len(events))
    with suppress(OverflowError):
        return np.array(list(map(read, events)), np.float64)
    return np.array([_bounded(read(event)) for event in events], np.float64)


def _bounded(number: float | None) -> float | None:
    if number is None or abs(number) <= _LARGEST:
        return number
    return np.inf if number > 0 else -np.inf


def column_of(sort: Sort, values: list[Any], written: Written) -> Computed:
    """Return any values as a column of a sort; values of another sort are errors."""
    if sort is Sort.ANY:
        return Computed(pa.array([None if value is None else True for value in values]))
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _TYPES[sort]:
        try:
            return _typed(values, sort, written)
        except OverflowError:  # A whole number of hundreds of digits.
            pass
    good = [_is_of(value, sort) for value in values]
    taken = [value if is_good else None for value, is_good in zip(values, good, strict=True)]
    errors = np.array(
        [value is not None and not is_good for value, is_good in zip(values, good, strict=True)]
    )
    found = _typed(taken, sort, written)
    return found._replace(errors=errors if found.errors is None else errors | found.errors)


def _typed(values: list[Any], sort: Sort, written: Written) -> Computed:
    if sort is Sort.SCALAR:
        return Computed(scalar_texts(values, written))
    if sort is not Sort.NUMBER:
        return Computed(pa.array(values, _ARROW[sort]))
    return _of_doubles(np.array(values, np.float64), written)


def _of_doubles(numbers: Floats, written: Written) -> Computed:
    """Return a column of numbers, null for NaN, with the rests that doubles lack of large ones;
    those beyond all doubles are errors.
    """
    large = np.flatnonzero(np.abs(numbers) >= EXACT)
    if not len(large):
        return Computed(doubles(numbers))
    rests = np.zeros(len(numbers))
    beyond = np.isinf(numbers)
    for place, number in zip(large.tolist(), written(large.tolist()), strict=True):
        if number is not None and not -_LARGEST <= number <= _LARGEST:
            beyond[place] = True  # Also where the nearest double is the largest one.
        elif number is not None:
            rests[place] = rest_of(number)
    errors = beyond if beyond.any() else None
    numbers = numbers if errors is None else np.where(beyond, np.nan, numbers)
    return Computed(doubles(numbers), errors, rests if rests.any() else None)


def scalar_texts(items: list[Any], written: Written) -> pa.Array:
    """Return items as texts, None unchanged: numbers as they are, truth values as in JSON."""
    if all(type(item) is str for item in items):
        return texts(items)
    found = [item if item is None or type(item) is str else _text(item) for item in items]
    large = [i for i, item in enumerate(items) if type(item) is float and abs(item) >= EXACT]
    for place, number in zip(large, written(large), strict=True):
        if number is not None:
            found[place] = number_text(number)
    return texts(found)


def _text(item: float | bool) -> str:
    return number_text(item) if type(item) is not bool else "true" if item else "false"


def _is_of(value: object, sort: Sort) -> bool:
    if type(value) not in _TYPES[sort]:
        return False
    if sort is Sort.SCALAR:
        return True
    return not isinstance(value, int) or isinstance(value, bool) or abs(value) <= _LARGEST


def _written(number: object) -> int | Decimal | None:
    """Return the number that JSON has, as `Written` has it; None for what is none."""
    if isinstance(number, Decimal):
        return exact_number(number)
    return number if type(number) is int else None


# Conditions over records that msgspec has decoded.
#
# A record that the reader refuses is judged here on its own, whatever is in it: it may be one that
# is not asked for.

# In place of a number beyond all doubles, which is of no sort, as a list is.
_BEYOND = object()


class StructConditions:
    """A topology's conditions over structs."""

    def __init__(self, topology: Topology, record: type[msgspec.Struct]) -> None:
        self._conditions = Conditions(topology)
        self._values = StructValues(topology, record, self._conditions.fields)
        paths = dict.fromkeys(path for path, _ in self._conditions.fields)
        # Each value is parsed alone: JSON may have numbers that Python cannot read.
        alone = struct_of(dict.fromkeys(paths, msgspec.Raw), paths)
        self._decode = msgspec.json.Decoder(alone).decode
        self._read_alone = {path: reader(alone, path) for path in paths}

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def of(
        self, events: Sequence[Any], numbers: Mapping[FieldPath, Floats], written: WrittenNumbers
    ) -> Judged:
        """Judge events, as the reader's type has them, by the conditions; `numbers` are those that
        are read already.
        """
        return self._conditions.judged(len(events), self._values.of(events, numbers, written))

    def of_record(self, record: bytes) -> Judged | None:
        """Evaluate the conditions for one record; return None if their fields cannot be read."""
        try:
            event = self._decode(record)
            found = {path: _value(read(event)) for path, read in self._read_alone.items()}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        written = WrittenNumbers([record], np.zeros(1, np.int64))
        columns = {
            (path, sort): column_of(sort, [found[path]], written.of(path))
            for path, sort in self._conditions.fields
        }
        return self._conditions.judged(1, columns)


def _value(raw: msgspec.Raw | None) -> object:
    """Return what JSON writes; of a number beyond all doubles `_BEYOND`."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:  # All that it can be is out of range.
        return _BEYOND
