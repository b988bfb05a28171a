"""Files of every format and compression give the same rows, and damage is told as such."""

import bz2
import gzip
import json
import lzma
import os
import subprocess
import tarfile
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from io import BufferedReader, BytesIO, TextIOWrapper
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidestat.errors import SlidestatError
from slidestat.produce import readers
from slidestat.produce.files import (
    STANDARD_INPUT,
    ByteStream,
    EventFile,
    Format,
    event_file,
    files_of,
)
from slidestat.produce.readers import BadRow, Reader

NAMES = ("key", "time", "value")
EVENTS = [
    ("ATL", "978307200000", "1"),
    ("é\"'", "978307200001", "2.5"),
    ("a b", "978307200002", "-3"),
]
COUNT = 40_000  # Several batches of every format.


def zstd(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    compressed = sink.getvalue().to_pybytes()
    return compressed


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def tar_of(name: str, content: bytes) -> bytes:
    """A compressed archive with one file, without the time: each process has the same bytes."""
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=0)


def text_of(suffix: str, rows: list[tuple[str, str, str]]) -> bytes:
    if suffix == ".csv":
        quoted = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in rows]
        lines = [",".join(["extra", *NAMES])] + [",".join(["x", *row]) for row in quoted]
    elif suffix == ".tsv":
        lines = ["\t".join(["extra", *NAMES])] + ["\t".join(["x", *row]) for row in rows]
    else:
        lines = [
            json.dumps({"key": k, "extra": [1], "time": int(t), "value": float(v)})
            for k, t, v in rows
        ]
    return ("\n".join(lines) + "\n").encode()


def read(path: Path, names: tuple[str, ...] = NAMES) -> tuple[list[tuple[object, ...]], list[int]]:
    """All rows of a file, each cell's text, and their numbers."""
    rows: list[tuple[object, ...]] = []
    numbers: list[int] = []
    for batch in Reader(event_file(path)).batches(names):
        columns = [batch.columns[name].text().to_pylist() for name in names]
        rows += zip(*columns, strict=True)
        numbers += batch.numbers
        assert batch.malformed == []
    return rows, numbers


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".ndjson", ".json"])
def test_formats_and_compressions(tmp_path: Path, suffix: str, compression: str) -> None:
    """Each text format, plain or compressed, gives every row once and in order."""
    rows = [EVENTS[i % len(EVENTS)] for i in range(COUNT)]
    path = tmp_path / f"events{suffix}{compression}"
    path.write_bytes(COMPRESS[compression](text_of(suffix, rows)))
    found, numbers = read(path)
    assert found == rows
    first = 2 if suffix in (".csv", ".tsv") else 1
    assert numbers == list(range(first, COUNT + first))


def test_parquet(tmp_path: Path) -> None:
    """Parquet columns come with their own types, row groups and all, however text is stored."""
    keys = [EVENTS[i % 3][0] for i in range(COUNT)]
    numbers = list(range(COUNT))
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        columns = {"value": numbers, "key": pa.array(keys).cast(kind), "time": numbers, "x": keys}
        pq.write_table(pa.table(columns), tmp_path / "events.parquet", row_group_size=9_999)
        found, rows = read(tmp_path / "events.parquet")
        assert found == [(key, str(n), str(n)) for key, n in zip(keys, numbers, strict=True)]
        assert rows == list(range(1, COUNT + 1))


def test_members_of_a_compressed_file(tmp_path: Path) -> None:
    """A file made by joining compressed ones is read to its end."""
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"joined.jsonl{suffix}"
        path.write_bytes(compress(text_of(".jsonl", EVENTS)) * 2)
        assert len(read(path)[0]) == 2 * len(EVENTS)
    # As pzstd writes them: a frame of its own comes first.
    for name in ("own.jsonl.zst", "own.jsonl"):
        content = b"\x50\x2a\x4d\x18\4\0\0\0size" + COMPRESS[".zst"](text_of(".jsonl", EVENTS))
        (tmp_path / name).write_bytes(content)
        assert len(read(tmp_path / name)[0]) == len(EVENTS)


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    """What has been read comes to the whole file, in bytes of the file or rows of Parquet."""
    pq.write_table(pa.table({"key": ["a"] * 9}), tmp_path / "a.parquet")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"key\n" + b"a\n" * 9))
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(b'{"key":"a"}\n' * 9))
    for name in ("a.parquet", "a.csv.gz", "a.jsonl.xz"):
        reader = Reader(event_file(tmp_path / name))
        assert sum(len(rows.numbers) for rows in reader.batches(("key",))) == 9
        assert reader.done == reader.total > 0


