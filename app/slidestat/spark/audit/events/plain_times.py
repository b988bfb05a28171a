"""Times of plain records, a column at once: as `raw_events.py` reads each of them."""

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.spark.audit.columns.column import Int64s

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
# So many characters of a whole number fit int64, and such seconds do in microseconds.
_MOST_OF_INT = 18
_SURE_SECONDS = r"^-?[0-9]{1,12}(?:\.[0-9]{1,6})?$"
_SURE_MOMENT = r":[0-9][0-9](?:\.[0-9]{1,6})?(?:Z|[+-][0-9:]{5})?$"
_PER_SECOND = pa.scalar(Decimal(1_000_000))


def times_of(texts: pa.Array, time_format: str) -> tuple[Int64s, npt.NDArray[np.bool_]]:
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


def _moments(texts: pa.Array, sure: npt.NDArray[np.bool_]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
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
