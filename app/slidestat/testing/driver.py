"""A topology, or a referee and its parties, on records in memory, in virtual event time: what
workers would write, at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from numbers import Integral
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.rows import check_rows
from slidestat.declare.times.calendar_windows import CALENDAR_WINDOWS
from slidestat.declare.times.lengths import window_length
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.clock import RECORDS
from slidestat.engine.decoding.tick_records import TickDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.emissions.output_codec import emission_codec
from slidestat.engine.emissions.output_records import AlertRecord, OutputRecord
from slidestat.engine.emissions.rows import Rows
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.shared_keys import SharedKeys
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisRecord, SynopsisTopic
from slidestat.engine.records import NO_TIME, Headers, RecordBatch
from slidestat.errors import SlidestatError, shown
from slidestat.kafka.partitioner import default_partition, expected_places
from slidestat.live.live_query import LiveQuery
from slidestat.live.live_ranking import KeySlice, LiveRanking
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.repartition.keyed_records import KeyReader
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.emission import Emission, Figure
from slidestat.schemas.query import KeyAnswer, RankingAnswer
from slidestat.schemas.ranking import Ranking, decode_ranking
from slidestat.schemas.sequence import decode_alert_change
from slidestat.testing.records import NO_TIMESTAMP, EventWriter, MemoryStore, SourceRecord, tick_at

_FETCH_RECORDS = 10_000
_ALL_KEYS = 2**31
_REGISTRY = "mock://slidestat-testing"


@dataclass
class _Partition:
    """The parts that outlive a crash: the log, the table, and where reading starts again."""

    log: list[SourceRecord] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    committed: int = 0


class TopologyDriver:
    """A driver that runs a topology on the records that you send: a worker's code, without Kafka's.
    A record is read in the call that sends it, and its results are there when the call returns.
    Event time is that of the events: windows are emitted when events after their end come, or by
    `advance_to` and `close_windows`. `partitions` is the source's number of partitions; a record
    goes where Kafka's clients would send its key, or to the one that is given: a key that is on two
    partitions stops it with a SlidestatError, as it does a worker. With `repartition` a record goes
    to the partition of the topology's key, wherever it comes from. `alerts` has the changes of the
    topology's alerts; `published` has what the partitions publish for a referee, again after a
    restart.

    `schemas` are those of a source in Avro or Protobuf, as their text, by their numbers or GUIDs in
    the registry; events are sent by the last one, whose GUID is in a header.
    """

    def __init__(
        self,
        topology: Topology,
        partitions: int = 1,
        schemas: Mapping[int | str, str] = MappingProxyType({}),
    ) -> None:
        if type(partitions) is not int or partitions < 1:
            raise SlidestatError(f"partitions is {shown(partitions)}.", "Give a number from 1 on.")
        if not isinstance(schemas, Mapping):
            raise SlidestatError(f"schemas is {shown(schemas)}.", "Give a dictionary: {1: TEXT}.")
        self._schemas = schemas
        self._partitions = [_Partition() for _ in range(partitions)]
        self._take_up(topology)
        self.emissions: list[Emission] = []
        self.alerts: list[AlertChange] = []
        self.late: list[Letter] = []
        self.dead_letters: list[Letter] = []
        self.published: list[SynopsisRecord] = []
        self._moved_by = KeyReader(topology) if topology.repartition else None
        self._sent: set[OutputRecord] = set()
        self._settled: set[tuple[int, int]] = set()
        self._of_key: dict[str, list[Emission]] = {}
        self._listed: tuple[str, ...] = ()
        self._processors = self._start()

    def send(
        self,
        *events: Mapping[str, Any],
        key: str | None = None,
        partition: int | None = None,
        timestamp: int = NO_TIMESTAMP,
    ) -> None:
        """Send events in the source's format, under the Kafka key `key`, or each under the one in
        its key field; all of a call come in one fetch. `timestamp` is that of their records, in
        milliseconds.
        """
        given = None if key is None else _key_of_text(key)
        records = []
        for event in events:
            value, headers = self._writer.write(event)
            kafka_key = self._kafka_key(event, value, headers) if given is None else given
            records.append(SourceRecord(kafka_key, value, timestamp, headers))
        self._come(records, partition)

    def send_bytes(
        self,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int = NO_TIMESTAMP,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Send records of any bytes, also bad ones, under one Kafka key and with the same headers.
        None is a record without a value.
        """
        for name, given in (("key", key), *(("a value", value) for value in values)):
            if not isinstance(given, bytes | None):
                raise SlidestatError(
                    f"{name} is {shown(given)}, and no bytes.",
                    "Give bytes, such as those of bytes(...) or text.encode(), or None.",
                )
        _check_headers(headers)
        self._come([SourceRecord(key, value, timestamp, headers) for value in values], partition)

    @property
    def left_out(self) -> dict[str, int]:
        """The number of counted events that each statistic left out, as they lack its field."""
        counters = (processor.reached.counters for processor in self._processors)
        return sum(counters, Counters()).left_out

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The emissions as the rows that a topology with `output_shape="rows"` writes, in order.

        Raises SlidestatError for a topology that cannot write such.
        """
        topology = self.topology
        check_rows(topology.statistics, topology.named_figures, topology.row_columns)
        rows = Rows(topology)
        return [row for emission in self.emissions for row in rows.of(emission)]

    def expect(self, *keys: str) -> None:
        """Have the topology's `expected_topic` list these keys from now on, and no others.

        Raises SlidestatError for a topology that has none.
        """
        if not self.topology.expected_topic:
            raise SlidestatError(
                "The topology has no expected_topic.", "Declare one, or give the keys in expected."
            )
        self._listed = keys
        places = self._expected()
        self._shared_keys.expect(places)
        for number, processor in enumerate(self._processors):
            processor.expect(places)
            self._shared_keys.look(number, processor.key_sample)

    def advance_to(self, time: int) -> None:
        """Let the watermark of every partition reach `time`, in milliseconds: windows that end by
        then are emitted, and events from before then are late from now on.

        No single record moves event time. So each partition that is behind is sent some at `time`
        plus the lateness, until most of its last ones have come as far, as if the topology's
        condition left them out: they are counted nowhere. Raises SlidestatError if all are further
        on, and for a time that no event may have.
        """
        _check_whole("time", time)
        earliest = min(processor.watermark for processor in self._processors)
        if time < earliest:
            raise SlidestatError(
                f"Event time is at {earliest} already: it cannot go back to {shown(time)}.",
                "Advance to a later time.",
            )
        event_time = time + self.topology.lateness_ms
        times = self.topology.times
        if not times.earliest <= event_time < times.latest:
            raise SlidestatError(
                f"{shown(event_time)} is no time that an event may have.",
                f"Give a number below {times.latest:,}."
                if times.is_sequence
                else "Give milliseconds since 1970; events lie from 1980 to 2100.",
            )
        for number, processor in enumerate(self._processors):
            for _ in range(RECORDS):
                if processor.watermark < time:
                    self._send([tick_at(event_time)], number)

    def close_windows(self) -> None:
        """Let so much time pass that nothing is left to emit: every event has left every window."""
        topology = self.topology
        newest = max(processor.newest_time for processor in self._processors)
        if newest == NO_TIME:
            return
        span = 0 if topology.span_length.of_events else topology.span_length.length
        self.advance_to(newest + span + topology.every_ms)

    def idle_until(self, now: int) -> None:
        """Let the wall clock advance to `now`, in milliseconds, without a record. If the topology
        has an `idle`, what is not yet emitted is emitted provisionally. A partition with
        provisional alerts first makes its work durable, as a worker must before it writes them.
        """
        _check_timestamp("now", now)
        if self.topology.idle_ms:
            for number, processor in enumerate(self._processors):
                self._look_ahead(processor, now)
                if processor.has_to_tell:
                    self._commit(number)
                    self._look_ahead(processor, now)
                ahead = processor.published_ahead(now)
                self.published += self._synopses.records(ahead, number, provisional=True)

    def commit(self) -> None:
        """Make durable what was done so far, as a worker does each second."""
        for number in range(len(self._partitions)):
            self._commit(number)

    def restart(self) -> None:
        """Crash, and continue from the last commit, or from the first record without one.

        Records that a worker would then write again, under the same keys and with the same bytes,
        are in the lists once; one with other bytes is listed after the first.
        """
        self._processors = self._start()
        for number, partition in enumerate(self._partitions):
            self._read(number, partition.committed)

    def change_statistics(self, topology: Topology) -> None:
        """Commit, stop, and continue as `topology`, which may have other statistics, as a worker
        with --change-statistics does. New ones begin now, and their figures are marked with
        `counted_from_ms`.

        Raises SlidestatError for a topology that differs otherwise, as a worker does.
        """
        self.commit()
        before = self.topology
        self._take_up(topology)
        try:
            self._processors = self._start(change_statistics=True)
        except SlidestatError:
            self._take_up(before)
            raise
        self.commit()
        for number, partition in enumerate(self._partitions):
            self._read(number, partition.committed)

    def figure(
        self,
        key: str,
        statistic: str,
        window: str | None = None,
        *,
        at: int | None = None,
        quantile: float | None = None,
        item: str | None = None,
        at_least: float | None = None,
        below: float | None = None,
    ) -> Figure:
        """Return the key's figure in the emission with the window end `at`, by default the newest.

        `window` is a length such as "5m" or "100 events", the name of a window of the calendar such
        as "today", None for a derived figure and for one of all events. The other parameters select
        one of several figures of a statistic. Raises SlidestatError if there is no such figure, or
        more than one.
        """
        emissions = [e for e in self._of_key.get(key, ()) if at in (None, e.window_end_ms)]
        if not emissions:
            ends = [emission.window_end_ms for emission in self._of_key.get(key, ())]
            raise SlidestatError(
                f"There is no emission of {key!r}" + (f" at {shown(at)}." if ends else "."),
                f"Its windows end at {ends}." if ends else f"There are {sorted(self._of_key)}.",
            )
        # The newest end, and of two of them the one that came last: it replaces the other.
        emission = max(reversed(emissions), key=lambda e: e.window_end_ms)
        of_window: tuple[object, ...] = (None, None)
        if window in CALENDAR_WINDOWS:
            of_window = (window,)
        elif window is not None:
            n = window_length(window, "window")
            of_window = (None, n.length) if n.of_events else (n.length, None)
        wanted = {"quantile": quantile, "item": item, "at_least": at_least, "below": below}
        found = [
            figure
            for figure in emission.figures
            if figure.statistic == statistic
            and _of_window(figure) == of_window
            and all(value in (None, getattr(figure, name)) for name, value in wanted.items())
        ]
        if len(found) != 1:
            names = dict.fromkeys(figure.statistic for figure in emission.figures)
            near = [figure for figure in emission.figures if figure.statistic == statistic]
            raise SlidestatError(
                f"{len(found)} figures of {key!r} are {statistic!r} in the window {window!r}.",
                f"Choose among {[msgspec.to_builtins(figure) for figure in near]}."
                if near
                else f"There are {', '.join(names)}.",
            )
        return found[0]

    def query(
        self,
        key: str,
        windows: Sequence[str] = (),
        statistics: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        where: str | None = None,
        ranks: Sequence[float] = (),
        items: Sequence[str] = (),
        ago: str | None = None,
    ) -> KeyAnswer | None:
        """Return the key's figures as `slidestat query` returns them: over any windows up to the
        span, as of the watermark or `ago` before it; None for a key that has none.

        Raises SlidestatError, naming the parameter, for what the topology does not keep.
        """
        asked = windows, statistics, quantiles, where, ranks, items, ago
        question = LiveQuery(self.topology, *asked)
        answers = (question.answer(each.view(), key) for each in self._processors)
        return next((_as_sent(answer) for answer in answers if answer is not None), None)

    def ranking(
        self, by: str, *, largest: int | None = None, smallest: int | None = None, having: str = ""
    ) -> RankingAnswer:
        """Return the keys with the largest figures, or the smallest, as `slidestat top` shows them,
        as of the watermark. There are 10 unless a number is given.

        Raises SlidestatError, naming the parameter, if there is no such figure.
        """
        question = LiveRanking.of_sizes(self.topology, by, largest, smallest, having)
        parts = []
        for processor in self._processors:
            view = processor.view()
            parts.append(question.part(KeySlice.of(view, list(view.keys("", "", _ALL_KEYS)))))
        return _as_sent(question.answer(question.joined(parts)))

    def _take_up(self, topology: Topology) -> None:
        if not isinstance(topology, Topology):
            raise SlidestatError(
                f"topology is {shown(topology)}.", "Give a Topology; load_topology reads a file's."
            )
        self.topology = topology
        self._synopses = SynopsisTopic(topology, len(self._partitions))
        self._writer = EventWriter(topology, self._schemas)
        self._decoder = TickDecoder(topology, self._writer.schemas)
        self._codec = JsonCodec() if topology.writes_rows else emission_codec(topology, _REGISTRY)

    def _start(self, *, change_statistics: bool = False) -> list[PartitionProcessor]:
        places = self._expected()
        processors = [
            PartitionProcessor(
                self.topology,
                self.topology.events_topic,
                number,
                partition.store,
                self._decoder,
                self._codec,
                expected=places,
                change_statistics=change_statistics,
            )
            for number, partition in enumerate(self._partitions)
        ]
        self._shared_keys = SharedKeys(self.topology, places)
        for number, processor in enumerate(processors):
            self._shared_keys.look(number, processor.key_sample)
        return processors

    def _expected(self) -> dict[str, int]:
        keys = (*self.topology.expected, *self._listed)
        return expected_places(keys, len(self._partitions))

    def _come(self, records: Sequence[SourceRecord], partition: int | None) -> None:
        """Send on records of the source, by the topology's key if they have it to move."""
        for record in records[:1]:  # All of a call have one.
            _check_timestamp("timestamp", record.timestamp)
        if self._moved_by is None or not records:
            self._send(records, partition)
            return
        keys, values, timestamps, headers = zip(*records, strict=True)
        moved_by, _ = self._moved_by.read(values, keys, timestamps, headers)
        moved = zip(records, moved_by, strict=True)
        self._send([r if k is None else r._replace(key=k.encode()) for r, k in moved], None)

    def _send(self, records: Iterable[SourceRecord], partition: int | None) -> None:
        count = len(self._partitions)
        if partition is not None and (
            not isinstance(partition, Integral) or not 0 <= partition < count
        ):
            raise SlidestatError(
                f"There is no partition {shown(partition)}.", f"They are 0 to {count - 1}."
            )
        starts = [len(p.log) for p in self._partitions]
        for record in records:
            number = partition
            if number is None:
                number = 0 if record.key is None else default_partition(record.key, count)
            self._partitions[number].log.append(record)
        for number, start in enumerate(starts):
            self._read(number, start)

    def _read(self, number: int, start: int) -> None:
        """Process a partition's log from `start` on."""
        for first, records in _fetches(self._partitions[number].log, start):
            keys, values, timestamps, headers = map(list, zip(*records, strict=True))
            offsets = np.arange(first, first + len(records), dtype=np.int64)
            source = self.topology.events_topic
            batch = RecordBatch(source, number, offsets, keys, values, timestamps, first, headers)
            processor = self._processors[number]
            effects = processor.process(batch)
            self._shared_keys.look(number, processor.key_sample)
            self._take(effects.emissions)
            self._take_alerts(effects.alerts)
            self.published += self._synopses.records(effects.published, number)
            for letters, kept in (
                (effects.dead_letters, self.dead_letters),
                (effects.late, self.late),
            ):
                new = [letter for letter in letters if (number, letter.offset) not in self._settled]
                self._settled.update((number, letter.offset) for letter in new)
                kept += new

    def _look_ahead(self, processor: PartitionProcessor, now: int) -> None:
        for effects in processor.provisional(now):
            self._take(effects.emissions)
            self._take_alerts(effects.alerts)

    def _commit(self, number: int) -> None:
        partition, processor = self._partitions[number], self._processors[number]
        snapshot = processor.snapshot()
        if snapshot is not None:
            rows = [*snapshot.states.items(), (None, snapshot.checkpoint)]
            partition.store.write(rows, snapshot.told)
            processor.written()
            partition.committed = snapshot.next_offset

    def _take(self, records: Iterable[OutputRecord]) -> None:
        for record in records:
            if record in self._sent:
                continue
            self._sent.add(record)
            emission = self._codec.decode(record[1])
            self.emissions.append(emission)
            self._of_key.setdefault(emission.key, []).append(emission)

    def _kafka_key(self, event: Mapping[str, Any], value: bytes, headers: Headers) -> bytes | None:
        """Return the Kafka key by which a producer would partition an event; None without a key."""
        path = self.topology.key_path
        if path is None:
            return None
        if path in self.topology.computed_fields:
            keys = self._decoder.decode([value], [None], [NO_TIMESTAMP], [headers]).keys
            return keys[0].as_py().encode() if len(keys) else None
        found: Any = event
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return str(found).encode() if type(found) in (str, int) else None

    def _take_alerts(self, records: Iterable[AlertRecord]) -> None:
        for record in records:
            if record not in self._sent:
                self._sent.add(record)
                self.alerts.append(decode_alert_change(record.value))


