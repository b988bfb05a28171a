"""Rows of files put in order of time, partition by partition, with few rows for Spark to move.

Where files are read their rows are gathered by partition, put in order, and cut into pieces; Spark
hands a piece as one row to the task of its partition, by its first time; and that task merges the
pieces. What it holds is the pieces that lie over each other: few of files in order of time, and of
files in none one for each time that so many rows were gathered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.spark.backfill.reading.partition_history import BATCH_RECORDS
from slidestat.spark.kafka.key_partition import partitions_of

Int64s = npt.NDArray[np.int64]

PIECE_DDL = "partition int, first_time bigint, place bigint, piece int, rows binary"
"""A piece: `first_time` is null where its rows have no times, `place` tells where they were
gathered, and `piece` which of those it is. In order of the first four, ties are as in the files.
"""

PIECE_ORDER = ("partition", "first_time", "place", "piece")

_PIECES = pa.schema(
    [
        ("partition", pa.int32()),
        ("first_time", pa.int64()),
        ("place", pa.int64()),
        ("piece", pa.int32()),
        ("rows", pa.binary()),
    ]
)
_GATHERED_ROWS = 250_000
_GATHERED_BYTES = 32 * 2**20
_PIECE_ROWS = 8_192
# The rows of a task have places of their own, as many as this.
_PLACES = 1 << 33


def in_pieces(
    schema: pa.Schema, partitions: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Cut rows with the columns of `schema`, `timestamp` and `key` among them, into pieces, each of
    the partition where Kafka's clients would send its keys. Raises what Arrow does for columns of
    other sorts.
    """
    task = TaskContext.get()
    place = 0 if task is None else task.partitionId() * _PLACES
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield _pieces_of(pa.concat_batches(held).cast(schema), partitions, place)
            place += rows
            held, rows, size = [], 0, 0
    if rows:
        yield _pieces_of(pa.concat_batches(held).cast(schema), partitions, place)


def _pieces_of(rows: pa.RecordBatch, count: int, place: int) -> pa.RecordBatch:
    has_time = rows["timestamp"].is_valid().to_numpy(zero_copy_only=False)
    times = rows["timestamp"].fill_null(0).to_numpy()
    partitions = partitions_of(BinaryColumn.of(rows["key"]), count)
    order = np.lexsort((times, has_time, partitions))
    changes = np.diff(partitions[order]) | np.diff(has_time[order])
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]
    ordered = rows.take(pa.array(order))
    found: list[tuple[int, int | None, int, int, bytes]] = []
    for first, last in pairwise(edges):
        for start in range(first, last, _PIECE_ROWS):
            at = order[start]
            piece = ordered.slice(start, min(_PIECE_ROWS, last - start)).serialize().to_pybytes()
            time = int(times[at]) if has_time[at] else None
            found.append((int(partitions[at]), time, place, len(found), piece))
    columns = zip(*found, strict=True)
    return pa.record_batch(
        [pa.array(column, kind.type) for column, kind in zip(columns, _PIECES, strict=True)],
        schema=_PIECES,
    )


def in_order(
    pieces: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each partition's pieces in order of time, those of one time as they were in
    the files, `BATCH_RECORDS` or so at once. `schema` is that of `in_pieces`.
    """
    merge, partition = _Merge(), None
    for batch in pieces:
        for row in range(len(batch)):
            number, first_time, place, piece = (batch[name][row].as_py() for name in PIECE_ORDER)
            if number != partition:
                if partition is not None:
                    yield from ((partition, part) for part in merge.rest())
                merge, partition = _Merge(), number
            rows = pa.ipc.read_record_batch(batch["rows"][row].as_buffer(), schema)
            yield from ((number, part) for part in merge.add((place, piece), first_time, rows))
    if partition is not None:
        yield from ((partition, part) for part in merge.rest())


@dataclass
class _Merge:
    """The pieces of a partition that what comes may lie before, by their places; `added` rows came
    since some were told.
    """

    held: dict[tuple[int, int], pa.RecordBatch] = field(default_factory=dict)
    added: int = 0

    def add(
        self, place: tuple[int, int], first_time: int | None, rows: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Take the next piece; yield the rows that no later piece can come before."""
        if first_time is not None and self.added >= BATCH_RECORDS:
            yield from self._before(first_time)
        self.held[place] = rows
        self.added += len(rows)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all that are left."""
        yield from self._before(None)

    def _before(self, time: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows before a time; all of them without one."""
        parts = []
        for place in sorted(self.held):
            rows = self.held.pop(place)
            count = len(rows)
            if time is not None and not rows["timestamp"].null_count:
                count = int(np.searchsorted(rows["timestamp"].to_numpy(), time))
            if count:
                parts.append(rows.slice(0, count))
            if count < len(rows):
                self.held[place] = rows.slice(count)
        self.added = 0
        if parts:
            yield _merged(parts)


def _merged(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Parts that are in order each, as one that is; ties stay as they are."""
    joined = pa.concat_batches(parts)
    has_time = joined["timestamp"].is_valid().to_numpy(zero_copy_only=False)
    times: Int64s = joined["timestamp"].fill_null(0).to_numpy()
    if has_time.all():
        if np.all(times[:-1] <= times[1:]):
            return joined
        order = np.argsort(times, kind="stable")
    else:
        order = np.lexsort((times, has_time))
    return joined.take(pa.array(order))
