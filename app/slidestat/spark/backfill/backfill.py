"""The statistics of history, as a worker would have written them.

History goes through the very code that a worker has (`engine.partition`), inside Spark's Arrow
workers: so emissions, letters and synopses are the same, byte for byte, for the same records in the
same order. One task takes one partition after another, a batch at a time; or, where there are more
cores than partitions, one task takes a share of the keys of all partitions (`by_key.py`).
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession, functions as f

from slidestat.declare.topology import Topology, require_json
from slidestat.engine.keys.shared_keys import shared_key
from slidestat.errors import SlidestatError
from slidestat.spark.backfill.by_key import Spread, spread_by_key, spreads_keys
from slidestat.spark.backfill.emissions.emission_files import EmissionFolder, emission_folder
from slidestat.spark.backfill.engine_outputs import KEYS, READ
from slidestat.spark.backfill.reading.partition_history import History
from slidestat.spark.backfill.refusals import Filled, nothing_counted, refusals_of
from slidestat.spark.backfill.stretches import require_stretches
from slidestat.spark.backfill.whole_partitions import by_partition
from slidestat.spark.errors import in_words
from slidestat.spark.lake.declarations import keep_declaration
from slidestat.spark.lake.lake import Dataset, Lake, records_of, rows_of, unread_rows
from slidestat.spark.lake.lake_files import LakeFiles
from slidestat.spark.lake.lake_lock import locked
from slidestat.spark.lake.tables import Tables

# A folder next to the datasets; readers of Parquet skip it.
_STAGING = "_backfill"


def backfill(
    topology: Topology, history: History, partitions: int = 1, synopses_ms: int | None = None
) -> DataFrame:
    """Compute what the topology writes for records of history: emissions, letters and synopses,
    under the topics that they would be on.

    Synopses are those at the end of history; with `synopses_ms`, those at the ticks of that
    interval. A topology that publishes its synopses publishes with them how many `partitions` its
    source has. Keys in several partitions are not looked for, other than by `fill_lake`: each
    partition would have its own figures of such a key. Raises SlidestatError for a source that is
    not in JSON.
    """
    require_json(topology, "a backfill")
    written = by_partition(topology, history, partitions, synopses_ms)
    return written.where(~f.col("topic").isin(KEYS, READ))


@contextmanager
def _with_keys(
    topology: Topology,
    history: History,
    partitions: int,
    synopses_ms: int | None,
    folder: EmissionFolder | None,
    *,
    split_hot_keys: bool,
) -> Iterator[Spread]:
    """Compute what the topology writes and, as of a topic `KEYS`, the keys of each partition: in as
    many tasks as there are cores, where partitions are fewer or hot keys are to be split. With a
    `folder` emissions go to files there instead.
    """
    cores = history.rows.sparkSession.sparkContext.defaultParallelism
    if not (split_hot_keys or spreads_keys(topology, cores, partitions)):
        yield Spread(by_partition(topology, history, partitions, synopses_ms, folder))
        return
    with spread_by_key(
        topology,
        history,
        cores,
        partitions,
        synopses_ms,
        split_hot_keys=split_hot_keys,
        folder=folder,
    ) as spread:
        yield spread


def fill_lake(
    topology: Topology,
    history: History,
    lake: Lake,
    partitions: int = 1,
    synopses_ms: int | None = None,
    *,
    split_hot_keys: bool = False,
) -> Filled:
    """Write what `backfill` gives into the folders of a topology in a lake, as an ingest of its
    topics does. Raises SlidestatError for folders that are not empty, while another job writes to
    them, for history that cannot be read or counted, if no record could be counted, and for a key
    that lies in two partitions: then nothing is written.

    With more cores than `partitions`, keys are spread over one task for each core. With
    `split_hot_keys` they always are, and the history of a key that one task would be waited for is
    split by time: its figures keep all promises, but may be others than a worker's. SlidestatError
    is raised for topologies whose keys cannot be split.
    """
    require_json(topology, "a backfill")
    if split_hot_keys:
        require_stretches(topology)
    with locked(history.rows.sparkSession, lake, "backfill"):
        return _fill(
            topology, history, lake, partitions, synopses_ms, split_hot_keys=split_hot_keys
        )


def _fill(
    topology: Topology,
    history: History,
    lake: Lake,
    partitions: int,
    synopses_ms: int | None,
    *,
    split_hot_keys: bool,
) -> Filled:
    spark = history.rows.sparkSession
    topics = {
        Dataset.STATISTICS: topology.output_topic,
        Dataset.LATE: topology.late_topic,
        Dataset.DEAD_LETTERS: topology.dead_letter_topic,
        Dataset.SYNOPSES: topology.synopsis_topic,
    }
    if lake.tables(spark) is Tables.DELTA:
        raise SlidestatError(
            f"{lake.folder} is a lake of Delta tables, and a backfill writes Parquet files.",
            "Give another --lake.",
        )
    for dataset in topics:
        if lake.has(spark, dataset):
            raise SlidestatError(
                f"{lake.data(dataset)} has records already.",
                "Give another --lake: history and what a worker wrote would be there twice.",
            )
    # All comes out of one run. What Spark writes is written in one go as what nearly all of it may
    # be, and only the rest is read again.
    staging = f"{lake.folder}/{_STAGING}"
    of_tasks, of_spark = f"{staging}/emissions", f"{staging}/rows"
    files = LakeFiles(spark)
    files.remove(staging)
    folder = None
    if not split_hot_keys:
        folder = emission_folder(spark, files, topology, of_tasks)
    places = {dataset: f"{of_spark}/dataset={dataset}" for dataset in topics}
    if folder is not None:
        places[Dataset.STATISTICS] = of_tasks
    with in_words(f"The backfill of {topology.name}", "Spark's log says more."):
        kinds = [text for dataset, topic in topics.items() for text in (topic, str(dataset))]
        kind_of = f.create_map(*map(f.lit, [*kinds, KEYS, KEYS, READ, READ]))
        with _with_keys(
            topology, history, partitions, synopses_ms, folder, split_hot_keys=split_hot_keys
        ) as spread:
            if folder is None:
                rows = rows_of(Dataset.STATISTICS, spread.written)
            else:  # Of what the tasks have left to Spark, nothing is an emission.
                rows = unread_rows(spread.written)
            _write(rows.withColumn("dataset", kind_of[f.col("record_topic")]), of_spark, "dataset")
        history.verify()
        _check_keys(topology, spark, staging, f"{of_spark}/dataset={KEYS}")
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
        keep_declaration(spark, lake, topology)
        for dataset, records_of_it in found.items():
            if dataset is not Dataset.STATISTICS:
                _write(rows_of(dataset, records_of(records_of_it)), lake.data(dataset))
    if counts[Dataset.STATISTICS]:
        files.rename(places[Dataset.STATISTICS], lake.data(Dataset.STATISTICS))
    kept_ms = topology.every_ms if topology.publish else synopses_ms
    files.write(lake.backfilled, json.dumps({"synopses_ms": kept_ms}) + "\n")
    files.remove(staging)
    return Filled(counts, refusals, dict(Counter(it.key for it in spread.stretches)))


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
