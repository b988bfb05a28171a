"""The statistics of history, as a worker would have written them.

Every partition of history goes through the very code that a worker has (`engine.partition`),
inside Spark's Arrow workers: so emissions, letters and synopses are the same, byte for byte, for
the same records in the same order. One task takes one partition after another, a batch at a time:
what it holds is the states of the partition's keys, and one batch.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession, functions as f

from slidestat.declare.forms.fingerprint import fingerprint_of
from slidestat.declare.topology import Topology
from slidestat.engine.clock.event_time import closing_tick
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission import OutputRecord
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.keys.shared_keys import shared_key
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import Clock, Publication, SynopsisTopic, published_statistics
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.kafka.letter_record import letter_record
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.schemas.synopsis import SynopsisHeaders, SynopsisKey, encode_key, party_name
from slidestat.spark.backfill.interval_synopses import IntervalSynopses
from slidestat.spark.backfill.key_states import KeyStates
from slidestat.spark.backfill.plain_events import PlainEvents
from slidestat.spark.backfill.refusals import Filled, nothing_counted, refusals_of
from slidestat.spark.faults import in_words
from slidestat.spark.lake.declarations import keep_declaration
from slidestat.spark.lake.lake import Dataset, Lake, records_of, rows_of
from slidestat.spark.lake.lake_files import LakeFiles
from slidestat.spark.lake.lake_lock import locked

# How many records are given to the kernels at once; and after how many states are put away.
BATCH_RECORDS = 50_000
FLUSH_RECORDS = 500_000
_ROWS_OUT = 10_000
# A bad record may have any timestamp, and a column of dates ends with the year 9999.
_LAST_DAY_MS = 253_402_214_400_000
# A folder beside the datasets; readers of Parquet pass over it.
_STAGING = "_backfill"
# Not a topic of anybody: the keys that each partition has counted, to be compared.
_KEYS = "_keys"

RECORD_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
"""Columns of what comes out: those of Spark's Kafka source. There is no `offset`: Kafka would have
given it."""

_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

Out = tuple[str, int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]
"""topic, partition, timestamp in milliseconds, key, value, headers."""


def backfill(
    topology: Topology, records: DataFrame, partitions: int = 1, synopses_ms: int | None = None
) -> DataFrame:
    """Compute what the topology writes for records of `history`: emissions, letters and synopses,
    under the topics that they would be on.

    Synopses are those at the end of history; with `synopses_ms`, those at the ticks of that
    interval. A topology that publishes its synopses says with them how many `partitions` its source
    has. Keys of several partitions are not looked for, as `fill_lake` does: each would come out of
    each.
    """
    written = _with_keys(topology, records, partitions, synopses_ms)
    return written.where(f.col("topic") != _KEYS)


def _with_keys(
    topology: Topology, records: DataFrame, partitions: int, synopses_ms: int | None
) -> DataFrame:
    """Compute what the topology writes and, as of a topic `_KEYS`, the keys of each partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        with calm_garbage_collector():
            yield from Backfill(topology, partitions, synopses_ms).run(batches)

    return records.mapInArrow(run, RECORD_SCHEMA)


def fill_lake(
    topology: Topology,
    records: DataFrame,
    lake: Lake,
    partitions: int = 1,
    synopses_ms: int | None = None,
) -> Filled:
    """Write what `backfill` gives into the folders of a topology in a lake, as an ingest of its
    topics does. Raises SlidestatError for folders that are not empty, while another job writes to
    them, for history that cannot be read or counted, if no record could be counted, and for a key
    that lies in two partitions: then nothing is written.
    """
    with locked(records.sparkSession, lake, "backfill"):
        return _fill(topology, records, lake, partitions, synopses_ms)


