"""Quotes of CSV: Python's `csv`, asked to be strict, knows what a good file is."""

import csv
import gzip
import io
import re
from collections import Counter
from itertools import chain
from random import Random

import pytest

from slidestat.declare.statistics import Sum
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.produce.events import Columns, encode
from slidestat.produce.file_records import FileRecords, Part
from slidestat.produce.files import EventFile, Format
from slidestat.produce.quotes import CheckedQuotes, Utf8Stream, restored
from slidestat.produce.readers import BadRow, Reader, Rows

TEXTS, SIZES, MUTATED = 3_000, (1, 2, 3, 7, 64), 400
MARK = b"<MARK>"
HEAD, ROW = b"time,key,value\n", b"1764072000000,a,1\n"
NAMES = ("time", "key", "value")
TOPOLOGY = Topology(
    name="filled", source="events", span="1h", every="1m", statistics=(Sum(decimals=0),)
)
RECORDS = FileRecords.of(TOPOLOGY, {}, "ms")


def checked(text: bytes, size: int) -> bytes | SlidestatError:
    stream = CheckedQuotes(io.BytesIO(text), "x.csv", MARK)
    try:
        return b"".join(iter(lambda: stream.read(size) or b"", b""))
    except SlidestatError as error:
        return error


def is_good(text: bytes) -> bool:
    """Whether all quotes close, and before the end of their cells."""
    try:
        list(csv.reader(text.decode().splitlines(keepends=True), strict=True))
    except csv.Error:
        return False
    return True


def test_bytes_of_good_files_pass_and_others_are_told() -> None:
    """Any quotes, separators and line ends, in blocks of any size. What has text behind a quote is
    marked, or refused, and without the marks the text is what it was.
    """
    good = 0
    for seed in range(TEXTS):
        chance = Random(seed)
        text = "".join(chance.choices('a"",\n\r', k=chance.randrange(1, 14))).encode()
        good += is_good(text)
        told = set()
        for size in SIZES:
            found = checked(text, size)
            if isinstance(found, SlidestatError):
                told.add(found.message)
                continue
            assert found.replace(MARK, b"") == text, (text, size)
            assert (MARK not in found) == is_good(text), (text, size)
        # The same is found in blocks of any size, but for cells longer than one.
        told = {reason for reason in told if "longer than" not in reason}
        assert len(told) <= (not is_good(text)), text
    assert TEXTS / 4 < good < TEXTS * 3 / 4


def test_byte_order_marks_are_left_out_where_a_line_begins() -> None:
    """In blocks of any size; every other byte passes."""
    parts = [b"a", b"\n", b"\r", b"\xef\xbb\xbf", "\uff5e".encode(), b"\xef\xbb"]
    for seed in range(TEXTS):
        chance = Random(seed)
        whole = b"".join(chance.choices(parts, k=chance.randrange(1, 12)))
        expected = re.sub(rb"(\A|[\r\n])(?:\xef\xbb\xbf)+", rb"\1", whole)
        for size in SIZES:
            stream = Utf8Stream(io.BytesIO(whole))
            read = b"".join(iter(lambda: stream.read(size) or b"", b""))  # noqa: B023
            assert restored(read) == expected, (whole, size)


