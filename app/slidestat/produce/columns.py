"""Columns of any type to what an event carries: a key's text, a JSON number, any JSON value."""

import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.schemas.event import MAX_KEY_LENGTH

_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_INTEGER = r"^[+-]?\d{1,18}$"
# A number as JSON writes it, well within a double; "007" and "+1" are texts there.
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_TEXTUAL = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_WORDLESS = (pa.types.is_nested, pa.types.is_null)


def as_text(column: pa.Array) -> pa.Array:
    """A column without dictionary, views or large offsets; bytes become text, null if not UTF-8."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.cast(kind.value_type))
    if any(test(kind) for test in _TEXTUAL):
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_decoded(value) for value in column.to_pylist()], pa.string())
    return column


def key_text(column: pa.Array) -> pa.Array:
    """Keys as text: null where a value is missing, empty, nested or beyond MAX_KEY_LENGTH."""
    if any(test(column.type) for test in _WORDLESS):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(column.type):
        # NaN is how a column of numbers writes that one is missing.
        column = pc.if_else(pc.is_nan(column), None, column)
    text = column.cast(pa.string())
    length = pc.utf8_length(text)
    usable = pc.and_(pc.greater(length, 0), pc.less_equal(length, MAX_KEY_LENGTH))
    return pc.if_else(usable, text, None)


def number_text(column: pa.Array) -> pa.Array:
    """Values as JSON numbers (text): null where a value is missing or not a finite number."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
    if pa.types.is_string(kind):
        text = pc.utf8_trim_whitespace(column)
        # Checked first: a cast alone would take "0x10" and "nan" for numbers.
        text = pc.utf8_ltrim(pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None), "+")
        whole = pc.all(pc.match_substring_regex(text, _INTEGER)).as_py()
        return number_text(text.cast(pa.int64() if whole else pa.float64()))
    return pa.nulls(len(column), pa.string())


def json_values(column: pa.Array) -> list[bytes | None]:
    """Values as JSON, None where one is missing or not finite.

    Text that writes a JSON number is sent as that number, since CSV has no other way to say it;
    times are sent as text.
    """
    kind = column.type
    if pa.types.is_nested(kind):
        return [
            None if value is None else msgspec.json.encode(value, enc_hook=str)
            for value in column.to_pylist()
        ]
    if pa.types.is_string(kind):
        index = column.dictionary_encode()
        lookup = [*map(_json_text, index.dictionary.to_pylist()), None]
        codes = index.indices.fill_null(len(lookup) - 1).to_numpy()
        values: list[bytes | None] = np.array(lookup, dtype=object)[codes].tolist()
        return values
    if pa.types.is_temporal(kind):
        return json_values(column.cast(pa.string()))
    text = column.cast(pa.string()) if pa.types.is_boolean(kind) else number_text(column)
    found: list[bytes | None] = text.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return found


def _json_text(text: str) -> bytes:
    return text.encode() if _JSON_NUMBER.fullmatch(text) else msgspec.json.encode(text)


def _decoded(value: bytes | str | None) -> str | None:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
