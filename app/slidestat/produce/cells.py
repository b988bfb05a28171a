"""Cells of a file's columns as events carry them: a text, a time, a JSON value.

    type of the file     a cell's type is                      its value is sent as
    Parquet              its column's                          that type has it in JSON
    JSON lines           as JSON writes it                     it is written, digit by digit
    CSV, TSV             none                                  a number if it writes one, or a text

A cell is read alone: its own bytes and its column's type decide what is sent, never its neighbours.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from math import isfinite
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.expressions.nodes import WHOLE_LIMIT
from slidestat.engine.decoding.times import (
    NARROW,
    SPACES,
    WIDE_TIMES,
    moments_of,
    of_fractions,
    of_number_texts,
    scaled,
)
from slidestat.errors import SlidestatError
from slidestat.options import TimeUnit
from slidestat.synopses.core.arrays import Bools

# Errors of msgspec for bytes that are not JSON; RecursionError for nesting without end.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
# With a plus, or no digit on one side of the point; one more zero in front makes it a code.
_LOOSE_NUMBER = re.compile(
    r"(?:\+|(?P<minus>-))?(?P<whole>0|[1-9]\d*)?(?:\.(?P<fraction>\d*))?(?P<power>[eE][+-]?\d+)?",
    re.ASCII,
)
# A JSON number that needs no second look: all of its like are within a double.
_PLAIN_NUMBER = r"^-?(?:0|[1-9]\d{0,17})(?:\.\d+)?$"
_WHOLE_NUMBER = r"^(?:0|-?[1-9]\d*)$"
_WHOLE = re.compile(_WHOLE_NUMBER)
# Escapes, objects, lists and powers are looked at once more, as are long numbers.
_ODD_JSON = r"[\\\[{]|^[-0-9.]+[eE]"
_LONG = 300
# From these numbers on Arrow writes doubles with a power, and narrower floats with zeros for digits
# that they do not need; whole ones below WHOLE_LIMIT are written as integers, as a worker's items
# are.
_FIRST_POWER, _FIRST_ROUNDED = 1e10, 2.0**24
_NO_DIGIT = re.compile(r"-?[0.]*(?:[eE]|$)", re.ASCII)
_SHOWN = 60
_NOT_UTF8 = "which is not UTF-8: convert the file, as by iconv -f CP1252 -t UTF-8"
_PERIOD = "pandas.period"
_NO_DATE = "<value out of range"
# The digits that the text of a moment lacks to microseconds.
_FRACTIONS = {"s": ".000000", "ms": "000"}
_DATE = r"^\d{4}-|^\d{8}[Tt ]"
_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 1_000,
    TimeUnit.MICROSECONDS: 1_000_000,
    TimeUnit.NANOSECONDS: 1_000_000_000,
}


class Cells(ABC):
    """Cells of one column. Its methods return null for a cell that is missing, and for one that
    cannot be sent: `fault` has the reason.
    """

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def head(self, count: int) -> "Cells":
        """Return the first `count` cells."""
        return type(self)(self.column[:count])

    def of_rows(self, rows: pa.Array) -> "Cells":
        """Return the cells of the rows that are true."""
        return type(self)(self.column.filter(rows))

    def missing(self) -> Bools:
        """Return which cells hold nothing."""
        found: Bools = self.column.is_null().to_numpy(zero_copy_only=False)
        return found

    @abstractmethod
    def text(self) -> pa.Array:
        """Return the text of each cell that is one value."""

    @abstractmethod
    def json(self) -> pa.Array:
        """Return each cell in JSON."""

    def number(self) -> pa.Array:
        """Return each cell in JSON, where it is declared to hold numbers."""
        return self.json()

    def quoted(self) -> pa.Array:
        """Return the text of each cell in JSON."""
        return _quoted(self.text())

    def times_ms(self, unit: TimeUnit) -> pa.Array:
        """Return the times of cells in milliseconds, int64; null for what is no time."""
        return epoch_ms(self._times(), unit)

    def count_zoneless(self, rows: Bools) -> int:
        """Count the times of these rows that have no zone."""
        return count_zoneless(self._times().filter(pa.array(rows)))

    def shown(self, at: int) -> str:
        """Return a cell for people."""
        return short(self._shown(at))

    @abstractmethod
    def fault(self, at: int) -> str:
        """Return why a cell that is there cannot be sent, after the word "which"."""

    @abstractmethod
    def _times(self) -> pa.Array:
        """Return a column that `epoch_ms` reads."""

    def _shown(self, at: int) -> str:
        return repr(self.column[at].as_py())


def short(text: str) -> str:
    """Return the start of a text, for people."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


