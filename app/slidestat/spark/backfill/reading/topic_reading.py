"""The topic itself: Spark decides which task has which partition, and the task reads that as a
worker does (`kafka/fetches/`).
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.records import RecordBatch
from slidestat.kafka.carried_security import CarriedSecurity
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.spark.backfill.reading.partition_history import (
    BATCH_RECORDS,
    HistoryBatch,
)


@dataclass(frozen=True)
class TopicReading:
    """A reader of the partitions of a topic that a task is given ranges of."""

    bootstrap: str
    security: CarriedSecurity
    topic: str

    def __call__(
        self, ranges: Iterable[pa.RecordBatch], _decoder: EventDecoder
    ) -> Iterator[tuple[int, HistoryBatch]]:
        """Read the ranges of partitions."""
        # While a topic is away this error comes some hundred times a second; one that lasts is
        # raised.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        for row in (row for batch in ranges for row in batch.to_pylist()):
            partition = row["partition"]
            wanted = PartitionRange(self.topic, partition, row["first"], row["until"])
            for part in read_range(self.bootstrap, self.security, wanted, BATCH_RECORDS):
                records = RecordBatch(
                    self.topic,
                    partition,
                    part.offsets,
                    part.keys,
                    part.values,
                    part.timestamps,
                    int(part.offsets[0]),
                    part.headers,
                )
                yield partition, HistoryBatch(records)
