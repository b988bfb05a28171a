"""Event files in batches of columns, in bounded memory.

Each row is read alone: no type is guessed from others, so that one odd row is that row's fault.
"""

import io
import lzma
import re
import shlex
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, filterfalse, islice
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from slidestat.engine.decoding.record_type import reader, struct_of
from slidestat.errors import SlidestatError, folded, near_name, told_apart
from slidestat.produce.cells import (
    NOT_JSON,
    Cells,
    JsonCells,
    TypedCells,
    WrittenCells,
    require_readable,
    unreadable,
)
from slidestat.produce.files import (
    DECOMPRESSORS,
    STANDARD_INPUT,
    WHOLE,
    ByteStream,
    EventFile,
    Format,
    OpenFile,
    Share,
)
from slidestat.produce.quotes import (
    BYTE_ORDER_MARK,
    CheckedQuotes,
    Utf8Stream,
    restored,
    restored_cells,
)

BATCH_ROWS = 32_768
_BLOCK_BYTES = 1 << 20
# pyarrow reads tens of blocks of a CSV file ahead: small ones keep memory and progress honest.
_CSV_BLOCK_BYTES = 256 << 10
# This many rows of standard input are held until all columns have come.
_LOOKED_AT = 10_000
# A block that is read ahead is there within as long.
_RELEASE_S = 2.0
# A row longer than this is no event: the file is something else.
_MAX_ROW_BYTES = 16 << 20

# An array, or an object over several lines: each of its lines would be a bad row.
_ONE_ARRAY = re.compile(rb"\s*\[\s*(?:\{|[\r\n])")
# A line that ends within an object; one after "}," may be the next one of a list, and none begins
# with a comma.
_PRETTY_OBJECT = re.compile(
    rb"\s*\{(?:(?:|[^\r\n]*(?:[\[{:]|[^}\s],))[ \t]*[\r\n]|[^\r\n]*[^}\s][ \t]*\r?\n\s*[,}\]])"
)
# The first bytes of a text in UTF-16 or UTF-32, with or without its mark.
_UTF_32 = re.compile(rb"\xff\xfe\0\0|\0\0\xfe\xff|\0\0\0.|[^\0]\0\0\0", re.DOTALL)
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|\0.|.\0", re.DOTALL)
# The first bytes of files that are no text, and of tar, whose own compression is taken away.
_NO_TEXT = re.compile(
    rb"(?P<zip>PK\x03\x04)|(?P<office>\xd0\xcf\x11\xe0)|(?P<parquet>PAR1\x15)"
    rb"|(?P<avro>Obj\x01)|(?P<orc>ORC[^ -~\t\r\n])|(?P<arrow>ARROW1\0)"
    rb"|(?P<sqlite>SQLite format 3\0)|(?P<pdf>%PDF-)"
    rb"|(?P<compressed>\x1f\x8b|\x28\xb5\x2f\xfd|BZh[1-9]1AY&SY|\xfd7zXZ\0|\x04\x22\x4d\x18"
    rb"|\xff\x06\0\0sNaPpY|\x78[\x01\x9c\xda])"
    rb"|(?P<tar>(?=[^\0]{1,100}\0).{257}ustar)",
    re.DOTALL,
)
_KINDS = {
    "zip": ("a zip archive, as a workbook of Excel is", "Save it as CSV UTF-8, or unpack it."),
    "office": ("a workbook of Excel", "Save it as CSV UTF-8."),
    "parquet": ("Parquet", "Name it .parquet."),
    "avro": ("an Avro file", "Write it as Parquet or JSON lines."),
    "orc": ("an ORC file", "Write it as Parquet or JSON lines."),
    "arrow": ("an Arrow file", "Write it as Parquet or JSON lines."),
    "sqlite": ("a database of SQLite", "Write its rows as CSV: sqlite3 -header -csv."),
    "pdf": ("a PDF document", "Give a file of events."),
    "compressed": ("compressed, after what its name says", "Decompress it first."),
    "tar": ("an archive of tar", "Unpack it, and give a file that was in it."),
}
_OF_BYTES = {"INTERVAL", "BSON", "GEOMETRY", "GEOGRAPHY"}
# The end of a Parquet file and the beginning of another: the header of a page. (Indexes of pages
# that have this very text go on otherwise.) One without pages has its footer there.
_TWO_PARQUETS = b"PAR1PAR1"
_NEXT_PAGE = re.compile(_TWO_PARQUETS + rb"\x15[\0\4\6]\x15")
_NEXT_PAGE_BYTES = len(_TWO_PARQUETS) + 3
_FOOTER_END_BYTES = 8
# The text of rows that are to be set aside.
_MARK = "{}\0"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
_SUFFIXES = {",": ".csv", "\t": ".tsv"}
_MARK_BYTES = BYTE_ORDER_MARK.encode()
_MARKS = re.compile(rb"\A(?:%b)+" % _MARK_BYTES)
# Excel alone reads this hint at the sign between cells.
_EXCEL_HINT = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(?P<sign>[^\r\n])', re.IGNORECASE)