class TypedCells(Cells):
    """Cells of a column of Arrow, with a type for all."""

    def __init__(self, column: pa.Array) -> None:
        super().__init__(_plain(column))

    def missing(self) -> Bools:
        if not pa.types.is_floating(self.column.type):
            return super().missing()
        # NaN is how a column of numbers writes that one is missing.
        found: Bools = np.isnan(_doubles(self.column))
        return found

    def text(self) -> pa.Array:
        return _typed_text(self.column)

    def json(self) -> pa.Array:
        return _typed_json(self.column)

    def fault(self, at: int) -> str:
        kind = self.column.type
        if pa.types.is_floating(kind):
            return "which is not a finite number"
        if pa.types.is_temporal(kind):
            return "which is beyond the years of a calendar"
        if pa.types.is_nested(kind):
            if _typed_json(self.column[at : at + 1])[0].is_valid:
                return "which is not one value"
            return "which has bytes that are not UTF-8, a number that is not finite, or no date"
        return "which is not UTF-8"

    def _times(self) -> pa.Array:
        return _utf8(self.column) if _is_textual(self.column.type) else self.column

    def _shown(self, at: int) -> str:
        if _is_textual(self.column.type):
            return repr(_utf8(self.column[at : at + 1])[0].as_py() or _bytes_at(self.column, at))
        try:
            return str(self.column[at])
        except (OverflowError, LookupError, ValueError):  # Python has fewer times than Arrow.
            return str(self.column[at : at + 1].to_string(indent=0, skip_new_lines=True))[1:-1]


class WrittenCells(Cells):
    """Cells of CSV, bytes without a type."""

    def __init__(self, column: pa.Array) -> None:
        super().__init__(column)
        self._text = _utf8(column)

    def text(self) -> pa.Array:
        return self._text

    def json(self) -> pa.Array:
        """Return what writes a number in JSON as that number, with its own digits; all else as a
        text: CSV has no other way to write either.
        """
        return _by_value(self._text, _number_or_text)

    def number(self) -> pa.Array:
        """Return what writes a number as that number, with its own digits; all else, and what has
        zeros in front, as a text.
        """
        is_plain = pc.match_substring_regex(self._text, _PLAIN_NUMBER)
        if pc.all(is_plain, min_count=0).as_py():
            return self._text
        others = pc.fill_null(pc.invert(is_plain), False)
        return pc.replace_with_mask(
            self._text, others, _by_value(self._text.filter(others), _loose_number_or_text)
        )

    def fault(self, at: int) -> str:  # noqa: ARG002  # It is the only one.
        return _NOT_UTF8

    def _times(self) -> pa.Array:
        return self._text

    def _shown(self, at: int) -> str:
        text = self._text[at].as_py()
        return repr(self.column[at].as_py() if text is None else text)


class JsonCells(Cells):
    """Cells of JSON, bytes as they are written; a null is missing."""

    def __init__(self, column: pa.Array) -> None:
        super().__init__(column)
        json = _utf8(column)
        is_odd = pc.or_(
            pc.match_substring_regex(json, _ODD_JSON), pc.greater(pc.binary_length(json), _LONG)
        )
        if pc.any(is_odd).as_py():
            is_odd = pc.fill_null(is_odd, False)
            json = pc.replace_with_mask(json, is_odd, _by_value(json.filter(is_odd), _if_json))
        self._json = json

    def json(self) -> pa.Array:
        return self._json

    def text(self) -> pa.Array:
        text = self._of_strings()
        is_whole = pc.match_substring_regex(self._json, _WHOLE_NUMBER)
        text = pc.if_else(is_whole, self._json, text)
        others = pc.fill_null(pc.and_not(pc.is_null(text), is_whole), False)
        others = pc.and_(others, self._json.is_valid())
        if not pc.any(others).as_py():
            return text
        return pc.replace_with_mask(text, others, _by_value(self._json.filter(others), _one_value))

    def fault(self, at: int) -> str:
        if self._json[at].is_valid:
            return "which is not one value"
        if _utf8(self.column[at : at + 1])[0].is_valid:
            return "which is no number of a double, or no JSON"
        return _NOT_UTF8

    def _times(self) -> pa.Array:
        is_number = pc.match_substring_regex(self._json, "^[-0-9]")
        numbers = pc.if_else(is_number, self._json, None)
        # A worker is given their doubles.
        has_power = pc.fill_null(pc.match_substring_regex(numbers, "[eE]"), False)
        if pc.any(has_power).as_py():
            without = _by_value(numbers.filter(has_power), _without_power)
            numbers = pc.replace_with_mask(numbers, has_power, without)
        return pc.coalesce(numbers, self._of_strings())

    def _of_strings(self) -> pa.Array:
        """Return the texts in quotes."""
        is_string = pc.starts_with(self._json, '"')
        quoted = pc.if_else(is_string, self._json, None)
        inner = pc.utf8_slice_codeunits(quoted, 1, -1)
        escaped = pc.fill_null(pc.match_substring(quoted, "\\"), False)
        if not pc.any(escaped).as_py():
            return inner
        return pc.replace_with_mask(
            inner, escaped, _by_value(quoted.filter(escaped), msgspec.json.Decoder(str).decode)
        )

    def _shown(self, at: int) -> str:
        if self._of_strings()[at].is_valid:
            return repr(self._of_strings()[at].as_py())
        json = self._json[at].as_py()
        return repr(self.column[at].as_py()) if json is None else json