def _fill(
    topology: Topology, records: DataFrame, lake: Lake, partitions: int, synopses_ms: int | None
) -> Filled:
    spark = records.sparkSession
    topics = {
        Dataset.STATISTICS: topology.output_topic,
        Dataset.LATE: topology.late_topic,
        Dataset.DEAD_LETTERS: topology.dead_letter_topic,
        Dataset.SYNOPSES: topology.synopsis_topic,
    }
    for dataset in topics:
        if lake.has(spark, dataset):
            raise SlidestatError(
                f"{lake.data(dataset)} has records already.",
                "Give another --lake: history and what a worker wrote would be there twice.",
            )
    # All comes out of one run, so it is written in one go as what nearly all of it is, and only the
    # rest is read again.
    staging = f"{lake.folder}/{_STAGING}"
    files = LakeFiles(spark)
    files.remove(staging)
    read = Observation()
    with in_words(f"The backfill of {topology.name}", "Spark's log says more."):
        counted = records.observe(read, f.count(f.lit(1)).alias("records"))
        written = _with_keys(topology, counted, partitions, synopses_ms)
        rows = rows_of(Dataset.STATISTICS, written)
        kinds = [text for dataset, topic in topics.items() for text in (topic, str(dataset))]
        kinds += [_KEYS, _KEYS]
        kind_of = f.create_map(*map(f.lit, kinds))
        _write(rows.withColumn("dataset", kind_of[f.col("record_topic")]), staging, "dataset")
        _check_keys(topology, spark, staging)
        found = {
            dataset: spark.read.parquet(folder)
            for dataset in topics
            if files.exists(folder := f"{staging}/dataset={dataset}")
        }
        counts = {str(d): found[d].count() if d in found else 0 for d in topics}
        refusals = refusals_of(found)
        if refusals.total >= read.get["records"]:
            files.remove(staging)
            raise nothing_counted(topology, read.get["records"], refusals)
        keep_declaration(spark, lake, topology)
        for dataset, records_of_it in found.items():
            if dataset is not Dataset.STATISTICS:
                _write(rows_of(dataset, records_of(records_of_it)), lake.data(dataset))
    if counts[Dataset.STATISTICS]:
        files.rename(f"{staging}/dataset={Dataset.STATISTICS}", lake.data(Dataset.STATISTICS))
    kept_ms = topology.every_ms if topology.publish else synopses_ms
    files.write(lake.backfilled, json.dumps({"synopses_ms": kept_ms}) + "\n")
    files.remove(staging)
    return Filled(counts, refusals)


def _check_keys(topology: Topology, spark: SparkSession, staging: str) -> None:
    """Raise SlidestatError, and remove what is staged, for a key that lies in two partitions."""
    folder, files = f"{staging}/dataset={_KEYS}", LakeFiles(spark)
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


def _write(rows: DataFrame, folder: str, *by: str) -> None:
    (
        rows.withColumn("batch", f.lit(0))
        .write.partitionBy(*by, "date", "batch")
        .option("compression", "zstd")
        .parquet(folder)
    )


class Backfill:
    """One task's part: the records of whole partitions, one partition after another."""

    def __init__(self, topology: Topology, partitions: int, synopses_ms: int | None = None) -> None:
        self._topology = topology
        self._synopses_ms = synopses_ms
        self._decoder = EventDecoder(topology)
        self._published = SynopsisTopic(topology, partitions)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the outputs of the records, those of one topic and partition in the order in which
        a worker would write them.
        """
        open_partition: _Partition | None = None
        for partition, part in _by_partition(batches):
            if open_partition is None or open_partition.number != partition:
                if open_partition is not None:
                    yield from open_partition.close()
                open_partition = _Partition(
                    self._topology, partition, self._decoder, self._published, self._synopses_ms
                )
            yield from open_partition.take(part)
        if open_partition is not None:
            yield from open_partition.close()


class _Partition:
    """A partition of history while it is read."""

    def __init__(
        self,
        topology: Topology,
        number: int,
        decoder: EventDecoder,
        published: SynopsisTopic,
        synopses_ms: int | None,
    ) -> None:
        self.number = number
        self._published = published
        self._plain = PlainEvents(topology, decoder)
        self._topology = topology
        self._states = KeyStates()
        self._interval = IntervalSynopses(topology, synopses_ms) if synopses_ms else None
        self._processor = PartitionProcessor(
            *(topology, topology.source, number, self._states, decoder), publisher=self._interval
        )
        self._unflushed = 0
        self._declared_by = [(DECLARATION_HEADER, fingerprint_of(topology).encode())]

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch in."""
        batch = self._record_batch(part)
        events = self._plain.columns(part, batch) if _is_of_files(part) else None
        yield from self._sent(self._processor.steps(batch, events, more_follows=True))
        self._unflushed += len(batch)
        if self._unflushed >= FLUSH_RECORDS:
            yield from self._flush()

    def _sent(self, steps: Iterator[Effects]) -> Iterator[pa.RecordBatch]:
        topology = self._topology
        for effects in steps:
            if effects.emissions:
                yield _emitted(
                    topology.output_topic, self.number, self._declared_by, effects.emissions
                )
            letters = [self._letter(it, topology.dead_letter_topic) for it in effects.dead_letters]
            letters += [self._letter(it, topology.late_topic) for it in effects.late]
            yield from _arrow(letters)
            yield from self._publish(effects.published)

    def close(self) -> Iterator[pa.RecordBatch]:
        """The synopses of the keys that a window still sees, as the end of history leaves them; of
        those at an interval, the ones since its last tick; nothing more of a topology that
        publishes them itself.
        """
        yield from self._flush()
        if self._interval is not None:
            tick, last = self._processor.watermark + 1, self._processor.next_offset - 1
            yield from self._publish(self._interval.rest(tick, self._states, last))
        elif not self._topology.publish:
            yield from _arrow(self._synopses())
        self._states.close()

    def _publish(self, published: Iterable[Publication | Clock]) -> Iterator[pa.RecordBatch]:
        return _arrow(
            (self._published.name, it.partition, it.timestamp, it.key, it.value, it.headers)
            for it in self._published.records(published, self.number)
        )

    def _synopses(self) -> Iterator[Out]:
        topology, tick = self._topology, self._processor.watermark + 1
        party = party_name(topology.source, self.number)
        headers = [
            SynopsisHeaders(meaning, self._processor.next_offset - 1).encode()
            for meaning in dict.fromkeys(runner.meaning for runner in topology.runners)
        ]
        names = published_statistics(topology)
        for key, stored in self._states.scan():
            state = decode_key_state(stored)
            if _is_silent(topology, state.last_time, tick):
                continue
            for name, header, synopsis in zip(names, headers, state.synopses, strict=True):
                place = encode_key(SynopsisKey(topology.name, name, key, party))
                yield topology.synopsis_topic, self.number, tick, place, synopsis, header

    def _flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._sent(self._processor.kept_back())
        yield from _arrow(self._put_away())

    def _put_away(self) -> Iterator[Out]:
        """Put the states away; their keys, of a topology that wants each in one partition."""
        snapshot = self._processor.snapshot()
        self._unflushed = 0
        if snapshot is None:
            return
        self._states.write(snapshot)
        self._processor.written()
        if not self._topology.publishes_partitions:
            for key in snapshot.states.keys() - set(self._topology.publish):
                yield _KEYS, self.number, 0, key.encode(), None, []

    def _record_batch(self, part: pa.RecordBatch) -> RecordBatch:
        if _is_of_files(part):
            start = self._processor.next_offset
            numbers = np.arange(start, start + len(part), dtype=np.int64)
        else:
            numbers = part["offset"].to_numpy()
        stamps = part["timestamp"].fill_null(-1).to_numpy()
        return RecordBatch(
            self._topology.source,
            self.number,
            numbers,
            part["key"].to_pylist(),
            part["value"].to_pylist(),
            stamps.tolist(),
            int(numbers[0]),
        )

    def _letter(self, letter: Letter, topic: str) -> Out:
        source = self._topology.source
        record = letter_record(letter, self._topology.name, source, self.number)
        stamp = min(record.timestamp, _LAST_DAY_MS)
        return topic, self.number, stamp, record.key, record.value, record.headers


