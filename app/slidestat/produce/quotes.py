"""Quotes and bytes of CSV, looked at on their way to pyarrow's reader.

pyarrow takes a quote that is never closed for a cell of all that follows, and drops a quote that
closes before other text. Rows behind either would be gone in silence, as parts of a cell. It reads
the text of a row with too many cells as UTF-8, and refuses the whole file if that fails.
"""

import codecs
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.errors import SlidestatError
from slidestat.produce.files import ByteSource, ByteStream
from slidestat.synopses.core.arrays import Bytes, Integers

_BLOCK_BYTES = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
_MARKS = re.compile(f"(?:^|(?<=\r)){BYTE_ORDER_MARK}+", re.MULTILINE)
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
_CELL_ENDS = b",\r\n"
# Bytes that may stand before a quote that opens a cell and behind one that closes it; another quote
# is half of a doubled one.
_BESIDE = np.isin(np.arange(256), list(_CELL_ENDS + b'"'))
_ADVICE = (
    'Close it, or write a quote that is part of a cell twice, and that cell in quotes: "5"" pipe".'
)

# A sign that no text has: U+10FFFF is none, by the Unicode standard. Before another it stands for a
# byte, and two of it for itself.
_ESCAPE = "\U0010ffff"
_ESCAPED = re.compile(b"%b([\xc2-\xf4][\x80-\xbf]{1,3})" % _ESCAPE.encode())
_TO_ESCAPE = re.compile(f"[\udc80-\udcff{_ESCAPE}]")


