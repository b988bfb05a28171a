"""Parquet files of a machine's own disks that Python's tasks read by columns, without Spark's rows.

That takes files whose cells are plain throughout, of types that mean the same
here and in Spark. A first pass over the columns finds them: it costs 0.07 microseconds a row, and a
row of Spark's one. All others are left to Spark, the judge of what a cell is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, starmap
from math import ceil
from operator import and_
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
)

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns, Interleaving
from slidestat.engine.events import texts
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH
from slidestat.spark.backfill.reading.file_places import place_of
from slidestat.spark.backfill.reading.named_columns import PER_SECOND, NamedColumns, column_of
from slidestat.spark.backfill.reading.ordered_pieces import PIECE_DDL, in_pieces
from slidestat.synopses.core.arrays import Integers

# Rows of files as events, without a detour through JSON.
#
# A row whose cells are plainly what the topology takes comes as a key, a time, numbers and items,
# and these are what a decoder would have made of its JSON. Any other row comes as the JSON record
# that it would have been, for the decoder that a worker has to judge: so nothing is taken or
# refused that a worker would not have taken or refused, in the same words.

_NUMBER, _ITEM = "number_{}", "item_{}"
_DECIMAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def plain_columns(
    rows: DataFrame, topology: Topology, names: NamedColumns
) -> tuple[Column, list[Column]]:
    """Return (whether the cells of a row are plain, its numbers and its items); `names` are the
    columns that hold what the topology reads. Where it has expressions, no row is: its decoder
    computes them.
    """
    columns, plain = [], [f.lit(not topology.expression_fields)]
    for i, wanted in enumerate(topology.columns.numbers):
        number = _number_column(rows, names.fields.get(wanted.path), are_texts=names.are_texts)
        columns.append(number.alias(_NUMBER.format(i)))
        if wanted.limits is not None:  # NaN is more than the most.
            plain.append(number.between(wanted.limits.least, wanted.limits.most))
    for i, wanted in enumerate(topology.columns.items):
        item = _item(rows, names.fields.get(wanted.path))
        columns.append(item.alias(_ITEM.format(i)))
        plain.append(f.length(item) <= MAX_ITEM_LENGTH)
    return _all(plain), columns


def plain_place(topology: Topology, time: Column, key_text: Column) -> Column:
    """Return whether a time in milliseconds and a key are such as an event may have."""
    in_time = (time >= EARLIEST_TIME_MS) & (time < LATEST_TIME_MS)
    if topology.publishes_partitions:  # Its events may have any key, or none.
        return f.coalesce(in_time, f.lit(False))
    return _all([in_time, f.length(key_text).between(1, MAX_KEY_LENGTH)])


def row_schema(topology: Topology) -> pa.Schema:
    """Return the columns of files' rows as they come: a value where they are not plain, else the
    rest.
    """
    columns = topology.columns
    numbers = [(_NUMBER.format(i), pa.float64()) for i in range(len(columns.numbers))]
    items = [(_ITEM.format(i), pa.large_string()) for i in range(len(columns.items))]
    # Of large types: pieces that are merged may have more than 2 GiB of texts.
    own = [("timestamp", pa.int64()), ("key", pa.large_binary()), ("value", pa.large_binary())]
    return pa.schema([*own, *numbers, *items])


class PlainEvents:
    """A reader of the rows of pieces."""

    def __init__(self, topology: Topology, decoder: EventDecoder) -> None:
        self._decoder = decoder
        self._has_keys = not topology.publishes_partitions
        self._numbers = [_NUMBER.format(i) for i in range(len(topology.columns.numbers))]
        self._items = [_ITEM.format(i) for i in range(len(topology.columns.items))]

    def columns(self, part: pa.RecordBatch, batch: RecordBatch) -> EventColumns:
        """Return the events of a batch of files' rows, and the refusals; `part` has its Arrow
        columns.
        """
        is_record = part["value"].is_valid().to_numpy(zero_copy_only=False)
        if not is_record.any():
            return self._plain(part, np.arange(len(part)))
        if is_record.all():
            return self._decoder.decode(batch.values, batch.keys, batch.timestamps)
        rows = np.flatnonzero(is_record)
        places = rows.tolist()
        judged = self._decoder.decode(
            [batch.values[row] for row in places],
            [batch.keys[row] for row in places],
            [batch.timestamps[row] for row in places],
        )
        others = np.flatnonzero(~is_record)
        return _joined(self._plain(part.take(pa.array(others)), others), judged, rows)

    def _plain(self, part: pa.RecordBatch, rows: Integers) -> EventColumns:
        count = len(rows)
        return EventColumns(
            rows=rows,
            keys=_texts(part["key"]) if self._has_keys else texts([""] * count),
            times=part["timestamp"].to_numpy(),
            numbers=tuple(part[name].to_numpy() for name in self._numbers),
            items=tuple(_texts(part[name]) for name in self._items),
            refusals=[],
        )


def _joined(plain: EventColumns, judged: EventColumns, rows: Integers) -> EventColumns:
    """Return the events of both in order of their rows; those judged were at `rows`."""
    both = Interleaving(plain.rows, rows[judged.rows])
    return EventColumns(
        rows=both.rows,
        keys=both.texts(plain.keys, judged.keys),
        times=both.arrays(plain.times, judged.times),
        numbers=tuple(starmap(both.arrays, zip(plain.numbers, judged.numbers, strict=True))),
        items=tuple(starmap(both.texts, zip(plain.items, judged.items, strict=True))),
        refusals=[replace(refusal, row=int(rows[refusal.row])) for refusal in judged.refusals],
    )


def _texts(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_string())


def _number_column(rows: DataFrame, name: str | None, *, are_texts: bool) -> Column:
    """Return a column of numbers as the double that its JSON would be read as; null for other
    columns.
    """
    if name is None:  # It is computed.
        return f.lit(None).cast("double")
    kind, column = rows.schema[name].dataType, column_of(name)
    if isinstance(kind, IntegralType | DoubleType):
        return column.cast("double")
    if isinstance(kind, FloatType | DecimalType):
        return column.cast("string").cast("double")
    if are_texts and isinstance(kind, StringType):
        return f.when(column.rlike(_DECIMAL), column.try_cast("double"))
    return f.lit(None).cast("double")


def _item(rows: DataFrame, name: str | None) -> Column:
    """Return a column of texts, whole numbers or truth values as JSON's text; null for other
    columns, and for bytes that are no text.
    """
    if name is None:
        return f.lit(None).cast("string")
    kind, column = rows.schema[name].dataType, column_of(name)
    if isinstance(kind, StringType | IntegralType | BooleanType):
        item = column.cast("string")
        return f.when(f.is_valid_utf8(item), item)
    return f.lit(None).cast("string")


def _all(conditions: list[Column]) -> Column:
    """Return whether all hold; an unknown one does not."""
    return f.coalesce(reduce(and_, conditions, f.lit(True)), f.lit(False))


_LEAST_BYTES, _MOST_BYTES = 4 * 2**20, 128 * 2**20
# To open a file costs as much as to read so many bytes of a large one.
_OPEN_BYTES = 128 * 2**10
_ROWS = 8_192
# No time of an event has as many milliseconds.
_EXACT = 2**53
_HERE = "file://"
# In a path: a column and its value; or a pattern.
_MEANS_MORE = set("=*?[]{}\\")


class FilePart(NamedTuple):
    """Part `number` of `parts` of a file: a share of its row groups; `rank` is the file's."""

    path: str
    rank: int
    number: int
    parts: int


