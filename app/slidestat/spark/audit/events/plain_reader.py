"""Reads plain records by their shapes, a batch at a time."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.spark.audit.declaration import Declaration, Path
from slidestat.synopses.core.arrays import Bools, Integers

# Times of plain records, a column at once: as `reading.py` reads each of them.

# One-pass for RE2: no two ways begin alike.
WHOLE = r"(?:0|-?[1-9][0-9]*)"
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
"""Numbers as JSON has them, without exponents."""

_MOMENT = (
    r"[12][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]+)?"
)
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

TIME_PATTERNS: dict[tuple[str, type], str] = {
    **{(name, int): WHOLE for name in ("ms", "us", "ns", "sequence")},
    ("s", int): NUMBER,
    ("iso8601", str): f"{_MOMENT}{_ZONE}",
    ("iso8601-utc", str): f"{_MOMENT}{_ZONE}?",
}
"""How plain times are written: of each format, as numbers or as texts."""

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000, "sequence": 1}
# Whole numbers of so many characters fit int64, and such seconds do in microseconds.
_MOST_OF_INT = 18
_SURE_SECONDS = r"^-?[0-9]{1,12}(?:\.[0-9]{1,6})?$"
_SURE_MOMENT = r":[0-9][0-9](?:\.[0-9]{1,6})?(?:Z|[+-][0-9:]{5})?$"
_PER_SECOND = pa.scalar(Decimal(1_000_000))


def times_of(texts: pa.Array, time_format: str) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return the milliseconds (of a sequence the numbers) of times that match their pattern, and
    which of them are certain; the values in place of the others have no meaning.
    """
    if time_format in _PER_MS:
        sure = pc.less_equal(pc.binary_length(texts), _MOST_OF_INT)
        numbers = pc.cast(pc.if_else(sure, texts, "0"), pa.int64())
        return np.floor_divide(numbers.to_numpy(), _PER_MS[time_format]), _mask(sure)
    if time_format == "s":
        sure = pc.match_substring_regex(texts, _SURE_SECONDS)
        seconds = pc.cast(pc.if_else(sure, texts, "0"), pa.decimal128(18, 6))
        microseconds = pc.cast(pc.multiply(seconds, _PER_SECOND), pa.int64())
        return np.floor_divide(microseconds.to_numpy(), 1_000), _mask(sure)
    sure = pc.match_substring_regex(texts, _SURE_MOMENT)
    return _moments(pc.if_else(sure, texts, "2000-01-01T00:00:00Z"), _mask(sure))


