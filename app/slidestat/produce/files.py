"""Event files: which format and compression a name means, and the open stream.

    events.csv  events.tsv.gz  events.jsonl.zst  events.parquet  -

`-` is standard input, JSON lines.
"""

import lzma
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

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
# pyarrow has no xz; the standard library has.
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_OTHER_COMPRESSIONS = {".zip", ".lz4", ".br", ".7z", ".z", ".lzma", ".sz", ".snappy", ".rar"}

_FORMAT_ADVICE = (
    "Give a file named .csv, .tsv, .jsonl or .parquet, "
    "the first three also compressed: .gz, .zst, .bz2 or .xz."
)


class ByteStream(Protocol):
    """The methods of an open file that pyarrow and the JSON lines reader need."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class EventFile:
    """A file of events by its name; `size` is its length in bytes, 0 for standard input."""

    name: str
    format: Format
    compression: str | None
    size: int

    @property
    def path(self) -> Path:
        return Path(self.name)

    @property
    def text_suffix(self) -> str:
        """Return the suffix of its format."""
        return self.path.suffixes[-2 if self.compression else -1] if self.path.suffixes else ""


class OpenFile:
    """The decompressed bytes of a file, and how far into the file itself the reading is."""

    def __init__(self, file: EventFile) -> None:
        self._raw: IO[bytes]
        self.stream: ByteStream
        if file.name == STANDARD_INPUT:
            self._raw = sys.stdin.buffer
            self.stream = _Pipe(sys.stdin.buffer)
            return
        # Python's file, not Arrow's: its close waits for a read under way. Arrow reads ahead in a
        # thread of its own, which would go on with a descriptor that was closed and is another
        # file's by then.
        self._raw = file.path.open("rb")
        if file.compression == "xz":
            self.stream = lzma.open(self._raw)  # noqa: SIM115  # close() closes it
        elif file.compression:
            self.stream = pa.CompressedInputStream(pa.PythonFile(self._raw), file.compression)
        else:
            self.stream = self._raw

    def position(self) -> int:
        """Bytes of the file read so far, compressed as they are; 0 where it cannot be known."""
        return 0 if self._raw.closed or not self._raw.seekable() else int(self._raw.tell())

    def close(self) -> None:
        try:
            self.stream.close()  # It may find only now that it was damaged.
        finally:
            if self._raw is not sys.stdin.buffer:
                self._raw.close()


class _Pipe:
    """Standard input that hands on what has come, without waiting for a full block."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def read(self, size: int, /) -> bytes:
        data: bytes = self._raw.read1(size)  # type: ignore[attr-defined]  # BufferedReader has it
        return data

    def close(self) -> None:
        """Leave it open: it is the process's."""


def event_file(name: str | Path) -> EventFile:
    """Find the file of a name; raises SlidestatError for one that is missing, empty or of another
    kind.
    """
    name = str(name)
    if name == STANDARD_INPUT:
        return EventFile(name, Format.JSON_LINES, None, 0)
    path = Path(name)
    if not path.exists():
        raise SlidestatError(
            f"There is no file {name}.", "Check the path; `-` reads standard input."
        )
    if not path.is_file():
        raise SlidestatError(f"{name} is not a file.", _FORMAT_ADVICE)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = _COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if suffixes and suffixes[-1] in _OTHER_COMPRESSIONS:
        raise SlidestatError(
            f"{name} is compressed in a way that is not read: {suffixes[-1]}.",
            "Compress it again as .gz, .zst, .bz2 or .xz.",
        )
    kind = (
        _FORMATS.get(suffixes[-2 if compression else -1])
        if len(suffixes) > bool(compression)
        else None
    )
    if kind is None:
        raise SlidestatError(f"The format of {name} is not known from its name.", _FORMAT_ADVICE)
    if kind is Format.PARQUET and compression:
        raise SlidestatError(
            f"{name} is a compressed Parquet file, which cannot be read in batches.",
            "Decompress it: Parquet is compressed inside.",
        )
    size = path.stat().st_size
    if size == 0:
        raise SlidestatError(f"{name} is empty.", "Give a file with at least one event.")
    return EventFile(name, kind, compression, size)