def _is_of_files(part: pa.RecordBatch) -> bool:
    """Whether these are rows of files: only what was on a topic has offsets."""
    return "offset" not in part.schema.names


def _is_silent(topology: Topology, last_time: int, tick: int) -> bool:
    """Whether no window sees any event of a key any more: when its state goes is up to chance."""
    span = topology.span_length
    if not topology.forgets_keys:
        return False
    return closing_tick(last_time, span.length, topology.every_ms) < tick


def _by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Parts of `BATCH_RECORDS` rows or so, each of one partition."""
    for joined in _joined(batches):
        numbers = joined["partition"].to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(starts):
            yield int(numbers[start]), joined.slice(start, end - start)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches as large ones: a call of the kernels costs as much for one key as for many."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        rows += len(batch)
        if rows >= BATCH_RECORDS:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)


def _emitted(
    topic: str,
    partition: int,
    headers: list[tuple[str, bytes]],
    emissions: Sequence[OutputRecord],
) -> pa.RecordBatch:
    """Emissions as rows: they are most of what comes out, and go by columns."""
    keys, values, stamps = zip(*emissions, strict=True)
    count = len(emissions)
    return pa.record_batch(
        [
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.nulls(count, pa.int64()),
            pa.array(np.array(stamps, np.int64) * 1_000).cast(_ARROW.field("timestamp").type),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.repeat(pa.scalar(headers, _ARROW.field("headers").type), count),
        ],
        schema=_ARROW,
    )


def _arrow(rows: Iterable[Out]) -> Iterator[pa.RecordBatch]:
    for chunk in _chunks(rows):
        topics, partitions, stamps, keys, values, headers = zip(*chunk, strict=True)
        yield pa.record_batch(
            [
                pa.array(topics, pa.string()),
                pa.array(partitions, pa.int32()),
                pa.nulls(len(chunk), pa.int64()),
                pa.array(stamps, pa.timestamp("ms", "UTC")).cast(_ARROW.field("timestamp").type),
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array(headers, _ARROW.field("headers").type),
            ],
            schema=_ARROW,
        )


def _chunks(rows: Iterable[Out]) -> Iterator[list[Out]]:
    rest = iter(rows)
    while chunk := list(islice(rest, _ROWS_OUT)):
        yield chunk
