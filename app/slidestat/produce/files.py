"""Event files: which format and compression a name means, and the open stream.

    events.csv  events.tsv.gz  events.jsonl.zst  events.parquet  -

`-` is standard input, JSON lines.
"""

import bz2
import io
import lzma
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import IO, NamedTuple, Protocol
from urllib.parse import unquote

import pyarrow as pa

from slidestat.errors import SlidestatError

STANDARD_INPUT = "-"


class Format(StrEnum):
    """The format of a file."""

    CSV = "CSV"
    TSV = "TSV"
    JSON_LINES = "JSON lines"
    PARQUET = "Parquet"


_FORMATS = {
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".parquet": Format.PARQUET,
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
DECOMPRESSORS = {"gzip": "gzip", "zstd": "zstd", "bz2": "bzip2", "xz": "xz"}
"""The programs that decompress: `gzip -dc < events.csv.gz`."""

# The first bytes of compressed files, for those with other names. No text begins so.
_SIGNS = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)"
    rb"|(?P<bz2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)"
)
_SIGN_BYTES = 10
_COMPRESSED_BYTES = 64 << 10
_LINE_BYTES = 1 << 20
_OTHER_COMPRESSIONS = {".zip", ".lz4", ".br", ".7z", ".z", ".lzma", ".sz", ".snappy", ".rar"}

_FORMAT_ADVICE = (
    "Give a file named .csv, .tsv, .jsonl or .parquet, "
    "the first three also compressed: .gz, .zst, .bz2 or .xz."
)


