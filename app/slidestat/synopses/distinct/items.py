"""Strings as 64-bit items, the same on every machine and in every process.

XXH3 of the UTF-8 bytes (the xxhash library). Among x distinct strings, two or more are taken for
one with a chance of about x^2 / 2^65: one in 37 million for a million strings.

A pair of strings is an item, too, from which a predicate tells the second string: its lower 24 bits
are a hash of that with a seed, its upper 40 bits a hash of both. Among x distinct pairs with one
second string, about x^2 / 2^41 are taken for others: one of a million and a half. A second string
is taken for one of m others with a chance of m / 2^24, 0.006 % for a thousand others; a predicate
then means the pairs of both. Without the seed nobody can choose strings that collide.
"""

from collections.abc import Iterable

import numpy as np
import xxhash

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SEED, check_whole
from slidestat.synopses.distinct.wave import Predicate


def item_ids(values: Iterable[str | bytes], seed: int = 0) -> Integers:
    """Return int64, an item for each string; a str is taken by its UTF-8 bytes.

    seed: 0 to 2^63 - 1, of the hash. Raises SynopsisError for what is neither str nor bytes. Cost:
    some 60 ns a short string.
    """
    check_whole("seed", seed, 0, MAX_SEED)
    if isinstance(values, str | bytes):
        raise SynopsisError(f"items must be several, such as [{values!r}], not the letters of one")
    digest = xxhash.xxh3_64_intdigest
    try:
        numbers = [
            digest(v.encode("utf-8", "surrogatepass") if isinstance(v, str) else _bytes(v), seed)
            for v in values
        ]
    except TypeError as error:
        raise SynopsisError(f"items must be str or bytes, {error}") from None
    return np.array(numbers, np.uint64).view(np.int64)


def _bytes(item: object) -> bytes:
    """Return `item`, or raise TypeError for what is no bytes. xxhash would take numbers of NumPy by
    their bytes in memory: 1 would be one item as an int32, and another as an int64.
    """
    if not isinstance(item, bytes):
        raise TypeError(f"not {item!r}")
    return item


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
