"""Event files in batches of columns, in bounded memory.

Columns come as they are stored; CSV and JSON lines, where each row is written anew, are read
without guessing types from the first rows, so that one odd row is that row's fault alone.
"""

import codecs
import lzma
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from slidestat.errors import SlidestatError
from slidestat.produce.files import ByteStream, EventFile, Format, OpenFile

BATCH_ROWS = 32_768
_BLOCK_BYTES = 1 << 20
# pyarrow reads tens of blocks of a CSV file ahead: small ones keep memory and progress honest.
_CSV_BLOCK_BYTES = 256 << 10
# A row longer than this is no event: the file is something else.
_MAX_ROW_BYTES = 16 << 20

# What msgspec raises for bytes that are not JSON; recursion for nesting without end.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Lines = tuple[int, list[bytes]]


@dataclass(frozen=True)
class BadRow:
    """A row that is not an event; `row` counts as `Rows.numbers` does."""

    row: int
    reason: str


@dataclass(frozen=True)
class Rows:
    """Some rows: the wanted columns by name, each row's number, and the rows that had no columns.

    Parquet rows and JSON lines are counted from 1; of a CSV file row 1 is the header.
    """

    numbers: Sequence[int]
    columns: dict[str, pa.Array]
    malformed: list[BadRow] = field(default_factory=list)


