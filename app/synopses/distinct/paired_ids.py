"""Pairs of strings as 64-bit items, of which a predicate can tell the second string.

The upper 40 bits are of the first string's `item_id`, the lower 24 of the second's. Of x distinct
first strings with one second string, x^2 / 2^41 are taken for others: one of two million. A second
string is taken for another of m with a chance of m / 2^24: 0.006 % of a thousand; then the pairs of
both are meant.
"""

from app.synopses.distinct.distinct_wave import Predicate
from app.synopses.distinct.item_ids import item_ids
from app.synopses.histogram_codec import Integers

_SECOND = (1 << 24) - 1


def paired_ids(first: Integers, second: Integers) -> Integers:
    """Return int64, an item for each pair of the `item_ids` of two strings."""
    return (first & ~_SECOND) | (second & _SECOND)


def second_is(text: str) -> Predicate:
    """Return the predicate of `paired_ids`: whether the second string is `text`."""
    wanted = item_ids([text])[0] & _SECOND
    return lambda items: (items & _SECOND) == wanted
