"""The statistics of history, as a worker would have written them.

History goes through the very code that a worker has (`engine.partition`), inside Spark's Arrow
workers: so emissions, letters and synopses are the same, byte for byte, for the same records in the
same order. One task takes one partition after another, a batch at a time; or, where there are more
cores than partitions, one task takes a share of the keys of all partitions (`by_key.py`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window, functions as f

from slidestat.declare.declared import Declared
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology, require_json
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.keys.shared_keys import shared_key
from slidestat.engine.keys.stored_keys import NoStates, PartitionStore
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisTopic
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.kafka.partitioner import expected_places
from slidestat.options import Tables
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.schemas.synopsis import ClockKey
from slidestat.spark.backfill.by_key import Spread, spread_by_key, spreads_keys
from slidestat.spark.backfill.emissions import EmissionFolder, emission_folder
from slidestat.spark.backfill.engine_outputs import KEYS, READ, EngineOutputs, read_row
from slidestat.spark.backfill.history import History
from slidestat.spark.backfill.partition_batches import by_number, by_place, one_after_another
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA, arrow_rows, emitted
from slidestat.spark.backfill.stretches import require_stretches
from slidestat.spark.errors import in_words
from slidestat.spark.lake.declarations import keep_declaration
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Dataset, Lake, records_of, rows_of, unread_rows
from slidestat.spark.lake.locks import locked
from slidestat.spark.lake.session import lake_topics

# Sum up the records that a backfill refused, and why.


@dataclass(frozen=True)
class Refusals:
    """The number of records that were refused for each reason, the most frequent first; `example`
    is the detail of one of them.
    """

    counts: dict[str, int]
    example: str

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Filled:
    """The result of a backfill: records by dataset, and those refused; of each key that was split,
    in how many stretches of time.
    """

    counts: dict[str, int]
    refusals: Refusals
    split: dict[str, int]


def refusals_of(found: Mapping[Dataset, DataFrame]) -> Refusals:
    """Sum up the refusals among what a backfill gave of each dataset: records with headers."""
    counts: dict[str, int] = {}
    details: dict[str, str] = {}
    for dataset in (Dataset.DEAD_LETTERS, Dataset.LATE):
        if dataset in found:
            letters = rows_of(dataset, records_of(found[dataset])).groupBy("reason")
            for row in letters.agg(f.count(f.lit(1)), f.first("detail")).collect():
                counts[row[0]], details[row[0]] = row[1], row[2]
    counts = dict(sorted(counts.items(), key=lambda item: -item[1]))
    return Refusals(counts, next((details[reason] for reason in counts), ""))


def nothing_counted(topology: Topology, read: int, refusals: Refusals) -> SlidestatError:
    """Return the error of a history whose records were all refused."""
    if not read:
        return SlidestatError("The history has no records.", "Check the path and the format.")
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in refusals.counts.items())
    return SlidestatError(
        f"All {read:,} records of the history were refused: {reasons};"
        f" of one it is said: {refusals.example}.",
        f"Correct the topology; of files, say which columns are {topology.key_name!r},"
        f" {topology.time_name!r} and the values, and the unit of times that are whole numbers"
        " (--time-unit). Nothing was written.",
    )


# Each partition of history in one task, through the very engine that a worker has.


def by_partition(
    topology: Topology, history: History, partitions: int, folder: EmissionFolder | None = None
) -> DataFrame:
    """Compute what the topology writes: the records of one topic and partition in the order in
    which a worker would write them; and, as if of topics `KEYS` and `READ`, the keys of each
    partition and how many records it had. With a `folder` emissions go to files there instead.
    """
    read = history.read

    def run(rows: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoder, published = EventDecoder(topology), SynopsisTopic(topology, partitions)
        expected = expected_places(topology.expected, partitions)
        begin = partial(_Partition, topology, decoder, published, expected, folder)
        with calm_garbage_collector():
            yield from one_after_another(by_number(read(rows)), begin)

    return history.rows.mapInArrow(run, RECORD_SCHEMA)


class _Partition:
    """A partition of history while it is read."""

    def __init__(
        self,
        topology: Topology,
        decoder: EventDecoder,
        published: SynopsisTopic,
        expected: Mapping[str, int],
        folder: EmissionFolder | None,
        number: int,
    ) -> None:
        self._topology = topology
        self._expected = expected
        self._number = number
        self._read = 0
        self._decoder = decoder
        self._outputs = EngineOutputs(topology, number, published, self._engine, folder)

    def take(self, part: RecordBatch) -> Iterator[pa.RecordBatch]:
        self._read += len(part)
        steps = self._processor.steps(part, more_follows=True)
        yield from self._outputs.write(steps, len(part))

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the synopses in the end, and how many records were read."""
        yield from self._outputs.close()
        yield from arrow_rows([read_row(self._number, self._read)])

    def _engine(self, states: PartitionStore, codec: JsonCodec | None) -> PartitionProcessor:
        place = self._topology, self._topology.events_topic, self._number
        self._processor = PartitionProcessor(
            *place, states, self._decoder, codec, expected=self._expected
        )
        return self._processor