class ByteStream(Protocol):
    """The methods of an open file that pyarrow and the JSON lines reader need."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


# The name that Spark and Hive give to the folder of a null.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Share(NamedTuple):
    """One of equal parts of a file."""

    number: int = 0
    of: int = 1

    def part(self, count: int) -> range:
        """Return the places of this share's things, among `count` of them."""
        return range(count * self.number // self.of, count * (self.number + 1) // self.of)


WHOLE = Share()


@dataclass(frozen=True)
class EventFile:
    """A file of events by its name; `size` is its length in bytes, 0 for standard input. A file
    that is in memory has its `content`.
    """

    name: str
    format: Format
    compression: str | None
    size: int
    content: bytes | None = None

    def open(self) -> IO[bytes]:
        """Open the file as it is, compressed or not."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    @cached_property
    def folders(self) -> Mapping[str, str | None]:
        """Return the columns in the names of its folders, such as `store=007`, which are texts."""
        found = (folder.partition("=") for folder in self.path.parts[:-1] if "=" in folder)
        named = ((_unescaped(name), _unescaped(value)) for name, _, value in found)
        return {name: None if value == _NO_VALUE else value for name, value in named}

    @property
    def path(self) -> Path:
        return Path(self.name)

    @property
    def text_suffix(self) -> str:
        """Return the suffix of its format."""
        return Path(self.text_name).suffix

    @property
    def text_name(self) -> str:
        """Return its name once it is decompressed."""
        is_named = self.path.suffix.lower() in _COMPRESSIONS
        return str(self.path.with_suffix("")) if is_named else self.name


def _unescaped(text: str) -> str:
    """Return a part of a folder's name without its escapes; as it is where these are no UTF-8, so
    that what differs stays different.
    """
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError:
        plain = text
    # Python has a surrogate for a byte of a name that is not UTF-8.
    return plain.encode(errors="surrogateescape").decode(errors="backslashreplace")


class OpenFile:
    """The decompressed bytes of a file, and how much of the file itself has been read. With a
    `share`, only the lines that begin in that part of the file, after the file's first line if it
    is `headed`.
    """

    def __init__(self, file: EventFile, share: Share = WHOLE, *, headed: bool = False) -> None:
        self._raw: IO[bytes]
        self.stream: ByteStream
        if file.name == STANDARD_INPUT:
            self._raw = sys.stdin.buffer
            self.stream = _Pipe(sys.stdin.buffer)
            return
        # Python's file, not Arrow's: its close waits for a read under way. Arrow reads ahead in a
        # thread of its own, which would go on with a descriptor that was closed and is another
        # file's by then.
        self._raw = file.open()
        if share.of > 1:
            self.stream = _Lines(self._raw, share.part(file.size), headed=headed)
        elif file.compression in _OF_PYTHON:
            self.stream = _Decompressed(self._raw, file.compression)
        elif file.compression:
            self.stream = pa.CompressedInputStream(pa.PythonFile(self._raw, "r"), file.compression)
        else:
            self.stream = self._raw

    def position(self) -> int:
        """Return how many bytes, as compressed, were read of the file; 0 where that is unknown."""
        return 0 if self._raw.closed or not self._raw.seekable() else int(self._raw.tell())

    def close(self) -> None:
        try:
            self.stream.close()  # It may find only now that it was damaged.
        finally:
            if self._raw is not sys.stdin.buffer:
                self._raw.close()


# pyarrow has no xz, and of bzip2 it reads no stream behind an empty one.
_OF_PYTHON: dict[str, type[lzma.LZMADecompressor | bz2.BZ2Decompressor]] = {
    "xz": lzma.LZMADecompressor,
    "bz2": bz2.BZ2Decompressor,
}


class ByteSource(io.RawIOBase):
    """A stream of bytes that are made when they are read, by `next_bytes`."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: "memoryview") -> int:  # type: ignore[override]  # Any buffer is one.
        data = self.next_bytes(len(into))
        into[: len(data)] = data
        return len(data)

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes, `size` at most, none at the end."""
        raise NotImplementedError


class _Decompressed(ByteSource):
    """The content of compressed streams, one after another. Bytes behind a stream that are no
    stream are damage: Python's own readers end there, without a word.
    """

    def __init__(self, raw: IO[bytes], compression: str) -> None:
        self._raw = raw
        self._make = _OF_PYTHON[compression]
        self._stream = self._make()

    def next_bytes(self, size: int) -> bytes:
        data = b""
        while not data:
            block = b""
            if self._stream.eof:  # Zeros may lie between two of them.
                block = self._stream.unused_data.lstrip(b"\0")
                while not block:
                    block = self._raw.read(_COMPRESSED_BYTES)
                    if not block:
                        return b""
                    block = block.lstrip(b"\0")
                self._stream = self._make()
            elif self._stream.needs_input:
                block = self._raw.read(_COMPRESSED_BYTES)
                if not block:
                    raise EOFError("it ends within a compressed stream")
            data = self._stream.decompress(block, size)
        return data


class _Lines(ByteSource):
    """The whole lines that begin in a part of a file. If the file is `headed`, its first line that
    is not blank comes before them.
    """

    def __init__(self, raw: IO[bytes], places: range, *, headed: bool) -> None:
        self._raw = raw
        self._head = b""
        first = _line_start(raw, places.start)
        self._left = _line_start(raw, places.stop) - first
        if headed and first:
            self._head, end = _header_of(raw)
            if end > first:  # The header itself.
                self._left -= min(self._left, end - first)
                first = end
        raw.seek(first)

    def next_bytes(self, size: int) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        if not data:
            data = self._raw.read(min(size, self._left))
            self._left -= len(data)
        return data


def _line_start(raw: IO[bytes], place: int) -> int:
    """Return where the first line begins at or after a place of a file."""
    if place:
        raw.seek(place - 1)
        for piece in _pieces_of_lines(raw):
            if piece.endswith(b"\n"):
                break
        place = raw.tell()
    return place


def _header_of(raw: IO[bytes]) -> tuple[bytes, int]:
    """Return the first line of a file that is not blank, with a line feed, and where it ends: as
    Arrow has it, also at a carriage return alone, which may come before the first line feed.
    """
    raw.seek(0)
    for piece in _pieces_of_lines(raw):
        if piece.strip():
            text = piece.lstrip(b"\r\n")
            header = text.splitlines(keepends=True)[0]
            return header.rstrip(b"\r\n") + b"\n", raw.tell() - len(text) + len(header)
    return b"", raw.tell()


def _pieces_of_lines(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield what is left of a file up to each line feed; a longer line comes in pieces."""
    return iter(partial(raw.readline, _LINE_BYTES), b"")


class _Pipe:
    """Standard input that returns what is available, without waiting for a full block."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def read(self, size: int, /) -> bytes:
        data: bytes = self._raw.read1(size)  # type: ignore[attr-defined]  # BufferedReader has it
        return data

    def close(self) -> None:
        """Leave it open: it is the process's."""


def event_file(name: str | Path) -> EventFile:
    """Find a file by name; SlidestatError if missing, empty, of another kind, or of a table."""
    name = str(name)
    if name == STANDARD_INPUT:
        return EventFile(name, Format.JSON_LINES, None, 0)
    file = _event_file(name, may_be_input=True)
    require_no_table([file.path])
    if not file.size:
        raise _empty(file)
    return file


def _event_file(name: str, *, may_be_input: bool = False) -> EventFile:
    path = Path(name)
    if not _is_there(name):
        other = "; `-` reads standard input" if may_be_input else ""
        raise SlidestatError(f"There is no file {name}.", f"Check the path{other}.")
    if not path.is_file():
        other = " `-` reads JSON lines from a pipe." if may_be_input else ""
        if path.is_dir():
            other = " Give one file at a time."
        raise SlidestatError(f"{name} is not a file.", f"{_FORMAT_ADVICE}{other}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = compression_of(name, start_of(path))
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    kind = _FORMATS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise SlidestatError(f"The format of {name} is not known from its name.", _FORMAT_ADVICE)
    if kind is Format.PARQUET and compression:
        raise SlidestatError(
            f"{name} is a compressed Parquet file, which cannot be read in batches.",
            "Decompress it: Parquet is compressed inside.",
        )
    return EventFile(name, kind, compression, path.stat().st_size)


def _empty(file: EventFile) -> SlidestatError:
    return SlidestatError(f"{file.name} is empty.", "Give a file with at least one event.")


def start_of(path: Path) -> bytes:
    """Return the first bytes of a file; none of one that its reader will find cannot be read."""
    try:
        with path.open("rb") as raw:
            return raw.read(_SIGN_BYTES)
    except OSError:
        return b""


def compression_of(name: str, start: bytes) -> str | None:
    """Return how a file is compressed, by its name, or else by its first bytes; raises
    SlidestatError for a compression that cannot be read.
    """
    suffix = Path(name).suffix.lower()
    if suffix in _OTHER_COMPRESSIONS:
        raise SlidestatError(
            f"{name} is compressed in a way that is not read: {suffix}.",
            "Compress it again as .gz, .zst, .bz2 or .xz.",
        )
    sign = _SIGNS.match(start)
    return _COMPRESSIONS.get(suffix) or (sign and sign.lastgroup)


# The files of a path.

# The name of a file that is still being copied to HDFS.
_COPIED = "._COPYING_"
TABLE_LOGS = {
    "_delta_log": "a Delta table",
    # Compressed, it ends in .gz.metadata.json; of older tables in .metadata.json.gz.
    "metadata/*.metadata.json*": "an Iceberg table",
    ".hoodie/hoodie.properties": "a Hudi table",
    "schema/schema-0": "a Paimon table",
    "_spark_metadata": "the output of a stream on Spark",
}
"""Where a table, or a stream on Spark, keeps which files count, below its folder."""


def files_of(paths: Sequence[str]) -> list[EventFile]:
    """Return the files of paths, each that of a file, a folder with those below it, or a pattern of
    either, in order of their names; raises SlidestatError for one that has none, or none that can
    be read.

    Below a folder, names that begin with _ or . are passed over, as Spark does: marks, check sums
    and what was not committed. A folder such as `_day=7` is none of these. Links are followed, and
    empty files passed over beside others.
    """
    found: dict[str, None] = {}
    for path in paths:
        names = sorted(map(str, files_below(path)))
        require_no_table(map(Path, (path, *names)))
        if not names:
            raise SlidestatError(
                f"{path} has no files.",
                "Check the path. Names that begin with _ or . are passed over.",
            )
        found |= dict.fromkeys(names)
    files = list(map(_event_file, found))
    there = [file for file in files if file.size]
    if not there:
        raise _empty(files[0])
    return there


def files_below(path: str) -> Iterator[Path]:
    """Yield the files of a path, of any kind; SlidestatError for an unreadable folder."""
    root, matches = Path(path), [Path(path)]
    if has_magic(path) and not _is_there(path):
        root = Path(*takewhile(lambda part: not has_magic(part), root.parts))
        try:
            matches = list(root.glob(str(Path(path).relative_to(root))))
        except ValueError as error:  # A pattern with three stars.
            raise SlidestatError(
                f"{path} is no pattern: {error}.",
                "Write * for any part of a name, and ** for folders of any depth.",
            ) from error
    elif not (_is_there(path) and root.is_dir()):
        yield root
        return
    for match in matches:
        for file in _all_below(match) if match.is_dir() else [match]:
            # A link that leads nowhere is a file that is missing.
            is_one = file.is_file() or file.is_symlink()
            if is_one and not any(map(is_hidden, file.relative_to(root).parts)):
                yield file


def _all_below(folder: Path) -> Iterator[Path]:
    """Yield what lies below a folder, also behind links, but for links back to a folder above;
    raises SlidestatError for a folder that cannot be read.
    """
    for place, folders, names in os.walk(folder, onerror=_raise_unreadable, followlinks=True):
        here = Path(place)
        folders[:] = [
            name for name in folders if not (is_hidden(name) or leads_back(here / name, folder))
        ]
        yield from (here / name for name in names)


def leads_back(folder: Path, root: Path) -> bool:
    """Return whether a folder below a root lies behind a link back to one above it, from the root
    on: its files come again and again.
    """
    depth = len(folder.relative_to(root).parts)
    places = list(map(_real, (folder, *folder.parents[:depth])))
    return len(set(places)) < len(places)


def _raise_unreadable(error: OSError) -> None:
    raise SlidestatError(
        f"The folder {error.filename} cannot be read: {(error.strerror or str(error)).lower()}.",
        "Ask its owner for permission to read it.",
    ) from error


# `Path` has both, and raises: for a name that is too long, and for links that lead in a circle.


def _is_there(path: str | Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _real(path: Path) -> Path:
    """Return where the links of a path lead."""
    return Path(os.path.realpath(path))


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of this name is passed over below a folder, as by Spark."""
    is_marked = name.startswith("_") and "=" not in name
    return is_marked or name.startswith(".") or name.endswith(_COPIED)


def require_no_table(paths: Iterable[Path]) -> None:
    """Raise SlidestatError if one of the paths is a table's folder, or lies in one, as it is
    written or where its links lead: only the table's log knows which files count.
    """
    looked_at = set[Path]()
    for path in paths:
        own, beside = _real(path), _real(path.parent)
        for each in {own, *own.parents, beside, *beside.parents} - looked_at:
            looked_at.add(each)
            for log, what in TABLE_LOGS.items() if _is_there(each) else ():
                if any(each.glob(log)):
                    raise SlidestatError(
                        f"{each} is {what}, and some of its files may be of rows that were deleted,"
                        " or never committed.",
                        "Export the rows that it has now to another folder, such as with Spark, and"
                        " give that one. `slidestat spark stream --from delta` reads a Delta table"
                        " itself.",
                    )