def _number_or_text(cell: str) -> str:
    if _JSON_NUMBER.fullmatch(cell) and isfinite(float(cell)):
        return cell
    return _in_quotes(cell)


def _loose_number_or_text(cell: str) -> str:
    found = _LOOSE_NUMBER.fullmatch(cell.strip())
    if found is None or not (found["whole"] or found["fraction"]):
        return _in_quotes(cell)
    fraction = f".{found['fraction']}" if found["fraction"] else ""
    number = f"{found['minus'] or ''}{found['whole'] or 0}{fraction}{found['power'] or ''}"
    return number if isfinite(float(number)) else _in_quotes(cell)


def _if_json(cell: str) -> str | None:
    if _WHOLE.fullmatch(cell):  # May have any number of digits; Python reads only some thousands.
        return cell
    try:
        msgspec.json.decode(cell)
    except NOT_JSON:
        return None
    return cell


def _without_power(number: str) -> str:
    return f"{Decimal(float(number)):f}"


def _one_value(cell: str) -> str | None:
    """Return the text of a number, so that one number has one text, or of a truth value."""
    if cell in ("true", "false"):
        return cell
    if cell[0] in "[{":
        return None
    if _NO_DIGIT.match(cell):
        return "0"
    double = float(cell)
    try:
        exact = Decimal(cell)
    except InvalidOperation:  # Next to nothing: its power has more digits than a Decimal's.
        return cell
    if abs(exact) < WHOLE_LIMIT and exact == exact.to_integral_value():
        return str(int(exact))
    if exact != Decimal(repr(double)):
        return cell
    text: str = _typed_text(pa.array([double]))[0].as_py()
    return text


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary or run ends, and of a type of Arrow's own."""
    kind = column.type
    if isinstance(kind, pa.UuidType):
        texts = [None if x is None else str(UUID(bytes=x)) for x in column.storage.to_pylist()]
        return pa.array(texts, pa.string())
    if isinstance(kind, pa.Bool8Type):
        return column.storage.cast(pa.bool_())
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.storage)
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        values = column.dictionary
        # Arrow cannot decode a dictionary of views, as Polars has for categories.
        values = values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values
        return _plain(values.take(column.indices))
    return column


def require_readable(name: str, field: pa.Field) -> None:
    """Raise SlidestatError for a column of a type whose cells have no JSON, or of pandas' periods:
    their numbers mean nothing without the length of a period, which a file loses.
    """
    kind = field.type
    extension = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    if isinstance(kind, pa.BaseExtensionType):
        extension, kind = kind.extension_name, kind.storage_type
    if extension == _PERIOD or _has_no_json(kind):
        shown = "variant" if _is_variant(kind) else extension or kind
        raise unreadable(name, str(shown))


def unreadable(name: str, kind: str) -> SlidestatError:
    """Return the error of a column of a type that is not read."""
    return SlidestatError(
        f"{name!r} is a column of the type {kind}, which is not read.",
        "Give its values as texts, numbers or times, such as by a cast.",
    )


def require_wide_times(name: str, cells: Cells) -> None:
    """Raise SlidestatError for a column of times that are floating-point numbers of fewer than 64
    bits: today's have lost minutes in them.
    """
    kind = cells.column.type
    if pa.types.is_floating(kind) and kind != pa.float64():
        raise SlidestatError(
            f"{name!r} (the time) is a column of {kind.bit_width}-bit floats, {NARROW}.",
            f"Give {WIDE_TIMES}.",
        )