# A folder next to the datasets; readers of Parquet skip it.
_STAGING = "_backfill"


def backfill(topology: Topology, history: History, partitions: int = 1) -> DataFrame:
    """Compute what the topology writes for records of history: emissions, alerts, letters and
    synopses, under the topics that they would be on.

    Synopses are those at the end of history; of a topology with `synopses`, also those at that
    interval. One that publishes for a referee publishes with them how many `partitions` its source
    has. Keys in several partitions are not looked for, other than by `fill_lake`: each
    partition would have its own figures of such a key. Raises SlidestatError for a source that is
    not in JSON.
    """
    require_json(topology, "a backfill")
    written = by_partition(of_history(topology), history, partitions)
    return written.where(~f.col("topic").isin(KEYS, READ))


def of_history(declared: Declared) -> Topology:
    """Return the topology that counts the events of history: a referee's parties, or the topology
    itself without its rankings, which are their referee's. The leading keys of a tick are those of
    a whole partition, which may be spread over tasks.
    """
    return (
        declared.of if isinstance(declared, Referee) else replace(declared.answering, rankings=())
    )


def _with_keys(
    topology: Topology,
    history: History,
    partitions: int,
    folder: EmissionFolder | None,
    *,
    split_hot_keys: bool,
) -> AbstractContextManager[Spread]:
    """Compute what the topology writes and, as of a topic `KEYS`, the keys of each partition: in as
    many tasks as there are cores, where partitions are fewer or hot keys are to be split. With a
    `folder` emissions go to files there instead.
    """
    cores = history.rows.sparkSession.sparkContext.defaultParallelism
    if not (split_hot_keys or spreads_keys(topology, cores, partitions)):
        return nullcontext(Spread(by_partition(topology, history, partitions, folder)))
    return spread_by_key(
        topology, history, cores, partitions, split_hot_keys=split_hot_keys, folder=folder
    )


# The answers of a referee of the partitions.


def answered(referee: Referee, published: DataFrame) -> DataFrame:
    """Compute what a referee writes of what partitions published, as `by_partition` gives it: for
    each tick as early as all of them have come to it, or without those that are over.

    The parties' records follow each other tick by tick, whatever order a topic would have had:
    final answers are the same for any.
    """
    topic, mark = referee.output_topic, fingerprint_of(referee).encode()
    declared_by = [(DECLARATION_HEADER, mark)]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        begin = partial(_Answers, referee, topic, declared_by)
        yield from one_after_another(by_place(batches, ("partition",)), begin)

    # A clock comes behind what was published up to it; its key has a name less.
    is_clock = f.size(f.from_json(f.col("key").cast("string"), "array<string>")) == len(
        ClockKey._fields
    )
    parts = published.withColumn("is_clock", is_clock)
    ordered = parts.repartition("partition").sortWithinPartitions(
        "partition", "timestamp", "is_clock", "key"
    )
    return ordered.drop("is_clock").mapInArrow(run, RECORD_SCHEMA)


