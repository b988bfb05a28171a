"""Parquet files of a machine's own disks that Python's tasks read by columns, without Spark's rows.

That takes files whose cells are plain throughout (`plain_events.py`), of types that mean the same
here and in Spark. A first pass over the columns tells which: it costs 0.05 microseconds a row, and
a row of Spark's one. All others are left to Spark, the judge of what a cell is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.topology import Topology
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH
from slidestat.spark.backfill.reading.named_columns import NamedColumns
from slidestat.spark.backfill.reading.ordered_pieces import PIECE_DDL, in_pieces
from slidestat.spark.backfill.reading.plain_events import row_schema
from slidestat.spark.backfill.reading.spark_rows import PER_SECOND

_LEAST_BYTES, _MOST_BYTES = 4 * 2**20, 128 * 2**20
_ROWS = 65_536
_EXACT = 2**53
# In a path: a column and its value; or a pattern.
_MEANS_MORE = set("=*?[]{}\\")


class FilePart(NamedTuple):
    """Part `number` of `parts` of a file: so many of its row groups."""

    path: str
    number: int
    parts: int


@dataclass(frozen=True)
class PlainParquet:
    """Reads columns of files as the rows of a topology's events; `numbers` and `items` name those
    of its columns of either sort.
    """

    topology: Topology
    names: NamedColumns
    numbers: Sequence[str]
    items: Sequence[str]

    @classmethod
    def of(cls, topology: Topology, names: NamedColumns) -> "PlainParquet | None":
        """The reader for a topology; None for one whose rows are not plain: it computes fields, or
        reads its key or its time as something else, too.
        """
        wanted = topology.columns
        paths = [column.path for column in (*wanted.numbers, *wanted.items)]
        if topology.expression_fields or any(path not in names.fields for path in paths):
            return None
        found = [names.fields[path] for path in paths]
        return cls(topology, names, found[: len(wanted.numbers)], found[len(wanted.numbers) :])

    def pieces(self, spark: SparkSession, paths: Sequence[str], partitions: int) -> DataFrame:
        """The rows of plain files in pieces; ties in time are in the order of these paths."""
        parts = _parts(spark, paths)
        read = partial(_read, self, parts, row_schema(self.topology), partitions)
        return spark.range(0, len(parts), 1, len(parts)).mapInArrow(read, PIECE_DDL)

    def plain_files(self, spark: SparkSession, paths: Sequence[str]) -> list[str]:
        """Those of the paths whose files are plain throughout. Cost: a job that reads them."""
        parts = _parts(spark, paths)
        looked = spark.range(0, len(parts), 1, len(parts)).mapInArrow(
            partial(_look, self, parts), "path string, is_plain boolean"
        )
        others = {row["path"] for row in looked.where("NOT is_plain").collect()}
        return [path for path in paths if path not in others]

    def rows(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """The rows of part of a file; raises ArrowException, OSError or ValueError where one may
        not be plain.
        """
        names = list(dict.fromkeys((self.names.key, self.names.time, *self.numbers, *self.items)))
        with pq.ParquetFile(part.path) as file:
            if any("." in name or name not in file.schema_arrow.names for name in names):
                raise ValueError("a column is missing, or of no plain name")
            count = file.num_row_groups
            first, last = (count * n // part.parts for n in (part.number, part.number + 1))
            groups = list(range(first, last))
            for batch in file.iter_batches(_ROWS, groups, names, use_threads=False):
                yield self._row(batch)

    def _row(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        schema = row_schema(self.topology)
        times = _milliseconds(cells[self.names.time], self.names.time_unit)
        _require(times, pc.and_(_at_least(times, EARLIEST_TIME_MS), _below(times, LATEST_TIME_MS)))
        keys = _text(cells[self.names.key])
        if not self.topology.publishes_partitions:  # Its events may have any key, or none.
            lengths = pc.utf8_length(keys)
            _require(lengths, pc.and_(_at_least(lengths, 1), _below(lengths, MAX_KEY_LENGTH + 1)))
        columns = [times, keys.cast(pa.binary()), pa.nulls(len(cells), pa.binary())]
        for name, wanted in zip(self.numbers, self.topology.columns.numbers, strict=True):
            number = _number(cells[name])
            if wanted.limits is not None:
                least, most = wanted.limits.least, wanted.limits.most
                _require(number, pc.and_(_at_least(number, least), pc.less_equal(number, most)))
            columns.append(number)
        for name in self.items:
            item = _text(cells[name], or_boolean=True)
            _require(item, _below(pc.utf8_length(item), MAX_ITEM_LENGTH + 1))
            columns.append(item)
        return pa.record_batch(columns, schema=schema)


def files_here(rows: DataFrame) -> list[str]:
    """The files that Spark reads for these rows, by their paths; none if some lie elsewhere, or may
    have columns in the names of their folders.
    """
    places = [urlsplit(name) for name in rows.inputFiles()]
    paths = sorted(unquote(place.path) for place in places)
    if any(place.scheme not in ("", "file") for place in places):
        return []
    if any(_MEANS_MORE & set(path) for path in paths):
        return []
    return paths


def _parts(spark: SparkSession, paths: Sequence[str]) -> list[FilePart]:
    """The files in parts for tasks, as Spark cuts them: so that each core has some."""
    sizes = [Path(path).stat().st_size for path in paths]
    fair = sum(sizes) / spark.sparkContext.defaultParallelism
    most = min(max(fair, _LEAST_BYTES), _MOST_BYTES)
    return [
        FilePart(path, number, parts)
        for path, size in zip(paths, sizes, strict=True)
        for parts in [max(1, ceil(size / most))]
        for number in range(parts)
    ]


def _read(
    parquet: PlainParquet,
    parts: Sequence[FilePart],
    schema: pa.Schema,
    partitions: int,
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read the parts of these numbers, in pieces."""
    rows = (row for part in _numbered(parts, numbers) for row in parquet.rows(part))
    return in_pieces(schema, partitions, rows)


