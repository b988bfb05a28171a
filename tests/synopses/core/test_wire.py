"""Numbers in the bytes of states: each has one form, its shortest, and no other is read."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.core import wire
from slidestat.synopses.core.envelope import Body, large, sealed, varint
from slidestat.synopses.core.errors import SynopsisError

NUMBERS = st.integers(0, 2**63 - 1)


def read(data: bytes) -> tuple[int, int]:
    array = np.frombuffer(bytearray(data), np.uint8)
    return wire.get_varint(array, 0, len(array))


@settings(deadline=None)
@given(NUMBERS, st.binary(max_size=3))
def test_a_number_is_read_back_whatever_follows(number: int, more: bytes) -> None:
    """In seven bits a byte, and not from fewer bytes than it was written in."""
    data = varint(number)
    assert len(data) == max(1, -(-number.bit_length() // 7))
    assert read(data + more) == (number, len(data))
    assert read(data[:-1]) == (-1, 0)


@settings(deadline=None)
@given(NUMBERS)
def test_a_longer_form_is_none(number: int) -> None:
    """Equal states are equal bytes, so zeros in front are refused."""
    data = varint(number)
    assert read(data[:-1] + bytes([data[-1] | 0x80, 0])) == (-1, 0)


@settings(deadline=None)
@given(st.integers(-(2**61), 2**61))
def test_signs_are_folded(number: int) -> None:
    """0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
    folded = wire.zigzag(number)
    assert folded == (2 * number if number >= 0 else -2 * number - 1)
    assert wire.unzigzag(folded) == number


@settings(deadline=None)
@given(st.integers(0, 2**125 - 1), st.integers(0, 2**125 - 1))
def test_large_numbers_are_two_small_ones(one: int, other: int) -> None:
    body = Body(large(one) + large(other))
    assert (body.large(), body.large(), body.rest()) == (one, other, b"")


@settings(deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_number_out_of_range_is_damage(number: int, one: int, other: int) -> None:
    """A body is read with the least and the most that a number may be."""
    least, most = sorted((one, other))
    body = Body(varint(number))
    if least <= number <= most:
        assert body.number(least, most) == number
    else:
        with pytest.raises(SynopsisError, match="damaged"):
            body.number(least, most)


@settings(deadline=None)
@given(st.integers(0, 255), st.binary(max_size=300))
def test_the_checksum_is_adler_32(kind: int, body: bytes) -> None:
    """Of RFC 1950, as zlib computes it, over the version, the kind and the body."""
    data = sealed(kind, body)
    assert data == bytes([0xA7, 0x53, 1, kind]) + data[4:8] + body
    assert int.from_bytes(data[4:8], "little") == zlib.adler32(data[2:4] + body)
