"""The numbers of a figure for people: only digits that its bounds make certain."""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import floor, log10

# Of half of the bounds' width.
_DIGITS = 3
# Beyond them numbers are written with an exponent.
_LARGEST, _MOST_DECIMALS = 1e15, 12


def numbers_text(
    estimate: float | None, lower: float | None, upper: float | None
) -> tuple[str, str, str]:
    """Return estimate, lower and upper bound as texts, "-" for one that does not exist.

    Where the bounds lie apart, half of their width has three digits, and what lies beyond these is
    rounded away, in the bounds outward. Numbers that are exact, very large or very small have ten
    digits.
    """
    decimals = _decimals(estimate, lower, upper)
    return (
        _text(estimate, decimals, ROUND_HALF_EVEN),
        _text(lower, decimals, ROUND_FLOOR),
        _text(upper, decimals, ROUND_CEILING),
    )


def _decimals(estimate: float | None, lower: float | None, upper: float | None) -> int | None:
    """Return how many decimals are sure; None where ten digits are shown."""
    if estimate is None or lower is None or upper is None:
        return None
    half = upper / 2 - lower / 2  # Their difference may be too large.
    if not half > 0 or max(abs(estimate), abs(lower), abs(upper)) >= _LARGEST:
        return None
    decimals = max(0, _DIGITS - 1 - floor(log10(half)))
    return decimals if decimals <= _MOST_DECIMALS else None


def _text(number: float | None, decimals: int | None, rounding: str) -> str:
    if number is None:
        return "-"
    if decimals is None:
        return f"{number:,.10g}"
    # The shortest text of a double is the number that stands in the record.
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-decimals), rounding) + 0
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