def _has_no_json(kind: pa.DataType) -> bool:
    """Return whether a type is, or holds, intervals, unions, variants, or fields of one name."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _has_no_json(kind.value_type)
    if pa.types.is_interval(kind) or pa.types.is_union(kind) or _is_variant(kind):
        return True
    if pa.types.is_struct(kind) and len({field.name for field in kind}) < kind.num_fields:
        return True
    return any(_has_no_json(kind.field(at).type) for at in range(kind.num_fields))


def _is_variant(kind: pa.DataType) -> bool:
    """Return whether a type is a VARIANT as Spark hands it out, and Parquet files have it: bytes in
    a coding of their own, and at most a part of them as typed values.
    """
    if not pa.types.is_struct(kind):
        return False
    types = {field.name: field.type for field in kind if field.name != "typed_value"}
    return types.keys() == {"metadata", "value"} and all(
        pa.types.is_binary(one) or pa.types.is_large_binary(one) for one in types.values()
    )


def _is_textual(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


def _utf8(column: pa.Array) -> pa.Array:
    """Return texts, null where bytes are not UTF-8, which Parquet does not check either."""
    try:
        return column.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(map(_decoded, column.cast(pa.binary()).to_pylist()), pa.string())


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _bytes_at(column: pa.Array, at: int) -> bytes:
    found: bytes = column[at : at + 1].cast(pa.binary())[0].as_py()
    return found


def _typed_text(column: pa.Array) -> pa.Array:
    """Return the text of each cell of a type that is one value."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if _is_textual(kind):
        return _utf8(column)
    if pa.types.is_floating(kind):
        return _float_text(column)
    if pa.types.is_decimal(kind):
        text = column.cast(pa.string())
        return _by_value(text, lambda cell: f"{Decimal(cell):f}" if "E" in cell else cell)
    if pa.types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_time(kind):
        return _time_of_day(column)
    if pa.types.is_timestamp(kind):
        return _moment(column)
    text = column.cast(pa.string())
    return _in_range(text) if pa.types.is_temporal(kind) else text


def _moment(column: pa.Array) -> pa.Array:
    """Return moments with microseconds, or with nanoseconds where they have some, and those of a
    zone in UTC, so that one moment has one text whatever its column's unit and zone: a file does
    not keep either, and Spark gives its session's zone.
    """
    unit, signs = column.type.unit, "Z" if column.type.tz else ""
    text = _in_range(column.cast(pa.timestamp(unit)).cast(pa.string()))
    if unit == "ns":
        text = pc.replace_substring_regex(text, r"(\.\d{6})000$", r"\1")
    signs = _FRACTIONS.get(unit, "") + signs
    return pc.binary_join_element_wise(text, signs, "") if signs else text


def _time_of_day(column: pa.Array) -> pa.Array:
    """Return times with microseconds, or with nanoseconds where they have some, so that one time
    has one text whatever its column's unit: a file's is not kept by all that read it.
    """
    if column.type.unit != "ns":
        text = column.cast(pa.time64("us")).cast(pa.string())
    else:
        rounded = column.cast(pa.time64("us"), safe=False)
        is_whole = pc.equal(rounded.cast(pa.time64("ns")), column)
        text = pc.if_else(is_whole, rounded.cast(pa.string()), column.cast(pa.string()))
    return _in_range(text)


def _in_range(text: pa.Array) -> pa.Array:
    """Return texts, null where Arrow has none for a time."""
    return pc.if_else(pc.starts_with(text, _NO_DATE), None, text)


