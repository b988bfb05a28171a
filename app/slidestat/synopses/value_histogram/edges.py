"""The edges of a value histogram's bins: checked, and as bytes.

Bytes: how many edges there are; then a byte, the least number of decimals, 0 to 9, with which all
of them are whole multiples of 10^-decimals (below 2^51): the first multiple, zigzag coded, and the
differences. Or that byte is 255, and each edge is a double of 8 bytes, little-endian.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from struct import pack, unpack_from

from slidestat.synopses.core import wire
from slidestat.synopses.core.arrays import Bytes
from slidestat.synopses.core.envelope import varint
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_DECIMALS

MAX_EDGES = 1_000
_MAX_MULTIPLE = 1 << 51
_DOUBLES = 255


def checked(edges: Sequence[float]) -> tuple[float, ...]:
    """Return `edges` as rising finite doubles, 1 to 1,000 of them; SynopsisError otherwise."""
    try:
        numbers = tuple(float(edge) + 0.0 for edge in edges)  # -0.0 is 0.0
    except (TypeError, ValueError, OverflowError):
        raise SynopsisError(f"edges must be numbers, not {edges!r}") from None
    if not (1 <= len(numbers) <= MAX_EDGES):
        raise SynopsisError(f"there must be 1 to {MAX_EDGES} edges, not {len(numbers)}")
    if not all(isfinite(edge) for edge in numbers) or any(b <= a for a, b in pairwise(numbers)):
        raise SynopsisError("edges must be finite, and each must be above the one before")
    return numbers


def _multiples(edges: tuple[float, ...]) -> tuple[int, list[int]] | None:
    for decimals in range(MAX_DECIMALS + 1):
        scale = 10**decimals
        if max(abs(edges[0]), abs(edges[-1])) * scale >= _MAX_MULTIPLE:
            return None
        multiples = [round(edge * scale) for edge in edges]
        if all(q / scale == edge for q, edge in zip(multiples, edges, strict=True)):
            return decimals, multiples
    return None


def to_bytes(edges: tuple[float, ...]) -> bytes:
    """Return `edges`, which `checked` has returned, as bytes. Cost: O(edges)."""
    found = _multiples(edges)
    count = varint(len(edges))
    if found is None:
        return count + bytes([_DOUBLES]) + pack(f"<{len(edges)}d", *edges)
    decimals, multiples = found
    steps = [wire.zigzag(multiples[0]), *(b - a for a, b in pairwise(multiples))]
    return count + bytes([decimals]) + b"".join(varint(int(step)) for step in steps)


def from_bytes(data: Bytes, at: int) -> tuple[float, ...] | None:
    """Return the edges at data[at:], or None if there are none in the form they have to have."""
    count, at = wire.get_varint(data, at, len(data))
    if not (1 <= count <= MAX_EDGES) or at >= len(data):
        return None
    form = int(data[at])
    start = at + 1
    if form == _DOUBLES:
        if len(data) - start < 8 * count:
            return None
        edges = unpack_from(f"<{count}d", data.tobytes(), start)
    else:
        position = start
        multiple = 0
        numbers = []
        for i in range(count):
            step, position = wire.get_varint(data, position, len(data))
            if step < 0:
                return None
            multiple += wire.unzigzag(step) if i == 0 else step
            numbers.append(multiple)
        if form > MAX_DECIMALS or abs(numbers[0]) >= _MAX_MULTIPLE or multiple >= _MAX_MULTIPLE:
            return None
        edges = tuple(q / 10**form for q in numbers)
    try:
        return checked(edges)
    except SynopsisError:
        return None
