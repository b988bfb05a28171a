"""`slidestat spark ingest`: the topics of a topology, each record once, as partitioned Parquet.

Exactly once, for every reader of the files. Spark notes the offsets of a batch before it reads
them, so a batch that broke off comes again with the same records; its rows go to partitions named
by the batch's number, and writing those replaces whatever an interrupted try had left there. In a
lake of Delta tables a batch is one commit, which has its number (`delta_table.py`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from uuid import uuid4

import pandas as pd
from msgspec import structs
from pyspark.sql import DataFrame, Observation, SparkSession, functions as f
from pyspark.sql.streaming.query import StreamingQuery

from slidestat.engine.emissions.emission_codec import JsonCodec, NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.errors import SlidestatError
from slidestat.options import RECORDS_PER_BATCH, Tables
from slidestat.schemas.emission import Figure
from slidestat.spark.errors import in_words
from slidestat.spark.kafka import TopicState, has_topic, kafka_options, topic_state
from slidestat.spark.lake.compaction import settle
from slidestat.spark.lake.delta_table import DeltaTable
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Dataset, Lake, is_unreadable, rows_of
from slidestat.spark.lake.locks import LakeLock, locked
from slidestat.spark.session import write_tasks
from slidestat.spark.sql.foreign import column_function

# The owner of a folder's checkpoint, and how far it has read.
#
# Spark keeps in a checkpoint's folder what each batch reads (offsets/N) and which are written
# (commits/N). It would take up any checkpoint, of whatever job; so a file next to them has its
# owner.

_OWNER = "slidestat.json"
_FORMAT = 1
# A version that knows no Delta tables would write files next to them: it must not take this up.
_FORMAT_OF_DELTA = 2
_TABLES = {_FORMAT: Tables.PARQUET, _FORMAT_OF_DELTA: Tables.DELTA}


@dataclass(frozen=True)
class Owner:
    """The topic and declaration of a checkpoint. `topic_identity` differs for a topic that was
    created again. In a lake of Delta tables its batches are those of an `application`: another name
    in every checkpoint, so that no batch is taken for one of the same number of a checkpoint before
    it.
    """

    job: str
    topology: str
    topic: str
    topic_identity: str
    format: int = _FORMAT
    application: str = ""

    @property
    def text(self) -> str:
        """Return the content of the file."""
        fields = asdict(self)
        if not self.application:  # As versions wrote it that knew no Delta tables, and read it.
            del fields["application"]
        return json.dumps(fields, indent=2) + "\n"


@dataclass(frozen=True)
class Claim:
    """A checkpoint that is this job's: what it has `read`, the next offset of each partition, none
    before the first batch; and whose its batches are in a Delta table, "" for Parquet files.
    """

    read: dict[int, int]
    application: str


def claim(
    spark: SparkSession, lake: Lake, dataset: Dataset, topic: TopicState, tables: Tables
) -> Claim:
    """Make the checkpoint of a dataset this topic's, if it has no owner.

    Raises SlidestatError for the checkpoint of something else or for other `tables`, and for data
    without a checkpoint: its batches would be written over.
    """
    files = LakeFiles(spark)
    folder = lake.checkpoint(dataset)
    wanted = Owner("ingest", lake.topology, topic.name, topic.identity)
    if tables is Tables.DELTA:
        wanted = replace(wanted, format=_FORMAT_OF_DELTA, application=uuid4().hex)
    owner = wanted
    if files.exists(f"{folder}/{_OWNER}"):
        owner = _require_same(folder, files.read(f"{folder}/{_OWNER}"), wanted)
    elif files.exists(f"{folder}/offsets"):
        raise SlidestatError(
            f"{folder} is the checkpoint of another program.", "Give another --lake."
        )
    elif files.exists(lake.backfilled):
        raise SlidestatError(
            f"{lake.folder} was filled by a backfill, which an ingest cannot go on from.",
            "Give another --lake.",
        )
    elif lake.has(spark, dataset):
        raise SlidestatError(
            f"{lake.data(dataset)} has records, and their checkpoint {folder} is gone.",
            "Bring the checkpoint back, or give another --lake and ingest anew.",
        )
    else:
        files.write(f"{folder}/{_OWNER}", wanted.text)
    return Claim(read_so_far(files, folder, topic.name), owner.application)


def _require_same(folder: str, text: str, wanted: Owner) -> Owner:
    try:
        found = Owner(**json.loads(text))
        begun = _TABLES[found.format]
    except (ValueError, TypeError, LookupError) as error:
        raise SlidestatError(
            f"{folder}/{_OWNER} is damaged or of a newer version.",
            "Use that version, or give another --lake.",
        ) from error
    if replace(found, application=wanted.application) == wanted:
        return found
    if replace(found, application=wanted.application, format=wanted.format) == wanted:
        raise SlidestatError(
            f"{folder} is the checkpoint of an ingest with --tables {begun}.",
            "Give the same to go on with it, or give another --lake.",
        )
    if (found.topic, found.job) == (wanted.topic, wanted.job):
        raise SlidestatError(
            f"{folder} is the checkpoint of another topic {found.topic!r}: that one was deleted, "
            "and this one made since.",
            "Give another --lake for the new topic; the old lake stays as it is.",
        )
    raise SlidestatError(
        f"{folder} is the checkpoint of another job: {found.job} of {found.topic}, "
        f"not {wanted.job} of {wanted.topic}.",
        "Give another --lake.",
    )


def read_so_far(files: LakeFiles, folder: str, topic: str) -> dict[int, int]:
    """Return the next offset of each partition by a checkpoint; none before the first batch."""
    commits = [int(name) for name in files.names(f"{folder}/commits") if name.isdecimal()]
    if not commits:
        return {}
    # A line of version, one of Spark's settings, one of offsets for each source.
    offsets = json.loads(files.read(f"{folder}/offsets/{max(commits)}").splitlines()[-1])
    return {int(partition): offset for partition, offset in offsets[topic].items()}


# Emissions in Avro as the JSON that they are in other topologies: a lake has one format.
#
# A reader of a lake should need no schema registry, and the schemas of years ago may be gone from
# one by then. So emissions are translated where they are brought in, in Spark's Python workers,
# through the codec that reads them everywhere else.


def with_json_values(records: DataFrame, registry: str) -> DataFrame:
    """Return the records with each `value` that is an emission in Avro as its JSON; any other value
    stays as it is. About 100 microseconds an emission of ten figures.
    """

    def translate(values: pd.Series) -> pd.Series:
        return values.map(_Translation.of(registry).json, na_action="ignore")

    return records.withColumn("value", column_function(translate, "binary")(f.col("value")))


class _Translation:
    def __init__(self, registry: str) -> None:
        self._decode = AnyFormat(registry).decode
        self._encode = JsonCodec().encode

    @staticmethod
    @lru_cache(maxsize=1)
    def of(registry: str) -> "_Translation":
        """Return this worker process's translation, for all batches: it remembers schemas."""
        return _Translation(registry)

    def json(self, value: bytes) -> bytes:
        try:
            emission = self._decode(value)
        except NotAnEmissionError:
            return value
        return self._encode(structs.replace(emission, figures=list(map(_brief, emission.figures))))


