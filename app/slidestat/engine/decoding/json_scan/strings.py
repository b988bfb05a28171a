"""Kernels over strings of JSON: where they end, how long they are, whether they are UTF-8."""

from slidestat.synopses.core.arrays import Bytes
from slidestat.synopses.kernels.compile import borrowing_kernel

QUOTE, BACKSLASH = ord('"'), ord("\\")
SPACE, _NEWLINE, _RETURN, _TAB = b" \n\r\t"
_FIRST_PRINTABLE = 0x20
_ASCII_END = 0x80
_SHORT_ESCAPES = frozenset(b'"\\/bfnrt')
_IS_SHORT_ESCAPE = tuple(byte in _SHORT_ESCAPES for byte in range(128))


@borrowing_kernel
def token(buffer: Bytes, place: int, end: int) -> int:
    """Return the first place from `place` on that is no white space; -1 if there is none."""
    while place < end:
        byte = buffer[place]
        if byte > SPACE or (
            byte != SPACE and byte != _NEWLINE and byte != _RETURN and byte != _TAB
        ):
            return place
        place += 1
    return -1


@borrowing_kernel
def after_character(buffer: Bytes, place: int, end: int) -> int:
    """Return where a character of several bytes ends, -1 if it is not UTF-8 (RFC 3629, section 4:
    no surrogates, nothing longer than it must be, nothing beyond U+10FFFF).
    """
    lead = buffer[place]
    if lead < 0xC2 or lead > 0xF4:
        return -1
    size = 2
    if lead >= 0xE0:
        size = 3
    if lead >= 0xF0:
        size = 4
    if place + size > end:
        return -1
    for i in range(1, size):
        if buffer[place + i] & 0xC0 != 0x80:
            return -1
    second = buffer[place + 1]
    if (
        (lead == 0xE0 and second < 0xA0)
        or (lead == 0xED and second > 0x9F)
        or (lead == 0xF0 and second < 0x90)
        or (lead == 0xF4 and second > 0x8F)
    ):
        return -1
    return place + size


@borrowing_kernel
def plain_end(buffer: Bytes, place: int, end: int) -> int:
    """Return where the string that begins at `place`, behind its quote, has its other quote; -1 for
    one with escapes, control characters or no UTF-8.
    """
    while place < end:
        byte = buffer[place]
        if byte == QUOTE:
            return place
        if byte == BACKSLASH or byte < _FIRST_PRINTABLE:
            return -1
        if byte < _ASCII_END:
            place += 1
        else:
            place = after_character(buffer, place, end)
            if place < 0:
                return -1
    return -1


@borrowing_kernel
def after_any_string(buffer: Bytes, place: int, end: int) -> int:
    """Return the place behind a string that begins at `place`, behind its quote; escapes of one
    letter may be in it. -1 as above.
    """
    while place < end:
        byte = buffer[place]
        if byte == QUOTE:
            return place + 1
        if byte < _FIRST_PRINTABLE:
            return -1
        if byte == BACKSLASH:
            if place + 1 >= end or buffer[place + 1] >= _ASCII_END:
                return -1
            if not _IS_SHORT_ESCAPE[buffer[place + 1]]:
                return -1
            place += 2
        elif byte < _ASCII_END:
            place += 1
        else:
            place = after_character(buffer, place, end)
            if place < 0:
                return -1
    return -1