Lines = tuple[int, list[bytes]]


@dataclass(frozen=True)
class BadRow:
    """A row that is no event; `row` is as in `Rows.numbers`, `text` all of it without columns."""

    row: int
    reason: str
    text: bytes = b""

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}"


@dataclass(frozen=True)
class Rows:
    """Some rows: the wanted columns by name, each row's number, and the rows that had no columns.

    Parquet rows and JSON lines are counted from 1; of a CSV file row 1 is the header.
    """

    numbers: Sequence[int]
    columns: dict[str, Cells]
    malformed: list[BadRow] = field(default_factory=list)


class Reader:
    """The rows of one file, or of a share of it, with what a progress bar needs: `done` of `total`,
    in `unit`s. Rows of a share are counted from its beginning.
    """

    def __init__(self, file: EventFile, share: Share = WHOLE) -> None:
        self.file = file
        self._share = share
        self.unit = "rows" if file.format is Format.PARQUET else "bytes"
        self.total = 0 if file.format is Format.PARQUET else file.size
        self.done = 0

    def batches(self, names: Sequence[str], may_lack: Collection[str] = ()) -> Iterator[Rows]:
        """Yield the columns `names`; raises SlidestatError for a damaged file, and for a missing
        column unless the file `may_lack` it.

        A name is that of a column, the path of a field in a column of objects, such as `user.id`,
        or a name in that of a folder, such as `store` in `store=007`.
        """
        names = list(dict.fromkeys(names))
        needed = [name for name in names if name not in {*may_lack, *self.file.folders}]
        with _naming_damage(self.file):
            if self.file.format is Format.PARQUET:
                yield from self._parquet(names, needed)
            elif self.file.format is Format.JSON_LINES:
                yield from self._json_lines(names, needed)
            else:
                yield from self._separated(names, needed)

    def columns(self) -> list[str]:
        """Return the names of a file's columns, with those of fields in objects and those in names
        of folders. For JSON lines return only the latter, as each line has its own fields.
        """
        with _naming_damage(self.file):
            found = []
            if self.file.format is Format.PARQUET:
                with self._open_parquet() as parquet:
                    found = list(_names_in(parquet.schema_arrow))
            elif self.file.format is not Format.JSON_LINES:
                found = self._header()
            return [*found, *self.file.folders]

    def lines(self) -> Iterator[Lines]:
        """Yield the lines of a JSON lines file as they are, with the number of the first."""
        with _naming_damage(self.file):
            opened = OpenFile(self.file, self._share)
            try:
                for first, lines in _lines(self.file, opened.stream, self._share):
                    self.done = opened.position()
                    yield first, lines
            finally:
                opened.close()

    def _parquet(self, names: list[str], needed: list[str]) -> Iterator[Rows]:
        with self._open_parquet() as parquet:
            schema = parquet.schema_arrow
            paths = {name: path for name in names if (path := _path_to(schema, name))}
            present = list(_names_in(schema))
            _require_columns(self.file, needed, list(dict.fromkeys((*present, *paths))))
            _require_own_case(self.file, names, present)
            _require_each_once(self.file, names, present)
            _require_readable(schema, paths)
            _require_meant(parquet.schema, paths)
            if self._share.number == 0:
                _require_one_parquet(self.file, parquet.metadata)
            self.total = parquet.metadata.num_rows
            leaves = list(map(".".join, paths.values()))
            groups = list(self._share.part(parquet.num_row_groups))
            rows = _rows_of(parquet.metadata, groups)
            for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=leaves):
                numbers = range(self.done + 1, self.done + batch.num_rows + 1)
                self.done += batch.num_rows
                found = {name: TypedCells(_in_objects(batch, p)) for name, p in paths.items()}
                yield Rows(numbers, self._with_absent(names, found, len(numbers)))
            if self.done != rows:
                raise pa.ArrowInvalid(f"it has {self.done} rows, and says {rows}")

    def _open_parquet(self) -> pa.parquet.ParquetFile:
        # Without pre-buffering: it would hold the bytes of every row group at once.
        # Of INT96, which has nanoseconds of any year, years that have none in 64 bits would wrap.
        # Changed bytes of a page are other keys and numbers, where nobody looks at its check sum.
        source = self.file.path if self.file.content is None else self.file.open()
        return pa.parquet.ParquetFile(
            source,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )

    def _with_absent(
        self, names: Sequence[str], found: Mapping[str, Cells], rows: int
    ) -> dict[str, Cells]:
        """Return the columns of these names: those of the file, of its folders, or of nothing."""
        return {
            name: found.get(name)
            or TypedCells(pa.repeat(pa.scalar(self.file.folders.get(name), pa.string()), rows))
            for name in names
        }

    def _separated(self, names: list[str], needed: list[str]) -> Iterator[Rows]:
        malformed: list[BadRow] = []
        set_aside: set[int] = set()
        present = self._header()
        # No row has so many columns, nor such text.
        mark = _MARK.format(_separator(self.file)) * (len(present) + 1)

        def on_invalid(row: pa.csv.InvalidRow) -> str:
            reason = f"has {row.actual_columns} columns, not {row.expected_columns}"
            if mark in row.text:
                reason = 'has text behind a quote that closes; within a cell write it twice: ""'
            text = row.text.replace(mark, "").encode()
            malformed.append(BadRow(row.number, reason, restored(text)))
            set_aside.add(row.number)
            return "skip"

        _require_columns(self.file, needed, present)
        _require_own_case(self.file, names, present)
        _require_each_once(self.file, names, present)
        # Without any column rows would not be counted.
        read = [name for name in names if name in present] or present[:1]
        table = self._open_separated(on_invalid, read, mark)
        try:
            row = 2
            for batch in table.reader:
                self.done = table.opened.position()
                numbers = _numbers(row, batch.num_rows, set_aside)
                row = numbers[-1] + 1 if numbers else row
                cells = {name: batch[name] for name in read}
                if table.text.escaped:
                    cells = {name: restored_cells(column) for name, column in cells.items()}
                found = {name: WrittenCells(column) for name, column in cells.items()}
                yield Rows(numbers, self._with_absent(names, found, len(numbers)), malformed[:])
                malformed.clear()
            if malformed:
                nothing = WrittenCells(pa.array([], pa.binary()))
                yield Rows((), dict.fromkeys(names, nothing), malformed)
        finally:
            table.close()

    def _header(self) -> list[str]:
        """Read the names of the columns of a CSV file; raises SlidestatError for another encoding
        or a hint for Excel.
        """
        opened = OpenFile(self.file)
        try:
            start = opened.stream.read(_CSV_BLOCK_BYTES)
        finally:
            opened.close()
        _require_text(self.file, start)
        if (hint := _EXCEL_HINT.match(start)) is not None:
            sign = hint["sign"].decode(errors="replace")
            command = _corrected(self.file, "tail -n +2", self.file.text_suffix)
            advice = f"Take that line away: {command}"
            if sign != _separator(self.file):
                advice = f"{advice}. {_separated_anew(self.file, sign)}"
            raise SlidestatError(
                f"{self.file.name} begins with 'sep={sign}', which is for Excel alone.", advice
            )
        header = self._open_separated(lambda _: "skip", None)
        try:
            # pyarrow has no names that are not UTF-8.
            names = [restored(x.encode()).decode() for x in header.reader.schema.names]
        except UnicodeDecodeError as error:
            raise SlidestatError(
                f"The header of {self.file.name} is not UTF-8.", _converted(self.file, "CP1252")
            ) from error
        finally:
            header.close()
        return names

    def _open_separated(
        self,
        invalid_row: Callable[[pa.csv.InvalidRow], str],
        names: list[str] | None,
        mark: str = "",
    ) -> "_Separated":
        opened = OpenFile(self.file, self._share, headed=True)
        tabs = self.file.format is Format.TSV
        text = Utf8Stream(opened.stream)
        quotes = CheckedQuotes(text, self.file.name, mark.encode())
        stream, released = LentStream(text if tabs else quotes), Event()
        weakref.finalize(stream, released.set).atexit = False
        try:
            reader = pa.csv.open_csv(
                stream,
                # With several threads invalid rows would come without their numbers.
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
                parse_options=pa.csv.ParseOptions(
                    delimiter=_separator(self.file),
                    # Tab-separated text (as IANA registers it) has no quoting.
                    quote_char=False if tabs else '"',
                    newlines_in_values=not tabs,
                    invalid_row_handler=invalid_row,
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names or (), pa.binary()),
                    strings_can_be_null=True,
                    null_values=[""],
                    check_utf8=False,
                ),
            )
        except BaseException as error:
            try:
                if isinstance(error, pa.ArrowInvalid):
                    quotes.require_closed()
            finally:
                opened.close()
                del stream
                _wait_for_threads(released)
            raise
        return _Separated(opened, text, reader, released)

    def _json_lines(self, names: list[str], needed: list[str]) -> Iterator[Rows]:
        fields = _JsonFields(names)
        unseen = needed
        # Rows that came before it was known whether all names are those of fields.
        held: list[Rows] = []
        known: list[str] = []
        looked_at = 0
        for first, lines in self.lines():
            rows, numbers, malformed = _decoded(fields.decoder, first, lines)
            columns: dict[str, Cells] = {
                name: JsonCells(_written(fields.written(name, rows), self.file.folders.get(name)))
                for name in names
            }
            held.append(Rows(numbers, columns, malformed))
            looked_at += len(rows)
            known = known or _fields(lines)
            if rows and looked_at == len(rows):
                seen = {*names}.difference(fields.unseen(names, rows))
                _require_own_case(self.file, names, [*known, *needed, *seen])
            if unseen and rows:
                unseen = fields.unseen(unseen, rows)
                if unseen and self.file.name != STANDARD_INPUT:
                    self._require_later(unseen, fields, known)
                    unseen = []
                elif unseen and looked_at < _LOOKED_AT:
                    continue
                _require_columns(self.file, unseen, known)
            yield from held
            held = []
        if held:
            _require_columns(self.file, unseen, known)
            yield from held

    def _require_later(
        self, unseen: list[str], fields: "_JsonFields", known: Sequence[str]
    ) -> None:
        """Raise SlidestatError unless some row of the file has each of these fields: those of later
        rows may be none of the first ones.
        """
        for first, lines in Reader(self.file).lines():
            unseen = fields.unseen(unseen, _decoded(fields.decoder, first, lines)[0])
            if not unseen:
                return
        _require_columns(self.file, unseen, known)


