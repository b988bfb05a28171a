"""Kernels that skip values that are not read, and validate them all the same."""

from slidestat.engine.decoding.json_scan.numbers import after_number
from slidestat.engine.decoding.json_scan.strings import (
    QUOTE,
    after_any_string,
    token,
)
from slidestat.synopses.core.arrays import Bytes
from slidestat.synopses.kernels.compile import borrowing_kernel

OPEN_OBJECT, CLOSE_OBJECT = ord("{"), ord("}")
COMMA, COLON = ord(","), ord(":")
_OPEN_ARRAY, _CLOSE_ARRAY = ord("["), ord("]")
_T, _R, _U, _E = b"true"
_F, _A, _L, _S = b"fals"
_N = ord("n")
_DEEPEST = 32


@borrowing_kernel
def after_word(buffer: Bytes, place: int, end: int) -> int:
    """Return the place behind true, false or null; -1 if none is at `place`."""
    if end - place < 4:
        return -1
    a, b, c, d = buffer[place], buffer[place + 1], buffer[place + 2], buffer[place + 3]
    if a == _T and b == _R and c == _U and d == _E:
        return place + 4
    if a == _N and b == _U and c == _L and d == _L:
        return place + 4
    if a == _F and b == _A and c == _L and d == _S and end - place > 4 and buffer[place + 4] == _E:
        return place + 5
    return -1


@borrowing_kernel
def _value_of_member(buffer: Bytes, place: int, end: int) -> int:
    """Return where the value behind the name at `place` begins; -1 if there is none."""
    if place < 0 or buffer[place] != QUOTE:
        return -1
    place = after_any_string(buffer, place + 1, end)
    if place >= 0:
        place = token(buffer, place, end)
    if place < 0 or buffer[place] != COLON:
        return -1
    return token(buffer, place + 1, end)


@borrowing_kernel
def _after_any_scalar(buffer: Bytes, place: int, end: int) -> int:
    byte = buffer[place]
    if byte == QUOTE:
        return after_any_string(buffer, place + 1, end)
    if byte in (_T, _F, _N):
        return after_word(buffer, place, end)
    return after_number(buffer, place, end)[0]


@borrowing_kernel
def after_any_value(buffer: Bytes, place: int, end: int) -> int:
    """Return the place behind the value that begins at `place`; -1 if it is malformed, not UTF-8,
    nested more than 32 deep, or has an escape of more than a letter.
    """
    # What is open: a bit each, 1 for an object, the innermost in the last place.
    open_objects, depth = 0, 0
    while place >= 0:
        byte = buffer[place]
        if byte in (OPEN_OBJECT, _OPEN_ARRAY) and depth < _DEEPEST:
            is_object = byte == OPEN_OBJECT
            close = CLOSE_OBJECT if is_object else _CLOSE_ARRAY
            place = token(buffer, place + 1, end)
            if place >= 0 and buffer[place] != close:
                depth += 1
                open_objects = open_objects * 2 + (1 if is_object else 0)
                if is_object:
                    place = _value_of_member(buffer, place, end)
                continue
            if place >= 0:
                place += 1
        else:
            place = _after_any_scalar(buffer, place, end)
        # A value has ended: close what it was the last of.
        while place >= 0:
            if depth == 0:
                return place
            place = token(buffer, place, end)
            is_object = open_objects & 1 == 1
            if place >= 0 and buffer[place] == COMMA:
                place = token(buffer, place + 1, end)
                if is_object:
                    place = _value_of_member(buffer, place, end)
                break
            if place < 0 or buffer[place] != (CLOSE_OBJECT if is_object else _CLOSE_ARRAY):
                return -1
            place += 1
            depth -= 1
            open_objects >>= 1
    return -1