def _moments(
    texts: pa.Array, sure: npt.NDArray[np.bool_]
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    # Arrow wants an offset in all of them or in none.
    has_zone = pc.match_substring_regex(texts, f"{_ZONE}$")
    whole = pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", ""))
    try:
        moments = pc.cast(whole, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:  # There is a 30th of February among them.
        return np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    return np.floor_divide(pc.cast(moments, pa.int64()).to_numpy(), 1_000), sure


def _mask(sure: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = sure.to_numpy(zero_copy_only=False)
    return mask


# The shape of plain records: the JSON objects of one producer as one regular expression.
#
# A shape has the names of a sample record in their order, and of each value its sort. What matches
# it is read without being parsed: names without escapes, none of them twice, texts without escapes,
# numbers without exponents where they are read. Whatever matches no shape is read row by row
# (`reading.py`), and both read the same.

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
        """Return a pattern of values of that sort, as far as all ways of reading agree."""
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


_MOST_SHAPES = 16
# The most new shapes that are looked for in a batch, as long as more records than _FEW match none.
_SAMPLES = 4
_FEW = 32
# Whole numbers with more digits may be none, and are no doubles.
_MOST_DIGITS = 300


class Records(NamedTuple):
    """The keys, values and timestamps of a batch in Kafka."""

    keys: pa.Array
    values: pa.Array
    stamps: Integers


class Events(NamedTuple):
    """The events of some `rows` of a batch: keys, times, and a text for each column, or null."""

    rows: Integers
    keys: pa.Array
    times: Integers
    texts: list[pa.Array]

    def only(self, chosen: Bools) -> "Events":
        if chosen.all():
            return self
        mask = pa.array(chosen)
        texts = [column.filter(mask) for column in self.texts]
        return Events(self.rows[chosen], self.keys.filter(mask), self.times[chosen], texts)


class PlainReader:
    """A reader of records by shapes that it learns from them: about 0.5 microseconds for one of 60
    bytes, and 1.2 for one of 220.
    """

    def __init__(self, declaration: Declaration) -> None:
        """Create the reader; the `declaration` is one that `is_plain`."""
        self._key_path, self._time_path = declaration.key_path, declaration.time_path
        self._time_format = declaration.time_format
        self._columns = [path for (path,), _, _ in declaration.columns]
        self._shapes: list[Shape] = []
        self._wanted: defaultdict[Path, set[Sort]] = defaultdict(set)
        for own, sort in ((self._key_path, Sort.KEY), (self._time_path, Sort.TIME)):
            if own is not None:
                self._wanted[own].add(sort)
        for (path,), is_item, _ in declaration.columns:
            self._wanted[path].add(Sort.ITEM if is_item else Sort.NUMBER)

    @staticmethod
    def is_plain(declaration: Declaration) -> bool:
        """Return whether all that is read of an event are fields as they are, each by itself."""
        columns = declaration.columns
        has_conditions = declaration.where or any(where for _, _, where in columns)
        is_single = all(len(paths) == 1 for paths, _, _ in columns)
        return is_single and not has_conditions and not declaration.computed

    def read(self, records: Records) -> list[Events]:
        """Return the plain events, those of a shape together; all other rows may be anything."""
        found: list[tuple[Shape, Events]] = []
        rest = np.flatnonzero(records.values.is_valid().to_numpy(zero_copy_only=False))
        for shape in self._shapes:
            events, rest = self._of_shape(shape, records, rest)
            found.append((shape, events))
        for place in range(_SAMPLES):
            if len(rest) <= _FEW:
                break
            sample = records.values[int(rest[len(rest) * place // _SAMPLES])].as_py()
            new = shape_of(sample, self._wanted, self._time_format)
            if new is not None and new not in self._shapes:
                events, rest = self._of_shape(new, records, rest)
                found.append((new, events))
        # The shapes of most records come first, and stay.
        found.sort(key=lambda one: -len(one[1].rows))
        self._shapes = [shape for shape, _ in found[:_MOST_SHAPES]]
        return [events for _, events in found if len(events.rows)]

    def _of_shape(self, shape: Shape, records: Records, rows: Integers) -> tuple[Events, Integers]:
        """Return the events of a shape among some rows, and the rows of others."""
        is_all = len(rows) == len(records.values)
        values = records.values if is_all else records.values.take(pa.array(rows))
        matched = pc.extract_regex(values, shape.pattern)
        mask = matched.is_valid()
        is_match: Bools = mask.to_numpy(zero_copy_only=False)
        rows, others = rows[is_match], rows[~is_match]
        sure = np.ones(len(rows), bool)
        texts: dict[Path, pa.Array] = {}
        for path, name in shape.groups.items():
            texts[path] = _unicode(pc.struct_field(matched, [name]).filter(mask), sure)
            if name in shape.numbers:
                sure &= pc.binary_length(texts[path]).to_numpy() <= _MOST_DIGITS
        if self._key_path is None:
            keys = _unicode(records.keys.take(pa.array(rows)), sure)
            sure &= keys.is_valid().to_numpy(zero_copy_only=False)
        else:
            keys = texts[self._key_path]
        if self._time_path is None:
            times = records.stamps[rows]
        else:
            times, known = times_of(texts[self._time_path], self._time_format)
            sure &= known
        nothing = pa.nulls(len(rows), pa.string())
        columns = [texts.get(path, nothing) for path in self._columns]
        return Events(rows, keys, times, columns).only(sure), others


def _unicode(texts: pa.Array, sure: Bools) -> pa.Array:
    """Return bytes as texts; `sure` becomes False for those that are no UTF-8."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        found: list[str | None] = []
        for place, text in enumerate(texts.to_pylist()):
            try:
                found.append(None if text is None else text.decode())
            except UnicodeDecodeError:
                found.append("")
                sure[place] = False
        return pa.array(found, pa.string())