class _JsonFields:
    """The fields of JSON lines by their names; one with a point is also a path in objects."""

    def __init__(self, names: Sequence[str]) -> None:
        paths = {name: {(name,), tuple(name.split("."))} for name in names}
        leaves = {path for both in paths.values() for path in both if all(path)}
        # Fields within a field that is read whole are not read by themselves.
        leaves = {p for p in leaves if not any(p[:i] in leaves for i in range(1, len(p)))}
        types = dict.fromkeys(sorted(leaves), msgspec.Raw)
        struct = struct_of(types, types)
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(struct)
        self._read = {
            name: [reader(struct, path) for path in sorted(both & leaves, key=len)]
            for name, both in paths.items()
        }

    def written(self, name: str, rows: Sequence[Any]) -> list[bytes]:
        """Return a field of each row as it is written; nothing where it is not there."""
        first, *others = self._read[name]
        found = [value or b"" for value in map(first, rows)]
        for read in others:
            found = [value or read(row) or b"" for value, row in zip(found, rows, strict=True)]
        return found

    def unseen(self, names: Sequence[str], rows: Sequence[Any]) -> list[str]:
        """Return which of the names none of the rows has, not even as null."""
        return [name for name in names if not b"".join(self.written(name, rows))]


class LentStream(io.RawIOBase):
    """A stream that only Arrow has: it is gone once no thread of Arrow's reads from it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, into: "memoryview") -> int:  # type: ignore[override]  # Any buffer is one.
        stream = self._stream
        del self  # an error from here has this frame, and would keep what is waited for
        data = stream.read(len(into))
        into[: len(data)] = data
        return len(data)


@dataclass
class _Separated:
    opened: OpenFile
    text: Utf8Stream
    reader: Any
    released: Event

    def close(self) -> None:
        try:
            self.reader.close()
        finally:
            self.opened.close()
            self.reader = None
            _wait_for_threads(self.released)


def _wait_for_threads(released: Event) -> None:
    """Wait until no thread of Arrow's has a stream: one that still had it when Python ends would
    abort the process (apache/arrow#34314).
    """
    released.wait(_RELEASE_S)


def _lines(file: EventFile, stream: ByteStream, share: Share) -> Iterator[Lines]:
    """Split a stream at line feeds; the last line need not end in one. A byte order mark at the
    beginning of a line is left out: it is that of a file that was joined to others.
    """
    first, rest = 1, b""
    is_later = share.part(file.size).start > 0
    block = stream.read(_BLOCK_BYTES) if is_later else _first_block(file, stream)
    while block:
        block = rest + block
        *lines, rest = block.split(b"\n")
        if lines:
            yield first, _without_marks(lines) if _MARK_BYTES in block else lines
            first += len(lines)
        if len(rest) > _MAX_ROW_BYTES:
            raise pa.ArrowInvalid(f"line {first} is longer than {_MAX_ROW_BYTES >> 20} MiB")
        block = stream.read(_BLOCK_BYTES)
    if rest:
        yield first, _without_marks([rest])


def _without_marks(lines: list[bytes]) -> list[bytes]:
    return [_MARKS.sub(b"", line) for line in lines]


def _first_block(file: EventFile, stream: ByteStream) -> bytes:
    """Read the first block of JSON lines; raises SlidestatError for another kind of JSON."""
    block = stream.read(_BLOCK_BYTES)
    while 0 < len(block) < len(_MARK_BYTES) and (more := stream.read(_BLOCK_BYTES)):
        block += more
    _require_text(file, block)
    block = _MARKS.sub(b"", block)
    for is_other, what, program in (
        (_ONE_ARRAY, "one JSON array", "'.[]'"),
        (_PRETTY_OBJECT, "JSON over several lines", "."),
    ):
        if is_other.match(block):
            raise SlidestatError(
                f"{file.name} has {what}, not an object in each line.",
                f"Write it as JSON lines: {_corrected(file, f'jq -c {program}', '.jsonl')} (by jq"
                " 1.7 or newer: older ones round large integers)",
            )
    *lines, _ = map(bytes.rstrip, block.rstrip().split(b"\n"))
    if lines and all(line.endswith(b"},") for line in lines) and _fields([lines[0][:-1]]):
        command = _corrected(file, "sed 's/},[[:space:]]*$/}/'", ".jsonl")
        raise SlidestatError(
            f"{file.name} has commas between its objects, as an array has.",
            f"Write it as JSON lines: {command}",
        )
    return block


def _decoded(
    decoder: msgspec.json.Decoder[Any], first: int, lines: list[bytes]
) -> tuple[list[Any], Sequence[int], list[BadRow]]:
    """Decode lines: their objects, the numbers of these, and of lines without; blank ones pass."""
    rows: list[Any] = []
    others: list[int] = []
    malformed: list[BadRow] = []
    remaining = iter(lines)
    while True:
        try:
            # Rows before a bad line stay in the list; reading goes on behind that line.
            rows.extend(map(decoder.decode, remaining))
            break
        except NOT_JSON as error:
            at = len(rows) + len(others)
            others.append(first + at)
            if lines[at].strip():
                reason = f"is not a JSON object ({error})"
                malformed.append(BadRow(first + at, reason, lines[at]))
    numbers: Sequence[int] = range(first, first + len(lines))
    if others:
        numbers = sorted({*numbers}.difference(others))
    return rows, numbers, malformed


def _written(cells: Sequence[bytes], of_folder: str | None) -> pa.Array:
    """Return cells as they are written; for those that are not there what the folder has."""
    if not cells:
        return pa.array([], pa.binary())
    # Joined and split, for neither makes an object of Python for each; no line has a line feed.
    joined = b"\n".join(cells)
    texts = pa.array(joined.split(b"\n"), pa.binary())
    other = None if of_folder is None else msgspec.json.encode(of_folder)
    texts = pc.if_else(pc.equal(texts, b""), other, texts)
    return pc.if_else(pc.equal(texts, b"null"), None, texts)


def _numbers(first: int, rows: int, others: Collection[int]) -> Sequence[int]:
    """Return the next numbers from the first on, without the others."""
    if not others:
        return range(first, first + rows)
    return list(islice(filterfalse(others.__contains__, count(first)), rows))


def _fields(lines: list[bytes]) -> list[str]:
    """Return the fields of the first line that is an object."""
    for line in lines:
        try:
            return list(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except NOT_JSON:
            continue
    return []


def _names_in(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Yield the names of fields, and the paths of those in objects."""
    for one in fields:
        yield above + one.name
        if pa.types.is_struct(one.type):
            yield from _names_in(one.type, f"{above}{one.name}.")


def is_read_of(column: str, name: str) -> bool:
    """Return whether a name may be that of a column, or of a field in its objects."""
    return name == column or name.startswith(f"{column}.")


def _path_to(fields: Iterable[pa.Field], name: str) -> tuple[str, ...] | None:
    """Return the names that lead to a field of that name, or of that path in objects."""
    kinds = {one.name: one.type for one in fields}
    if name in kinds:
        return (name,)
    for point in (place for place, sign in enumerate(name) if sign == "."):
        kind = kinds.get(name[:point])
        if kind is not None and pa.types.is_struct(kind):
            rest = _path_to(kind, name[point + 1 :])
            if rest is not None:
                return (name[:point], *rest)
    return None


def _require_readable(schema: pa.Schema, paths: Mapping[str, Sequence[str]]) -> None:
    for name, (first, *inner) in paths.items():
        field = schema.field(first)
        for one in inner:
            field = field.type.field(one)
        require_readable(name, field)


def _require_meant(schema: pa.parquet.ParquetSchema, paths: Mapping[str, Sequence[str]]) -> None:
    """Raise SlidestatError for columns whose type Arrow does not have: it would hand out bytes,
    which may be a text by chance.
    """
    columns = list(map(schema.column, range(len(schema))))
    for name, path in paths.items():
        whole = ".".join(path)
        for column in columns:
            kinds = {column.converted_type, column.logical_type.type}
            is_part = column.path == whole or column.path.startswith(f"{whole}.")
            if is_part and (kind := next(iter(_OF_BYTES & kinds), None)):
                raise unreadable(name, kind.lower())


def _in_objects(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return a column, or a field in one of objects, null where an object around it is."""
    column = batch[path[0]]
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _require_columns(file: EventFile, names: Sequence[str], present: Sequence[str]) -> None:
    missing = [name for name in names if name not in present]
    if not missing:
        return
    require_own_separator(file, present)
    none, known, guess = missing_columns(missing, present)
    if any(set(name.split(",")) <= {*present} for name in missing):
        guess = "Repeat the option for each column. "
    where = f" in its first {_LOOKED_AT:,} rows" if file.name == STANDARD_INPUT else ""
    raise SlidestatError(
        f"{file.name} has no column {none}{where}; {known}.",
        f"{guess}Say which columns to take with --key, --time, --value, --with and --text."
        + (
            " To send the lines as they are, under the key in a field: --raw --key FIELD."
            if file.format is Format.JSON_LINES
            else ""
        ),
    )


def missing_columns(missing: Sequence[str], present: Sequence[str]) -> tuple[str, str, str]:
    """Return the words for which columns are missing, which there are, and which may be meant."""
    there = ", ".join(told_apart(name, missing) for name in present)
    near = dict.fromkeys(filter(None, (near_name(name, present) for name in missing)))
    return (
        ", ".join(told_apart(name, present) for name in missing),
        f"it has {there}" if present else "none was found",
        f"Did you mean {', '.join(told_apart(n, missing) for n in near)}? " if near else "",
    )


def no_columns(missing: Sequence[str], present: Sequence[str], more: str = "") -> SlidestatError:
    """Return the error of a frame that lacks columns, with more to do at the end."""
    none, known, guess = missing_columns(missing, present)
    return SlidestatError(
        f"There is no column {none}; {known}.",
        f"{guess}Say which columns hold key, time and value, or rename them as the topology has"
        f" them{more}.",
    )


def require_own_separator(file: EventFile, present: Sequence[str]) -> None:
    """Raise SlidestatError for a file of one column whose header is cut by another separator."""
    signs = [sign for sign in _SEPARATORS if sign in present[0]] if len(present) == 1 else []
    if signs and file.format in (Format.CSV, Format.TSV):
        raise SlidestatError(
            f"{file.name} has {_SEPARATORS[signs[0]]} between its cells, and not "
            f"{_SEPARATORS[_separator(file)]}: its header is {present[0]!r}.",
            _separated_anew(file, signs[0]),
        )


def rows_of_table(table: pa.Table, names: Sequence[str]) -> Iterator[Rows]:
    """Yield the rows of a table, read as those of a Parquet file are: the columns `names`, or the
    fields of structs; raises SlidestatError for one that is not there, or there twice.
    """
    twice = _there_twice(names, list(_names_in(table.schema)))
    if twice is not None:
        raise SlidestatError(f"There are several columns {twice!r}.", "Rename all but one.")
    paths = {name: _path_to(table.schema, name) or () for name in names}
    missing = [name for name, path in paths.items() if not path]
    if missing:
        raise no_columns(missing, table.column_names)
    _require_readable(table.schema, paths)
    first = 1
    for batch in table.to_batches(BATCH_ROWS):
        numbers = range(first, first + batch.num_rows)
        first += batch.num_rows
        found: dict[str, Cells] = {n: TypedCells(_in_objects(batch, p)) for n, p in paths.items()}
        yield Rows(numbers, found)


def _require_own_case(file: EventFile, names: Sequence[str], present: Sequence[str]) -> None:
    """Raise SlidestatError if a column that a file may lack is there, or in the name of a folder,
    under a name that is the same but for case, spaces and the like: all of its cells would be left
    out in silence.
    """
    there = (*present, *file.folders)
    others = {folded(name): name for name in there if name not in names}
    for name in (name for name in names if name not in there):
        if (other := others.get(folded(name))) is not None:
            place = "the file" if other in present else "the name of its folder"
            raise SlidestatError(
                f"{file.name} has a column {told_apart(other, [name])}, and none"
                f" {told_apart(name, [other])}.",
                f"Rename it {told_apart(name, [other])} in {place}: small and capital letters,"
                " spaces, and the ways to write one letter, count.",
            )


def _require_each_once(file: EventFile, names: Sequence[str], present: Sequence[str]) -> None:
    twice = _there_twice(names, present)
    if twice is not None:
        raise SlidestatError(
            f"{file.name} has the column {twice!r} twice, and both may hold it.",
            "Give one of them another name in the file.",
        )


def _there_twice(names: Sequence[str], present: Sequence[str]) -> str | None:
    return next((name for name in names if present.count(name) > 1), None)


def _require_one_parquet(file: EventFile, metadata: pa.parquet.FileMetaData) -> None:
    """Raise SlidestatError for files of Parquet that were joined, as by `cat`: what lies at the end
    tells of the last one only, and leads to bytes of the first. Between the data and the footer of
    one file are indexes of its pages.
    """
    end = 0
    for number in range(metadata.num_row_groups)[-1:]:
        _require_chunks(file, metadata, number)
        group = metadata.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            data = chunk.data_page_offset
            begin = min(data, chunk.dictionary_page_offset or data)
            end = max(end, begin + chunk.total_compressed_size)
    left = file.size - metadata.serialized_size - _FOOTER_END_BYTES - end
    held, is_joined = b"", False
    with file.open() as raw:
        raw.seek(end)
        while left > 0 and not is_joined and (block := raw.read(min(left, _BLOCK_BYTES))):
            left -= len(block)
            held += block
            is_joined = bool(_NEXT_PAGE.search(held)) or (not left and held.endswith(_TWO_PARQUETS))
            held = held[-_NEXT_PAGE_BYTES:]
    if is_joined:
        raise SlidestatError(
            f"{file.name} is several Parquet files, one behind another: only the last could be"
            " found.",
            "Give the files that it was made of.",
        )


def _rows_of(metadata: pa.parquet.FileMetaData, groups: Sequence[int]) -> int:
    """Return the rows of some row groups; raises ArrowInvalid where those of all are not as many as
    the footer says of the file. pyarrow reads what the groups say.
    """
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if sum(counts) != metadata.num_rows:
        raise pa.ArrowInvalid(
            f"its row groups have {sum(counts)} rows, and the file has {metadata.num_rows}"
        )
    return sum(counts[number] for number in groups)


def _require_chunks(file: EventFile, metadata: pa.parquet.FileMetaData, group: int) -> None:
    """Raise ArrowException or OSError where the footer has a chunk of a row group wrong. It has to
    be asked by a reader of rows: elsewhere pyarrow (26.0) lets that error end the process.
    """
    reader = pa.parquet.ParquetFile(_NoData(file.size), metadata=metadata, buffer_size=1)
    with suppress(_DataWantedError):
        next(reader.iter_batches(1, row_groups=[group], use_threads=False), None)


class _DataWantedError(Exception):
    pass


class _NoData(io.RawIOBase):
    """A file of a size whose footer is known already, and whose data is not to be read."""

    def __init__(self, size: int) -> None:
        self._size = self._at = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_CUR: self._at, io.SEEK_END: self._size}.get(whence, 0)
        return self._at

    def read(self, _size: int = -1) -> bytes:
        raise _DataWantedError


def no_events(file: EventFile) -> SlidestatError:
    """Return what is wrong with a file without rows."""
    return SlidestatError(
        f"{file.name} has no events.", "Give a file with at least one row of data."
    )


def _require_text(file: EventFile, start: bytes) -> None:
    """Raise SlidestatError for the first bytes of what is no text, or none in UTF-8."""
    if (found := _NO_TEXT.match(start)) is not None:
        what, advice = _KINDS[str(found.lastgroup)]
        raise SlidestatError(f"{file.name} is {what}, and not {file.format}.", advice)
    if _UTF_32.match(start):
        raise SlidestatError(f"{file.name} is UTF-32, not UTF-8.", _converted(file, "UTF-32"))
    if _UTF_16.match(start):
        raise SlidestatError(
            f"{file.name} is UTF-16, not UTF-8, as Excel's Unicode text is.",
            _converted(file, "UTF-16"),
        )


def _converted(file: EventFile, encoding: str) -> str:
    command = _corrected(file, f"iconv -f {encoding} -t UTF-8", file.text_suffix)
    return f"Convert it from the encoding that it has, such as {encoding}: {command}"


def _separated_anew(file: EventFile, sign: str) -> str:
    """Return the advice for a file whose cells are separated by this character."""
    if sign in _SUFFIXES:
        return f"Name it {_SUFFIXES[sign]}{file.name.removeprefix(file.text_name)}."
    command = _corrected(file, f"mlr --csv --ifs '{sign}' --ofs comma cat", ".csv")
    return f"Write it with commas, and its numbers with points: {command}"


def _corrected(file: EventFile, program: str, suffix: str) -> str:
    """Return the command by which a program, which reads a file or its input, writes a corrected
    file: never of the same name, as a shell would empty it first.
    """
    if file.name == STANDARD_INPUT:
        return f"... | {program} | slidestat produce -"
    new = shlex.quote(f"{Path(file.text_name).with_suffix('')}-new{suffix}")
    if file.compression is not None:
        unpack = f"{DECOMPRESSORS[file.compression]} -dc < {shlex.quote(file.name)}"
        return f"{unpack} | {program} > {new}"
    return f"{program} {shlex.quote(file.name)} > {new}"


def _separator(file: EventFile) -> str:
    return "\t" if file.format is Format.TSV else ","


@contextmanager
def _naming_damage(file: EventFile) -> Iterator[None]:
    """Turn what pyarrow and the decompressors raise for a damaged file into advice."""
    try:
        yield
    except PermissionError as error:
        raise SlidestatError(
            f"{file.name} cannot be read: permission denied.",
            "Ask its owner for permission to read it.",
        ) from error
    except (pa.ArrowException, OSError, EOFError, UnicodeError, lzma.LZMAError) as error:
        reason = (
            str(error).partition("\n")[0].rstrip(".").replace(_MARK.format(_separator(file)), "")
        )
        if "Empty CSV" in reason:
            raise no_events(file) from error
        if "straddling object" in reason:
            reason = f"a row is longer than {_CSV_BLOCK_BYTES >> 10} KiB"
        raise SlidestatError(
            f"{file.name} cannot be read: {reason}.",
            "The file is damaged, cut short, or of another kind than its name says.",
        ) from error