def _last_of_each_key(answers: DataFrame) -> DataFrame:
    """Return the rows of answers without provisional ones that later ones have replaced."""
    newest_first = Window.partitionBy("key").orderBy(f.desc("source_offset"))
    numbered = answers.withColumn("number", f.row_number().over(newest_first))
    return numbered.where("number = 1").drop("number")


class _Answers:
    """The answers of a referee from one partition of what was published."""

    def __init__(
        self, referee: Referee, topic: str, declared_by: list[tuple[str, bytes]], number: int
    ) -> None:
        self._topic, self._number, self._declared_by = topic, number, declared_by
        self._source = referee.source
        self._processor = RefereeProcessor(referee, referee.source, number, NoStates())

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        first = self._processor.next_offset
        stamps = part["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        effects = self._processor.process(
            RecordBatch(
                self._source,
                self._number,
                np.arange(first, first + len(part), dtype=np.int64),
                part["key"].to_pylist(),
                part["value"].to_pylist(),
                stamps // 1_000,
                first,
            )
        )
        if effects.dead_letters:
            raise RuntimeError(f"a party published {effects.dead_letters[0].detail}")
        self._processor.snapshot()  # Keeps what has changed.
        if effects.emissions:
            yield emitted(self._topic, self._number, self._declared_by, effects.emissions)

    def close(self) -> Iterator[pa.RecordBatch]:
        return iter(())


def fill_lake(
    declared: Declared,
    history: History,
    lake: Lake,
    partitions: int = 1,
    *,
    split_hot_keys: bool = False,
) -> Filled:
    """Write what `backfill` gives into the folders of a topology in a lake, as an ingest of its
    topics does. For a referee, the records of its topology's source give its answers or rankings,
    the synopses of its parties, and their letters.

    Raises SlidestatError for folders that are not empty, while another job writes to them, for
    history that cannot be read or counted, if no record could be counted, and for a key that lies
    in two partitions: then nothing is written.

    With more cores than `partitions`, keys are spread over one task for each core. With
    `split_hot_keys` they always are, and the history of a key that one task would be waited for is
    split by time: its figures keep all promises, but may be others than a worker's. SlidestatError
    is raised for topologies whose keys cannot be split.
    """
    topology = of_history(declared)
    require_json(topology, "a backfill")
    if split_hot_keys:
        require_stretches(topology)
    with locked(history.rows.sparkSession, lake, "backfill"):
        return _fill(declared, history, lake, partitions, split_hot_keys=split_hot_keys)


