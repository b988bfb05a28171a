"""Plan a replay: the offsets it will read and the ticks it will emit, by partition.

A figure of the window [T - span, T) is about the events of that time. Where emission begins at
time T, reading begins at the first record whose Kafka timestamp is T less span, lateness and
`ahead`. An event of the window is among what is read: one more than `ahead` after its record's
timestamp is a dead letter. And a record that was late to the first run and is not to the replay,
which has not seen what lies before, is older than the window: it lies behind an event that was not
read, which itself is older than T - span - lateness. So both runs count the same events in each
window that is emitted. (What jumps ahead is judged by the 15 records before and after it: the first
of a replay by those after.)
"""

import re
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from slidestat.admin.worker_topics import require_events
from slidestat.declare.topology import Topology, require_times, without_move
from slidestat.engine.extent import Extent
from slidestat.errors import SlidestatError
from slidestat.kafka.read.scan import offset_bounds, open_scanner, reading, scan
from slidestat.options import EARLIEST, LATEST
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, is_in_seconds
from slidestat.text import timestamp_text

_TIMEOUT_S = 30.0
_OFFSET = re.compile(r"[0-9]{1,18}")
# Marks of transactions may lie behind the last record; rarely more of them than this.
_FIRST_LOOK_BACK = 16
_UNCOMMITTED = {"isolation.level": "read_uncommitted"}


@dataclass(frozen=True)
class PartitionPlan:
    """The plan for a partition: records [start, end) are read, and windows that end after
    `silent_until` (ms of event time; None: all) are emitted. `oldest` is the first record that the
    broker still has. `newest_ms` is the timestamp of the last record, where no record lies in the
    time asked for. `waiting` is the number of offsets behind `end` which wait for a transaction
    that has not ended.
    """

    partition: int
    oldest: int
    start: int
    end: int
    silent_until: int | None
    newest_ms: int | None = None
    waiting: int = 0


@dataclass(frozen=True)
class ReplayPlan:
    """The plan of a replay: the topology and the ranges of its source. If the source was written by
    `repartition`, also the topics that its records were moved from: a replay moves none again.
    """

    topology: Topology
    in_place: bool
    partitions: tuple[PartitionPlan, ...]
    moved_from: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """The largest number of records that are read: compaction and transactions leave holes."""
        return sum(p.end - p.start for p in self.partitions)

    @property
    def extent(self) -> Extent:
        return Extent(
            {p.partition: p.end for p in self.partitions},
            {p.partition: p.silent_until for p in self.partitions if p.silent_until is not None},
        )


def plan_replay(
    bootstrap: str, topology: Topology, begin: str, end: str, into: str | None
) -> ReplayPlan:
    """Return the plan of a replay of `topology` from `begin` ("earliest", an ISO 8601 time, an
    offset) to `end` ("latest", a time, an offset), instead of the live output or `into` another.

    Raises SlidestatError for what has no meaning, or cannot be replayed from there.
    """
    if into is not None and into in (topology.name, topology.output):
        raise SlidestatError(
            f"--into is {into!r}, which is what the topology writes.",
            "Leave --into out to replay in place, or give another name.",
        )
    first, last = point(begin, "--from", EARLIEST), point(end, "--to", LATEST)
    if first is not None and not topology.sees_span_alone:
        raise SlidestatError(
            f"--from is {begin!r}, and {topology.name} has windows of events, or totals since a"
            " key's first event, which depend on all that came before.",
            f"Replay it from {EARLIEST}.",
        )
    if first is not None:
        require_times(topology, f"--from {begin!r}")
    if first is not None and topology.has_referee:
        raise SlidestatError(
            f"--from is {begin!r}, and {topology.name} publishes for a referee: what it has of the"
            " first windows would lack events, and the referee could not tell.",
            f"Replay it from {EARLIEST}.",
        )
    replayed = topology
    if into is not None:
        group = f"{topology.group_name}-into-{into}"
        replayed = without_move(topology, output=into, group=group)
    count = require_events(bootstrap, topology.events_topic)
    with (
        reading(bootstrap, topology.events_topic) as consumer,
        closing(open_scanner(bootstrap, _UNCOMMITTED)) as of_all,
    ):
        _require_offset(of_all, topology.events_topic, count, "--from", first)
        _require_offset(of_all, topology.events_topic, count, "--to", last)
        partitions = tuple(
            _plan(consumer, of_all, topology, number, first, last) for number in range(count)
        )
    moved_from = topology.source_topics if topology.repartition else ()
    return ReplayPlan(replayed, into is None, partitions, moved_from)


