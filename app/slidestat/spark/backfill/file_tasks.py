"""Files given out to Spark's tasks, which read them in Python.

Files of a disk are read in shares: of Parquet some row groups, of text the lines that begin in a
range of bytes. A line feed in quotes would be taken for the end of a row: so a CSV file that has
any quotes is read by one task, and so is a compressed one. Spark has the credentials of all other
file systems: it hands each file that lies there to a task as a whole, in memory.

Rows of one time come in the order of the files' paths, and as they are in a file: pieces have their
places among all files.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from math import ceil
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from slidestat.errors import SlidestatError
from slidestat.produce.file_records import RECORDS, FileRecords, Part
from slidestat.produce.files import (
    EventFile,
    Format,
    Share,
    compression_of,
    files_below,
    is_hidden,
    leads_back,
    require_no_table,
    start_of,
)
from slidestat.produce.ordered_pieces import PIECE_DDL, in_pieces
from slidestat.spark.errors import in_words
from slidestat.spark.lake.files import PATTERN_SIGN, LakeFiles

FORMATS = {"parquet": Format.PARQUET, "csv": Format.CSV, "json": Format.JSON_LINES}

_LEAST_BYTES, _MOST_BYTES = 4 * 2**20, 128 * 2**20
# To open a file costs as much as to read so many bytes of a large one.
_OPEN_BYTES = 128 * 2**10
_BLOCK_BYTES = 2**20
_HERE = "file:"
# A history has fewer than two million files.
_RANK_BITS = 42
_TSV = ".tsv"

_LISTED = pa.schema([("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
LISTED_COLUMNS = from_arrow_schema(_LISTED)
"""The records of files that Spark lists, as columns of Spark."""

Tasks = Sequence[Sequence[Part]]


def file_urls(spark: SparkSession, path: str) -> dict[str, int]:
    """Return the URLs, without escapes, of the files that a path means, with the rank of each: a
    file, a folder with those below it, or a pattern. Raises SlidestatError if there are none, or
    one that Spark passes over.
    """
    place = place_of(spark, path)
    with in_words(f"The reading of {path}", "Check the path."):
        found = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place.path)
        urls = urls_of(found, LakeFiles(spark).qualified(place.root))
    if not urls:
        raise SlidestatError(
            f"{path} has no files.", "Check the path. Names that begin with _ or . are passed over."
        )
    _require_all(path, urls)
    return urls


class Place(NamedTuple):
    """A path as Spark is to be given it, and the folder below which it looks."""

    path: str
    root: str


def place_of(spark: SparkSession, path: str) -> Place:
    """Return the place of a path. One that is there is no pattern, though it has the signs of one:
    Spark would read `day1` for `day[1]`.
    """
    if not PATTERN_SIGN.search(path):
        return Place(path, path)
    if LakeFiles(spark).exists(path):
        return Place(_literally(path), path)
    above = takewhile(lambda name: not PATTERN_SIGN.search(name), path.split("/"))
    return Place(path, "/".join((*above, "")) or ".")


def urls_of(listed: DataFrame, root: str) -> dict[str, int]:
    """Return the URLs, without escapes, of the files that Spark lists below a root, with ranks."""
    urls = ranked(listed.inputFiles())
    return {url: rank for url, rank in urls.items() if not _is_passed_over(url, root)}


def _is_passed_over(url: str, root: str) -> bool:
    """Return whether a file that Spark lists below a root has a hidden name on the way: Spark lists
    those that a pattern matches, what was not committed among them, and summaries of Parquet.
    """
    return url.startswith(root) and any(map(is_hidden, url[len(root) :].split("/")))


def _require_all(path: str, urls: Iterable[str]) -> None:
    """Raise SlidestatError for a file below a folder on a disk that Spark passes over: one of a
    name that is not UTF-8, or behind a link that leads nowhere.
    """
    if not (all(map(is_here, urls)) and Path(path).is_dir()):
        return
    seen = set(map(_path_of, urls))
    for file in files_below(path):
        if Path(os.path.abspath(file)) not in seen:  # noqa: PTH100  # `resolve` follows links.
            raise SlidestatError(
                f"Spark does not see the file {str(file)!r}: its rows would be left out.",
                "Look where it leads, if it is a link, and whether its name is UTF-8.",
            )


def ranked(urls: Iterable[str]) -> dict[str, int]:
    """Return URLs without escapes, each with its rank."""
    # Hadoop names files with one slash, or with two and a host.
    plain = sorted({unquote(url).replace(":///", ":/", 1) for url in urls})
    return {url: rank for rank, url in enumerate(plain)}


def files_here(urls: Mapping[str, int], format: str) -> list[Part]:
    """Return the files on disks that are not empty, in order; raises SlidestatError for one that is
    compressed in a way that is not read, and for one of a table.
    """
    found = parts_here(urls, format)
    require_no_table(part.file.path for part in found)
    return found


def parts_here(urls: Mapping[str, int], format: str) -> list[Part]:
    """Return the same without a look at tables."""
    here = {_path_of(url): rank for url, rank in urls.items() if is_here(url)}
    # Spark follows links back to a folder above as far as the system does: forty times.
    again = set(filter(_comes_again, {path.parent for path in here}))
    first: dict[str, Path] = {}
    for path in sorted(here if again else (), key=lambda path: len(path.parts)):
        first.setdefault(os.path.realpath(path), path)
    found = [
        Part(_file_here(path, format), rank)
        for path, rank in here.items()
        if not (path.parent in again and first[os.path.realpath(path)] != path)
        and not _is_no_file(path)
    ]
    return [part for part in found if part.file.size]


def _comes_again(folder: Path) -> bool:
    return leads_back(folder, Path(folder.anchor))


def is_here(url: str) -> bool:
    """Return whether a URL names a file, or folder, that all tasks find on their disks."""
    return url.startswith(_HERE)


def pieces(
    spark: SparkSession,
    records: FileRecords,
    urls: Mapping[str, int],
    here: Sequence[Part],
    format: str,
    partitions: int,
) -> DataFrame:
    """Read files in pieces: those that are `here` in shares, the others as Spark hands them out."""
    tasks = _tasks(spark, here)
    read = partial(_read_shares, records, tasks, partitions)
    found = spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(read, PIECE_DDL)
    others = {url: rank for url, rank in urls.items() if not is_here(url)}
    if not others:
        return found
    # This is the way of Spark to read whole files that hands them over one by one.
    paths = ",".join(map(_pattern_of, others))
    whole = spark.sparkContext.binaryFiles(paths, len(others)).mapPartitions(
        partial(_read_whole, records, others, format, partitions)
    )
    return found.union(spark.createDataFrame(whole, PIECE_DDL))


def _file(name: str, format: str, start: bytes, size: int) -> EventFile:
    kind = FORMATS[format]
    compression = None if kind is Format.PARQUET else compression_of(name, start)
    file = EventFile(name, kind, compression, size)
    if kind is Format.CSV and file.text_suffix.lower() == _TSV:
        return EventFile(name, Format.TSV, compression, size)
    return file


def _path_of(url: str) -> Path:
    return Path("/" + url.removeprefix(_HERE).lstrip("/"))


def _is_no_file(path: Path) -> bool:
    """Return whether there is a pipe or the like, which nobody may ever write to."""
    return path.exists() and not path.is_file()


def _file_here(path: Path, format: str) -> EventFile:
    return _file(str(path), format, start_of(path), _size(path))


def _size(path: Path) -> int:
    """Return the bytes of a file; some of one that is not there, as its reader will find."""
    try:
        return path.stat().st_size
    except OSError:
        return _OPEN_BYTES


def _tasks(spark: SparkSession, files: Sequence[Part]) -> Tasks:
    """Give files out to tasks, as Spark does: so that each core has some, a large one in shares,
    and small ones together. Small files together have ranks that follow each other: nothing lies
    between them.
    """
    sizes = [max(part.file.size, _OPEN_BYTES) for part in files]
    fair = sum(sizes) / spark.sparkContext.defaultParallelism
    most = min(max(fair, _LEAST_BYTES), _MOST_BYTES)
    shares = [
        ceil(size / most) if part.file.compression is None else 1
        for part, size in zip(files, sizes, strict=True)
    ]
    quoted = _quoted(spark, [part for part, of in zip(files, shares, strict=True) if of > 1])
    found: list[list[Part]] = []
    held = 0
    for part, size, of in zip(files, sizes, shares, strict=True):
        last = found[-1][-1] if found else None
        if last is not None and part.rank == last.rank + 1 and held + size <= most:
            found[-1].append(part)
            held += size
            continue
        if part.rank in quoted:
            of = 1
        found += [[part._replace(share=Share(number, of))] for number in range(of)]
        # To a share of a file no other is added.
        held = size
    return found


def _quoted(spark: SparkSession, files: Sequence[Part]) -> set[int]:
    """Return the ranks of the CSV files that have quotes. Cost: a job that reads their bytes."""
    csv = [part for part in files if part.file.format is Format.CSV]
    if not csv:
        return set()
    looked = spark.range(0, len(csv), 1, len(csv)).mapInArrow(
        partial(_look_for_quotes, csv), "rank bigint"
    )
    return {row["rank"] for row in looked.collect()}


def _look_for_quotes(
    files: Sequence[Part], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for part in (files[number] for batch in numbers for number in batch["id"].to_pylist()):
        with part.file.open() as raw:
            if any(b'"' in block for block in iter(partial(raw.read, _BLOCK_BYTES), b"")):
                yield pa.record_batch([[part.rank]], ["rank"])


def _read_shares(
    records: FileRecords, tasks: Tasks, partitions: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the files of the tasks of these numbers, in pieces."""

    def rows() -> Iterator[tuple[int, pa.RecordBatch]]:
        for parts in (tasks[number] for batch in numbers for number in batch["id"].to_pylist()):
            place = (parts[0].rank << _RANK_BITS) + parts[0].share.number
            for batch in chain.from_iterable(map(records.read, parts)):
                yield place, batch

    return in_pieces(RECORDS, partitions, rows())


