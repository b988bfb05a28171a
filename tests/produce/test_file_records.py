"""A file backfilled is the file produced: the same records, whatever it is written like.

Each file is made of records that are known, by writers that are not ours.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time as clock, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidestat.declare.statistics import Count, Distinct, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.errors import SlidestatError
from slidestat.produce.events import Columns, encode, raw_records
from slidestat.produce.file_records import FileRecords, Part
from slidestat.produce.files import WHOLE, EventFile, Format, Share, compression_of
from slidestat.produce.readers import Reader

NOON = 1_764_072_000_000
# More of those that are opened quickly; what is dear is tried on some.
CSV_FILES, JSON_FILES, PARQUET_FILES = 1_500, 4_000, 1_500
SHARED_EACH, SENT_EACH = 5, 3
TOPOLOGY = Topology(
    name="filled",
    source="events",
    span="1h",
    every="1m",
    statistics=(Count(), Sum(decimals=1), Distinct(field="code"), TopItems(field="path")),
)
COLUMNS = Columns("key", "time", "value", more=("code", "path"))
RECORDS = FileRecords.of(TOPOLOGY, {}, "ms")
DECODER = EventDecoder(TOPOLOGY)
NAMES = ("key", "time", "value", "code", "path")


class Record(NamedTuple):
    """A Kafka record: its time is None where it can have none."""

    time: int | None
    key: bytes | None
    value: bytes


def file_of(content: bytes, format: Format, name: str = "x") -> EventFile:
    compression = None if format is Format.PARQUET else compression_of(name, content)
    return EventFile(name, format, compression, len(content), content)


def read(file: EventFile, share: Share = WHOLE, records: FileRecords = RECORDS) -> list[Record]:
    found: list[Record] = []
    for batch in records.read(Part(file, 0, share)):
        found += map(Record, *(column.to_pylist() for column in batch))
    return found


def read_in_shares(file: EventFile, of: int, records: FileRecords = RECORDS) -> list[Record]:
    return [one for n in range(of) for one in read(file, Share(n, of), records)]


def produced(file: EventFile) -> list[Record]:
    """What `slidestat produce --skip-bad` sends of a file."""
    found: list[Record] = []
    for rows in Reader(file).batches(COLUMNS.names):
        sent = encode(rows, COLUMNS)
        found += map(Record, sent.timestamps_ms, sent.keys, sent.values)
    return found


def of_cells(*cells: bytes | None) -> bytes:
    """The record of a row whose cells are these in JSON."""
    there = [b'"%b":%b' % (n.encode(), c) for n, c in zip(NAMES, cells, strict=True) if c]
    return b"{%b}" % b",".join(there)


def assert_produced(found: Sequence[Record], sent: Sequence[Record]) -> None:
    """What is sent of a file is what is found; what is not sent is refused, or has no value."""
    left = list(found)
    for record in sent:
        while left and left[0] != record:
            assert_not_counted(left.pop(0))
        assert left, record
        left.pop(0)
    for record in left:
        assert_not_counted(record)


def assert_not_counted(record: Record) -> None:
    refused = DECODER.decode([record.value], [record.key], [record.time or -1]).refusals
    assert refused or b'"value":' not in record.value, record


# Cells of CSV, and what each is in JSON: as a number, as another field.
WORDS = ("a", "007", "1.10", "12E4", "C:\\", "10:30", "2025-11-25", "TRUE", "ü", " b ", "+5", "NaN")
QUOTED = ('say "hi", now', "two\nlines", 'C:\\",', "two\r\nlines")
VALUES = {"1": b"1", "2.50": b"2.50", "+3": b"3", ".5": b"0.5", " 4 ": b"4", "007": b'"007"'}
VALUES |= {
    "x": b'"x"',
    "": None,
    "1e1": b"1e1",
    "NaN": b'"NaN"',
    "9007199254740993": b"9007199254740993",
}
IN_JSON = {"1.10": b"1.10", "12E4": b"12E4", "": None}
TIMES: dict[str, bytes | None] = {
    "soon": b'"soon"',
    "": None,
    "2025-11-25T12:00:00.0015Z": b"%d" % (NOON + 1),
    "2025-11-25 13:00:00+01:00": b"%d" % NOON,
    "2025-11-25": b"%d" % (NOON - 43_200_000),
}


def in_json(cell: str) -> bytes | None:
    if cell in IN_JSON:
        return IN_JSON[cell]
    escaped = cell.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%b"' % escaped.replace("\r", "\\r").encode()


def of_text(cell: str) -> bytes | None:
    return b'"%b"' % cell.encode() if cell in ("1.10", "12E4") else in_json(cell)


def csv_file(chance: Random) -> tuple[EventFile, list[Record], bool]:
    """A file, its records, and whether a quote is in it."""
    names = [*NAMES, "more"]
    chance.shuffle(names)
    words = [*WORDS, *(QUOTED if chance.random() < 0.5 else ())]
    text = io.StringIO("\ufeff" if chance.random() < 0.2 else "", newline="")
    text.seek(0, io.SEEK_END)
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(text, quoting=quoting, lineterminator=chance.choice(("\n", "\r\n")))
    writer.writerow(names)
    good, bad = [], []
    for row in range(chance.randrange(12)):
        if chance.random() < 0.05:
            text.write(f"{row}\n")
            bad.append(Record(None, None, str(row).encode()))
            continue
        times = TIMES | {str(NOON + row): b"%d" % (NOON + row)}
        cells = {"more": "m", "key": chance.choice(words), "code": chance.choice(["", *words])}
        cells |= {"path": chance.choice(words), "value": chance.choice([*VALUES])}
        cells["time"] = str(NOON + row) if chance.random() < 0.7 else chance.choice([*times])
        writer.writerow([cells[name] for name in names])
        time, value = times[cells["time"]], VALUES[cells["value"]]
        record = of_cells(
            of_text(cells["key"]), time, value, in_json(cells["code"]), in_json(cells["path"])
        )
        ms = int(time) if time and time.isdigit() else None
        good.append(Record(ms, cells["key"].encode(), record))
    content = text.getvalue().encode()
    compress = chance.choice((bytes, bytes, bytes, gzip.compress, bz2.compress, lzma.compress))
    return file_of(compress(content), Format.CSV), [*good, *bad], b'"' in content


def test_csv_is_what_is_written() -> None:
    """Quotes, line feeds in them, marks, compressions under any name, orders of columns, rows of
    another width; in one reading, in shares, and sent by `produce`.
    """
    for seed in range(CSV_FILES):
        chance = Random(seed)
        file, records, has_quotes = csv_file(chance)
        assert read(file) == records, seed
        if seed % SENT_EACH == 0:
            assert_produced(records, produced(file))
        if seed % SHARED_EACH == 0 and file.compression is None and not has_quotes:
            assert sorted(map(repr, read_in_shares(file, chance.randrange(2, 9)))) == sorted(
                map(repr, records)
            ), seed


def json_line(chance: Random, row: int) -> tuple[bytes, int | None, bytes | None]:
    """A line, its time and its key."""
    key, key_text = chance.choice(
        [
            ('"a"', b"a"),
            ('"007"', b"007"),
            ("7", b"7"),
            ("1.5", None),
            ("null", None),
            ("[1]", None),
        ]
        + [('"\\u00fc"', "ü".encode())] * 2
    )
    time = NOON + row
    value = chance.choice(("1", "2.50", '"n/a"', "{}", "true", "null", "-1"))
    code = chance.choice(('"x"', "1.10", "9007199254740993", "false", "[]"))
    line = f'{{"key": {key}, "time": {time}, "value": {value},"code":{code}, "path": "/"}}'
    can_be_read = key_text is not None and value in ("1", "2.50", "null") and code != "[]"
    if chance.random() < 0.1:
        wrong = chance.choice((b'{"key": "a", "time', b"[1]", b"\xff", b"NaN", b"7", b'"x"'))
        return wrong, None, None
    return line.encode(), time if can_be_read else None, key_text


def test_lines_of_json_are_sent_as_they_are() -> None:
    """Those that are no events as well; blank ones are none. In one reading, in shares, and sent by
    `produce --raw`.
    """
    for seed in range(JSON_FILES):
        chance = Random(seed)
        lines = [json_line(chance, row) for row in range(chance.randrange(1, 12))]
        if lines[0][0].startswith(b"["):  # A file that begins so is refused as one array.
            continue
        end = chance.choice((b"\n", b"\n\n", b"\r\n"))
        # As in files with a byte order mark that were joined.
        marked = {row for row in range(len(lines)) if chance.random() < 0.2}
        content = b"".join(
            (b"\xef\xbb\xbf" if row in marked else b"") + line + end
            for row, (line, _, _) in enumerate(lines)
        )
        cut = b"\r" if end == b"\r\n" else b""
        expected = [Record(time, key, line + cut) for line, time, key in lines]
        file = file_of(content, Format.JSON_LINES)
        assert read(file) == expected, seed
        if seed % SENT_EACH == 0:
            assert [one[1:] for one in expected] == sent_raw(file), seed
        if seed % SHARED_EACH == 0:
            assert read_in_shares(file, chance.randrange(2, 9)) == expected, seed


def sent_raw(file: EventFile) -> list[tuple[bytes | None, bytes]]:
    lines = [line for _, part in Reader(file).lines() for line in part if line.strip()]
    sent = raw_records(lines, "key")
    return list(zip(sent.keys, sent.values, strict=True))


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


# Types of Parquet, their cells, and what each is in JSON; None is a cell that is missing.
NULL = (None, None)
WHOLE_NUMBERS = [(0, b"0"), (7, b"7"), (100, b"100"), NULL]
LARGE = [*WHOLE_NUMBERS, (9_007_199_254_740_993, b"9007199254740993"), (-3, b"-3")]
FLOATS = [(1.5, b"1.5"), (2.0, b"2"), (0.1, b"0.1"), (math.nan, None), (math.inf, b"<inf>"), NULL]
DOUBLES = [*FLOATS, (12_345_678_901.0, b"12345678901"), (-0.0, b"0")]
TEXTS = [(word, b'"%b"' % word.replace("\\", "\\\\").encode()) for word in WORDS] + [NULL]
BYTES = [(text and text.encode(), json) for text, json in TEXTS] + [(b"Z\xfcr", b"<Z\xfcr>")]
KINDS: list[tuple[pa.DataType, Sequence[tuple[Any, bytes | None]]]] = [
    *[(kind, WHOLE_NUMBERS) for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64())],
    (pa.int64(), LARGE),
    (pa.float32(), FLOATS),
    (pa.float64(), DOUBLES),
    (pa.decimal128(12, 2), [(Decimal("1.10"), b"1.10"), (Decimal("-0.01"), b"-0.01"), NULL]),
    *[(kind, TEXTS) for kind in (pa.string(), pa.large_string())],
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.binary(), BYTES),
    (pa.bool_(), [(True, b"true"), (False, b"false"), NULL]),
    (pa.date32(), [(date(2025, 11, 25), b'"2025-11-25"'), NULL]),
    *[
        (pa.timestamp(unit), [(NOON * per, b'"2025-11-25 12:00:00.000000"'), NULL])
        for unit, per in (("ms", 1), ("us", 1_000), ("ns", 1_000_000))
    ],
    (pa.timestamp("ns"), [(NOON * 10**6 + 1, b'"2025-11-25 12:00:00.000000001"'), NULL]),
    *[
        (pa.timestamp(unit, zone), [(moment(NOON), b'"2025-11-25 12:00:00.000000Z"'), NULL])
        for unit, zone in (("us", "UTC"), ("ms", "Europe/Berlin"), ("ns", "+05:30"))
    ],
    *[
        (kind, [(clock(10, 30, 5), b'"10:30:05.000000"'), NULL])
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))
    ],
    (
        pa.time64("ns"),
        [(37_805_005_000_000, b'"10:30:05.005000"'), (5_000_000_007, b'"00:00:05.000000007"')],
    ),
    (pa.list_(pa.int8()), [([1, None], b"[1,null]"), NULL]),
]
UNITS = (("ms", 1), ("us", 1_000), ("ns", 1_000_000))
TIME_KINDS = [(pa.timestamp(unit, zone), per) for zone in (None, "UTC") for unit, per in UNITS]
TIME_KINDS += [(pa.int64(), 1), (pa.float64(), 1), (pa.decimal128(38, 0), 1)]


def text_key(json: bytes | None) -> bytes | None:
    """What a cell that is `json` is as a key."""
    if json is None or json[:1] in b"[<":
        return None
    return json.strip(b'"').replace(b"\\\\", b"\\")


def parquet_file(chance: Random) -> tuple[EventFile, list[Record]]:
    rows = chance.randrange(10)
    cells: dict[str, list[Any]] = {}
    json: dict[str, list[bytes | None]] = {}
    columns: dict[str, pa.Array] = {}
    for name in ("key", "value", "code", "path"):
        kind, values = chance.choice(KINDS)
        picked = [chance.choice(values) for _ in range(rows)]
        cells[name], json[name] = [cell for cell, _ in picked], [text for _, text in picked]
        columns[name] = pa.array(cells[name], kind)
    kind, per = chance.choice(TIME_KINDS)
    times = [None if chance.random() < 0.1 else NOON + row for row in range(rows)]
    counts = pa.array([ms and ms * per for ms in times], pa.int64())
    columns["time"] = counts.cast(kind)
    if chance.random() < 0.3:
        del columns["code"]
        json["code"] = [None] * rows
    table = pa.table({name: columns[name] for name in chance.sample([*columns], len(columns))})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=3)
    records = []
    for row, time in enumerate(times):
        key = text_key(json["key"][row])
        shown = json["key"][row]
        if key is not None:
            shown = b'"%b"' % key.replace(b"\\", b"\\\\")
        elif shown is not None:
            shown = b"<[1, None]>" if shown[:1] == b"[" else shown
        others = (json[name][row] for name in ("value", "code", "path"))
        value = of_cells(shown, None if time is None else b"%d" % time, *others)
        records.append(Record(time, key, value))
    return file_of(sink.getvalue(), Format.PARQUET), records


def test_parquet_is_what_its_types_mean() -> None:
    """Of every type, with cells that are null, not finite, not UTF-8; columns in any order, one of
    them missing; in one reading, by row groups, and sent by `produce`.
    """
    for seed in range(PARQUET_FILES):
        chance = Random(seed)
        file, records = parquet_file(chance)
        assert read(file) == records, seed
        if seed % SHARED_EACH == 0:
            assert read_in_shares(file, chance.randrange(2, 5)) == records, seed
        if seed % SENT_EACH == 0 and b"code" in file.content[-2_000:]:  # type: ignore[index]  # `produce` wants all.
            assert_produced(records, produced(file))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array([2**62], pa.timestamp("us", "Nowhere/Town")),
        pa.array([[2**62]], pa.list_(pa.timestamp("us"))),
        pa.array([{"at": 2**62}], pa.struct([("at", pa.timestamp("us"))])),
    ],
    ids=lambda column: str(column.type),
)
def test_a_time_that_no_calendar_has_is_refused_with_its_record(column: pa.Array) -> None:
    """Python has fewer times than Arrow, also within lists."""
    table = pa.table({"key": ["a"], "time": [NOON], "value": [1], "code": ["c"], "path": column})
    for name, shown in (("path", b'"path":<'), ("key", b'"key":<')):
        places = {"path": name, name: "path"}
        sink = io.BytesIO()
        pq.write_table(table.rename_columns([places.get(n, n) for n in table.column_names]), sink)
        (record,) = read(file_of(sink.getvalue(), Format.PARQUET))
        assert shown in record.value
        assert_not_counted(record)


def values(content: bytes, format: Format, records: FileRecords, name: str = "x") -> list[bytes]:
    return [record.value for record in read(file_of(content, format, name), records=records)]


NESTED = Topology(
    name="nested",
    source="events",
    span="1h",
    every="1m",
    key_field="user.id",
    time_field="at",
    statistics=(Sum(field="request.bytes", decimals=0), TopItems(field="store")),
)


def test_fields_in_objects_and_in_the_names_of_folders() -> None:
    """Of structs, of objects, of columns whose names have points; a folder's is a text. Lines that
    are records already have them added, and their own hold.
    """
    records = FileRecords.of(NESTED, {}, "ms")
    name = "a/store=007/kind=%C3%BC/x"
    whole = b'{"user":{"id":"u"},"at":1764072000000,"request":{"bytes":5},"store":"007"}'
    user, request = pa.array([{"id": "u", "n": 1}]), pa.array([{"bytes": 5}])
    sink = io.BytesIO()
    pq.write_table(pa.table({"user": user, "request": request, "at": [NOON]}), sink)
    assert values(sink.getvalue(), Format.PARQUET, records, name) == [whole]
    text = b"user.id,request.bytes,at\nu,5,1764072000000\n"
    assert values(text, Format.CSV, records, name) == [whole]
    assert values(text.replace(b",", b"\t"), Format.TSV, records, name) == [whole]
    own = b'{"store": "x", "user":{"id":"u"}}'
    lines = b"\n".join([own, b"{}", b"[1]"])
    assert values(lines, Format.JSON_LINES, records, name) == [
        b'{"store":"007",' + own[1:],
        b'{"store":"007"}',
        b"[1]",
    ]
    named = FileRecords.of(NESTED, {"user.id": "u.name", "at": "t"}, "ms")
    line = b'{"u":{"name":"u"},"t":"2025-11-25T12:00:00Z","request":{"bytes":5}}\n{"u.name":7}\n['
    # A null is the line's own, as it is to those that are records already.
    line = b'{"u":{"name":"n"},"t":1764072000000,"store":null}\n' + line
    assert values(line, Format.JSON_LINES, named, name) == [
        b'{"user":{"id":"n"},"at":1764072000000}',
        whole,
        b'{"user":{"id":"7"},"store":"007"}',
        b"[",
    ]


def timed(time_format: str) -> Topology:
    """Return a topology that reads times in this format."""
    return Topology(
        name="timed",
        source="events",
        span="1h",
        every="1m",
        time_format=time_format,
        statistics=(Count(),),
    )


@pytest.mark.parametrize(
    ("time_format", "noon"),
    [
        ("s", b"1764072000.0"),
        ("us", b"1764072000000000"),
        ("ns", b"1764072000000000000"),
        ("iso8601", b'"2025-11-25T12:00:00+00:00"'),
    ],
)
def test_times_are_written_as_the_topology_reads_them(time_format: str, noon: bytes) -> None:
    """What is no time, or far from all of them, is refused, in no format taken for another time."""
    topology = timed(time_format)
    cells = ["1764072000000", "soon", "1152921504606846976", "-62135596800000", ""]
    text = "\n".join(["key,time", *(f"a,{cell}" for cell in cells)]).encode()
    found = read(file_of(text, Format.CSV), records=FileRecords.of(topology, {}, "ms"))
    assert found[0] == Record(NOON, b"a", b'{"key":"a","time":%b}' % noon)
    assert found[1].value == b'{"key":"a","time":"soon"}'
    values = [one.value for one in found]
    seconds = ["\t1764072000", "\xa01764072000\u2009"]
    column = {"key": ["a"] * 5, "time": ["1152921504606846976", "-5", "1700-01-01", *seconds]}
    sink = io.BytesIO()
    pq.write_table(pa.table(column), sink)
    texts = read(
        file_of(sink.getvalue(), Format.PARQUET), records=FileRecords.of(topology, {}, "ms")
    )
    values += [one.value for one in texts]
    events = EventDecoder(topology).decode(values, [b"a"] * len(values))
    assert events.times.tolist() == [NOON]
    assert [refusal.row for refusal in events.refusals] == list(range(1, 10))


@pytest.mark.parametrize("time_format", ["ms", "s"])
def test_a_time_that_has_lost_digits_is_counted_nowhere(time_format: str) -> None:
    """By no way to a topic, as a number neither; numbers of JSON have all of theirs."""
    topology = timed(time_format)
    records = FileRecords.of(topology, {}, "ms")
    cells = ("1.76407E+12", "1.764072e12", "1.7640720E12")
    file = file_of("\n".join(["key,time", *(f"a,{cell}" for cell in cells)]).encode(), Format.CSV)
    found = read(file, records=records)
    assert [one.time for one in found] == [None, None, NOON]
    assert found[0].value == b'{"key":"a","time":"1.76407E+12"}'
    events = EventDecoder(topology).decode([one.value for one in found], [b"a"] * len(found))
    assert events.times.tolist() == [NOON]
    assert all("has lost its last digits" in refusal.detail for refusal in events.refusals)

    columns = Columns("key", "time", more=("time of it",))
    [rows] = Reader(file).batches(["key", "time"])
    rows.columns["time of it"] = rows.columns["key"]
    sent = encode(rows, columns)
    assert sent.timestamps_ms == [NOON]
    assert sent.first_bad is not None
    assert "1.76407E+12', which is not a time, and has lost" in sent.first_bad.reason

    line = file_of(b'{"key":"a","time":1.764072e12}\n', Format.JSON_LINES)
    named = FileRecords.of(topology, {"key": "key", "time": "time"}, "ms")
    [record] = read(line, records=named)
    assert record.time == NOON
    assert EventDecoder(topology).decode([record.value]).times.tolist() == [NOON]


@pytest.mark.parametrize(("kind", "bits"), [(pa.float32(), 32), (pa.float16(), 16)])
def test_times_in_narrow_floats_are_refused(kind: pa.DataType, bits: int) -> None:
    """Of 32 bits, today's milliseconds are 131 s apart, and seconds 128 s."""
    times = pa.array([NOON / 1e9], pa.float64()).cast(kind)
    table = pa.table({"key": ["a"], "time": times, "value": [1], "code": ["1"], "path": ["/"]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    file = file_of(sink.getvalue(), Format.PARQUET)
    for way in (read, produced):
        with pytest.raises(SlidestatError, match=f"'time' .* is a column of {bits}-bit floats"):
            way(file)


@pytest.mark.parametrize("time_format", ["ms", "us", "iso8601"])
def test_a_length_of_time_is_no_time(time_format: str) -> None:
    """Whatever its number, which would be one in the column's unit."""
    topology = timed(time_format)
    length = pa.array([NOON], pa.int64()).cast(pa.duration("ms"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": ["a"], "time": length}), sink)
    file = file_of(sink.getvalue(), Format.PARQUET)
    (found,) = read(file, records=FileRecords.of(topology, {}, "ms"))
    assert found.value == b'{"key":"a","time":<20417 days, 12:00:00>}'
    assert_not_counted(found)


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_header_before_the_first_line_feed(end: str) -> None:
    """In files whose lines end in carriage returns, or some of them, no share has a row twice."""
    rows = [f"a,{NOON + row}" for row in range(6)]
    text = end.join(["", "key,time", rows[0], "\r".join(rows[1:4]), "\n".join(rows[4:])]).encode()
    for shares in (1, 2, 5):
        found = read_in_shares(file_of(text, Format.CSV), shares)
        assert [one.time for one in found] == [NOON + row for row in range(6)]


def test_a_file_without_a_key_is_named() -> None:
    """One that lacks another field is not."""
    with pytest.raises(SlidestatError, match="x has no column 'key'"):
        read(file_of(b"time,value\n1,1\n", Format.CSV))
    assert read(file_of(b"key,time\na,1764072000000\n", Format.CSV)) == [
        Record(NOON, b"a", b'{"key":"a","time":1764072000000}')
    ]


@pytest.mark.parametrize(
    "other", ["VALUE", "Value", " value ", "\uff56alue", "value\u200b", "\ufeffvalue"]
)
def test_a_column_in_another_case_is_not_left_out(other: str) -> None:
    """One file of many may have it so: Spark would take it, and its cells would be missing here."""
    text = f"key,time,{other}\na,{NOON},7\n".encode()
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": ["a"], "time": [NOON], other: [7]}), sink)
    line = json.dumps({"time": NOON, other: 7, "key": "a"}).encode() + b"\n"
    records = FileRecords.of(TOPOLOGY, {"key": "key"}, "ms")
    for content, form in (
        (text, Format.CSV),
        (sink.getvalue(), Format.PARQUET),
        (line * 9, Format.JSON_LINES),
    ):
        told = re.escape(f"x has a column {other!r}, and none 'value'")
        with pytest.raises(SlidestatError, match=told):
            read(file_of(content, form), records=records)
    own = b'{"key":"a","time":%d,"value":5}\n' % NOON
    rows = read(file_of(line + own, Format.JSON_LINES), records=records)
    assert [b"value" in row.value for row in rows] == [False, True]
    both = text.replace(b"key", b"value,key", 1).replace(b"a,", b"5,a,", 1)
    assert [one.value for one in read(file_of(both, Format.CSV))] == [
        b'{"key":"a","time":%d,"value":5}' % NOON
    ]


def test_a_folder_in_another_case_is_not_left_out() -> None:
    """Unless the file has the column itself."""
    text = f"key,time\na,{NOON}\n".encode()
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": ["a"], "time": [NOON]}), sink)
    for content, form in ((text, Format.CSV), (sink.getvalue(), Format.PARQUET)):
        with pytest.raises(SlidestatError, match="has a column 'Code', and none 'code'") as told:
            read(file_of(content, form, "Code=5/x"))
        assert "in the name of its folder" in told.value.advice
    own = text.replace(b"key", b"code,key").replace(b"a,", b"7,a,")
    assert b'"code":7' in read(file_of(own, Format.CSV, "Code=5/x"))[0].value


@pytest.mark.parametrize(
    ("text", "form", "is_told"),
    [(b'{"at":1}\n', Format.JSON_LINES, True), (b"at\n1\n", Format.CSV, False)],
)
def test_lines_of_other_fields_may_go_as_they_are(text: bytes, form: Format, is_told: bool) -> None:
    """JSON lines whose fields are the user's own are most often sent with --raw."""
    with pytest.raises(SlidestatError, match="has no column") as told:
        produced(file_of(text, form))
    assert ("--raw --key FIELD" in told.value.advice) == is_told


def test_columns_with_commas_between_them_are_told() -> None:
    """As other options take them: --with has one column, and is repeated."""
    text = b'{"key":"a","time":1764072000000,"b":1,"c":2}\n'
    with pytest.raises(SlidestatError, match="has no column 'b,c'") as told:
        list(Reader(file_of(text, Format.JSON_LINES)).batches(("key", "b,c")))
    assert told.value.advice.startswith("Repeat the option for each column.")