class Reader:
    """The rows of one file, with what a progress bar needs: `done` of `total`, in `unit`s."""

    def __init__(self, file: EventFile) -> None:
        self.file = file
        self.unit = "rows" if file.format is Format.PARQUET else "bytes"
        self.total = 0 if file.format is Format.PARQUET else file.size
        self.done = 0

    def batches(self, names: Sequence[str]) -> Iterator[Rows]:
        """The columns `names`; raises SlidestatError for a missing one or a damaged file."""
        names = list(dict.fromkeys(names))
        with _damage_told(self.file):
            if self.file.format is Format.PARQUET:
                yield from self._parquet(names)
            elif self.file.format is Format.JSON_LINES:
                yield from self._json_lines(names)
            else:
                yield from self._separated(names)

    def lines(self) -> Iterator[Lines]:
        """The lines of a JSON lines file as they are, with the number of the first."""
        with _damage_told(self.file):
            opened = OpenFile(self.file)
            try:
                for first, lines in _lines(opened.stream):
                    self.done = opened.position()
                    yield first, lines
            finally:
                opened.close()

    def _parquet(self, names: list[str]) -> Iterator[Rows]:
        # Without pre-buffering: it would hold the bytes of every row group at once.
        with pa.parquet.ParquetFile(self.file.path, pre_buffer=False) as parquet:
            _require_columns(self.file, names, parquet.schema_arrow.names)
            self.total = parquet.metadata.num_rows
            for batch in parquet.iter_batches(BATCH_ROWS, columns=names):
                numbers = range(self.done + 1, self.done + batch.num_rows + 1)
                self.done += batch.num_rows
                yield Rows(numbers, {name: batch[name] for name in names})

    def _separated(self, names: list[str]) -> Iterator[Rows]:
        malformed: list[BadRow] = []

        def set_aside(row: pa.csv.InvalidRow) -> str:
            reason = f"has {row.actual_columns} columns, not {row.expected_columns}"
            malformed.append(BadRow(row.number, reason))
            return "skip"

        header = self._open_separated(lambda _: "skip", None)
        try:
            _require_columns(self.file, names, header.reader.schema.names)
        finally:
            header.close()
        table = self._open_separated(set_aside, names)
        try:
            row = 2
            for batch in table.reader:
                self.done = table.opened.position()
                numbers = range(row, row + batch.num_rows)
                row += batch.num_rows
                yield Rows(numbers, {name: batch[name] for name in names}, malformed[:])
                malformed.clear()
            if malformed:
                yield Rows((), {name: pa.nulls(0) for name in names}, malformed)
        finally:
            table.close()

    def _open_separated(
        self, invalid_row: Callable[[pa.csv.InvalidRow], str], names: list[str] | None
    ) -> "_Separated":
        opened = OpenFile(self.file)
        tabs = self.file.format is Format.TSV
        try:
            reader = pa.csv.open_csv(
                opened.stream,
                # One thread, or invalid rows would come without their number.
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
                parse_options=pa.csv.ParseOptions(
                    delimiter="\t" if tabs else ",",
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
        except BaseException:
            opened.close()
            raise
        return _Separated(opened, reader)

    def _json_lines(self, names: list[str]) -> Iterator[Rows]:
        row_type = msgspec.defstruct(
            "Row",
            [(f"f{i}", Any, None) for i in range(len(names))],
            rename={f"f{i}": name for i, name in enumerate(names)},
        )
        decoder = msgspec.json.Decoder(row_type)
        for first, lines in self.lines():
            rows, numbers, malformed = _decoded(decoder, first, lines)
            columns = {
                name: _column([getattr(row, f"f{i}") for row in rows])
                for i, name in enumerate(names)
            }
            if first == 1 and rows:
                absent = [name for name in names if columns[name].null_count == len(rows)]
                if absent:
                    _require_columns(self.file, absent, _fields(lines))
            yield Rows(numbers, columns, malformed)


@dataclass(frozen=True)
class _Separated:
    opened: OpenFile
    reader: Any

    def close(self) -> None:
        try:
            self.reader.close()
        finally:
            self.opened.close()


def _lines(stream: ByteStream) -> Iterator[Lines]:
    """Split a stream at line feeds; the last line need not end in one."""
    first, rest = 1, b""
    while block := stream.read(_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield first, lines
            first += len(lines)
        if len(rest) > _MAX_ROW_BYTES:
            raise pa.ArrowInvalid(f"line {first} is longer than {_MAX_ROW_BYTES >> 20} MiB")
    if rest:
        yield first, [rest]


def _decoded(
    decoder: msgspec.json.Decoder[Any], first: int, lines: list[bytes]
) -> tuple[list[Any], Sequence[int], list[BadRow]]:
    """The objects of some lines, their numbers, and the lines that hold none; blank ones pass."""
    if first == 1:
        lines = [lines[0].removeprefix(codecs.BOM_UTF8), *lines[1:]]
    try:
        rows = decoder.decode_lines(b"\n".join(lines))
        if len(rows) == len(lines):
            return rows, range(first, first + len(lines)), []
    except NOT_JSON:
        pass  # The loop below finds the lines at fault.
    rows, numbers, malformed = [], [], []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
            numbers.append(number)
        except NOT_JSON as error:
            malformed.append(BadRow(number, f"is not a JSON object ({error})"))
    return rows, numbers, malformed


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # Values of several types, or integers beyond 64 bits: each by its own text.
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: object) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, float):
        text: str = pa.scalar(value).cast(pa.string()).as_py()
        return text
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _fields(lines: list[bytes]) -> list[str]:
    """The fields of the first line that is an object."""
    for line in lines:
        try:
            return list(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except NOT_JSON:
            continue
    return []


def _require_columns(file: EventFile, names: Sequence[str], present: Sequence[str]) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise SlidestatError(
            f"{file.name} has no column {', '.join(map(repr, missing))}; "
            f"it has {', '.join(map(repr, present))}.",
            "Say which columns to take with --key, --time, --value and --with.",
        )


@contextmanager
def _damage_told(file: EventFile) -> Iterator[None]:
    """Turn what pyarrow and the decompressors raise for a damaged file into advice."""
    try:
        yield
    except PermissionError as error:
        raise SlidestatError(
            f"{file.name} cannot be read: permission denied.",
            "Ask its owner for permission to read it.",
        ) from error
    except (pa.ArrowException, OSError, EOFError, lzma.LZMAError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        if "straddling object" in reason:
            reason = f"a row is longer than {_CSV_BLOCK_BYTES >> 10} KiB"
        raise SlidestatError(
            f"{file.name} cannot be read: {reason}.",
            "The file is damaged, cut short, or of another kind than its name says.",
        ) from error