def _read_whole(
    records: FileRecords,
    ranks: Mapping[str, int],
    format: str,
    partitions: int,
    files: Iterable[tuple[str, bytes]],
) -> Iterator[tuple[object, ...]]:
    """Read files that are in memory, in pieces, row by row."""
    for url, content in files:
        if content:
            rank = ranks[url]
            place = rank << _RANK_BITS
            part = Part(_in_memory(url, format, content), rank)
            batches = ((place, batch) for batch in records.read(part))
            for found in in_pieces(RECORDS, partitions, batches):
                yield from zip(*(column.to_pylist() for column in found), strict=True)


def _in_memory(url: str, format: str, content: bytes) -> EventFile:
    return replace(_file(url, format, content, len(content)), content=content)


def read_listed(
    records: FileRecords, format: str, root: str, files: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read files that Spark lists below a root, by `path` or as `content` where given. Yield
    records.
    """
    for batch in files:
        for url, content in zip(*(batch[it].to_pylist() for it in batch.schema.names), strict=True):
            if _is_passed_over(url, root):
                continue
            parts = [Part(_in_memory(url, format, content or b""), 0)]
            if content is None:
                parts = parts_here({} if _comes_again(_path_of(url).parent) else {url: 0}, format)
            for part in (part for part in parts if part.file.size):
                for found in records.read(part):
                    yield found.cast(_LISTED)


def _pattern_of(url: str) -> str:
    """Return the pattern that is this very URL to Hadoop, whose lists of them have no way to write
    a comma. Raises SlidestatError for one that has it.
    """
    if "," in url:
        raise SlidestatError(
            f"{url} has a comma in its name, which Spark takes for the end of it.",
            "Give the file another name, or copy it to a disk that all executors have.",
        )
    return _literally(url)


def _literally(path: str) -> str:
    """Return the pattern that is this very path."""
    return PATTERN_SIGN.sub(r"\\\g<0>", path)