def _typed_json(column: pa.Array) -> pa.Array:
    """Return each cell of a type in JSON; null where it is missing, or not UTF-8."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_map(kind):
        return _maps(column)
    if pa.types.is_struct(kind):
        return _structs(column)
    if pa.types.is_nested(kind):
        return _lists(column)
    text = _typed_text(column)
    moment = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
    return _quoted(text) if moment or _is_textual(kind) else text


def _lists(column: pa.Array) -> pa.Array:
    return _gathered(column, _elements(column.flatten()), "[", "]")


def _maps(column: pa.Array) -> pa.Array:
    """Return each map as an object."""
    kind = column.type
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    lists = column.cast(pa.list_(entry))
    keys, values = lists.flatten().flatten()
    members = [
        None if key is None or value is None else f"{key}:{value}"
        for key, value in zip(
            _quoted(_typed_text(_plain(keys))).to_pylist(), _elements(values), strict=True
        )
    ]
    return _gathered(lists, members, "{", "}")


def _structs(column: pa.Array) -> pa.Array:
    names = [_in_quotes(field.name) for field in column.type]
    rows = zip(*map(_elements, column.flatten()), strict=True) if names else [()] * len(column)
    found = [
        None
        if not valid or None in row
        else "{" + ",".join(map(":".join, zip(names, row, strict=True))) + "}"
        for valid, row in zip(column.is_valid().to_pylist(), rows, strict=True)
    ]
    return pa.array(found, pa.string())


def _elements(column: pa.Array) -> list[str | None]:
    """Return cells in JSON, null for those that are missing; None for those that cannot be sent."""
    cells = TypedCells(column)
    json = pc.if_else(pa.array(cells.missing()), "null", cells.json())
    found: list[str | None] = json.to_pylist()
    return found


def _gathered(column: pa.Array, parts: Sequence[str | None], left: str, right: str) -> pa.Array:
    """Return the parts of each list as one text."""
    found: list[str | None] = []
    start = 0
    for length in pc.list_value_length(column).to_pylist():
        row = parts[start : start + (length or 0)]
        start += length or 0
        whole = length is not None and None not in row
        found.append(f"{left}{','.join(row)}{right}" if whole else None)  # type: ignore[arg-type]  # No None.
    return pa.array(found, pa.string())


def _float_text(column: pa.Array) -> pa.Array:
    """Return the shortest text that reads back as the same number; of a whole one below 2^100 that
    of the integer, so that one number has one text whatever its column's type.
    """
    doubles = _doubles(column)
    text = pc.if_else(pa.array(np.isfinite(doubles)), column.cast(pa.string()), None)
    size = np.abs(doubles)
    first = _FIRST_POWER if column.type == pa.float64() else _FIRST_ROUNDED
    # Minus zero is zero.
    rewritten = ((size >= first) & (size < WHOLE_LIMIT)) | ((doubles == 0) & np.signbit(doubles))
    if not rewritten.any():
        return text
    texts = [
        str(int(x)) if x.is_integer() else msgspec.json.encode(x).decode()
        for x in doubles[rewritten].tolist()
    ]
    return pc.replace_with_mask(text, pa.array(rewritten), pa.array(texts, pa.string()))


def _doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return doubles of floats of any width, NaN for null."""
    found: npt.NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def _quoted(text: pa.Array) -> pa.Array:
    return _by_value(text, _in_quotes)


def _in_quotes(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _by_value(text: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """Return texts changed, each value once."""
    index = text.dictionary_encode()
    changed = pa.array(map(change, index.dictionary.to_pylist()), pa.string())
    return changed.take(index.indices)


# Event times of any column, in milliseconds since 1970-01-01T00:00:00Z.


def epoch_ms(column: pa.Array, unit: TimeUnit) -> pa.Array:
    """Return milliseconds (int64) of a column, null where a value is not a time.

    Numbers, and texts of numbers, count `unit`s. Timestamps and dates know their own unit; without
    a zone they are UTC, and so is ISO 8601 text. Numbers and texts are read as a worker reads them
    (engine/decoding/times.py), so that both ways to a topic give the same events.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return scaled(column.cast(pa.int64()), _PER_SECOND[TimeUnit(kind.unit)])
    if pa.types.is_date32(kind):
        return scaled(pc.multiply(column.cast(pa.int32()).cast(pa.int64()), 86_400), 1)
    if pa.types.is_date64(kind):
        return column.cast(pa.int64())
    if pa.types.is_integer(kind):
        return scaled(column, _PER_SECOND[unit])
    if pa.types.is_floating(kind):
        return of_fractions(column.cast(pa.float64()), _PER_SECOND[unit])
    if pa.types.is_decimal(kind):
        return of_number_texts(_typed_text(column), _PER_SECOND[unit])
    if pa.types.is_string(kind):
        text = pc.utf8_trim(column, SPACES)
        numbers = of_number_texts(text, _PER_SECOND[unit])
        moments = moments_of(pc.if_else(numbers.is_null(), text, None))
        times = pa.array(moments.microseconds // 1_000, mask=~moments.are_times)
        return pc.coalesce(numbers, times)
    return pa.nulls(len(column), pa.int64())


def count_zoneless(column: pa.Array) -> int:
    """Count the values that are dates or texts of time without a zone, which are taken for UTC."""
    kind = column.type
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and not kind.tz):
        return int(pc.count(column).as_py())
    if pa.types.is_string(kind):
        text = pc.utf8_trim(column, SPACES)
        moments = moments_of(pc.if_else(pc.match_substring_regex(text, _DATE), text, None))
        return int((moments.are_times & ~moments.are_zoned).sum())
    return 0