@pytest.mark.parametrize("suffix", [".bz2", ".xz"])
def test_compressed_streams_are_read_one_after_another(tmp_path: Path, suffix: str) -> None:
    """As of joined files, one of them empty, with the zeros that may lie between; in any pieces."""
    lines = [f'{{"key":"{i}"}}\n'.encode() * 999 for i in range(3)]
    content = bytes(4).join(map(COMPRESS[suffix], [lines[0], b"", *lines[1:]])) + bytes(8)
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(content)
    found = Reader(event_file(path)).lines()
    assert b"".join(line + b"\n" for _, part in found for line in part) == b"".join(lines)


def test_csv_types_are_not_guessed(tmp_path: Path) -> None:
    """A word after a million digits is that row's own: earlier rows set no type."""
    lines = ["key,time,value"] + [f"{i},{i},{i}" for i in range(200_000)] + ["word,word,word"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert read(tmp_path / "a.csv")[0][-1] == ("word", "word", "word")


def test_csv_quoting(tmp_path: Path) -> None:
    """Quoted commas, quotes and line ends belong to the value; an empty cell is null."""
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfkey,time,value\r\n"a,""b""\n c",1,""\r\n,NA,x')
    assert read(tmp_path / "a.csv")[0] == [('a,"b"\n c', "1", None), (None, "NA", "x")]


def test_tsv_has_no_quotes(tmp_path: Path) -> None:
    """A quote in tab-separated text is a character like others."""
    (tmp_path / "a.tsv").write_bytes(b'key\ttime\tvalue\n"a\t1\t2\n"b"\t1\t2\n')
    assert [row[0] for row in read(tmp_path / "a.tsv")[0]] == ['"a', '"b"']


def test_csv_rows_of_another_width(tmp_path: Path) -> None:
    """A row with too few or too many cells is named, and the rest is read."""
    (tmp_path / "a.csv").write_text("key,time,value\na,1,2\nb,1\nc,1,2\nd,1,2,3\n")
    batches = list(Reader(event_file(tmp_path / "a.csv")).batches(NAMES))
    assert [key for b in batches for key in b.columns["key"].text().to_pylist()] == ["a", "c"]
    assert [bad for b in batches for bad in b.malformed] == [
        BadRow(3, "has 2 columns, not 3", b"b,1"),
        BadRow(5, "has 4 columns, not 3", b"d,1,2,3"),
    ]


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """A value in another encoding has no text, and is not missing."""
    (tmp_path / "a.csv").write_bytes(b"key,time,value\n\xe9t\xe9,1,2\nok,1,2\n")
    assert [row[0] for row in read(tmp_path / "a.csv")[0]] == [None, "ok"]
    (batch,) = Reader(event_file(tmp_path / "a.csv")).batches(NAMES)
    assert batch.columns["key"].missing().tolist() == [False, False]


@pytest.mark.parametrize(("suffix", "sign"), [("csv", b","), ("tsv", b"\t")])
def test_a_row_of_another_width_that_is_not_utf8(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], suffix: str, sign: bytes
) -> None:
    """It is a bad row with its bytes; the rows around it are read, and nothing is printed."""
    rows = [
        b"key,time,value",
        b"\xe9,1,2",
        b"Z\xfcrich,1,2,3",
        "\U0010ffff,1,2".encode(),
        b"ok,1,2",
    ]
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"\n".join(rows).replace(b",", sign) + b"\n")
    (batch,) = Reader(event_file(path)).batches(NAMES)
    (bad,) = batch.malformed
    assert bad == BadRow(3, "has 4 columns, not 3", rows[2].replace(b",", sign))
    assert batch.columns["key"].text().to_pylist() == [None, "\U0010ffff", "ok"]
    assert batch.columns["key"].column.to_pylist()[0] == b"\xe9"
    assert capfd.readouterr().err == ""


def test_json_lines_that_are_none(tmp_path: Path) -> None:
    """Blank lines pass, lines that are no object are named, whatever stands in them."""
    deep = b"[" * 100_000
    lines = [
        b'\xef\xbb\xbf{"key":"a"}\r',
        b"",
        b"not json",
        b"[1]",
        b'"\xff"',
        deep,
        b'{"key":"b"}',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*lines, b""]))
    (batch,) = Reader(event_file(tmp_path / "a.jsonl")).batches(("key",))
    assert batch.columns["key"].text().to_pylist() == ["a", "b"]
    assert list(batch.numbers) == [1, 7]
    assert [bad.row for bad in batch.malformed] == [3, 4, 5, 6]


def test_json_values_of_several_types(tmp_path: Path) -> None:
    """A field that is now a number, now text, now an object is read value by value."""
    values = ["1", '"b"', "2.5", "true", "null", '{"x":1}', "[1]", str(2**70)]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"key":{value}}}\n' for value in values))
    found = [row[0] for row in read(tmp_path / "a.jsonl", ("key",))[0]]
    assert found == ["1", "b", "2.5", "true", None, None, None, str(2**70)]


