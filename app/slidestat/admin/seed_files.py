"""Files of history as the records of partitions, in the order in which a worker would read them.

    events    rows with a key and a time: by the partition of their key, in order of time, those of
              one time as they are in the files, which come in order of their paths
    records   rows of Parquet as Spark's Kafka source has them, with `partition`, `offset`,
              `timestamp`, `key` and `value`: in order of their offsets

They are put in order on the local disk, piece by piece.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.produce.cells import Cells
from slidestat.produce.file_records import RECORDS, FileRecords, Part
from slidestat.produce.files import EventFile, Format
from slidestat.produce.ordered_pieces import PIECE_ORDER, in_order, in_pieces
from slidestat.produce.readers import Reader

# The places of a file begin behind those of all pieces of the file before.
_RANK_BITS = 42

Placed = Iterator[tuple[int, pa.RecordBatch]]


# Rows that are events, up to a time.


@dataclass
class EventFiles:
    """Rows of files that are events. Those before the time `until`, and those without a readable
    time, are records of the topology; `left` counts the others.
    """

    records: FileRecords
    files: Sequence[EventFile]
    until: int
    read: int = 0
    left: int = 0

    schema = RECORDS

    def batches(self) -> Placed:
        """Yield the records, each batch with the place of its file."""
        for rank, file in enumerate(self.files):
            for rows in self.records.read(Part(file, rank)):
                before = pc.fill_null(pc.less(rows["timestamp"], self.until), fill_value=True)
                wanted = rows.filter(before)
                self.read += len(rows)
                self.left += len(rows) - len(wanted)
                yield rank << _RANK_BITS, wanted

    def partition(self, topology: Topology, number: int, parts: Iterable[pa.RecordBatch]) -> "Read":
        """Yield the records of a partition, with offsets from 0 on."""
        next_offset = 0
        for rows in parts:
            offsets = np.arange(next_offset, next_offset + len(rows), dtype=np.int64)
            stamps = rows["timestamp"].fill_null(-1).to_numpy()
            yield _batch(topology, number, offsets, rows, stamps)
            next_offset += len(rows)


# Rows that are records of the topic, up to an offset.

_FIELDS = ("partition", "offset", "timestamp", "key", "value")
_TOPIC = "topic"


NEWEST_RECORDS = 10_000
Offsets = npt.NDArray[np.int64]


class RecordFiles:
    """Rows of files that are records of a topic. `left` counts those from the offset `until` on.
    For each partition, `newest` has the offsets of the newest records that were read.
    """

    # Ordered by the first column: the time, for events.
    schema = pa.schema(
        [
            ("timestamp", pa.int64()),
            ("key", pa.large_binary()),
            ("value", pa.large_binary()),
            ("stamp", pa.int64()),
            ("partition", pa.int32()),
        ]
    )

    def __init__(self, topology: Topology, files: Sequence[EventFile], until: int | None) -> None:
        self._topic = topology.events_topic
        self._files = files
        self._until = until
        self.newest: dict[int, Offsets] = {}
        self.read = self.left = 0

    def require_columns(self) -> None:
        """Raise SlidestatError for a file that has no records."""
        for file in self._files:
            present = Reader(file).columns() if file.format is Format.PARQUET else []
            if missing := [name for name in _FIELDS if name not in present]:
                raise SlidestatError(
                    f"{file.name} has no column {missing[0]!r}: its rows are no records of a"
                    " topic.",
                    "Give the time up to which they are its events, such as --until"
                    " 2026-05-01T12:00:00Z; or Parquet with the columns"
                    f" {', '.join(_FIELDS)}, as Spark's Kafka source has them.",
                )

    def batches(self) -> Placed:
        """Yield the records, each batch with the place of its file."""
        for rank, file in enumerate(self._files):
            for rows in Reader(file).batches((*_FIELDS, _TOPIC), may_lack={_TOPIC}):
                yield rank << _RANK_BITS, self._records(file, rows.columns)

    def _records(self, file: EventFile, cells: dict[str, Cells]) -> pa.RecordBatch:
        columns = {name: each.column for name, each in cells.items()}
        topics = pc.unique(columns[_TOPIC].drop_null().cast(pa.string())).to_pylist()
        if others := [name for name in topics if name != self._topic]:
            raise SlidestatError(
                f"{file.name} has records of the topic {others[0]!r}.",
                f"Give files of {self._topic!r} alone.",
            )
        try:
            stamp = columns["timestamp"]
            if pa.types.is_timestamp(stamp.type):
                stamp = stamp.cast(pa.timestamp("ms", stamp.type.tz), safe=False)
            arrays = [
                columns["offset"].cast(pa.int64()),
                columns["key"].cast(pa.large_binary()),
                columns["value"].cast(pa.large_binary()),
                stamp.cast(pa.int64()).fill_null(-1),
                columns["partition"].cast(pa.int32()),
            ]
        except pa.ArrowException as error:
            raise SlidestatError(
                f"{file.name} has records with other types: {str(error).splitlines()[0]}.",
                "partition and offset are whole numbers, timestamp is a time or milliseconds, key"
                " and value are bytes.",
            ) from error
        places = (arrays[0], arrays[-1])
        if any(it.null_count or pc.any(pc.less(it, 0)).as_py() for it in places):
            raise SlidestatError(
                f"{file.name} has records without an offset or a partition.",
                "Give files that have them of each record.",
            )
        rows = pa.record_batch(arrays, schema=self.schema)
        self.read += len(rows)
        if self._until is not None:
            rows = rows.filter(pc.less(rows["timestamp"], self._until))
        self.left = self.left + len(arrays[0]) - len(rows)
        return rows

    def partition(self, topology: Topology, number: int, parts: Iterable[pa.RecordBatch]) -> "Read":
        """Yield a partition's records, each once; SlidestatError where two of one offset differ."""
        before: pa.RecordBatch | None = None
        for rows in parts:
            joined = rows if before is None else pa.concat_batches([before, rows])
            offsets = joined["timestamp"].to_numpy()
            is_again = np.flatnonzero(offsets[1:] == offsets[:-1])
            for row in is_again.tolist():
                if joined.slice(row, 1) != joined.slice(row + 1, 1):
                    raise SlidestatError(
                        f"The files have two different records of partition {number}, offset"
                        f" {offsets[row]}.",
                        "They are of two topics, also if one had the other's name: give the files"
                        " of one.",
                    )
            is_new = np.ones(len(joined), dtype=bool)
            is_new[is_again + 1] = False
            is_new[: 0 if before is None else 1] = False
            before = joined.slice(len(joined) - 1, 1)
            found = joined.filter(pa.array(is_new))
            if len(found):
                stamps, new = found["stamp"].to_numpy(), offsets[is_new]
                known = np.concatenate([self.newest.get(number, new[:0]), new])
                self.newest[number] = known[-NEWEST_RECORDS:]
                yield _batch(topology, number, new, found, stamps)


