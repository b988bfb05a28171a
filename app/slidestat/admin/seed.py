"""Begin a topology with the history in files: its states and the checkpoints from which workers go
on with the topic.

A seed writes what a worker would have that has read all of the history:

    records   with their offsets in the topic: a worker that has read the topic up to there. Events
              that wait for the watermark are read again from the topic, as after a restart;
    events    up to a time T: a worker that has read them, and whose watermark is T then. No event
              waits, and those of the topic from before T are late. So each event is counted once:
              those before T from files, the others from the topic. Reading goes on with the first
              record whose timestamp is T less `ahead` or later: before it no event is of T or
              later, but for those that lie more than `ahead` after their timestamps, which are dead
              letters.

Emissions and letters of history are not written, so the states have nothing that was, as if `emit`
was declared at the end of it. Alerts go on as those of that worker. Those that fire in the end are
written, so that nobody hears of an end without a beginning.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from confluent_kafka import TopicPartition
from msgspec.structs import replace

from slidestat.admin.replay_plan import Point, offset_at, point, timestamp_at
from slidestat.admin.seed_files import (
    NEWEST_RECORDS,
    EventFiles,
    Offsets,
    OrderedFiles,
    RecordFiles,
)
from slidestat.admin.state_reset import (
    ChangelogWriter,
    Row,
    changelog_contents,
    replace_state,
    require_no_workers,
)
from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.derived import EMIT_LABEL
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.topology import Topology, require_json, require_times
from slidestat.engine.checkpoints.checkpoint import (
    BEING_SEEDED,
    Checkpoint,
    Counters,
    decode_emitted,
    encode_checkpoint,
    stored_counters,
    stored_mark,
    stored_meaning,
)
from slidestat.engine.clock import RECORDS as CLOCK_RECORDS
from slidestat.engine.decoding.tick_records import TickDecoder, ticks_at
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.garbage_collector import collect_garbage
from slidestat.engine.keys.key_state import with_nothing_written
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import LogMark, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.alert_headers import headers_of_alert
from slidestat.faust.local_states import FLUSH_RECORDS, LocalStates
from slidestat.faust.table import STATE_KEY
from slidestat.kafka.connection import require_broker
from slidestat.kafka.partitioner import expected_places
from slidestat.kafka.read.same_log import first_difference
from slidestat.kafka.read.scan import errors_of, offset_bounds, reading, scan_ranges
from slidestat.kafka.read.source_sample import SourceLook, check_source
from slidestat.kafka.topic_identity import topic_id
from slidestat.options import TIME_UNIT
from slidestat.produce.file_records import FileRecords
from slidestat.produce.files import files_of
from slidestat.schemas.alert import AlertState
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.schemas.sequence import decode_alert_change
from slidestat.text import counted, iso_time

# The seed of one partition, without a broker.


@dataclass
class Seeded:
    """A partition that has counted its history: where it continues in the topic, its checkpoint,
    the outcomes of its records, why some were refused (an example of each reason), the last records
    of the alerts that fire, and its newest event.
    """

    partition: int
    next_offset: int
    checkpoint: bytes
    counters: Counters
    refused: dict[str, str] = field(default_factory=dict)
    firing: Sequence[AlertRecord] = ()
    newest_ms: int | None = None
    moved_by: int = 0


def seed_label(topology: Topology) -> dict[str, str]:
    """Return what is stored with the states: no rule has chosen what was written of them."""
    return {name: text for name, text in topology.state_label.items() if name != EMIT_LABEL}


class SeededPartition:
    """An engine that reads the history of one partition into `states`. It holds many of them in
    memory, too, so it is dropped at its end.
    """

    def __init__(
        self,
        topology: Topology,
        partition: int,
        topic_id: str,
        expected: Mapping[str, int],
        folder: Path,
        states: LocalStates,
    ) -> None:
        self._topology, self._partition = topology, partition
        self._states = states
        self._processor = PartitionProcessor(
            topology,
            topology.events_topic,
            partition,
            self._states,
            TickDecoder(topology),
            topic_id=topic_id,
            expected=expected,
            file=folder / f"{partition}.waiting",
        )
        self._stored: bytes | None = None
        self._unflushed = 0
        self._refused: dict[str, str] = {}
        self._firing: dict[tuple[str, str], AlertRecord] = {}

    def read(self, batches: Iterable[RecordBatch]) -> None:
        """Count records, in their order."""
        for batch in batches:
            for effects in self._processor.steps(batch, more_follows=True):
                self._note(effects)
            self._processor.note(batch.mark)
            self._unflushed += len(batch)
            if self._unflushed >= FLUSH_RECORDS:
                self._flush()

    def end(self) -> Seeded:
        """End where the last record lies in the topic."""
        self._flush()
        if self._stored is None:
            start = Checkpoint(0, topic_id=self._processor.checkpoint.topic_id)
            return self._seeded(encode_checkpoint(start, seed_label(self._topology)), 0)
        checkpoint = self._processor.checkpoint
        stored = encode_checkpoint(
            checkpoint,
            seed_label(self._topology),
            decode_emitted(self._stored, checkpoint),
            mark=stored_mark(self._stored),
        )
        return self._seeded(stored, checkpoint.next_offset)

    def end_at(self, time_ms: int, next_offset: int) -> Seeded:
        """End with the watermark at a time, after all events, and continue at an offset of the
        topic behind all of them.
        """
        read = self._processor.next_offset
        newest = self._processor.newest_time
        moved = time_ms + self._topology.lateness_ms
        self.read([ticks_at(moved, self._topology.events_topic, self._partition, read)])
        self._flush()
        found = self._processor.checkpoint
        if found.next_offset != read + CLOCK_RECORDS:
            raise RuntimeError("an event waits behind the watermark")
        ticks = Counters(read=CLOCK_RECORDS, passed_over=CLOCK_RECORDS)
        checkpoint = replace(found, next_offset=next_offset, counters=found.counters.since(ticks))
        seeded = self._seeded(
            encode_checkpoint(checkpoint, seed_label(self._topology)), next_offset
        )
        seeded.counters = checkpoint.counters
        seeded.newest_ms = newest if checkpoint.counters.counted else None
        seeded.moved_by = next_offset - found.next_offset
        seeded.firing = [_moved(it, seeded.moved_by) for it in seeded.firing]
        return seeded

    def _seeded(self, checkpoint: bytes, next_offset: int) -> Seeded:
        counters = self._processor.reached.counters
        newest = self._processor.newest_time if counters.counted else None
        firing = list(self._firing.values())
        return Seeded(
            *(self._partition, next_offset, checkpoint, counters, self._refused, firing, newest)
        )

    def _note(self, effects: Effects) -> None:
        for letter in (*effects.dead_letters, *effects.late):
            self._refused.setdefault(str(letter.reason), letter.detail)
        for record in effects.alerts:
            change = decode_alert_change(record.value)
            place = change.alert, change.key
            self._firing.pop(place, None)
            if change.state is AlertState.FIRING:
                self._firing[place] = record

    def _flush(self) -> None:
        for effects in self._processor.kept_back():
            self._note(effects)
        self._unflushed = 0
        snapshot = self._processor.snapshot()
        if snapshot is not None:
            self._states.write(snapshot)
            self._stored = snapshot.checkpoint
            self._processor.written()


def _moved(record: AlertRecord, by: int) -> AlertRecord:
    """Return the record of an alert that came of an event whose offset is larger by so much."""
    change = decode_alert_change(record.value)
    moved = replace(change, source_offset=change.source_offset + by)
    return record._replace(value=msgspec.json.encode(moved))


def seeded_rows(states: LocalStates, moved_by: int) -> Iterator[Row]:
    """Yield states as rows of a changelog, of events at offsets larger by so much."""
    for key, state in states.scan():
        yield STATE_KEY + key.encode(), with_nothing_written(state, moved_by)
    states.put_away()


# All partitions, on a broker.


@dataclass(frozen=True)
class SeedReport:
    """The result of a seed: the rows read, how many were left to the topic, and each partition."""

    read: int
    left: int
    partitions: Sequence[Seeded]

    @property
    def counters(self) -> Counters:
        """The outcomes of all records."""
        return sum((it.counters for it in self.partitions), Counters())


@dataclass(frozen=True)
class _Place:
    """A partition of the topic: its first offset that the broker still has, the offset after its
    last, and the one at which reading begins after the seed.
    """

    oldest: int
    newest: int
    start: int


def seed(
    bootstrap: str,
    topology: Topology,
    paths: Sequence[str],
    until: str | None,
    columns: Mapping[str, str],
    time_unit: str = TIME_UNIT,
    say: Callable[[str], None] = print,
) -> SeedReport:
    """Begin a topology with the history in files. Rows that are events count before the time
    `until`, rows that are records of the topic before the offset `until`; without it all do.
    `columns` name the column of a field that has another name in the files.

    If anything is refused, nothing is written. Raises SlidestatError for a topology that has states
    or runs, for files that do not fit, and for a topic that does not continue where the files end.
    """
    _require_seedable(topology)
    cut = None if until is None else point(until, "--until", "")
    files = files_of(paths)
    require_broker(bootstrap)
    source: EventFiles | RecordFiles
    if cut is not None and cut.is_time:
        _require_past(topology, cut)
        records = FileRecords.of(topology, columns, time_unit)
        records.require_columns(files, paths[0])
        if records.are_zoneless(files[0]):
            say(f"{records.time} has times without an offset: they are read in UTC.")
        source = EventFiles(records, files, cut.number)
    else:
        source = RecordFiles(topology, files, None if cut is None else cut.number)
        source.require_columns()
    count = prepare_topics(bootstrap, topology)
    _require_new(bootstrap, topology, count)
    places = _places(bootstrap, topology, cut, count)
    if isinstance(source, EventFiles):
        check_source(SourceLook(bootstrap, topology, count, {}, by_default=True))
    identity = topic_id(bootstrap, topology.events_topic)
    at = cut.number if cut is not None and cut.is_time else None
    with ExitStack() as on_disk:
        states = [on_disk.enter_context(closing(LocalStates())) for _ in range(count)]
        seeded = _counted(topology, identity, source, at, places, states, say)
        if isinstance(source, RecordFiles):
            for it, place in zip(seeded, places, strict=True):
                _require_joined(bootstrap, topology, it, place)
            _require_committed(bootstrap, topology.events_topic, source.newest, places)
        report = SeedReport(source.read, source.left, seeded)
        _require_counted(report)
        # Counting takes a while, in which a worker may have begun.
        _require_new(bootstrap, topology, count)
        replace_state(
            bootstrap,
            topology,
            {it.partition: it.checkpoint for it in seeded},
            {it.partition: it.next_offset for it in seeded},
            BEING_SEEDED,
            partial(_rows_after_alerts, bootstrap, topology, states, seeded),
        )
    return report


def _rows_after_alerts(
    bootstrap: str,
    topology: Topology,
    states: Sequence[LocalStates],
    seeded: Sequence[Seeded],
    number: int,
) -> Iterator[Row]:
    """Write the alerts of a partition that fire, then yield its states."""
    if seeded[number].firing and topology.alert_topic is not None:
        writer = ChangelogWriter(bootstrap, topology.alert_topic)
        declared_by = (DECLARATION_HEADER, fingerprint_of(topology).encode())
        for it in seeded[number].firing:
            headers = [declared_by, *headers_of_alert(it, topology)]
            writer.produce(number, it.key, it.value, headers, it.timestamp)
        writer.flush()
    yield from seeded_rows(states[number], seeded[number].moved_by)


def _counted(
    topology: Topology,
    topic_id: str,
    source: EventFiles | RecordFiles,
    until_ms: int | None,
    places: Sequence[_Place],
    states: Sequence[LocalStates],
    say: Callable[[str], None],
) -> list[Seeded]:
    """Count the records of each partition into its states, one partition after another."""
    count = len(places)
    with (
        closing(OrderedFiles(source, count)) as ordered,
        TemporaryDirectory(prefix="slidestat-seed-") as folder,
    ):
        if ordered.last_partition >= count:
            raise SlidestatError(
                f"The files have records of partition {ordered.last_partition}, and"
                f" {topology.events_topic!r} has {count} partitions.",
                "Give files of this topic.",
            )
        expected = expected_places(topology.expected, count)
        seeded = []
        for number, place in enumerate(places):
            own = states[number]
            engine = SeededPartition(topology, number, topic_id, expected, Path(folder), own)
            engine.read(ordered.read(topology, number))
            end = engine.end() if until_ms is None else engine.end_at(until_ms, place.start)
            seeded.append(end)
            # The engine's parts refer to each other. All engines together would be many times their
            # states.
            del engine
            collect_garbage()
            own.put_away()
            say(f"Partition {number} is counted.")
    return seeded


def _require_seedable(topology: Topology) -> None:
    require_times(topology, "a seed")
    require_json(topology, "a seed")
    if topology.publish:
        raise SlidestatError(
            f"{topology.name} publishes its synopses: those of history would be missing, and its"
            " referee could not tell.",
            "Seed a topology of the same statistics that does not publish, or produce the history"
            f" to {topology.source!r} before all else.",
        )
    if topology.repartition:
        raise SlidestatError(
            f"{topology.name} moves its source's records: where they go on is not known before they"
            " are moved.",
            "Seed a topology whose source is partitioned by the key.",
        )
    if topology.key_path in topology.computed_fields:
        raise SlidestatError(
            f"The key {topology.key_name!r} is computed, and rows of files are given out by a key"
            " that they have.",
            f"Produce them to {topology.source!r} before all else.",
        )


def _require_past(topology: Topology, cut: Point) -> None:
    if not topology.times.earliest <= cut.number <= time.time() * 1_000:
        raise SlidestatError(
            f"--until is {iso_time(cut.number)}, which is not in the past, or before 1980.",
            "Give the time up to which the files have all events.",
        )


def _require_new(bootstrap: str, topology: Topology, count: int) -> None:
    """Raise SlidestatError if workers run or states are there, unless a seed was interrupted."""
    require_no_workers(bootstrap, topology, "seed a topology of another name")
    topic = topology.changelog_topic
    contents = [changelog_contents(bootstrap, topic, number) for number in range(count)]
    checkpoints = [it.checkpoint for it in contents if it.checkpoint is not None]
    if BEING_SEEDED in map(stored_meaning, checkpoints):
        return
    keys = sum(len(it.keys) for it in contents)
    if keys or checkpoints:
        known = (stored_counters(it) or Counters() for it in checkpoints)
        read = sum(known, Counters()).read
        raise SlidestatError(
            f"{topology.name} has states already, of {counted(keys, 'key')} and"
            f" {counted(read, 'record')}; a seed would write over them.",
            "Give the topology another name. To have another seed under this one, stop its workers"
            f" and delete their data folders and the topic {topic!r}: its states are gone then.",
        )


def _places(bootstrap: str, topology: Topology, cut: Point | None, count: int) -> list[_Place]:
    """Return where partitions continue: for a time, at the first record that may be of an event
    from then on. Raises SlidestatError where such records may have been deleted.
    """
    topic = topology.events_topic
    places = []
    with reading(bootstrap, topic) as consumer:
        for number in range(count):
            oldest, newest = offset_bounds(consumer, topic, number)
            start = newest
            if cut is not None and cut.is_time:
                first = cut.number - topology.ahead_ms
                place = TopicPartition(topic, number)
                start = offset_at(consumer, place, first, newest)
                if start == oldest > 0:
                    there = timestamp_at(consumer, place, oldest)
                    there_text = "none" if there is None else iso_time(there)
                    raise SlidestatError(
                        f"The broker has deleted the first {oldest:,} records of {topic!r}"
                        f" partition {number}, and has none from before {iso_time(first)} (--until"
                        f" less the topology's `ahead`): the oldest one is {there_text}. Events of"
                        " --until or later may be among the deleted ones.",
                        "Give files that reach further, and a later --until.",
                    )
            places.append(_Place(oldest, newest, start))
    return places


def _require_counted(report: SeedReport) -> None:
    reasons = {why: detail for it in report.partitions for why, detail in it.refused.items()}
    # Without a reason they are passed over, or wait and are read again.
    if report.counters.counted or (report.read > report.left and not reasons):
        return
    why = "; ".join(f"{reason}: {detail}" for reason, detail in reasons.items())
    raise SlidestatError(
        f"None of {report.read:,} rows is counted{why and f': {why}'}; {report.left:,} are from"
        " --until on.",
        "Look at --until, and at the columns for key, time and value.",
    )


def _require_joined(bootstrap: str, topology: Topology, seeded: Seeded, place: _Place) -> None:
    """Raise SlidestatError unless the topic has the records that follow those of the files. As far
    as can be seen, it must also be the topic that the files are of.
    """
    topic, number = topology.events_topic, seeded.partition
    mark = stored_mark(seeded.checkpoint)
    if mark is not None and (
        mark.offset >= place.newest or _is_other(bootstrap, topic, number, mark)
    ):
        raise SlidestatError(
            f"The files have another record of partition {number}, offset {mark.offset:,}, than"
            f" {topic!r}, which ends at {place.newest:,}.",
            "They are of another topic, also if it had this one's name: give files of this one.",
        )
    if seeded.next_offset < place.oldest:
        raise SlidestatError(
            f"A worker would go on with offset {seeded.next_offset:,} of {topic!r} partition"
            f" {number}, and the broker has deleted what lies before {place.oldest:,}.",
            "Give files that reach further.",
        )


def _require_committed(
    bootstrap: str, topic: str, newest: Mapping[int, Offsets], places: Sequence[_Place]
) -> None:
    """Raise SlidestatError if the topic, as workers read it, lacks one of the files' newest records
    though the broker still keeps that part: it may be of an aborted transaction. Reads that once.
    """
    ranges = {}
    for number, offsets in newest.items():
        end = int(offsets[-1]) + 1
        ranges[number] = (max(places[number].oldest, end - NEWEST_RECORDS), end)
    found: dict[int, list[int]] = {number: [] for number in ranges}
    with reading(bootstrap, topic) as consumer:
        for message in scan_ranges(consumer, topic, ranges):
            found[message.partition() or 0].append(message.offset() or 0)
        # Some records may have been deleted meanwhile.
        first = {
            number: max(start, offset_bounds(consumer, topic, number)[0])
            for number, (start, _) in ranges.items()
        }
    for number, offsets in newest.items():
        missing = np.setdiff1d(offsets[offsets >= first[number]], found[number])
        if len(missing):
            raise SlidestatError(
                f"The files have a record of partition {number}, offset {missing[0]:,}. Workers,"
                f" which read committed records only, do not find it on {topic!r}.",
                'Export them again, with Spark\'s option ("kafka.isolation.level",'
                ' "read_committed"). Or they are of another topic: give files of this one.',
            )


def _is_other(bootstrap: str, topic: str, partition: int, mark: LogMark) -> bool:
    """Return whether the topic has another record than the one that is marked."""
    with errors_of(topic):
        return first_difference(bootstrap, topic, partition, mark) is not None
