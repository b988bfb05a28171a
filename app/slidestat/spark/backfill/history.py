"""History as the records of a topic: Parquet, CSV or JSON, or the topic itself.

In every form of history the result is what a worker would have read, each partition's records in
one task, in order. They come by columns, for a row of Spark's costs as much as all that is computed
of it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slidestat.declare.topology import Topology, require_times
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.kafka.settings import CarriedSecurity, broker_security
from slidestat.kafka.topic_identity import topic_id
from slidestat.options import HISTORY_FORMAT, TIME_UNIT, TimeUnit
from slidestat.produce.file_records import RECORDS, FileRecords
from slidestat.produce.ordered_pieces import BATCH_RECORDS, PIECE_ORDER, in_order
from slidestat.spark.backfill.file_tasks import FORMATS, file_urls, files_here, is_here, pieces
from slidestat.spark.backfill.stretches import placed_by_partition
from slidestat.spark.errors import in_words
from slidestat.spark.kafka import topic_state
from slidestat.spark.session import require_jvm

ReadHistory = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, RecordBatch]]]
"""Reads the rows that a task is given: batches of records in order, each under the number of its
partition, those of one partition after another.
"""


@dataclass(frozen=True)
class History:
    """The rows from which tasks read records; one task has the rows of a partition.

    `verify`, called when all was read, raises SlidestatError if the source has changed since.
    """

    rows: DataFrame
    read: ReadHistory
    verify: Callable[[], None] = lambda: None


# Files' rows in their tasks: in order of time, with the offsets that they would have had.


@dataclass(frozen=True)
class FileReading:
    """A reader of the pieces of files that a task is given."""

    topology: Topology

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, RecordBatch]]:
        """Read pieces of files' rows, with offsets from 0 on in each partition."""
        opened, next_offset = None, 0
        for partition, rows in in_order(pieces, RECORDS):
            if partition != opened:
                opened, next_offset = partition, 0
            numbers = np.arange(next_offset, next_offset + len(rows), dtype=np.int64)
            next_offset += len(rows)
            yield (
                partition,
                RecordBatch(
                    self.topology.events_topic,
                    partition,
                    numbers,
                    BinaryColumn.of(rows["key"]),
                    BinaryColumn.of(rows["value"]),
                    rows["timestamp"].fill_null(-1).to_numpy(),
                    int(numbers[0]),
                ),
            )


# The topic itself: Spark decides which task has which partition, and the task reads that as a
# worker does (`kafka/fetches/`).


@dataclass(frozen=True)
class TopicReading:
    """A reader of the partitions of a topic that a task is given ranges of."""

    bootstrap: str
    security: CarriedSecurity
    topic: str

    def __call__(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, RecordBatch]]:
        """Read the ranges of partitions."""
        # While a topic is away this comes some hundred times a second; one that lasts is raised.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        for row in (row for batch in ranges for row in batch.to_pylist()):
            partition = row["partition"]
            wanted = PartitionRange(self.topic, partition, row["first"], row["until"])
            for part in read_range(self.bootstrap, self.security, wanted, BATCH_RECORDS):
                yield (
                    partition,
                    RecordBatch(
                        self.topic,
                        partition,
                        part.offsets,
                        part.keys,
                        part.values,
                        part.timestamps,
                        int(part.offsets[0]),
                        part.headers,
                    ),
                )


@dataclass(frozen=True)
class Files:
    """Files of events, a row each: where they lie, of which format, in which columns.

    `columns` names the column of a topology's field where it is not that field's own name;
    `time_unit` is the unit of whole numbers of time ("s", "ms", "us", "ns"); texts of time are ISO
    8601, a day or a moment, in UTC where they have no offset. A row is an event under its key, in
    the partition where Kafka's clients would send it; events of a partition come in order of time,
    those of one time in the order of the files' paths, and as they are in a file.
    """

    path: str
    format: str = HISTORY_FORMAT
    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = TIME_UNIT
    partitions: int = 1

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SlidestatError(
                f"The format is {self.format!r}.", f"Give one of {', '.join(FORMATS)}."
            )
        if self.time_unit not in [*TimeUnit]:
            raise SlidestatError(
                f"The unit of time is {self.time_unit!r}.", f"Give one of {', '.join(TimeUnit)}."
            )
        if self.partitions < 1:
            raise SlidestatError(
                f"The number of partitions is {self.partitions}.", "Give one from 1 on."
            )


def read_files(spark: SparkSession, topology: Topology, files: Files) -> History:
    """Read the records that the rows of files would have made on the topology's source; print how
    times without an offset are read.

    Raises SlidestatError for files that cannot be read or lack a column, for a topology of a
    sequence, and for a session of Spark Connect.
    """
    require_jvm(spark)
    require_times(topology, "a backfill")
    if topology.key_path in topology.computed_fields:
        raise SlidestatError(
            f"The key {topology.key_name!r} is computed, and rows of files are given out by a key"
            " that they have.",
            f"Produce them to {topology.sources_text}, and backfill from the topic.",
        )
    records = FileRecords.of(topology, files.columns, files.time_unit)
    urls = file_urls(spark, files.path)
    here = files_here(urls, files.format)
    if not here and all(map(is_here, urls)):
        raise SlidestatError(f"{files.path} has no files that have rows.", "Check the path.")
    records.require_columns([part.file for part in here], files.path)
    if here and records.are_zoneless(here[0].file):
        print(f"{records.time} has times without an offset: they are read in UTC.")
    with in_words(f"The reading of {files.path}", "Spark's log says more."):
        read = pieces(spark, records, urls, here, files.format, files.partitions)
    ordered = placed_by_partition(read, files.partitions).sortWithinPartitions(*PIECE_ORDER)
    return History(ordered, FileReading(topology))


def read_topic(spark: SparkSession, topology: Topology, bootstrap: str) -> History:
    """Read all that the topology's source has now. Raises SlidestatError if it cannot be read, for
    a topology of a sequence, and for a session of Spark Connect.
    """
    require_jvm(spark)
    require_times(topology, "a backfill")
    topic = topic_state(bootstrap, topology.events_topic)
    ranges = [
        (partition, topic.first[partition], end)
        for partition, end in topic.end.items()
        if topic.first[partition] < end
    ]
    if not ranges:
        raise SlidestatError(
            f"The topic {topology.events_topic!r} has no records.", "Send events to it first."
        )
    rows = spark.createDataFrame(ranges, "partition int, first bigint, until bigint")
    security = CarriedSecurity.of(broker_security())
    read = TopicReading(bootstrap, security, topology.events_topic)

    def verify() -> None:
        if topic_id(bootstrap, topic.name) != topic.identity:
            raise SlidestatError(
                f"The topic {topic.name!r} was deleted and made anew while it was read.",
                "Run the job again: it takes what there is then.",
            )

    return History(placed_by_partition(rows, len(topic.end)), read, verify)
