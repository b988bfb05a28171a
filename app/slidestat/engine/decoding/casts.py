"""Casts: texts as numbers and times, numbers as texts; and what whole numbers are beside doubles.

A text is cast to the number that JSON would have in its place, so whole ones are exact below 2^100.
"""

import re
from collections.abc import Sequence
from decimal import ROUND_05UP, Context, Decimal
from fractions import Fraction
from math import inf, isfinite, nan, nextafter
from sys import float_info
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.expressions.nodes import WHOLE_LIMIT, digits_of
from slidestat.engine.decoding.times import SPACES, are_number_texts, moments_of
from slidestat.synopses.core.arrays import Bools, Floats
from slidestat.synopses.core.rounding import EXACT

# Replaces the text of a number that was rounded beyond 2^53.
ROUNDED = "\0"
_BIGINT = 2.0**63


class CastNumbers(NamedTuple):
    """Numbers that n values were cast to: `values` float64[n] and `rests` float64[n], as evaluation
    has them, with no meaning where a value is null or in `errors`, bool[n].
    """

    values: Floats
    rests: Floats
    errors: Bools


def are_numbers(texts: pa.Array) -> Bools:
    """Return bool[n]: which texts are decimal numbers, with an exponent or without."""
    found: Bools = pc.fill_null(are_number_texts(texts), False).to_numpy(zero_copy_only=False)
    return found