def _look(
    parquet: PlainParquet, parts: Sequence[FilePart], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Tell of each of these parts whether it is plain."""
    for part in _numbered(parts, numbers):
        is_plain = True
        try:
            for _ in parquet.rows(part):
                pass
        except (pa.ArrowException, OSError, ValueError):
            is_plain = False
        yield pa.record_batch([[part.path], [is_plain]], ["path", "is_plain"])


def _numbered(parts: Sequence[FilePart], numbers: Iterable[pa.RecordBatch]) -> Iterator[FilePart]:
    return (parts[number] for batch in numbers for number in batch["id"].to_pylist())


def _milliseconds(times: pa.Array, unit: str) -> pa.Array:
    """Times as int64, finer ones falling to the one before."""
    if pa.types.is_timestamp(times.type) and times.type.unit in ("ms", "us"):
        unit = times.type.unit
    elif not pa.types.is_signed_integer(times.type):
        raise ValueError("times of a type that Spark may read in another way")
    whole = times.cast(pa.int64())
    _require(whole, pc.less(pc.abs(whole), _EXACT if unit != "ns" else 2**63 - 1))
    per_second = PER_SECOND[unit]
    counts = whole.to_numpy()
    if per_second < PER_SECOND["ms"]:
        return pa.array(counts * (PER_SECOND["ms"] // per_second))
    return pa.array(np.floor_divide(counts, per_second // PER_SECOND["ms"]))


def _text(cells: pa.Array, *, or_boolean: bool = False) -> pa.Array:
    """Texts and whole numbers as texts; of UTF-8."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Parquet does not check it.
        return cells.cast(pa.binary()).cast(pa.string())
    if pa.types.is_signed_integer(kind) or (or_boolean and pa.types.is_boolean(kind)):
        return cells.cast(pa.string())
    raise ValueError("texts of a type that Spark may read in another way")


def _number(cells: pa.Array) -> pa.Array:
    """Doubles and whole numbers as doubles."""
    if pa.types.is_float64(cells.type):
        return cells
    if pa.types.is_signed_integer(cells.type):
        return cells.cast(pa.float64(), safe=False)
    raise ValueError("numbers of a type that Spark may read in another way")


def _at_least(column: pa.Array, least: float) -> pa.Array:
    return pc.greater_equal(column, least)


def _below(column: pa.Array, end: float) -> pa.Array:
    return pc.less(column, end)


def _require(column: pa.Array, holds: pa.Array) -> None:
    """Raise ValueError unless the column has no null, and all of `holds` is true."""
    if column.null_count or not pc.all(holds, min_count=0).as_py():
        raise ValueError("a cell is not plain")