def _brief(figure: Figure) -> Figure:
    """Return the same figure without defaults: msgspec omits the default, not its equal."""
    fields, defaults = structs.astuple(figure), Figure.__struct_defaults__
    required = len(fields) - len(defaults)
    optional = zip(fields[required:], defaults, strict=True)
    return Figure(
        *fields[:required], *(default if value == default else value for value, default in optional)
    )


_STAGING = ".spark-staging-"
_ADVICE = "Run it again: it goes on where it ended, and nothing comes twice."
_LOSS_ADVICE = (
    "Give --allow-loss to go on without them, and let the topic keep its records for longer than"
    " ingests are apart."
)


@dataclass
class Ingested:
    """The records that one run brought of a dataset."""

    dataset: Dataset
    topic: str
    records: int = 0
    unreadable: int = 0
    batches: int = 0


@dataclass(frozen=True)
class Ingest:
    """An ingest of topics into a lake; `topics` are those of each dataset.

    With `allow_loss` it continues where retention was faster than the ingest. `say` takes messages
    for a person, a line at a time. With the address of a schema `registry`, statistics may be in
    Avro: in the lake they are JSON. `tables` are what a new lake is kept in, Parquet files by
    default; one that has records continues as it is.
    """

    spark: SparkSession
    bootstrap: str
    lake: Lake
    topics: dict[Dataset, str]
    records_per_batch: int = RECORDS_PER_BATCH
    allow_loss: bool = False
    say: Callable[[str], None] = print
    registry: str = ""
    tables: Tables | None = None

    def take_what_is_there(self) -> list[Ingested]:
        """Ingest all that the topics have now, one topic after another, and end.

        Statistics first: the letters of the records that they rest on are on their topics by then.
        Raises SlidestatError while another job writes to this part of the lake, and for a lake of
        other tables.
        """
        with locked(self.spark, self.lake, "ingest", self.say) as lock:
            settle(LakeFiles(self.spark), self.lake)
            return self._take(lock)

    def _take(self, lock: LakeLock) -> list[Ingested]:
        found = []
        for dataset, topic in self._existing():
            ingested = Ingested(dataset, topic.name)
            with in_words(f"The ingest of {topic.name}", _ADVICE):
                query = self._start(lock, dataset, topic, ingested)
                try:
                    query.awaitTermination()
                finally:
                    query.stop()
            found.append(ingested)
        return found

    def follow(self, every_ms: int) -> None:
        """Bring what comes, a batch each `every_ms`, until interrupted; a compaction gets the lake
        between two batches. Raises SlidestatError while another job writes to this part of the
        lake, and for a lake of other tables.
        """
        # Queries of this session that ended before are none of these.
        self.spark.streams.resetTerminated()
        with ExitStack() as stack:
            settled = partial(settle, LakeFiles(self.spark), self.lake)
            lock = stack.enter_context(
                locked(self.spark, self.lake, "ingest", self.say, lends=settled)
            )
            settled()
            for dataset, topic in self._existing():
                ingested = Ingested(dataset, topic.name)
                query = self._start(lock, dataset, topic, ingested, every_ms)
                stack.callback(query.stop)
            with in_words(f"The ingest of {self.lake.topology}", _ADVICE):
                self.spark.streams.awaitAnyTermination()

    def _existing(self) -> Sequence[tuple[Dataset, TopicState]]:
        found = []
        for dataset, topic in self.topics.items():
            # Only some topologies have these topics; rankings come only without emissions.
            is_of_some = dataset in (Dataset.SYNOPSES, Dataset.ALERTS) or (
                dataset is Dataset.RANKINGS and Dataset.STATISTICS in self.topics
            )
            if is_of_some and not has_topic(self.bootstrap, topic):
                continue
            found.append((dataset, topic_state(self.bootstrap, topic)))
        return found

    @cached_property
    def _tables(self) -> Tables:
        found = self.lake.tables(self.spark)
        if found is None:
            return self.tables or Tables.PARQUET
        if self.tables not in (None, found):
            raise SlidestatError(
                f"{self.lake.folder} is a lake of {found.title()} tables already.",
                "Leave out --tables to go on with it, or give another --lake.",
            )
        return found

    def _start(
        self,
        lock: LakeLock,
        dataset: Dataset,
        topic: TopicState,
        ingested: Ingested,
        every_ms: int | None = None,
    ) -> StreamingQuery:
        claimed = claim(self.spark, self.lake, dataset, topic, self._tables)
        require_kept(topic, claimed.read, self.say, _LOSS_ADVICE, allow_loss=self.allow_loss)
        tidy(LakeFiles(self.spark), self.lake.data(dataset))
        records = (
            self.spark.readStream.format("kafka")
            .options(**kafka_options(self.bootstrap))
            .option("subscribe", topic.name)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", True)
            .option("failOnDataLoss", not self.allow_loss)
            .option("maxOffsetsPerTrigger", self.records_per_batch)
            .load()
        )
        if self.registry and dataset is Dataset.STATISTICS:
            records = with_json_values(records, self.registry)
        rows = rows_of(dataset, records)
        table = None
        if self._tables is Tables.DELTA:
            table = DeltaTable(self.spark, self.lake.data(dataset), claimed.application)
            table.make(rows.schema)
        written = (
            rows.writeStream.queryName(f"{self.lake.topology} {dataset}")
            .option("checkpointLocation", self.lake.checkpoint(dataset))
            .foreachBatch(self._writer(lock, dataset, ingested, table))
        )
        if every_ms is None:
            query: StreamingQuery = written.trigger(availableNow=True).start()
        else:
            query = written.trigger(processingTime=f"{every_ms} milliseconds").start()
        return query

    def _writer(
        self, lock: LakeLock, dataset: Dataset, ingested: Ingested, table: DeltaTable | None
    ) -> Callable[[DataFrame, int], None]:
        def write(rows: DataFrame, batch: int) -> None:
            with lock.writing():
                write_alone(rows, batch)

        def write_alone(rows: DataFrame, batch: int) -> None:
            tasks = rows.rdd.getNumPartitions()
            if not tasks:  # There is nothing new: no partition is read.
                return
            if table is not None and table.has_batch(batch):  # It came before, and was not noted.
                return
            counts = Observation()
            counted = rows.observe(
                counts,
                f.count(f.lit(1)).alias("records"),
                f.count_if(is_unreadable(dataset)).alias("unreadable"),
            )
            # One file for each date, not one for each partition of the topic and date.
            parted = counted.repartition(min(tasks, write_tasks(self.spark)), "date")
            if table is None:
                replace_batch(parted, batch, self.lake.data(dataset))
            else:
                table.append(parted, batch)
            ingested.records += counts.get["records"]
            ingested.unreadable += counts.get["unreadable"]
            ingested.batches += 1

        return write


def require_kept(
    topic: TopicState,
    read: Mapping[int, int],
    say: Callable[[str], None],
    advice: str,
    *,
    allow_loss: bool = False,
) -> None:
    """Say what the brokers have deleted of a topic before any of it was read; raises SlidestatError
    with the advice for what they have deleted since, unless that is allowed.
    """
    lost = topic.lost_before(read)
    if not lost:
        return
    gone = f"{topic.name} no longer has " + "; ".join(lost)
    if read and not allow_loss:
        raise SlidestatError(f"{gone}: the broker deleted them before they were read.", advice)
    say(f"{gone}: {'left out' if read else 'deleted before this lake began'}.")


def tidy(files: LakeFiles, folder: str) -> None:
    """Remove what a killed run left half written of a dataset; no other job writes now."""
    for name in files.names(folder):
        if name.startswith(_STAGING):
            files.remove(f"{folder}/{name}")


def replace_batch(rows: DataFrame, batch: int, folder: str) -> None:
    """Write the rows of a batch to a dataset's folder, in place of what it has of the batch."""
    (
        rows.withColumn("batch", f.lit(batch))
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", "zstd")
        .partitionBy("date", "batch")
        .parquet(folder)
    )