def numbers_of_texts(texts: pa.Array, kind: str) -> CastNumbers:
    """Return texts as numbers, doubles or of the type "bigint"."""
    are_written = are_numbers(texts)
    trimmed = pc.utf8_ltrim(pc.utf8_trim(texts, SPACES), "+")
    written = pc.if_else(pa.array(are_written), trimmed, "0")
    try:
        values = pc.cast(written, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # It reads fewer of them than Python.
        values = np.array([float(text) for text in written.to_pylist()], np.float64)
    errors = ~are_written | np.isinf(values)
    rests = np.zeros(len(values))
    for row in np.flatnonzero((np.abs(values) >= EXACT) & ~errors).tolist():
        text = written[row].as_py()
        exact = Decimal(text)
        is_whole = exact == exact.to_integral_value()
        known = int(exact) if text.lstrip("-").isdigit() else exact_number(exact)
        rests[row] = 0.0 if known is None else rest_of(known)
        errors[row] = abs(exact) > Decimal(float_info.max) or (kind == "bigint" and not is_whole)
    found = CastNumbers(values, rests, errors)
    return wholes_of(found) if kind == "bigint" else found


def wholes_of(numbers: CastNumbers) -> CastNumbers:
    """Return numbers as 64-bit integers; others are errors: SQL's engines cut their fraction, or
    round them, each in its way.
    """
    values, rests = numbers.values, numbers.rests
    with np.errstate(invalid="ignore"):
        is_inside = (np.abs(values) < _BIGINT) | (values == -_BIGINT) & (rests >= 0)
        is_inside |= (values == _BIGINT) & (rests < 0)
        is_whole = (values == np.floor(values)) & is_inside & (rests == np.floor(rests))
    return numbers._replace(errors=numbers.errors | ~is_whole)


def milliseconds_of(texts: pa.Array) -> CastNumbers:
    """Return times in ISO 8601 as milliseconds since 1970, with fractions to the microsecond."""
    moments = moments_of(texts)
    values = moments.microseconds.astype(np.float64) / 1_000
    return CastNumbers(values, np.zeros(len(values)), ~moments.are_times)


def texts_of(values: Sequence[Any], rests: Sequence[float]) -> list[str | None]:
    """Return texts unchanged, numbers and truth values as in JSON, whole numbers without a
    fraction; `ROUNDED` for a number that may have been rounded.
    """
    return [
        _number_text(value, rest)
        if type(value) is float
        else value
        if value is None or isinstance(value, str)
        else msgspec.json.encode(value).decode()
        for value, rest in zip(values, rests, strict=True)
    ]


def _number_text(number: float, rest: float) -> str:
    if not rest.is_integer():  # NaN is none.
        return ROUNDED
    return number_text(int(number) + int(rest) if rest else number)


# Numbers as items: equal numbers below 2^100 have one text.
#
# A whole number is its digits, however it was written: 1, 1.0 and 1e0 are "1", and -0.0 is "0".
# So is another one from 2^53 on: as a double it might be one that is whole. Below, those are the
# shortest decimals that read as the same double; and so are, from 2^100 on, all that were not
# written as whole ones.


def number_text(number: float | Decimal) -> str:
    """Return the text of a double, or of an `exact_number`."""
    if isinstance(number, Decimal):
        return digits_of(number)
    if isinstance(number, int) or (number.is_integer() and abs(number) < WHOLE_LIMIT):
        return str(int(number))
    return msgspec.json.encode(number).decode()


_encode = msgspec.json.Encoder(decimal_format="number").encode
# An exponent that is not negative: msgspec writes one from 1e16 on.
_EXPONENT = re.compile(rb"[0-9]e[0-9]")


def json_of(value: object) -> bytes:
    """Return the JSON of a value that Avro or Protobuf describes. A double that is whole has its
    digits below 2^100: from 1e16 on its shortest text is that of another whole number.
    """
    text = _encode(value)
    return _encode(_with_digits(value)) if _EXPONENT.search(text) else text


def _with_digits(value: Any) -> object:
    if isinstance(value, dict):
        return {name: _with_digits(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_digits(part) for part in value]
    is_whole = isinstance(value, float) and EXACT <= abs(value) < WHOLE_LIMIT
    return int(value) if is_whole else value


def of_single(number: float) -> float:
    """Return the double that is meant by one that was read of 32 bits: a whole number as it is, and
    of others the one whose shortest decimal reads back as these bits, as files and JSON have it.
    """
    is_whole = abs(number) < WHOLE_LIMIT and number.is_integer()
    return number if is_whole or not isfinite(number) else float(str(np.float32(number)))


# The longest decimal, 600 digits: a longer one is no amount of anything, and takes long to write.
_DECIMAL_BYTES = 256


def decimal_of(value: bytes, scale: int) -> Decimal:
    """Return the decimal of a whole number in two's complement, of which `scale` digits are
    fractions, with all of its digits. Raises ValueError for one that is too long.
    """
    if len(value) > _DECIMAL_BYTES:
        raise ValueError(f"it has a decimal of {len(value)} bytes")
    number = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
    return Decimal((number.sign, number.digits, -scale))


# A number that is not whole is read to this many digits, at most 31 of them before its point. The
# rest is left out and shows in the last digit, so that the number stays between the same doubles.
_READ = Context(prec=60, rounding=ROUND_05UP)


def exact_number(number: Decimal) -> int | Decimal | None:
    """Return a number as it was written: an int if it is whole; None from 2^100 on."""
    if not -WHOLE_LIMIT < number < WHOLE_LIMIT:
        return None
    return int(number) if number == number.to_integral_value() else _READ.create_decimal(number)


def rest_of(number: int | Decimal | Fraction) -> float:
    """Return what a number is more than the double nearest to it, 0 below 2^53; NaN beyond what has
    a rest, and of a Fraction, which was computed, that is not whole.

    That of a Decimal, which was written and is not whole, is not whole either.
    """
    nearest = float(number)
    if abs(nearest) < EXACT or number == nearest:
        return 0.0
    if isinstance(number, Decimal):  # A literal has all of its digits, a field those that are read.
        number = _READ.create_decimal(number)
    if abs(number) >= WHOLE_LIMIT or (isinstance(number, Fraction) and number.denominator != 1):
        return nan
    exact = Fraction(number) - int(nearest)
    rest = float(exact)
    if exact.denominator != 1 and rest.is_integer():
        rest = nextafter(rest, inf if exact > rest else -inf)
    return rest