@dataclass(frozen=True)
class Point:
    """A place in every partition: an offset, or a time in milliseconds."""

    number: int
    is_time: bool


def point(text: str, flag: str, otherwise: str) -> Point | None:
    """Return the place in a topic that the `text` of an option names; None for the word
    `otherwise`. Raises SlidestatError for any other text.
    """
    if text == otherwise:
        return None
    if _OFFSET.fullmatch(text):
        return Point(int(text), is_time=False)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        others = f'"{otherwise}", ' if otherwise else ""
        raise SlidestatError(
            f"{flag} is {text!r}.",
            f"Give {others}a time such as 2026-05-01T12:00:00Z, or an offset.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Point(int(moment.timestamp() * 1000), is_time=True)


def _require_offset(
    consumer: Consumer, topic: str, partitions: int, flag: str, given: Point | None
) -> None:
    """Raise SlidestatError for an offset behind the ends of all partitions: it is no place in any,
    and most often a time that was not written as one.
    """
    if given is None or given.is_time:
        return
    number = given.number
    newest = max(offset_bounds(consumer, topic, partition)[1] for partition in range(partitions))
    if number <= newest:
        return
    advice = f"Give an offset up to {newest}, or a time such as 2026-05-01T12:00:00Z."
    time_ms = 1_000 * number if is_in_seconds(number) else number
    if EARLIEST_TIME_MS <= time_ms < LATEST_TIME_MS:
        advice = f"If it is a time, write {timestamp_text(time_ms)}."
    raise SlidestatError(
        f"{flag} is the offset {number}, and the partitions of {topic!r} end at {newest} at the"
        " latest.",
        advice,
    )


def _plan(
    consumer: Consumer,
    of_all: Consumer,
    topology: Topology,
    number: int,
    first: Point | None,
    last: Point | None,
) -> PartitionPlan:
    """Plan a partition; `of_all` sees records of open transactions, too."""
    tp = TopicPartition(topology.events_topic, number)
    # Asked first: what comes between both answers does not seem to wait.
    _, written = offset_bounds(of_all, tp.topic, tp.partition)
    oldest, newest = offset_bounds(consumer, tp.topic, tp.partition)
    end = newest
    if last is not None:
        at = offset_at(consumer, tp, last.number, newest) if last.is_time else last.number
        end = min(max(at, oldest), newest)
    waiting = max(0, written - newest) if end == newest else 0
    start, silent_until = oldest, None
    if first is not None:
        silent_until = first.number
        if not first.is_time:
            silent_until = timestamp_at(consumer, tp, first.number)
        if silent_until is None:
            start = newest
        else:
            needed = topology.span_length.length + topology.lateness_ms + topology.ahead_ms
            start = max(oldest, offset_at(consumer, tp, silent_until - needed, newest))
    newest_ms = None
    if first is not None and first.is_time and start == newest > oldest:
        newest_ms = timestamp_at(consumer, tp, _after_last(consumer, tp, oldest, newest) - 1)
    start = min(start, end)
    end = _after_last(consumer, tp, start, end)
    return PartitionPlan(number, oldest, start, end, silent_until, newest_ms, waiting)


def offset_at(consumer: Consumer, tp: TopicPartition, time_ms: int, newest: int) -> int:
    """Return the first offset whose timestamp is at least `time_ms`; the end if there is none."""
    asked = TopicPartition(tp.topic, tp.partition, max(time_ms, 0))
    found = consumer.offsets_for_times([asked], timeout=_TIMEOUT_S)[0]
    if found.error is not None:
        raise KafkaException(found.error)
    return newest if found.offset == OFFSET_END or found.offset < 0 else int(found.offset)


def timestamp_at(consumer: Consumer, tp: TopicPartition, offset: int) -> int | None:
    """Return the timestamp of the first record at or after `offset`, None if there is none."""
    for message in scan(consumer, tp.topic, {tp.partition: offset}):
        return int(message.timestamp()[1])
    return None


def _after_last(consumer: Consumer, tp: TopicPartition, start: int, end: int) -> int:
    """Return the offset after the last record of [start, end): a replay reads up to there, as only
    marks of transactions may follow. Return `start` if there is no record.
    """
    look_back = _FIRST_LOOK_BACK
    while start < end:
        begin = max(start, end - look_back)
        last = None
        for message in scan(consumer, tp.topic, {tp.partition: begin}):
            offset = message.offset() or 0
            if offset >= end:
                break
            last = offset
        if last is not None:
            return last + 1
        if begin == start:
            break
        look_back *= 8
    return start
