"""Rows of files put in order of time, partition by partition, as pieces that are moved whole.

Where files are read their rows are gathered by partition, put in order, and cut into pieces. A
backfill hands each piece to Spark as one row, and a seed keeps it on the local disk. The pieces of
a partition come in order of their first times, and are merged. It holds the pieces that lie over
each other, and `BATCH_RECORDS` rows more: few of files in order of time, and of files in none a
piece for each time that rows were gathered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby, pairwise
from operator import itemgetter, or_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.kafka.partitioner import partitions_of
from slidestat.synopses.core.arrays import Integers

BATCH_RECORDS = 50_000
"""How many records are given to the kernels at once: a call costs as much for one key as for many.
"""

# Rows that follow each other with the same values.


def equal_runs(*columns: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield where each run of rows with the same values in all columns starts and ends; none of no
    rows. Cost: a look at each row.
    """
    count = len(columns[0])
    if count:
        changes = reduce(or_, (column[1:] != column[:-1] for column in columns))
        yield from pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), count])


Place = tuple[int, int]

PIECE_DDL = "partition int, first_time bigint, place bigint, piece int, rows binary"
"""A piece: `first_time` is null where its rows have no times, `place` is the place of its rows
among all files (`file_tasks.py`), and `piece` which of those it is. In order of the first four,
ties are as in the files.
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
_GATHERED_ROWS = 1_000_000
_GATHERED_BYTES = 32 * 2**20
# A partition's rows of what was gathered lie in 16 pieces or more, unless these were tiny: so a
# task holds a sixteenth of files in no order.
_PIECES_EACH = 16
_LEAST_ROWS, _MOST_ROWS = 1_024, 8_192
_PIECE_BYTES = 2**20
_BATCH_BYTES = 32 * 2**20
_LAST_PLACE = (2**63, 0)


def in_pieces(
    schema: pa.Schema, partitions: int, batches: Iterable[tuple[int, pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Cut rows into pieces, each of one partition: that of the column `partition`, or else the one
    to which Kafka's clients would send the key. The rows have the columns of `schema`, `timestamp`
    and `key` among them. Batches come with their places, and those of one place come together, in
    order. Raises Arrow's errors for columns of other types.
    """
    for place, parts in groupby(batches, key=itemgetter(0)):
        pieces = 0
        for rows in gathered((batch for _, batch in parts), _GATHERED_ROWS):
            found = _pieces_of(rows.cast(schema), partitions, place, pieces)
            pieces += len(found)
            yield found


def gathered(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yield small batches joined into large ones, of about so many rows, or of 32 MB."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= most or size >= _GATHERED_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(held)


def _pieces_of(rows: pa.RecordBatch, count: int, place: int, number: int) -> pa.RecordBatch:
    """Cut what was gathered; the pieces have numbers from `number` on."""
    has_time = rows["timestamp"].is_valid().to_numpy(zero_copy_only=False)
    times = rows["timestamp"].fill_null(0).to_numpy()
    if "partition" in rows.schema.names:
        partitions = rows["partition"].to_numpy()
    else:
        partitions = partitions_of(BinaryColumn.of(rows["key"]), count)
    order = np.lexsort((times, has_time, partitions))
    ordered = rows.take(pa.array(order))
    row_bytes = rows.nbytes // len(rows) + 1
    found: list[tuple[int, int | None, int, int, bytes]] = []
    for first, last in equal_runs(partitions[order], has_time[order]):
        size = min(_MOST_ROWS, max(_LEAST_ROWS, (last - first) // _PIECES_EACH))
        size = max(1, min(size, _PIECE_BYTES // row_bytes))
        for start in range(first, last, size):
            at = order[start]
            piece = ordered.slice(start, min(size, last - start)).serialize().to_pybytes()
            time = int(times[at]) if has_time[at] else None
            found.append((int(partitions[at]), time, place, number + len(found), piece))
    columns = zip(*found, strict=True)
    return pa.record_batch(
        [pa.array(column, kind.type) for column, kind in zip(columns, _PIECES, strict=True)],
        schema=_PIECES,
    )


def in_order(
    pieces: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each partition's pieces in order of time, those of one time as they were in
    the files, `BATCH_RECORDS` at once at the most. `schema` is that of `in_pieces`.
    """
    merge, partition = _Merge(), None
    for batch in pieces:
        for row in range(len(batch)):
            number, first_time, place, piece = (batch[name][row].as_py() for name in PIECE_ORDER)
            if number != partition:
                if partition is not None:
                    yield from ((partition, part) for part in merge.rest())
                merge, partition = _Merge(), number
            # A copy: what is held of a piece would hold all pieces that came with it.
            rows = pa.ipc.read_record_batch(pa.py_buffer(batch["rows"][row].as_py()), schema)
            yield from ((number, part) for part in merge.add((place, piece), first_time, rows))
    if partition is not None:
        yield from ((partition, part) for part in merge.rest())


@dataclass
class _Merge:
    """The pieces of a partition that later ones may have rows between, by their places; `added`
    rows of so many `bytes` came since some were yielded.
    """

    held: dict[Place, pa.RecordBatch] = field(default_factory=dict)
    added: int = 0
    bytes: int = 0

    def add(
        self, place: Place, first_time: int | None, rows: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Take the next piece; yield the rows that neither it nor a later one comes before."""
        if self.added >= BATCH_RECORDS or self.bytes >= _BATCH_BYTES:
            yield from self._before(first_time, place)
        self.held[place] = rows
        self.added += len(rows)
        self.bytes += rows.nbytes

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all that are left."""
        yield from self._before(None, _LAST_PLACE)

    def _before(self, time: int | None, place: Place) -> Iterator[pa.RecordBatch]:
        """Yield the rows that come before a time and place. Without a time yield all rows: those of
        the next piece have no time, or no piece comes any more.
        """
        parts = []
        for other in sorted(self.held):
            rows = self.held.pop(other)
            count = len(rows)
            if time is not None and not rows["timestamp"].null_count:
                side: Literal["left", "right"] = "right" if other < place else "left"
                count = int(np.searchsorted(rows["timestamp"].to_numpy(), time, side))
            if count:
                parts.append(rows.slice(0, count))
            if count < len(rows):
                self.held[other] = rows.slice(count)
        self.added = self.bytes = 0
        if parts:
            merged = _merged(parts)
            row_bytes = merged.nbytes // len(merged) + 1
            count = max(1, min(BATCH_RECORDS, _BATCH_BYTES // row_bytes))
            for start in range(0, len(merged), count):
                yield merged.slice(start, count)


def _merged(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return parts that are in order each as one that is; ties stay as they are."""
    joined = pa.concat_batches(parts)
    has_time = joined["timestamp"].is_valid().to_numpy(zero_copy_only=False)
    times: Integers = joined["timestamp"].fill_null(0).to_numpy()
    if has_time.all():
        if np.all(times[:-1] <= times[1:]):
            return joined
        order = np.argsort(times, kind="stable")
    else:
        order = np.lexsort((times, has_time))
    return joined.take(pa.array(order))