def test_columns_used_twice(tmp_path: Path) -> None:
    """One column may be key and value at once."""
    (tmp_path / "a.jsonl").write_text('{"n":1,"t":2}\n')
    (tmp_path / "a.csv").write_text("n,t\n1,2\n")
    for name in ("a.jsonl", "a.csv"):
        (batch,) = Reader(event_file(tmp_path / name)).batches(("n", "t", "n"))
        assert set(batch.columns) == {"n", "t"}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_missing_columns_are_told_with_those_there_are(tmp_path: Path, name: str) -> None:
    """The error names the missing columns and the ones that the file has."""
    (tmp_path / "a.csv").write_text("city,time\nATL,1\n")
    (tmp_path / "a.jsonl").write_text('{"city":"ATL","time":1}\n')
    pq.write_table(pa.table({"city": ["ATL"], "time": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SlidestatError) as raised:
        read(tmp_path / name)
    assert "no column 'key', 'value'; it has 'city', 'time'" in raised.value.message
    assert "--key" in raised.value.advice


def lines_of(count: int, having: Callable[[int], bool], cell: str = "7") -> str:
    """JSON lines of which some have one field more."""
    more = (f',"gate":{cell}' if having(i) else "" for i in range(count))
    return "".join(f'{{"key":"k","time":{i},"value":1{one}}}\n' for i, one in enumerate(more))


@pytest.mark.parametrize("source", ["file", "pipe"])
@pytest.mark.parametrize(
    ("having", "cell"),
    [
        (lambda i: i >= 350, "7"),
        (lambda i: i == 0, "7"),
        (lambda i: i == 399, "null"),
        (lambda i: i % 100 == 99, '"7"'),
    ],
)
def test_a_field_may_be_absent_from_rows_as_long_as_it_is_somewhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    having: Callable[[int], bool],
    cell: str,
) -> None:
    """Each row has it or not, wherever blocks end: a pipe may hand on a row at a time."""
    count, names = 400, (*NAMES, "gate")
    text = lines_of(count, having, cell)
    for block in (100, 1 << 20):
        monkeypatch.setattr(readers, "_BLOCK_BYTES", block)
        if source == "file":
            path = tmp_path / "a.jsonl"
            path.write_text(text)
        else:
            path = Path(STANDARD_INPUT)
            monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(text.encode()))))
        rows, numbers = read(path, names)
        assert numbers == list(range(1, count + 1))
        wanted = None if cell == "null" else "7"
        assert [row[3] for row in rows] == [wanted if having(i) else None for i in range(count)]


def test_a_key_that_only_later_rows_have_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"time":1,"value":1}\n' * 40_000 + '{"key":"k","time":1,"value":1}\n'
    )
    rows, _ = read(tmp_path / "a.jsonl")
    assert [row[0] for row in rows] == [None] * 40_000 + ["k"]


