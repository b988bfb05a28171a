"""Files' rows in their tasks: in order of time, with the offsets that they would have had."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.records import RecordBatch
from slidestat.spark.backfill.reading.ordered_pieces import in_order
from slidestat.spark.backfill.reading.partition_history import HistoryBatch
from slidestat.spark.backfill.reading.plain_events import PlainEvents, row_schema


@dataclass(frozen=True)
class FileReading:
    """A reader of the pieces of files that a task is given."""

    topology: Topology

    def __call__(
        self, pieces: Iterable[pa.RecordBatch], decoder: EventDecoder
    ) -> Iterator[tuple[int, HistoryBatch]]:
        """Read pieces of files' rows, with offsets from 0 on in each partition."""
        plain, opened, next_offset = PlainEvents(self.topology, decoder), None, 0
        for partition, rows in in_order(pieces, row_schema(self.topology)):
            if partition != opened:
                opened, next_offset = partition, 0
            numbers = np.arange(next_offset, next_offset + len(rows), dtype=np.int64)
            next_offset += len(rows)
            records = RecordBatch(
                self.topology.events_topic,
                partition,
                numbers,
                BinaryColumn.of(rows["key"]),
                BinaryColumn.of(rows["value"]),
                rows["timestamp"].fill_null(-1).to_numpy(),
                int(numbers[0]),
            )
            yield partition, HistoryBatch(records, plain.columns(rows, records))
