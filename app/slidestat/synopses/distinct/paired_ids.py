"""Pairs of strings as 64-bit items, of which a predicate can tell the second string.

The lower 24 bits are a hash of the second string with a seed, the upper 40 of both: so pairs of
different second strings are as different as strings are (item_ids.py). Of x distinct pairs with one
second string, x^2 / 2^41 are taken for others: one of a million and a half. A second string is
taken for one of m others with a chance of m / 2^24, 0.006 % of a thousand: then the pairs of both
are meant. Who does not know the seed cannot choose strings that are taken for others.
"""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.distinct.distinct_wave import Predicate
from slidestat.synopses.distinct.item_ids import item_ids

_SECOND = (1 << 24) - 1
# Odd, so that nothing of the second string is lost; two equal strings do not cancel out.
_SPREAD = np.int64(0x2545F4914F6CDD1D)


def paired_ids(first: Integers, second: Integers) -> Integers:
    """Return int64, an item for each pair: of the `item_ids` of the first strings, and those of the
    second ones with the seed.
    """
    return ((first ^ (second * _SPREAD)) & ~_SECOND) | (second & _SECOND)


def second_is(text: str, seed: int) -> Predicate:
    """Return the predicate of `paired_ids`: whether the second string is `text`."""
    wanted = item_ids([text], seed)[0] & _SECOND
    return lambda items: (items & _SECOND) == wanted