_Answer = TypeVar("_Answer", KeyAnswer, RankingAnswer)


def _as_sent(answer: _Answer) -> _Answer:
    """Return an answer as it arrives: what does not exist is null in JSON."""
    return msgspec.json.decode(msgspec.json.encode(answer), type=type(answer))


def _of_window(figure: Figure) -> tuple[object, ...]:
    """Return what identifies the window of a figure: one of the calendar has any length."""
    if figure.window is not None:
        return (figure.window,)
    return figure.window_ms, figure.window_events


def _check_whole(name: str, time: object) -> None:
    if not isinstance(time, Integral):
        raise SlidestatError(f"{name} is {shown(time)}.", "Give whole milliseconds since 1970.")


def _key_of_text(key: object) -> bytes:
    try:
        if isinstance(key, str):
            return key.encode()
    except UnicodeEncodeError:  # Half of a character.
        pass
    raise SlidestatError(f"key is {shown(key)}.", "Give a text; send_bytes takes a key of bytes.")


def _check_headers(headers: object) -> None:
    pairs = headers if isinstance(headers, Sequence) else None
    if pairs is None or not all(
        isinstance(pair, tuple | list)
        and list(map(type, pair)) in ([str, bytes], [str, type(None)])
        for pair in pairs
    ):
        raise SlidestatError(
            f"headers is {shown(headers)}.",
            'Give a list of names with bytes, or None: [("traceparent", b"00-...")].',
        )