class Utf8Stream(ByteSource):
    """A stream of text in which bytes that are not UTF-8 are escaped; `escaped` once there was one.

    No escape has an ASCII byte, so rows and cells are the same. `restored` undoes the escapes. A
    byte order mark is left out where a line begins: files may have been joined.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._held = self._ready = b""
        self._is_over = False
        self._begins_line = True
        self.escaped = False

    def next_bytes(self, size: int) -> bytes:
        while not (self._ready or self._is_over):
            self._ready = self._next(size)
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def _next(self, size: int) -> bytes:
        more = self._stream.read(size)
        self._is_over = not more
        data, self._held = self._held + more, b""
        begins_line = self._begins_line
        if data.isascii():
            self._begins_line = data.endswith((b"\n", b"\r")) if data else begins_line
            return data
        try:
            text, end = codecs.utf_8_decode(data, "strict", self._is_over)
        except UnicodeDecodeError:
            text, end = codecs.utf_8_decode(data, "surrogateescape", self._is_over)
        data, self._held = data[:end], data[end:]
        if BYTE_ORDER_MARK in text:
            # The sign before tells whether the first one begins a line.
            text = _MARKS.sub("", ("\n" if begins_line else " ") + text)[1:]
            data = text.encode("utf-8", "surrogateescape")
        if text:
            self._begins_line = text.endswith(("\n", "\r"))
        if _TO_ESCAPE.search(text) is None:
            return data
        self.escaped = True
        return _TO_ESCAPE.sub(_escaped, text).encode()


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _ESCAPE + (found[0] if found[0] == _ESCAPE else chr(code - 0xDC00))


def restored(text: bytes) -> bytes:
    """Return the bytes of a text that `Utf8Stream` escaped."""
    return _ESCAPED.sub(_unescaped, text)


def restored_cells(column: pa.Array) -> pa.Array:
    """Return the bytes of cells that `Utf8Stream` escaped."""
    has = pc.fill_null(pc.match_substring(column, _ESCAPE), False)
    if not pc.any(has).as_py():
        return column
    cells = map(restored, column.filter(has).to_pylist())
    return pc.replace_with_mask(column, has, pa.array(cells, column.type))


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1].decode()
    return found[1] if text == _ESCAPE else bytes([ord(text)])


class CheckedQuotes(ByteSource):
    """A stream of CSV in which each quote is closed, and nothing follows it in its cell.

    A row with text behind a closing quote gets `mark`, which makes it a row with too many columns:
    it is set aside with its text. Reading raises SlidestatError for a quote that is never closed,
    and for one that closes in another line before other text, as nobody knows which rows lie
    between. A quote within a cell that does not begin with one is a character like any other.

    Blocks never end between the two bytes of a line end: within quotes, pyarrow would lose the
    second one (apache/arrow#51368).
    """

    def __init__(self, stream: ByteStream, name: str, mark: bytes = b"") -> None:
        self._stream = stream
        self._name = name
        self._mark = mark
        # Bytes that were read and not looked at yet, and bytes that are not handed on yet.
        self._held = self._ready = b""
        self._last = b""
        self._lines = 1
        # The line of the quote that is open.
        self._opened: int | None = None

    def next_bytes(self, size: int) -> bytes:
        self._ready = self._ready or self._next(size)
        if 1 < size < len(self._ready) and self._ready[size - 1] == ord("\r"):
            size -= 1
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def require_closed(self) -> None:
        """Raise SlidestatError if a quote is open that is never closed."""
        while self._opened is not None and self._checked(_BLOCK_BYTES)[0]:
            pass

    def _next(self, size: int) -> bytes:
        """Return the next bytes, none at the end; raises SlidestatError for a quoted cell that
        pyarrow cannot read, as it is as long as a block.
        """
        opened = self._opened
        data, is_one_cell = self._checked(size)
        if is_one_cell:
            while is_one_cell:
                _, is_one_cell = self._checked(size)
            raise self._error(
                f"the cell that a quote opens in line {opened} is longer than {size >> 10} KiB"
            )
        return data

    def _checked(self, size: int) -> tuple[bytes, bool]:
        """Read on, and return the text with its marks, and whether all of it lies in the quotes of
        one cell; raises SlidestatError for quotes that do not belong to rows.
        """
        more = self._stream.read(max(1, size - len(self._held)))
        data, self._held = self._held + more, b""
        if more:
            # The meaning of quotes at the end, and of half a line end, depends on what follows.
            cut = len(data.rstrip(b'"')) - data.endswith(b"\r")
            data, self._held = data[:cut], data[cut:]
            if not data:
                return self._checked(size + len(self._held))
        elif not data and self._opened is not None:
            raise self._error(f"the quote that opens in line {self._opened} is never closed")
        text = (self._last or b"\n") + data
        was_open = self._opened is not None
        closed, marked = self._closed(text) if b'"' in data else (False, [])
        self._lines += _line_ends(data)
        self._last = text[-1:]
        places = [1, *marked, len(text)]
        parts = [text[start:end] for start, end in pairwise(places)]
        return self._mark.join(parts), was_open and not closed and bool(data)

    def _closed(self, text: bytes) -> tuple[bool, list[int]]:
        """Look at the quotes behind the first character of a text; return whether any of them
        closes a cell, and where text follows a closing one.
        """
        signs = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(signs[1:] == _QUOTE) + 1
        return self._in_turn(text, signs, quotes) or self._one_by_one(text, quotes)

    def _in_turn(
        self, text: bytes, signs: Bytes, quotes: Integers
    ) -> tuple[bool, list[int]] | None:
        """Return what `_closed` returns, in one pass over all quotes, if they open and close in
        turn; None if some do not. A doubled quote counts as a closing and an opening one.
        """
        first = int(self._opened is not None)
        opening, closing = quotes[first::2], quotes[1 - first :: 2]
        before = signs[opening - 1]
        behind = np.append(signs, _CELL_ENDS[-1])[closing + 1]
        if not (_BESIDE[before].all() and _BESIDE[behind].all()):
            return None
        of_cells = opening[before != _QUOTE]
        if (first + len(quotes)) % 2 == 0:
            self._opened = None
        elif len(of_cells):
            self._opened = self._line_of(text, of_cells[-1])
        return bool((behind != _QUOTE).any()), []

    def _one_by_one(self, text: bytes, quotes: Integers) -> tuple[bool, list[int]]:
        """Return what `_closed` does, by a walk over the quotes."""
        is_closed, marked = False, []
        rest = iter(quotes.tolist())
        for place in rest:
            behind = text[place + 1 : place + 2]
            if self._opened is None:
                if text[place - 1] in _CELL_ENDS:
                    self._opened = self._line_of(text, place)
            elif behind == b'"':
                next(rest)
            else:
                if behind and behind not in _CELL_ENDS:
                    line = self._line_of(text, place)
                    if line != self._opened:
                        raise self._error(
                            f"the quote that opens in line {self._opened} closes in line {line},"
                            " and more text follows"
                        )
                    marked.append(place + 1)
                is_closed, self._opened = True, None
        return is_closed, marked

    def _line_of(self, text: bytes, place: int) -> int:
        return self._lines + _line_ends(text[1:place])

    def _error(self, reason: str) -> SlidestatError:
        return SlidestatError(f"{self._name} cannot be read: {reason}.", _ADVICE)


def _line_ends(text: bytes) -> int:
    # Counting in an array of bytes is five times faster than counting texts.
    feeds = int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_FEED))
    return feeds + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)