def test_standard_input_without_a_column_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have none."""
    stream = BytesIO(lines_of(50_000, lambda _: False).encode())
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(stream)))
    with pytest.raises(SlidestatError, match="no column 'gate' in its first 10,000 rows; it has"):
        read(Path(STANDARD_INPUT), (*NAMES, "gate"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv.gz",
            gzip.compress(b"key,time,value\n" + b"a,1,2\n" * 9, mtime=0)[:-9],
            "cannot be read",
        ),
        ("a.jsonl.zst", zstd(b'{"key":1}\n' * 999)[:-5], "cannot be read"),
        ("a.jsonl.bz2", bz2.compress(b'{"key":1}\n' * 999)[:-5], "cannot be read"),
        ("a.jsonl.xz", lzma.compress(b'{"key":1}\n' * 999)[:-5], "cannot be read"),
        ("b.jsonl.xz", b"no xz at all", "cannot be read"),
        # A stream behind the first one that is damaged at its beginning.
        ("c.jsonl.xz", lzma.compress(b'{"key":1}\n') + b"garbage", "cannot be read"),
        ("c.jsonl.bz2", bz2.compress(b'{"key":1}\n') + b"garbage", "cannot be read"),
        ("b.csv.gz", b"no gzip at all", "cannot be read"),
        ("a.parquet", b"no parquet at all, though long enough", "cannot be read"),
        ("long.jsonl", b" " * (20 << 20), "longer than 16 MiB"),
        ("long.csv", b"key,time,value\n" + b"a" * (20 << 20), "longer than 256 KiB"),
        ("empty.csv", b"", "is empty"),
        ("a.parquet.gz", b"x", "compressed Parquet"),
        ("a.csv.lz4", b"x", "compressed in a way that is not read: .lz4"),
        ("a.zip", b"x", "compressed in a way that is not read: .zip"),
        ("a.xlsx", b"x", "format"),
        ("noname", b"x", "format"),
        ("a.gz", b"x", "format"),
    ],
    # Contents of 20 MiB would be names of tests, which each process sends to the others.
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Damage, an unknown format and an unknown compression each say what is wrong."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SlidestatError, match=message) as raised:
        read(tmp_path / name)
    assert raised.value.advice


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    """A missing file and a folder are told apart; where files are counted, `-` is no input."""
    with pytest.raises(SlidestatError, match="There is no file") as one:
        event_file(tmp_path / "a.csv")
    assert "`-` reads standard input" in one.value.advice
    with pytest.raises(SlidestatError, match="There is no file -") as several:
        files_of(["-"])
    assert several.value.advice == "Check the path."
    with pytest.raises(SlidestatError, match="is not a file"):
        event_file(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message", "advice"),
    [
        ("a.csv", "key,time,value\na,1,2\n".encode("utf-16"), "is UTF-16", "iconv -f UTF-16"),
        ("a.csv", "key,time,value\na,1,2\n".encode("utf-16-le"), "is UTF-16", "iconv -f UTF-16"),
        ("a.jsonl", '{"key":1}\n'.encode("utf-16"), "is UTF-16", "iconv -f UTF-16"),
        ("a.csv", "key,time,value\n".encode("utf-32"), "is UTF-32", "iconv -f UTF-32"),
        ("a.jsonl", '{"key":1}\n'.encode("utf-32-be"), "is UTF-32", "iconv -f UTF-32"),
        ("a.csv", "key,time,größe\n".encode("cp1252"), "header of a.csv is not UTF-8", "iconv"),
        ("a.csv", b"key;time;value\na;1;2,5\n", "has semicolons between its cells", "--ifs ';'"),
        ("a.csv", b"key|time|value\na|1|2\n", "has vertical bars between", "--ifs '|'"),
        ("a.csv", b"key\ttime\tvalue\na\t1\t2\n", "has tabs between its cells", "Name it .tsv"),
        ("a.tsv", b"key,time,value\na,1,2\n", "has commas between its cells", "Name it .csv"),
        ("a.csv", b"sep=;\nkey;time;value\n", "begins with 'sep=;'", "--ifs ';'"),
        ("a.csv", b'\xef\xbb\xbf"sep=,"\nkey,time,value\n', "begins with 'sep=,'", "tail -n +2"),
        ("a.csv", b"key,time,value,value\na,1,2,3\n", "has the column 'value' twice", "name"),
        ("a.json", b'[{"key":1},\n {"key":2}]', "one JSON array", "jq -c '.[]'"),
        ("a.json", b"\n[\r\n {}\n]", "one JSON array", "jq -c '.[]'"),
        ("a.json", b'\xef\xbb\xbf{\n  "key": 1\n}\n', "JSON over several lines", "jq -c . "),
        ("a.json", b'{"key": 1,\r\n "time": 2}\r\n', "JSON over several lines", "jq -c . "),
        ("a.json", b'{"in": {\n "n": 2}}\n', "JSON over several lines", "jq -c . "),
        ("a.json", b'{ "key": 1\n, "time": 2\n}\n', "JSON over several lines", "jq -c . "),
        ("a.json", b'{"key": 1\r\n}\r\n', "JSON over several lines", "jq -c . "),
        ("a.json", b'{"key": 1},\n{"key": 2}\n', "commas between its objects", "sed 's/},"),
        ("a.json", b'{"key": 1}, \r\n{"key": 2},\r\n{"key": 3}', "commas between", "sed 's/},"),
        ("a.csv", b"PK\3\4\x14\0\6\0", "is a zip archive, as a workbook of Excel", "CSV UTF-8"),
        ("a.jsonl", b"PK\3\4\x14\0\6\0", "is a zip archive", "unpack it"),
        ("a.csv", bytes.fromhex("d0cf11e0a1b11ae1"), "is a workbook of Excel", "CSV UTF-8"),
        ("a.jsonl", b"PAR1\x15\0\x15\0", "is Parquet, and not JSON lines", "Name it .parquet"),
        ("a.csv", b"Obj\1\4\x14avro.codec", "is an Avro file", "Parquet or JSON lines"),
        ("a.csv", b"ORC\x08\n", "is an ORC file", "Parquet or JSON lines"),
        ("a.csv", zlib.compress(b"key\n"), "is compressed, after", "Decompress"),
        ("a.jsonl", pa.compress(b"{}", "lz4", asbytes=True), "is compressed, after", "Decompress"),
        ("a.jsonl", b"\xff\x06\0\0sNaPpY\1", "is compressed, after", "Decompress"),
        (
            "a.jsonl.gz",
            gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
            "compressed, after",
            "Decompress",
        ),
        ("a.csv.gz", tar_of("b.csv", b"key\n1\n"), "is an archive of tar", "Unpack it"),
        ("a.csv", b"Key,TIME, value\na,1,2\n", "no column 'key', 'time', 'value'", "mean 'Key'"),
    ],
)
def test_files_of_another_kind_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    message: str,
    advice: str,
) -> None:
    """Encodings, separators and other JSON are refused, with what to do."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    with pytest.raises(SlidestatError, match=message) as raised:
        read(Path(name))
    assert advice in raised.value.advice
    assert f"> {name}" not in raised.value.advice
    if ".json" in name:
        with pytest.raises(SlidestatError, match=message):
            list(Reader(event_file(name)).lines())