def _check_timestamp(name: str, timestamp: int) -> None:
    _check_whole(name, timestamp)
    if not NO_TIMESTAMP <= timestamp < 2**63:
        raise SlidestatError(
            f"{name} is {shown(timestamp)}.", "Give milliseconds since 1970, as Kafka has them."
        )


def _fetches(
    log: Sequence[SourceRecord], start: int
) -> Iterator[tuple[int, Sequence[SourceRecord]]]:
    """Yield the records of a log in fetches, each with the offset of its first record."""
    for _, alike in groupby(log[start:], lambda record: record.is_tick):
        records = list(alike)
        for place in range(0, len(records), _FETCH_RECORDS):
            yield start + place, records[place : place + _FETCH_RECORDS]
        start += len(records)


class RefereeDriver:
    """A driver that runs a referee on what `partitions` partitions of its topology publish of the
    events sent.

    Events go to the partition of their key, or to the one that is given; a partition to which
    nothing is sent is a party that never comes. `parties` is the topology's own driver. For a
    topology with rankings, `rankings` has the rankings.
    """

    def __init__(self, referee: Referee, partitions: int = 1) -> None:
        self.referee = referee
        self.parties = TopologyDriver(referee.of, partitions)
        self.emissions: list[Emission] = []
        self.rankings: list[Ranking] = []
        self.dead_letters: list[Letter] = []
        self._codec = emission_codec(referee, _REGISTRY)
        self._read = 0
        self._offsets = [0] * referee.of.synopsis_partitions(partitions)
        self._processors = [
            RefereeProcessor(referee, referee.source, number, MemoryStore(), self._codec)
            for number in range(len(self._offsets))
        ]

    def send(self, *events: Mapping[str, Any], partition: int | None = None) -> None:
        """Send events as JSON; what comes of them is there when the call returns."""
        self.parties.send(*events, partition=partition)
        self._judge()

    def advance_to(self, time: int) -> None:
        """Let the watermark of every partition reach `time`, as `TopologyDriver.advance_to`.

        One partition after another: in a step that is longer than the referee's patience, those to
        come are given up for a moment, and provisional answers without them come before the final
        ones.
        """
        self.parties.advance_to(time)
        self._judge()

    def idle_until(self, now: int) -> None:
        """Let no event come until the wall clock shows `now`, as `TopologyDriver.idle_until`."""
        self.parties.idle_until(now)
        self._judge()

    def _judge(self) -> None:
        new = self.parties.published[self._read :]
        self._read = len(self.parties.published)
        for number, processor in enumerate(self._processors):
            records = [record for record in new if record.partition == number]
            if not records:
                continue
            first = self._offsets[number]
            self._offsets[number] += len(records)
            batch = RecordBatch(
                self.referee.source,
                number,
                np.arange(first, self._offsets[number], dtype=np.int64),
                [record.key for record in records],
                [record.value for record in records],
                [record.timestamp for record in records],
                first,
            )
            effects = processor.process(batch)
            self.dead_letters += effects.dead_letters
            values = [value for _, value, _ in effects.emissions]
            if self.referee.of.rankings:
                self.rankings += map(decode_ranking, values)
            else:
                self.emissions += map(self._codec.decode, values)
