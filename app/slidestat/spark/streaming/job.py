"""`slidestat spark stream`: a topology on Structured Streaming, from a source into a lake.

Each batch is there once. Spark notes what a batch reads before it reads it, and its states are of
the batch before: so a batch that broke off comes again with the same rows, and these come in place
of what there was of it.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark import StorageLevel
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.options import RECORDS_PER_BATCH, TIME_UNIT, StreamSource, Tables
from slidestat.produce.file_records import FileRecords
from slidestat.produce.files import TABLE_LOGS
from slidestat.spark.backfill.file_tasks import (
    LISTED_COLUMNS,
    is_here,
    parts_here,
    place_of,
    read_listed,
    urls_of,
)
from slidestat.spark.delta import require_delta
from slidestat.spark.errors import in_words
from slidestat.spark.kafka import TopicState, kafka_options, topic_state
from slidestat.spark.lake.compaction import settle
from slidestat.spark.lake.declarations import keep_declaration
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import read_so_far, replace_batch, require_kept, tidy
from slidestat.spark.lake.lake import STREAM, Dataset, Lake, rows_of
from slidestat.spark.lake.locks import LakeLock, locked
from slidestat.spark.lake.session import lake_topics
from slidestat.spark.streaming.operator import PROVIDER, ROCKSDB, stream

_OWNER = "slidestat.json"
# The bytes of a batch from files and tables; Spark would take all that are there at once. Parquet
# may have a hundred thousand rows in a MiB, and a batch's rows, with the states of their keys, are
# in memory.
_BYTES_PER_BATCH = 16 * 2**20
# Spark passes over files that are older than the newest one by more than this, 7 days by default:
# what is copied with its time would be lost in silence.
_FILE_AGE = "36500d"
_DELTA_LOG, _STREAM_LOG = "_delta_log", "_spark_metadata"
# Without it each batch would write all that RocksDB has merged meanwhile.
_CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
# Delta 4.3 reads on where a column was given a wider type (delta 5793): a key that was a date would
# be another one as a timestamp, in silence.
_REFUSED_WIDENING = "spark.databricks.delta.typeWidening.enableStreamingSchemaTracking"
_ROWS = "Rows of {} were changed or deleted, and a stream reads those that are appended."
_COLUMNS = (
    "Columns of {} were renamed, dropped or given other types, and a stream reads those that it"
    " began with."
)
_CLEANED = (
    "Rows were appended to {}, and commits of its log, or files, were cleaned away before they"
    " were read."
)
# By Delta's error class, or by Spark's for a file that VACUUM deleted.
_CHANGED = {
    "[DELTA_SOURCE_TABLE_IGNORE_CHANGES]": _ROWS,
    "[DELTA_SOURCE_IGNORE_DELETE]": _ROWS,
    # The table was deleted and made again.
    "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE]": _ROWS,
    "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE": _COLUMNS,
    "[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE]": _CLEANED,
    "[DELTA_MISSING_FILES_UNEXPECTED_VERSION]": _CLEANED,
    "[FAILED_READ_FILE.FILE_NOT_EXIST]": _CLEANED,
}
# Spark gives each Python process that it starts for a query ten seconds, and has no setting for it.
_TOO_LATE, _STARTS = "Python worker failed to connect back", 10
_log = logging.getLogger(__name__)
_KEEP_ADVICE = (
    " Let the table keep both for longer than runs are apart: delta.logRetentionDuration,"
    " delta.deletedFileRetentionDuration."
)
_ADVICE = "Run it again: it goes on where it ended, and nothing comes twice."
_LOSS_ADVICE = (
    "Give another --lake, to count what the topic has now, and let the topic keep its records for"
    " longer than runs are apart."
)


@dataclass(frozen=True)
class Origin:
    """The rows of a stream; the text that a checkpoint knows them by; their topic, if any."""

    rows: DataFrame
    name: str
    topic: TopicState | None = None

    @property
    def is_delta(self) -> bool:
        """Return whether the rows come from a Delta table."""
        return self.name.startswith(f"{StreamSource.DELTA} ")

    @property
    def partitions(self) -> int | None:
        """The number of partitions that the rows have of their own."""
        return None if self.topic is None else len(self.topic.end)


def origin(
    spark: SparkSession,
    topology: Topology,
    source: StreamSource,
    path: str | None,
    bootstrap: str,
    unit: str = TIME_UNIT,
) -> Origin:
    """Open a source: the topology's topic, a Delta table, or a folder of files, whose whole numbers
    of time count `unit`s. Raises SlidestatError for one that is not there.
    """
    if source is StreamSource.KAFKA:
        if topology.sources:
            raise SlidestatError(
                f"{topology.name} has the sources {topology.sources_text}, and a stream reads one"
                " topic.",
                f"Declare another topology whose source is {topology.events_topic}, where workers"
                " move the records, and stream that.",
            )
        if path is not None:
            raise SlidestatError(
                "There is a path, and the rows are to come from the topology's topic.",
                "Give --from delta, parquet, csv or json with it.",
            )
        topic = topic_state(bootstrap, topology.source)
        reader = spark.readStream.format("kafka").options(**kafka_options(bootstrap))
        reader = reader.option("subscribe", topic.name).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", True)
        rows = reader.option("maxOffsetsPerTrigger", RECORDS_PER_BATCH).load()
        return Origin(rows, f"kafka {topic.name} {topic.identity}", topic)
    if path is None:
        raise SlidestatError(
            f"There is no path of the {source} rows.", "Give --path: a folder, or a table's."
        )
    files = LakeFiles(spark)
    name = f"{source} {files.qualified(path)}"
    if source is StreamSource.DELTA:
        if not files.exists(f"{path}/{_DELTA_LOG}"):
            raise SlidestatError(
                f"There is no Delta table at {path}.",
                "Check the path; for a folder of Parquet files give --from parquet.",
            )
        require_delta(spark, path)
        reader = spark.readStream.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
        return Origin(reader.format("delta").load(path), name)
    _require_no_table(files, place_of(spark, path).path)
    return Origin(
        _rows_of_files(spark, FileRecords.of(topology, {}, unit), str(source), path), name
    )


def _rows_of_files(spark: SparkSession, records: FileRecords, format: str, path: str) -> DataFrame:
    """Return the records of new files, which tasks read as the tasks of a backfill do."""
    topology = records.topology
    for name, field in (
        (topology.key_name, topology.key_path),
        (topology.time_name, topology.time_path),
    ):
        if field is None:
            raise SlidestatError(
                f"{topology.name} reads {name}, and files have only fields.",
                "Declare a field of the files in its place, or stream the topic.",
            )
    reader = spark.readStream.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
    reader = reader.option("maxFileAge", _FILE_AGE).option("recursiveFileLookup", True)
    place = place_of(spark, path)
    try:
        there = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place.path)
        root = LakeFiles(spark).qualified(place.root)
        urls = urls_of(there, root)
        listed = reader.format("binaryFile").schema(there.schema).load(place.path)
    except PySparkException as error:
        raise SlidestatError(
            f"{path} cannot be read: {str(error).splitlines()[0]}", "Check the path."
        ) from error
    if not urls and format != StreamSource.JSON:
        raise SlidestatError(
            f"{path} cannot be read: it has no files.",
            "Check the path; at least one file must be there, to see its columns.",
        )
    on_disk = is_here(root)
    records.require_columns([part.file for part in parts_here(urls, format)], path)
    # Spark brings content only where it is asked for.
    content = f.lit(None).cast("binary").alias("content") if on_disk else f.col("content")
    return listed.select("path", content).mapInArrow(
        partial(read_listed, records, format, root), LISTED_COLUMNS
    )


def _require_no_table(files: LakeFiles, path: str) -> None:
    """Raise SlidestatError for files of a table, a part of one, or a pattern with one.

    The folder that another stream has written Spark reads by its log; no part of it, nor a pattern.
    """
    whole = folder = files.qualified(path)
    while folder.strip("/:").count("/"):
        for log, what in TABLE_LOGS.items():
            if log == _STREAM_LOG and folder == whole and files.exists(f"{folder}/{log}"):
                continue
            if files.are_any(f"{folder}/{log}"):
                advice = (
                    "Give --from delta, with the path of the table."
                    if log == _DELTA_LOG
                    else f"Give the folder as a whole: --path {folder}."
                    if log == _STREAM_LOG
                    else "Read it with spark.readStream in a program, and give the rows to"
                    " slidestat.spark.stream."
                )
                raise SlidestatError(
                    f"{folder} is {what}, and some of its files may be of rows that were deleted,"
                    " or never committed.",
                    advice,
                )
        folder = folder.rpartition("/")[0]


@dataclass(frozen=True)
class StreamIntoLake:
    """A stream from an origin into a lake of Parquet files."""

    spark: SparkSession
    topology: Topology
    origin: Origin
    lake: Lake
    partitions: int | None = None
    unit: str = TIME_UNIT
    say: Callable[[str], None] = print

    def run(self, every_ms: int | None = None) -> Mapping[str, int]:
        """Process what is there and end, or go on with a batch each `every_ms` until interrupted.
        Return how many records were written of each dataset. Raises SlidestatError while another
        job writes to this part of the lake, for a lake of another origin, for partitions of a
        topic, which has its own, and for a table whose rows were changed.
        """
        if self.partitions is not None and self.origin.partitions is not None:
            raise SlidestatError(
                f"{self.topology.source} has partitions of its own: {self.origin.partitions}.",
                "Leave out --partitions.",
            )
        self.spark.conf.set(PROVIDER, ROCKSDB)
        self.spark.conf.set(_CHANGES, "true")
        self.spark.conf.set(_REFUSED_WIDENING, "true")
        partitions = self.origin.partitions or self.partitions
        written = stream(self.origin.rows, self.topology, partitions=partitions, unit=self.unit)
        topics = lake_topics(self.topology)
        counts = Counter[str](dict.fromkeys(topics.keys() - {Dataset.SYNOPSES}, 0))
        with locked(self.spark, self.lake, "stream", self.say) as lock:
            self._claim()
            files = LakeFiles(self.spark)
            self._require_topic(files)
            settle(files, self.lake)
            for dataset in Dataset:
                tidy(files, self.lake.data(dataset))
            keep_declaration(self.spark, self.lake, self.topology)
            writer = (
                written.writeStream.queryName(f"{self.topology.name} stream")
                .option("checkpointLocation", self.lake.checkpoint(STREAM))
                .foreachBatch(self._writer(lock, topics, counts))
            )
            if every_ms is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{every_ms} milliseconds")
            with in_words(f"The stream of {self.topology.name}", _ADVICE):
                self._await_end(writer)
        return counts

    def _await_end(self, writer: DataStreamWriter) -> None:
        """Start a query and wait for its end. If it ends because a Python process was too late,
        start it again, but not after too many starts in a row without a batch.
        """
        starts = 0
        while True:
            query = writer.start()
            try:
                query.awaitTermination()
                return
            except StreamingQueryException as error:
                starts = 1 if any(it.numInputRows for it in query.recentProgress) else starts + 1
                for code, what in _CHANGED.items() if self.origin.is_delta else ():
                    if code in str(error):
                        advice = "Give another --lake, to count the rows that the table has now."
                        if what == _CLEANED:
                            advice += _KEEP_ADVICE
                        raise SlidestatError(what.format(self.origin.name), advice) from error
                if _TOO_LATE not in str(error) or starts == _STARTS:
                    raise
                _log.warning(
                    "Spark gave up a Python process that had not begun within ten seconds. The"
                    " stream goes on where it ended; start %d of at most %d without a batch.",
                    starts + 1,
                    _STARTS,
                )
            finally:
                query.stop()

    def _claim(self) -> None:
        """Make the checkpoint this stream's, if it has no owner."""
        files, folder = LakeFiles(self.spark), self.lake.checkpoint(STREAM)
        wanted = {"job": "stream", "topology": self.topology.name, "from": self.origin.name}
        if files.exists(f"{folder}/{_OWNER}"):
            found = json.loads(files.read(f"{folder}/{_OWNER}"))
            if found != wanted:
                raise SlidestatError(
                    f"{folder} is the checkpoint of a stream from {found.get('from')}, not from"
                    f" {self.origin.name}.",
                    "Give another --lake.",
                )
            return
        if self.lake.tables(self.spark) is Tables.DELTA:
            raise SlidestatError(
                f"{self.lake.folder} is a lake of Delta tables, and a stream writes Parquet files.",
                "Give another --lake.",
            )
        for dataset in Dataset:
            if self.lake.has(self.spark, dataset):
                raise SlidestatError(
                    f"{self.lake.data(dataset)} has records that no stream has written.",
                    "Give another --lake: they would be there twice.",
                )
        files.write(f"{folder}/{_OWNER}", json.dumps(wanted, indent=2) + "\n")

    def _clear(self, batch: int) -> None:
        """Remove what there is of a batch that was broken off: with another declaration, or with a
        file that was put right, it may have other dates now, or none.
        """
        files = LakeFiles(self.spark)
        for folder in map(self.lake.data, Dataset):
            for name in files.names(folder):
                if name.startswith("date="):
                    files.remove(f"{folder}/{name}/batch={batch}")

    def _require_topic(self, files: LakeFiles) -> None:
        """Raise SlidestatError for a topic that lost unread records to retention, or that has more
        partitions than before: keys have moved to others since, where their figures begin again.
        """
        topic = self.origin.topic
        if topic is None:
            return
        read = read_so_far(files, self.lake.checkpoint(STREAM), topic.name)
        if read and len(read) < len(topic.end):
            raise SlidestatError(
                f"{topic.name} had {len(read)} partitions, and has {len(topic.end)} now: its keys"
                " lie in others than before.",
                "Give another --lake, and a topology with repartition = true, which counts each key"
                " in one place.",
            )
        require_kept(topic, read, self.say, _LOSS_ADVICE)

    def _writer(
        self, lock: LakeLock, topics: Mapping[Dataset, str], counts: Counter[str]
    ) -> Callable[[DataFrame, int], None]:
        tried: set[int] = set()

        def write(rows: DataFrame, batch: int) -> None:
            # The states are computed once, whatever is done with the rows.
            rows.persist(StorageLevel.DISK_ONLY)
            try:
                found = {it["topic"]: it["count"] for it in rows.groupBy("topic").count().collect()}
                with lock.writing():
                    if not tried or batch in tried:
                        self._clear(batch)
                    tried.add(batch)
                    for dataset, topic in topics.items():
                        if topic in found:
                            records = rows_of(dataset, rows.where(f.col("topic") == topic))
                            parted = records.repartition(1, "date")
                            replace_batch(parted, batch, self.lake.data(dataset))
                # All counts of a batch at once: a batch that breaks off is written, and counted,
                # again.
                counts.update({it: found[topic] for it, topic in topics.items() if topic in found})
            finally:
                rows.unpersist()

        return write