@dataclass(frozen=True)
class PlainParquet:
    """A reader of columns of files as the rows of a topology's events; `numbers` and `items` name
    those of its columns of either sort, and `types` are those that Spark sees in all of the files.
    """

    topology: Topology
    names: NamedColumns
    numbers: Sequence[str]
    items: Sequence[str]
    types: pa.Schema

    @classmethod
    def of(cls, topology: Topology, names: NamedColumns, rows: DataFrame) -> "PlainParquet | None":
        """Make the reader of Spark's `rows`; None for a topology of which none is plain: it
        computes fields, reads its key or its time as something else, too, or asks for whole numbers
        that no double is.
        """
        wanted = topology.columns
        paths = [column.path for column in (*wanted.numbers, *wanted.items)]
        rounds_down = any(column.rounds_down for column in wanted.numbers)
        is_computed = topology.expression_fields or rounds_down
        if is_computed or any(path not in names.fields for path in paths):
            return None
        found = [names.fields[path] for path in paths]
        numbers, items = found[: len(wanted.numbers)], found[len(wanted.numbers) :]
        read = list(dict.fromkeys((names.key, names.time, *found)))
        types = to_arrow_schema(rows.select(list(map(column_of, read))).schema)
        return cls(topology, names, numbers, items, types)

    def pieces(self, spark: SparkSession, ranks: Mapping[str, int], partitions: int) -> DataFrame:
        """Read plain files in pieces; `ranks` has their paths, with the rank of each among all, in
        that order.
        """
        tasks = _tasks(spark, ranks)
        read = partial(_read, self, tasks, partitions)
        return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, PIECE_DDL)

    def plain_files(self, spark: SparkSession, ranks: Mapping[str, int]) -> dict[str, int]:
        """Return those files that are plain throughout. Cost: a job that reads them all."""
        tasks = _tasks(spark, ranks)
        looked = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
            partial(_look, self, tasks), "path string, is_plain boolean"
        )
        others = {row["path"] for row in looked.where("NOT is_plain").collect()}
        return {path: rank for path, rank in ranks.items() if path not in others}

    def rows(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """Read part of a file; raises ValueError, or what pyarrow does, where a row may not be
        plain.
        """
        names = self.types.names
        with pq.ParquetFile(part.path) as file:
            # To Spark, names that differ in case alone are one.
            cases = Counter(name.lower() for name in file.schema_arrow.names)
            if any(cases[name.lower()] > 1 for name in names):
                raise ValueError("two columns have one name")
            for name in names:
                found = file.schema_arrow.field(name).type
                if "." in name or not _is_same(found, self.types.field(name).type):
                    raise ValueError("a column is missing, or is another one to Spark")
            count = file.num_row_groups
            first, last = (count * n // part.parts for n in (part.number, part.number + 1))
            groups = list(range(first, last))
            for batch in file.iter_batches(_ROWS, groups, names, use_threads=False):
                yield self._row(batch)

    def _row(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        schema = row_schema(self.topology)
        times = _milliseconds(cells[self.names.time], self.names.time_unit)
        _require_between(times, EARLIEST_TIME_MS, LATEST_TIME_MS - 1)
        keys = _text(cells[self.names.key])
        if not self.topology.publishes_partitions:  # Its events may have any key, or none.
            _require_between(pc.utf8_length(keys), 1, MAX_KEY_LENGTH)
        columns = [times, keys.cast(pa.large_binary()), pa.nulls(len(cells), pa.large_binary())]
        for name, wanted in zip(self.numbers, self.topology.columns.numbers, strict=True):
            number = _number(cells[name])
            if wanted.limits is not None:
                _require_between(number, wanted.limits.least, wanted.limits.most)
            columns.append(number)
        for name in self.items:
            item = _text(cells[name], or_boolean=True)
            _require_between(pc.utf8_length(item), 0, MAX_ITEM_LENGTH)
            columns.append(item)
        return pa.record_batch(columns, schema=schema)


def files_here(ranks: Mapping[str, int]) -> dict[str, int]:
    """Return the ranks of files by their paths on this machine's disks, from those by their URLs;
    none if some lie elsewhere, or may have columns in the names of their folders.
    """
    here = {url.removeprefix(_HERE): rank for url, rank in ranks.items() if url.startswith(_HERE)}
    if len(here) < len(ranks) or any(_MEANS_MORE & set(path) for path in here):
        return {}
    return here


def _tasks(spark: SparkSession, ranks: Mapping[str, int]) -> list[list[FilePart]]:
    """Give files out to tasks, as Spark does: so that each core has some, a large one in parts, and
    small ones together. Those are of ranks that follow each other: nothing lies between them.
    """
    sizes = {path: max(_size(path), _OPEN_BYTES) for path in ranks}
    fair = sum(sizes.values()) / spark.sparkContext.defaultParallelism
    most = min(max(fair, _LEAST_BYTES), _MOST_BYTES)
    found: list[list[FilePart]] = []
    held = 0
    for path, rank in ranks.items():
        parts = ceil(sizes[path] / most)
        last = found[-1][-1] if found else None
        if last is not None and rank == last.rank + 1 and held + sizes[path] <= most:
            found[-1].append(FilePart(path, rank, 0, 1))
            held += sizes[path]
        else:
            found += [[FilePart(path, rank, number, parts)] for number in range(parts)]
            # To part of a file no other is added.
            held = sizes[path]
    return found


def _size(path: str) -> int:
    """Return the bytes of a file; 0 of one that has gone, as its reader will find."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _read(
    parquet: PlainParquet,
    tasks: Sequence[Sequence[FilePart]],
    partitions: int,
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read the files of the tasks of these numbers, in pieces; raises SlidestatError for a file
    that has changed since it was looked at.
    """

    def rows() -> Iterator[tuple[int, pa.RecordBatch]]:
        for parts in _numbered(tasks, numbers):
            place = place_of(parts[0].rank, parts[0].number)
            for part in parts:
                try:
                    for batch in parquet.rows(part):
                        yield place, batch
                except (pa.ArrowException, LookupError, OSError, ValueError) as error:
                    raise SlidestatError(
                        f"{part.path} has changed while it was read: {error}.", "Run the job again."
                    ) from error

    return in_pieces(row_schema(parquet.topology), partitions, rows())


def _look(
    parquet: PlainParquet, tasks: Sequence[Sequence[FilePart]], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield for each part of a file that these tasks have whether it is plain."""
    for part in chain.from_iterable(_numbered(tasks, numbers)):
        is_plain = True
        try:
            for _ in parquet.rows(part):
                pass
        except Exception:  # noqa: BLE001 - whatever it is, Spark will report it
            is_plain = False
        yield pa.record_batch([[part.path], [is_plain]], ["path", "is_plain"])


def _numbered(
    tasks: Sequence[Sequence[FilePart]], numbers: Iterable[pa.RecordBatch]
) -> Iterator[Sequence[FilePart]]:
    return (tasks[number] for batch in numbers for number in batch["id"].to_pylist())


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column of a file is of the type that Spark sees in all files."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return found.unit in ("ms", "us") and (found.tz is None) == (wanted.tz is None)
    if pa.types.is_large_string(found):
        found = pa.string()
    return bool(found == wanted)


def _milliseconds(times: pa.Array, unit: str) -> pa.Array:
    """Return times as int64, finer ones falling to the one before."""
    if pa.types.is_timestamp(times.type):
        unit = times.type.unit
    elif not pa.types.is_signed_integer(times.type):
        raise ValueError("times of a type that Spark may read in another way")
    whole = times.cast(pa.int64())
    per_second = PER_SECOND[unit]
    if per_second <= PER_SECOND["ms"]:  # Finer ones fit in any case.
        _require_between(whole, -_EXACT, _EXACT - 1)
    counts = whole.to_numpy()
    if per_second < PER_SECOND["ms"]:
        return pa.array(counts * (PER_SECOND["ms"] // per_second))
    return pa.array(np.floor_divide(counts, per_second // PER_SECOND["ms"]))


def _text(cells: pa.Array, *, or_boolean: bool = False) -> pa.Array:
    """Return texts, of UTF-8, and whole numbers as texts."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Parquet does not check it.
        return cells.cast(pa.large_binary()).cast(pa.large_string())
    if pa.types.is_signed_integer(kind) or (or_boolean and pa.types.is_boolean(kind)):
        return cells.cast(pa.large_string())
    raise ValueError("texts of a type that Spark may read in another way")


def _number(cells: pa.Array) -> pa.Array:
    """Return doubles and whole numbers as doubles."""
    if pa.types.is_float64(cells.type):
        return cells
    if pa.types.is_signed_integer(cells.type):
        return cells.cast(pa.float64(), safe=False)
    raise ValueError("numbers of a type that Spark may read in another way")


def _require_between(column: pa.Array, least: float, most: float) -> None:
    """Raise ValueError unless the column has no null, and no number beyond these."""
    holds = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
    if column.null_count or not pc.all(holds, min_count=0).as_py():
        raise ValueError("a cell is not plain")