Read = Iterator[RecordBatch]


def _batch(
    topology: Topology, number: int, offsets: np.ndarray, rows: pa.RecordBatch, stamps: np.ndarray
) -> RecordBatch:
    return RecordBatch(
        topology.events_topic,
        number,
        offsets,
        BinaryColumn.of(rows["key"]),
        BinaryColumn.of(rows["value"]),
        stamps,
        int(offsets[0]),
    )


# Their order.


class OrderedFiles:
    """The records of files by partition, in order. The files are read when this is made, and the
    records lie on the local disk until it is closed.
    """

    def __init__(self, source: EventFiles | RecordFiles, partitions: int) -> None:
        self._source = source
        self._spool: IO[bytes] = TemporaryFile(prefix="slidestat-seed-")  # noqa: SIM115  # `close`
        self._places: dict[int, list[tuple[bool, int, int, int, int, int]]] = {}
        try:
            for pieces in in_pieces(source.schema, partitions, source.batches()):
                self._keep(pieces)
        except BaseException:
            self.close()
            raise

    def _keep(self, pieces: pa.RecordBatch) -> None:
        for row in range(len(pieces)):
            partition, first, place, piece = (pieces[name][row].as_py() for name in PIECE_ORDER)
            start = self._spool.tell()
            size = self._spool.write(pieces["rows"][row].as_buffer())
            at = (first is not None, first or 0, place, piece)
            self._places.setdefault(partition, []).append((*at, start, size))

    def close(self) -> None:
        """Delete what is on the disk."""
        self._spool.close()

    @property
    def last_partition(self) -> int:
        """Return the largest number of a partition that has records; -1 if none has."""
        return max(self._places, default=-1)

    def read(self, topology: Topology, number: int) -> Read:
        """Yield the records of a partition."""
        pieces = (self._piece(number, place) for place in sorted(self._places.get(number, ())))
        rows = (part for _, part in in_order(pieces, self._source.schema))
        return self._source.partition(topology, number, rows)

    def _piece(self, partition: int, place: tuple[bool, int, int, int, int, int]) -> pa.RecordBatch:
        has_time, first, file, piece, start, size = place
        self._spool.seek(start)
        columns = [[partition], [first if has_time else None], [file], [piece]]
        return pa.record_batch(
            [*map(pa.array, columns), pa.array([self._spool.read(size)])], [*PIECE_ORDER, "rows"]
        )
