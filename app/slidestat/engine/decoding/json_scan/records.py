"""The kernel that finds the fields of a plan in records."""

from slidestat.engine.decoding.json_scan.numbers import after_number
from slidestat.engine.decoding.json_scan.plan import (
    DECIMAL,
    FALSE,
    INNER,
    NAME_END,
    NAME_START,
    NOTHING,
    OUTER,
    TAKES,
    TEXT,
    TRUE,
    WHOLE,
    Found,
    Plan,
)
from slidestat.kernels.compile import borrowing_kernel, unlocked_kernel
from slidestat.synopses.core.arrays import Bytes, Integers

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
    # The brackets that are open, a bit each: 1 for an object, the innermost in the last place.
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


@borrowing_kernel
def _next_token(buffer: Bytes, place: int, end: int) -> int:
    """Return the same as `token`; quick where there is no white space."""
    if place < end and buffer[place] > SPACE:
        return place
    return token(buffer, place, end)


@borrowing_kernel
def _is_named(buffer: Bytes, start: int, end: int, names: Bytes, first: int, size: int) -> bool:
    """Return whether the bytes from `start`, up to `end`, are a name and the quote behind it."""
    if start + size >= end or buffer[start + size] != QUOTE:
        return False
    same = 0
    while same < size and buffer[start + same] == names[first + same]:
        same += 1
    return same == size


@borrowing_kernel
def _known_field(
    buffer: Bytes, start: int, end: int, names: Bytes, fields: Integers, first: int, last: int
) -> int:
    """Return which of the fields from `first` up to `last` has the name at `start`; -1 if none."""
    for field in range(first, last):
        name = fields[field, NAME_START]
        if _is_named(buffer, start, end, names, name, fields[field, NAME_END] - name):
            return field
    return -1


@borrowing_kernel
def _scalar(buffer: Bytes, place: int, end: int) -> tuple[int, int, int]:
    """Return the sort of the text, number or word at `place`, where it begins and where it ends,
    without quotes; (0, 0, -1) if there is none that is plain.
    """
    byte = buffer[place]
    if byte == QUOTE:
        return TEXT, place + 1, plain_end(buffer, place + 1, end)
    if byte in (_T, _F, _N):
        sort = TRUE if byte == _T else FALSE if byte == _F else NOTHING
        return sort, place, after_word(buffer, place, end)
    after, is_whole = after_number(buffer, place, end)
    return WHOLE if is_whole else DECIMAL, place, after


@unlocked_kernel
def read_records(
    buffer: Bytes, record_starts: Integers, record_ends: Integers, plan: Plan, found: Found
) -> None:
    """Find the fields of the records buffer[record_starts[i]:record_ends[i]]; sorts are 0 before.

    The record is plain: strings without escapes, and no field twice. All else of such a record is
    checked and passed over.
    """
    names, fields, firsts, required, followers, path = plan
    is_plain, sorts, starts, ends = found
    needed = required[0]
    for row in range(len(record_starts)):
        end = record_ends[row]
        place = _next_token(buffer, record_starts[row], end)
        if place >= 0:
            place = _next_token(buffer, place + 1, end) if buffer[place] == OPEN_OBJECT else -1
        inside, depth, seen = 0, 0, 0
        before = len(fields)
        is_first, is_whole = True, False
        while place >= 0:
            if not (is_first and buffer[place] == CLOSE_OBJECT):
                # A name, and which field has it: the one that came here last, in most cases.
                field, start = followers[before], place + 1
                if buffer[place] != QUOTE:
                    break
                if field >= 0 and _is_named(
                    buffer,
                    start,
                    end,
                    names,
                    fields[field, NAME_START],
                    fields[field, NAME_END] - fields[field, NAME_START],
                ):
                    place = start + fields[field, NAME_END] - fields[field, NAME_START]
                else:
                    place = plain_end(buffer, start, end)
                    if place < 0:
                        break
                    field = _known_field(
                        buffer, start, place + 1, names, fields, firsts[inside], firsts[inside + 1]
                    )
                    if field >= 0:
                        followers[before] = field
                place = _next_token(buffer, place + 1, end)
                if place < 0 or buffer[place] != COLON:
                    break
                place = _next_token(buffer, place + 1, end)
                if place < 0:
                    break
                # The value of the field.
                if field < 0:
                    place = after_any_value(buffer, place, end)
                else:
                    if (seen >> field) & 1 == 1:
                        break
                    seen |= 1 << field
                    before = field
                    if fields[field, INNER] >= 0 and buffer[place] == OPEN_OBJECT:
                        path[depth] = field
                        depth += 1
                        inside = fields[field, INNER]
                        before = len(fields) + inside
                        is_first = True
                        place = _next_token(buffer, place + 1, end)
                        continue
                    sort, start, place = _scalar(buffer, place, end)
                    if sort & fields[field, TAKES] == 0:
                        break
                    sorts[field, row] = sort
                    starts[field, row] = start
                    ends[field, row] = place
                    if sort == TEXT and place >= 0:
                        place += 1
                if place < 0:
                    break
                place = _next_token(buffer, place, end)
            is_first = False
            # Close the objects that this value was the last of.
            while place >= 0 and buffer[place] == CLOSE_OBJECT and depth > 0:
                depth -= 1
                before = path[depth]
                inside = fields[before, OUTER]
                place = _next_token(buffer, place + 1, end)
            if place < 0 or buffer[place] != COMMA:
                is_whole = place >= 0 and buffer[place] == CLOSE_OBJECT
                break
            place = _next_token(buffer, place + 1, end)
        is_plain[row] = (
            is_whole and _next_token(buffer, place + 1, end) < 0 and seen & needed == needed
        )