@pytest.mark.parametrize("first", [b'{"key":"a","time":1,"value":1},', b'{"in":[{"n":1},'])
def test_a_line_with_a_comma_is_that_lines_fault(tmp_path: Path, first: bytes) -> None:
    """Where the others have none."""
    good = b'{"key":"b","time":1,"value":1}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join((first, good, good, b"")))
    (batch,) = Reader(event_file(tmp_path / "a.jsonl")).batches(NAMES)
    assert ([*batch.numbers], [bad.row for bad in batch.malformed]) == ([2, 3], [1])


@pytest.mark.parametrize("content", [b"ORCID,time,PAR1\n", b"PAR1,ORC\n", b"%d,PK\n"])
def test_names_that_begin_as_other_files_do(tmp_path: Path, content: bytes) -> None:
    """They are those of columns."""
    (tmp_path / "a.csv").write_bytes(content)
    names = content.decode().strip().split(",")
    assert Reader(event_file(tmp_path / "a.csv")).columns() == names


@pytest.mark.parametrize("name", ["a.csv", "two words.csv", "it's.csv.gz", "a.csv.xz", "a.csv.bz2"])
def test_what_is_advised_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As it is printed, of any name and compression; what it writes is read."""
    monkeypatch.chdir(tmp_path)
    pack = COMPRESS.get(Path(name).suffix, bytes)
    for content in (
        b"sep=,\nkey,time,value\na,1,2\n",
        "key,time,value\na,1,2\n".encode("utf-16"),
    ):
        Path(name).write_bytes(pack(content))
        with pytest.raises(SlidestatError) as raised:
            read(Path(name))
        command = raised.value.advice.partition(": ")[2]
        subprocess.run(command, shell=True, check=True)  # noqa: S602  # It is the advice.
        (new,) = tmp_path.glob("*-new.csv")
        assert read(new)[0] == [("a", "1", "2")]
        new.unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"key,time,value"),
        ("a.tsv", b"\n\r\n"),
        ("a.csv.gz", gzip.compress(b"", mtime=0)),
        ("a.csv.xz", lzma.compress(b"\xef\xbb\xbf")),
    ],
)
def test_a_file_without_rows_is_not_called_damaged(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SlidestatError, match="has no events"):
        read(tmp_path / name)


def test_columns_of_one_name_in_parquet(tmp_path: Path) -> None:
    """Two columns of one name are refused where they are read, and else do no harm."""
    columns = [pa.array(["a"]), pa.array([1]), pa.array([2]), pa.array([3])]
    pq.write_table(pa.table(columns, ["key", "time", "value", "value"]), tmp_path / "a.parquet")
    with pytest.raises(SlidestatError, match="has the column 'value' twice"):
        read(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", ("key", "time"))[0] == [("a", "1")]
    (tmp_path / "a.csv").write_text("key,time,,\na,1,2,3\n")
    assert read(tmp_path / "a.csv", ("key", "time"))[0] == [("a", "1")]
    inner = [pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"])]
    for more in (inner, [pa.array([{"n": 1}]), pa.array([2])]):
        names = ["key", "time", "in", "in.n"][: 2 + len(more)]
        pq.write_table(pa.table([*columns[:2], *more], names), tmp_path / "a.parquet")
        with pytest.raises(SlidestatError, match=r"has the column 'in\.n' twice"):
            read(tmp_path / "a.parquet", ("key", "in.n"))
    pq.write_table(pa.table(inner, ["in"]), tmp_path / "a.parquet")
    with pytest.raises(SlidestatError, match="of the type struct<n: int64, n: int64>"):
        read(tmp_path / "a.parquet", ("in",))


def test_types_that_arrow_hands_out_as_bytes_are_refused(tmp_path: Path) -> None:
    """The bytes of a month are those of a text. In columns that are not read they do no harm."""
    month = "INTERVAL 1 MONTH"
    file = tmp_path / "a.parquet"
    duckdb.sql(
        f"COPY (SELECT 'a' AS key, 1 AS time, {month} AS value, [{month}] AS l,"
        f" {{'m': {month}}} AS s) TO '{file}' (FORMAT parquet)"
    )
    assert read(file, ("key", "time"))[0] == [("a", "1")]
    for name in ("value", "l", "s", "s.m"):
        with pytest.raises(SlidestatError, match=f"'{name}' is a column of the type interval"):
            read(file, ("key", name))


@pytest.mark.parametrize("rows", [(3, 3), (2_000, 3), (0, 5), (5, 0), (3, 2_000), (3, 2_000, 5)])
def test_parquet_files_that_were_joined_are_no_file(tmp_path: Path, rows: tuple[int, ...]) -> None:
    """What lies at their end knows of the last one alone. With indexes of pages as well as without,
    one file is read.
    """
    parts = []
    for count in rows:
        table = pa.table({"key": ["PAR1PAR1"] * count, "time": range(count), "value": range(count)})
        sink = BytesIO()
        pq.write_table(table, sink, write_page_index=True, row_group_size=1_000)
        parts.append(sink.getvalue())
        (tmp_path / "a.parquet").write_bytes(sink.getvalue())
        assert len(read(tmp_path / "a.parquet")[0]) == count
    (tmp_path / "a.parquet").write_bytes(b"".join(parts))
    with pytest.raises(SlidestatError, match=r"is several Parquet files|cannot be read"):
        read(tmp_path / "a.parquet")


# A group a row has more bytes that mean nothing.
@pytest.mark.parametrize(("row_group_size", "part"), [(2, 2), (1, 3)])
def test_a_damaged_footer_is_read_whole_or_refused(row_group_size: int, part: int) -> None:
    """With any of its bytes changed, also those of columns that are not wanted, whose names and
    sizes pyarrow does not look at in all places; and those of the numbers of rows.
    """
    sink = BytesIO()
    columns = {"key": ["a", None], "time": [1, 2], "value": [1.5, None], "l": [[1, 2], None]}
    pq.write_table(pa.table(columns), sink, write_page_index=True, row_group_size=row_group_size)
    whole, read_rows = sink.getvalue(), list[int]()
    length = int.from_bytes(whole[-8:-4], "little")
    for at in range(len(whole) - 8 - length, len(whole) - 8):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        file = EventFile("a", Format.PARQUET, None, len(whole), damaged)
        with suppress(SlidestatError):
            read_rows.append(sum(len(rows.numbers) for rows in Reader(file).batches(["key"])))
    assert set(read_rows) == {2}
    assert length - len(read_rows) > length // part


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_damaged_pages_are_refused_where_they_have_check_sums(version: str, codec: str) -> None:
    """As those of Spark, Flink and Trino have. Without a look at these most changed bytes are other
    keys, times and values; those that no reader needs may change.
    """
    sink = BytesIO()
    columns = {"key": [f"k{n % 9}" for n in range(99)], "time": range(99), "value": range(99)}
    options = {"compression": codec, "data_page_version": version, "write_page_checksum": True}
    pq.write_table(pa.table(columns), sink, **options)
    whole, refused = sink.getvalue(), 0

    def texts(content: bytes) -> list[list[str]]:
        file = EventFile("a", Format.PARQUET, None, len(whole), content)
        cells = [rows.columns[name] for rows in Reader(file).batches(NAMES) for name in NAMES]
        return [each.text().to_pylist() for each in cells]

    sound = texts(whole)
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(4, end, 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        try:
            assert texts(damaged) == sound
        except SlidestatError:
            refused += 1
    assert refused > (end - 4) // 6


def test_names_that_look_the_same_are_told_apart(tmp_path: Path) -> None:
    """As macOS and other systems write one letter: by its parts."""
    (tmp_path / "a.csv").write_text("stra\u00dfe,cafe\u0301\n1,2\n")
    with pytest.raises(SlidestatError, match=r"no column 'caf\\xe9'; it has 'straße', ") as told:
        read(tmp_path / "a.csv", ("caf\u00e9",))
    assert told.value.message.endswith(", 'cafe\\u0301'.")
    assert told.value.advice.startswith("Did you mean 'cafe\\u0301'? ")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """It is in no header, no cell and no line, also where files that have one were joined: a key
    behind it would be another key. Elsewhere it is a sign like others.
    """
    mark = b"\xef\xbb\xbf"
    for name, between in (("a.csv", b","), ("a.tsv", b"\t")):
        rows = [b"k", b"t", b"a", b"1", b"a", b"2", b"b" + mark, b"3"]
        lines = [between.join(pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
        for end in (b"\n", b"\r\n"):
            (tmp_path / name).write_bytes(mark + (end + mark).join(lines) + end + mark)
            expected = [("a", "1"), ("a", "2"), ("b\ufeff", "3")]
            assert read(tmp_path / name, ("k", "t"))[0] == expected
    (tmp_path / "a.csv").write_bytes(b"k,t\n" + mark + b'"a,b",1\n' + mark * 2 + b"c,2\n")
    assert read(tmp_path / "a.csv", ("k", "t"))[0] == [("a,b", "1"), ("c", "2")]
    (tmp_path / "a.jsonl").write_bytes(mark * 2 + b'{"k":"a"}\n' + mark + b'{"k":"\xef\xbb\xbf"}')
    expected_lines = [b'{"k":"a"}', b'{"k":"%b"}' % mark]
    assert [x for _, part in Reader(event_file(tmp_path / "a.jsonl")).lines() for x in part] == (
        expected_lines
    )


def test_two_objects_in_a_line(tmp_path: Path) -> None:
    """They are no row, also where a blank line makes up for their number."""
    (tmp_path / "a.jsonl").write_text('{"key":"a"}{"key":"b"}\n\n{"key":"c",\n"time":1}\n')
    (batch,) = Reader(event_file(tmp_path / "a.jsonl")).batches(("key",))
    assert batch.columns["key"].text().to_pylist() == []
    assert [bad.row for bad in batch.malformed] == [1, 3, 4]


def test_times_of_any_year_in_int96(tmp_path: Path) -> None:
    """Nanoseconds of 64 bits hold the years from 1677 to 2262 alone: others would wrap."""
    moments = [datetime(1000, 1, 1), datetime(2001, 1, 1), datetime(3000, 1, 1)]
    table = pa.table({"key": pa.array(moments, pa.timestamp("us"))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    assert [row[0] for row in read(path, ("key",))[0]] == [
        f"{moment:%Y}-01-01 00:00:00.000000" for moment in moments
    ]


@pytest.mark.parametrize("shift", range(8))
def test_line_ends_in_quotes_stay_whole(tmp_path: Path, shift: int) -> None:
    """Wherever pyarrow's blocks end: no byte of a cell is lost."""
    cell = b"a\r\nb"
    file = tmp_path / "x.csv"
    file.write_bytes(
        b"k,cell\n" + b"k" * shift + b"".join(b',"%b"\n' % cell for _ in range(60_000))
    )
    found = [rows.columns["cell"].column for rows in Reader(event_file(file)).batches(["cell"])]
    assert pa.chunked_array(found).unique().to_pylist() == [cell]
    assert sum(map(len, found)) == 60_000