def _fill(
    declared: Declared, history: History, lake: Lake, partitions: int, *, split_hot_keys: bool
) -> Filled:
    spark = history.rows.sparkSession
    topology, topics = of_history(declared), lake_topics(declared)
    output = next(iter(topics))
    _require_empty(spark, lake, topics)
    # All comes out of one run. What Spark writes is written in one go as what nearly all of it may
    # be, and only the rest is read again.
    staging = f"{lake.folder}/{_STAGING}"
    of_tasks, of_spark = f"{staging}/emissions", f"{staging}/rows"
    files = LakeFiles(spark)
    files.remove(staging)
    folder = None
    is_answered = declared.counted is None
    if not split_hot_keys and not is_answered:
        folder = emission_folder(spark, files, topology, of_tasks)
    places = {dataset: f"{of_spark}/dataset={dataset}" for dataset in topics}
    if is_answered or folder is not None:
        places[output] = of_tasks
    with in_words(f"The backfill of {declared.name}", "Spark's log says more."):
        kinds = [text for dataset, topic in topics.items() for text in (topic, str(dataset))]
        kind_of = f.create_map(*map(f.lit, [*kinds, KEYS, KEYS, READ, READ]))
        with _with_keys(
            topology, history, partitions, folder, split_hot_keys=split_hot_keys
        ) as spread:
            written = spread.written
            if is_answered:  # Its parties' emissions are of no use to it.
                written = written.where(f.col("topic") != topology.output_topic)
            # Rows that the tasks have left to Spark have no emission.
            is_left = places[output] == of_tasks
            rows = unread_rows(written) if is_left else rows_of(output, written)
            _write(rows.withColumn("dataset", kind_of[f.col("record_topic")]), of_spark, "dataset")
        history.verify()
        _check_keys(topology, spark, staging, f"{of_spark}/dataset={KEYS}")
        if isinstance(declared, Referee) and files.exists(places[Dataset.SYNOPSES]):
            published = records_of(spark.read.parquet(places[Dataset.SYNOPSES]))
            answers = rows_of(output, answered(declared, published))
            _write(_last_of_each_key(answers), places[output])
        found = {
            dataset: spark.read.parquet(place)
            for dataset, place in places.items()
            if files.exists(place)
        }
        counts = {str(d): found[d].count() if d in found else 0 for d in topics}
        refusals = refusals_of(found)
        records = _records_read(spark, files, f"{of_spark}/dataset={READ}")
        if refusals.total >= records:
            files.remove(staging)
            raise nothing_counted(topology, records, refusals)
        keep_declaration(spark, lake, declared)
        for dataset, records_of_it in found.items():
            if dataset is not output:
                _write(rows_of(dataset, records_of(records_of_it)), lake.data(dataset))
    if counts[output]:
        files.rename(places[output], lake.data(output))
    kept_ms = topology.every_ms if topology.publish else topology.synopses_ms or None
    files.write(lake.backfilled, json.dumps({"synopses_ms": kept_ms}) + "\n")
    files.remove(staging)
    return Filled(counts, refusals, dict(Counter(it.key for it in spread.stretches)))


def _require_empty(spark: SparkSession, lake: Lake, datasets: Iterable[Dataset]) -> None:
    """Raise SlidestatError for a lake that is not of files, or has records of a dataset."""
    if lake.tables(spark) is Tables.DELTA:
        raise SlidestatError(
            f"{lake.folder} is a lake of Delta tables, and a backfill writes Parquet files.",
            "Give another --lake.",
        )
    for dataset in datasets:
        if lake.has(spark, dataset):
            raise SlidestatError(
                f"{lake.data(dataset)} has records already.",
                "Give another --lake: history and what a worker wrote would be there twice.",
            )


def _check_keys(topology: Topology, spark: SparkSession, staging: str, folder: str) -> None:
    """Raise SlidestatError, and remove what is staged, for a key that lies in two partitions;
    `folder` has the keys of each.
    """
    files = LakeFiles(spark)
    if not files.exists(folder):
        return
    places = (
        spark.read.parquet(folder)
        .groupBy("key")
        .agg(f.min("record_partition").alias("first"), f.max("record_partition").alias("last"))
    )
    shared = places.where("first < last").orderBy("key").first()
    if shared is not None:
        files.remove(staging)
        raise shared_key(topology, shared["key"].decode(), shared["first"], shared["last"])


def _records_read(spark: SparkSession, files: LakeFiles, folder: str) -> int:
    """Return how many records all partitions had, by the rows in a folder."""
    if not files.exists(folder):
        return 0
    counts = spark.read.parquet(folder).agg(f.sum(f.col("value").cast("string").cast("bigint")))
    return int(counts.collect()[0][0])


def _write(rows: DataFrame, folder: str, *by: str) -> None:
    (
        rows.withColumn("batch", f.lit(0))
        .write.partitionBy(*by, "date", "batch")
        .option("compression", "zstd")
        .parquet(folder)
    )
