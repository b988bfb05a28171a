"""The shape of plain records: the JSON objects of one producer as one regular expression.

A shape has the names of a sample record in their order, and of each value its sort. What matches it
is read without being parsed: names without escapes, none of them twice, texts without escapes,
numbers without exponents where they are read. Whatever matches no shape is read row by row
(`raw_events.py`), and both read the same.
"""

import json
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from slidestat.spark.audit.declaration import Path
from slidestat.spark.audit.events.plain_times import NUMBER, TIME_PATTERNS, WHOLE

_TEXT = r'[^"\\\x00-\x1f]*'
_SCALAR = f'(?:"{_TEXT}"|{NUMBER}(?:[eE][+-]?[0-9]+)?|true|false|null)'
_SPACE = r"[ \t\n\r]*"
_NAME = re.compile(_TEXT)
# A sample that is nested deeper is no plain record.
_DEEPEST = 8


class Sort(Enum):
    """The sort of a field's reading; one field may be read in several ways."""

    KEY = "key"
    TIME = "time"
    NUMBER = "number"
    ITEM = "item"


class Shape(NamedTuple):
    """The shape of records: `pattern` matches a whole record, with a named group for each field of
    `groups`; fields that are not in it are missing or null in these records.

    Groups of numbers are in `numbers`.
    """

    pattern: str
    groups: Mapping[Path, str]
    numbers: frozenset[str]


class _NotPlainError(Exception):
    """An error of a sample that a regular expression cannot read."""


class _Object(list[tuple[str, object]]):
    """An object's fields in their order."""


_decode = json.JSONDecoder(object_pairs_hook=_Object, parse_float=Decimal).decode


def shape_of(
    sample: bytes, wanted: Mapping[Path, Collection[Sort]], time_format: str
) -> Shape | None:
    """Return the shape of the records that are like this one, with the fields that are `wanted`;
    None if a worker counts no such record, or it is not plain.
    """
    try:
        fields = _decode(sample.decode())
        return _Shaping(wanted, time_format).shape(fields)
    except (ValueError, RecursionError, _NotPlainError):
        return None


class _Shaping:
    def __init__(self, wanted: Mapping[Path, Collection[Sort]], time_format: str) -> None:
        self._wanted = wanted
        self._around = {path[:length] for path in wanted for length in range(1, len(path))}
        self._time_format = time_format
        self._groups: dict[Path, str] = {}
        self._numbers: set[str] = set()

    def shape(self, fields: object) -> Shape:
        if not isinstance(fields, _Object):
            raise _NotPlainError
        pattern = f"^{_SPACE}{self._object(fields, ())}{_SPACE}$"
        for path, sorts in self._wanted.items():
            if path not in self._groups and {Sort.KEY, Sort.TIME} & {*sorts}:
                raise _NotPlainError
        return Shape(pattern, self._groups, frozenset(self._numbers))

    def _object(self, fields: _Object, around: Path) -> str:
        names = [name for name, _ in fields]
        if len(set(names)) < len(names) or len(around) == _DEEPEST:
            raise _NotPlainError
        parts = []
        for name, value in fields:
            if not _NAME.fullmatch(name):
                raise _NotPlainError
            inner = self._value(value, (*around, name))
            parts.append(f'{_SPACE}"{re.escape(name)}"{_SPACE}:{_SPACE}{inner}{_SPACE}')
        return r"\{" + (",".join(parts) or _SPACE) + r"\}"

    def _value(self, value: object, path: Path) -> str:
        sorts = self._wanted.get(path)
        if path in self._around:
            if sorts is None and value is None:
                return "null"
            if sorts is not None or not isinstance(value, _Object):
                raise _NotPlainError
        if isinstance(value, _Object):
            return self._object(value, path)
        return _unread(value) if sorts is None else self._read(value, path, {*sorts})

    def _read(self, value: object, path: Path, sorts: set[Sort]) -> str:
        if value is None:
            return "null"
        name = self._groups[path] = f"g{len(self._groups)}"
        pattern = self._pattern(value, sorts)
        if not isinstance(value, str):
            self._numbers.add(name)
            return f"(?P<{name}>{pattern})"
        return f'"(?P<{name}>{pattern})"'

    def _pattern(self, value: object, sorts: set[Sort]) -> str:
        """Return a pattern of values of that sort, as far as all ways of reading them are
        certain.
        """
        kind = type(value)
        if sorts == {Sort.TIME}:
            pattern = TIME_PATTERNS.get((self._time_format, str if kind is str else int))
            if pattern is not None and kind in (str, int, Decimal):
                return pattern
        elif kind is str and not sorts & {Sort.NUMBER, Sort.TIME}:
            return _TEXT
        elif kind is bool and sorts == {Sort.ITEM}:
            return "true|false"
        elif kind in (int, Decimal) and sorts == {Sort.NUMBER}:
            return NUMBER
        elif kind is int:
            return WHOLE
        raise _NotPlainError


def _unread(value: object) -> str:
    """Return a pattern of the possible values in place of one that is not read."""
    if not isinstance(value, list):
        return _SCALAR
    if any(isinstance(one, list) for one in value):
        raise _NotPlainError
    one = f"{_SPACE}{_SCALAR}{_SPACE}"
    return rf"\[(?:{one}(?:,{one})*|{_SPACE})\]"
