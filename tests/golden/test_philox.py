"""Philox 4x32-10 against the known answers that its authors publish with it."""

import pytest

from slidestat.synopses.core.philox import philox

ALL = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL,) * 4, (ALL,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "numbers"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], numbers: tuple[int, ...]
) -> None:
    """Nothing, everything, and the digits of pi."""
    assert philox(*counter, *key) == numbers