def test_bytes_that_are_not_utf8_can_be_read_and_restored() -> None:
    """What comes of any bytes is UTF-8 in blocks of any size, with the same bytes of ASCII in the
    same order; UTF-8 passes as it is, but for the sign of an escape.
    """
    parts = [b"a", b",", b"\n", b"\xe9", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xf4\x90", b"\x80"]
    parts += ["é".encode(), "€".encode(), "😀".encode(), "\U0010ffff".encode()]
    for seed in range(TEXTS):
        chance = Random(seed)
        whole = b"".join(chance.choices(parts, k=chance.randrange(1, 14)))
        for size in SIZES:
            stream = Utf8Stream(io.BytesIO(whole))
            found = b"".join(iter(lambda it=stream, size=size: it.read(size), b""))
            found.decode()
            assert restored(found) == whole, (whole, size)
            assert stream.escaped or found == whole, (whole, size)
            plain = [bytes(x for x in text if x < 0x80) for text in (found, whole)]
            assert plain[0] == plain[1], (whole, size)


def in_both_ways(content: bytes) -> tuple[list[bytes], list[BadRow]]:
    """What `produce` sends of a file, and its bad rows; a backfill has their text as well."""
    compression = "gzip" if content.startswith(b"\x1f\x8b") else None
    file = EventFile("x.csv", Format.CSV, compression, len(content), content)
    sent: list[bytes] = []
    bad: list[BadRow] = []
    numbers: list[int] = []
    for rows in Reader(file).batches(NAMES):
        sent += encode(rows, Columns("key", "time", "value")).values
        bad += rows.malformed
        numbers += rows.numbers
    assert sorted([*numbers, *(row.row for row in bad)]) == list(
        range(2, len(numbers) + len(bad) + 2)
    )
    filled = Counter(chain(*(batch["value"].to_pylist() for batch in RECORDS.read(Part(file, 0)))))
    # What `produce` does not send is refused by the worker that a backfill is.
    assert not Counter([*sent, *(row.text for row in bad)]) - filled
    return sent, bad


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (HEAD + ROW + b'1764072000000,b,"2\n' + ROW * 9, "line 3 is never closed"),
        (HEAD + ROW + b'1764072000000,b,"2', "line 3 is never closed"),
        (HEAD + ROW + b'1764072000000,b,"2""', "line 3 is never closed"),
        (HEAD + ROW + b'1764072000000,"b\n' + ROW * 40_000, "line 3 is never closed"),
        (b'time,"key,value\n' + ROW * 9, "line 1 is never closed"),
        (b'time,"key,value\n' + ROW * 40_000, "line 1 is never closed"),
        (HEAD + ROW * 40_000 + b'1764072000000,b,"2\n', "line 40002 is never closed"),
        ((HEAD + ROW).replace(b"\n", b"\r\n") + b',,"', "line 3 is never closed"),
        ((HEAD + ROW).replace(b"\n", b"\r") + b',,"', "line 3 is never closed"),
        (gzip.compress(HEAD + ROW + b'1764072000000,"b\n', mtime=0), "line 3 is never closed"),
        (HEAD + b'1764072000000,"b,2\n1764072000000,"c,3\n', "line 2 closes in line 3, and more"),
        (HEAD + b'1764072000000,"' + b"x" * 600_000 + b'",1\n', "line 2 is longer than 256 KiB"),
    ],
    ids=lambda it: it if isinstance(it, str) else len(it),
)
def test_quotes_that_take_rows_with_them_are_named(content: bytes, reason: str) -> None:
    """With the line where they open: at the end, over blocks, in the header, before other text."""
    with pytest.raises(SlidestatError, match=f"x.csv cannot be read: the .*{reason}") as told:
        in_both_ways(content)
    assert "Close it" in told.value.advice


def test_rows_with_text_behind_a_quote_are_bad_ones() -> None:
    """Alone, with their text; quotes in other cells are signs, and numbers of rows stay true."""
    rows = [
        b'1764072000000,5" pipe,1\n',
        b'1764072000000,"say "hi"",1\n',
        b'1764072000000,"b" ,1\n',
        b"1,2\n",
        b'1764072000000,"two\nlines",1\n',
        b'1764072000000,"it""s",1',
    ]
    sent, bad = in_both_ways(HEAD + b"".join(rows))
    assert [value.split(b",")[0] for value in sent] == [
        b'{"key":"5\\" pipe"',
        b'{"key":"two\\nlines"',
        b'{"key":"it\\"s"',
    ]
    assert [(row.row, row.text) for row in bad] == [
        (3, rows[1].strip()),
        (4, rows[2].strip()),
        (5, b"1,2"),
    ]
    assert "text behind a quote" in bad[0].reason


def rows_or_error(content: bytes) -> list[Rows] | SlidestatError:
    file = EventFile("x.csv", Format.CSV, None, len(content), content)
    try:
        return list(Reader(file).batches(NAMES))
    except SlidestatError as error:
        return error


def test_mutated_files_are_read_as_by_csv() -> None:
    """Both ways, cell by cell, where quotes are good; others are errors, or rows that are bad."""
    told = 0
    for seed in range(MUTATED):
        chance = Random(seed)
        body = b"".join(
            b'17640720%05d,"k, ""%d""\n",%d\n' % (row, row, row) if row % 3 else ROW
            for row in range(chance.randrange(1, 9))
        )
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(body))
            body = (
                body[:place]
                + chance.choice((b'"', b",", b"\r", b"\n", b"\0", b""))
                + body[place + 1 :]
            )
        content = HEAD + body
        read = rows_or_error(content)
        if isinstance(read, SlidestatError):
            assert not is_good(content) or "has no events" in read.message, content
            told += 1
            continue
        in_both_ways(content)
        if not is_good(content):
            assert any(
                "text behind a quote" in bad.reason for rows in read for bad in rows.malformed
            )
            told += 1
            continue
        cells = [
            [cell or "" for cell in row]
            for rows in read
            for row in zip(*(rows.columns[name].text().to_pylist() for name in NAMES), strict=True)
        ]
        lines = csv.reader(content.decode().splitlines(keepends=True), strict=True)
        assert cells == [row for row in lines if len(row) == len(NAMES)][1:], content
    assert MUTATED / 10 < told < MUTATED * 9 / 10