def test_a_csv_file_that_is_left_is_held_by_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow reads ahead: a thread that had the file when Python ends would abort the process
    (apache/arrow#34314).
    """
    held: list[weakref.ref[object]] = []

    class Noted(readers.LentStream):
        def __init__(self, stream: ByteStream) -> None:
            super().__init__(stream)
            held.append(weakref.ref(self))

    monkeypatch.setattr(readers, "LentStream", Noted)
    monkeypatch.setattr(readers, "_RELEASE_S", 60.0)  # of a machine that is slow
    path = tmp_path / "events.csv"
    path.write_text("key,time\n" + "a,1\n" * 500_000)
    rows = readers.Reader(event_file(path)).batches(["key", "time"])
    assert next(rows).numbers
    rows.close()  # type: ignore[attr-defined]  # a generator
    assert [one() for one in held] == [None, None]
    for content, why in (("\n\n", "has no events"), ('key\na"b\n"c\n', "is never closed")):
        held.clear()
        path.write_text(content)
        with pytest.raises(SlidestatError, match=why) as told:
            readers.Reader(event_file(path)).columns()
        assert told.tb is not None  # It has the frames that opened the file, and that read it.
        assert [one() for one in held] == [None]


@pytest.mark.parametrize(
    ("folder", "value"),
    [
        ("store=a%2Fb", "a/b"),
        ("store=%C3%BC", "ü"),
        ("store=%FF", "%FF"),
        ("store=%FE", "%FE"),
        ("store=\udcff", "\\xff"),
        ("store=100%", "100%"),
        ("store=a=b", "a=b"),
        ("store=__HIVE_DEFAULT_PARTITION__", None),
        ("store=%5F_HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_what_differs_in_names_of_folders_stays_different(folder: str, value: str | None) -> None:
    """Escapes that are no UTF-8 would all be one sign."""
    file = EventFile(f"{folder}/a.csv", Format.CSV, None, 1, b"key\na\n")
    rows = list(Reader(file).batches(("key", "store")))
    assert file.folders == {"store": value}
    assert rows[0].columns["store"].text().to_pylist() == [value]


@pytest.mark.parametrize("pattern", ["", "*", "**/*.jsonl"])
def test_what_was_not_committed_is_no_file_of_a_folder(tmp_path: Path, pattern: str) -> None:
    """Names of folders count as well; those of columns may begin with _."""
    there = ["a.jsonl", "_day=7/store=007/b.jsonl", "sub/c.jsonl"]
    hidden = ["_temporary/0/_temporary/x/d.jsonl", "_e.jsonl", ".f/g.jsonl", "sub/._h.jsonl.crc"]
    root = tmp_path / "_named"
    for name in (*there, *hidden):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    found = files_of([str(root / pattern), str(root / "a.jsonl")])
    assert [file.name for file in found] == sorted(str(root / name) for name in there)
    assert files_of([str(root / "_day*/**/b.jsonl")])[0].folders == {"_day": "7", "store": "007"}
    assert files_of([str(root / "_e.jsonl")])[0].name == str(root / "_e.jsonl")
    with pytest.raises(SlidestatError, match="has no files"):
        files_of([str(root / "_temporary*")])


@pytest.mark.parametrize(
    ("log", "what"),
    [
        ("_delta_log/00000000000000000000.json", "Delta table"),
        ("metadata/v1.metadata.json", "Iceberg"),
        ("metadata/00001-a.gz.metadata.json", "Iceberg"),
        ("metadata/v1.metadata.json.gz", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("schema/schema-0", "Paimon"),
        ("_spark_metadata/0", "stream on Spark"),
    ],
)
def test_files_of_a_table_are_refused(tmp_path: Path, log: str, what: str) -> None:
    """Some of them may be of rows that were deleted: its log knows which count."""
    table, part = tmp_path / "table", tmp_path / "table" / "store=007" / "part.jsonl"
    for file in (part, table / log):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    for path in (tmp_path, table, part, table / "*" / "*.jsonl"):
        with pytest.raises(SlidestatError, match=f"{table} is .*{what}") as error:
            files_of([str(path)])
        assert "Export the rows" in error.value.advice
    with pytest.raises(SlidestatError, match=what):
        event_file(part)
    part.unlink()
    with pytest.raises(SlidestatError, match=what):
        files_of([str(table / "*.jsonl")])


def test_links_into_a_table_are_refused(tmp_path: Path) -> None:
    """What they lead to are its files."""
    table, links = tmp_path / "table", tmp_path / "links"
    (table / "_delta_log").mkdir(parents=True)
    (table / "part.jsonl").write_text("{}")
    links.mkdir()
    (links / "a.jsonl").symlink_to(table / "part.jsonl")
    for find in (event_file, lambda path: files_of([str(path)])):
        with pytest.raises(SlidestatError, match=f"{table} is a Delta table"):
            find(links / "a.jsonl")
    with pytest.raises(SlidestatError, match=f"{table} is a Delta table"):
        files_of([str(links)])


def test_links_below_a_folder_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark does: rows behind them are not left out. One that leads back up has none of its own,
    and one that leads nowhere is a file that is missing.
    """
    root, old = tmp_path / "events", tmp_path / "old"
    for folder in (root, old / "sub"):
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text("{}")
    (root / "old").symlink_to(old)
    (old / "up").symlink_to(root)
    (root / "itself").symlink_to(root)
    (root / "b.jsonl").symlink_to(root / "a.jsonl")
    there = [root / "a.jsonl", root / "b.jsonl", root / "old" / "sub" / "a.jsonl"]
    for path in (root, tmp_path / "ev*"):
        assert [file.path for file in files_of([str(path)])] == there
    (root / "sub").mkdir()
    (root / "sub" / "c.jsonl").write_text("{}")
    there.append(root / "sub" / "c.jsonl")
    for up in (root / ".." / "events", root / "sub" / ".." / ".." / "events", root / "old" / "up"):
        found = [file.path for file in files_of([str(up)])]
        assert [file.relative_to(up) for file in found] == [it.relative_to(root) for it in there]
    monkeypatch.chdir(root)
    assert [file.path for file in files_of(["../events"])] == [
        Path("..", "events", it.relative_to(root)) for it in there
    ]
    (root / "sub" / "c.jsonl").unlink()
    for target in (tmp_path / "nowhere", root / "c.jsonl"):
        (root / "c.jsonl").symlink_to(target)
        with pytest.raises(SlidestatError, match=r"There is no file .*c\.jsonl"):
            files_of([str(root)])
        (root / "c.jsonl").unlink()


def test_a_folder_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would be left out."""
    for name in ("a.jsonl", "sub/b.jsonl", ".git/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    look = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith(("sub", ".git")):
            raise PermissionError(13, "Permission denied", path)
        return look(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SlidestatError, match=r"folder .*/sub cannot be read: permission denied"):
        files_of([str(tmp_path)])


def test_empty_files_beside_others_have_no_events(tmp_path: Path) -> None:
    """As in a backfill: writers leave some behind. A path that has no others is told."""
    for name, text in (("a.parquet", ""), ("b.jsonl", "{}"), ("c.csv", "")):
        (tmp_path / name).write_text(text)
    assert [file.path.name for file in files_of([str(tmp_path)])] == ["b.jsonl"]
    for path in (tmp_path / "c.csv", tmp_path / "*.parquet"):
        with pytest.raises(SlidestatError, match=r"\w\.\w+ is empty"):
            files_of([str(path)])


def test_a_pattern_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(SlidestatError, match=r"is no pattern|has no files"):
        files_of([str(tmp_path / "***")])


@pytest.mark.parametrize("name", ["a" * 5_000 + ".csv", "a/" * 3_000 + "b.csv"])
def test_a_name_that_no_file_can_have_is_told(name: str) -> None:
    for find in (event_file, lambda path: files_of([path])):
        with pytest.raises(SlidestatError, match="There is no file a"):
            find(name)
