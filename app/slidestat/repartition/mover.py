"""Move the records of one or several sources to the topology's own topic by their key, each once.

Records and the offsets up to which they were moved are committed in one Kafka transaction. A reader
of committed records alone sees each of them once, whatever breaks off. One mover has all partitions
of the sources, or their order would be that of none: its transactional id is that of all movers of
the topology, so that a new one fences the one before it and aborts what that left open (Kafka's
exactly-once semantics, KIP-98), before it asks how far that one had come.

A record's key becomes the key that the topology reads of it, and librdkafka places it as Kafka's
own clients do (murmur2). A record without one stays as it is, on a partition by its offset, for the
topology to make a dead letter of it. Values, headers and timestamps stay in any case, but for the
headers of a record of which the name of one is no UTF-8: it has none then. A record of one of
several sources has a header more, with where it was.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.read.open_transactions import OpenTransactions
from slidestat.kafka.read.same_log import first_difference, mark_of
from slidestat.kafka.read.scan import headers_of
from slidestat.kafka.retries import NOT_THERE, ask_again, passes
from slidestat.kafka.settings import client_config
from slidestat.kafka.topic_identity import Asked, asked_for, identities, told
from slidestat.kafka.transactional_producer import (
    IN_DOUBT,
    LOOK_AT_COORDINATORS,
    ConnectionWatch,
    Failure,
    LostError,
    failure_of,
    made_in_time,
    served,
)
from slidestat.log import log_event
from slidestat.options import COMPRESSION
from slidestat.pauses import Reminder
from slidestat.repartition.keyed_records import KeyReader
from slidestat.repartition.merge_order import MergeOrder
from slidestat.repartition.moved_from import (
    MOVED_FROM,
    Behind,
    Move,
    Place,
    TopicsNow,
    in_all,
    mover_id,
    offsets_of,
    starts_of,
    topics_now,
)

# Produce records to a topology's own topic in transactions, with the offsets they came from.

_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 1_000_000_000

# A record, the key by which it goes, None without one, and its timestamp. A plain tuple, as making
# a named one takes as long as producing the record.
KeyedRecord = tuple[Message, str | None, int]


class Transactions:
    """The transactions of a mover, one after another, each begun by its first record.

    Methods raise KafkaException for a record that the broker refused, and for an error that cannot
    be retried, or that may not because `goes_on()` is false; LostError after a commit in doubt, and
    where the client does not return: the next transaction must be that of a new mover.
    """

    def __init__(self, bootstrap: str, topology: Topology, goes_on: Callable[[], bool]) -> None:
        self._topic = topology.events_topic
        self._notes_origin = bool(topology.sources)
        self._goes_on = goes_on
        self._is_open = False
        self._refused: KafkaError | None = None
        self._watch = ConnectionWatch()
        self._producer = Producer(
            {
                **client_config(bootstrap),
                **self._watch.settings(),
                "transactional.id": mover_id(topology),
                "partitioner": "murmur2_random",
                "compression.type": COMPRESSION.value,
                "linger.ms": 5,
                "message.max.bytes": _MAX_MESSAGE_BYTES,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
            }
        )

    def take_over(self) -> None:
        """Fence the mover before, and abort what it left open."""
        self._until_done(self._producer.init_transactions)

    def send(self, records: Sequence[KeyedRecord], partitions: int) -> None:
        """Queue records for a topic of so many partitions; a timestamp of 0 would mean now."""
        if not records:
            return
        self._open()
        produce, topic = self._producer.produce, self._topic
        for message, key, timestamp in records:
            value = message.value()
            headers: list[Any] = [*headers_of(message)]
            if self._notes_origin:
                place = f"{message.topic()}/{message.partition()}/{message.offset()}"
                headers.append((MOVED_FROM, place.encode()))
            own: str | bytes | None = key
            partition = -1
            if key is None:
                own, partition = message.key(), (message.offset() or 0) % partitions
            while True:
                try:
                    produce(
                        topic,
                        value,
                        own,
                        partition,
                        timestamp=timestamp or 1,
                        headers=headers or None,  # quicker than an empty list
                    )
                except BufferError:
                    served(self._producer.poll, 0.05)
                    self._raise_refusal()
                else:
                    break
        served(self._producer.poll, 0.0)

    def commit(
        self, offsets: list[TopicPartition], group: Any, confirm: Callable[[], None]
    ) -> None:
        """Commit what was sent, and with it the offsets of a consumer's group, unless `confirm`,
        which is called last of all, raises an error.
        """
        self._open()
        served(self._producer.poll, 0.0)
        self._watch.has_lost_one = False
        send_offsets = self._producer.send_offsets_to_transaction
        self._until_done(
            lambda timeout_s: made_in_time(lambda: send_offsets(offsets, group, timeout_s))
        )
        confirm()
        self._until_done(self._producer.commit_transaction)
        self._is_open = False
        served(self._producer.poll, 0.0)
        if self._watch.has_lost_one:
            raise LostError(IN_DOUBT)

    def listen(self) -> None:
        """Take in what the client logs, also where nothing is moved."""
        self._watch.listen(self._producer)

    def close(self) -> None:
        """End the client: it and what it calls hold each other, until the garbage is collected."""
        del self._producer

    def _open(self) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True

    def _until_done(self, call: Callable[[float], object]) -> None:
        """Make a call, again where it took too long, which is logged if it lasts."""
        reminder = Reminder()
        reminder.put_off()
        while True:
            try:
                served(call, _TIMEOUT_S)
                return
            except KafkaException as error:
                self._raise_refusal()
                if failure_of(error.args[0]) is not Failure.RETRY or not self._goes_on():
                    raise
                if reminder.is_due():
                    log_event(
                        "repartition waits",
                        f"nothing is moved to {self._topic}, as the brokers hold up its"
                        f" transactions ({LOOK_AT_COORDINATORS})",
                        topic=self._topic,
                    )

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error

    def _raise_refusal(self) -> None:
        if self._refused is not None:
            raise KafkaException(self._refused)


_FETCH_RECORDS = 10_000
# Records are gathered, and put in order, for this time before they are moved.
_GATHER_S = 0.05
# The time after which a fetch reports that it has found an end; until then the others wait.
_FETCH_WAIT_MS = 20
# A transaction is open for this long: with records that a consumer may wait for, and with a
# backlog.
_COMMIT_S, _BACKLOG_COMMIT_S = 0.1, 1.0
# Brokers forget offsets by the time of their commit: they are committed again. All are, each time,
# for no partition's may be forgotten before the others'.
_COMMIT_AGAIN_S = 3_600.0
_LOOK_S = 5.0
# The lag is measured this often, and taken for known for this long.
_MEASURE_S, _KNOWN_S = 1.0, 30.0
# The most records and bytes that wait for their turn, over all partitions.
_HELD_RECORDS, _HELD_BYTES = 100_000, 64 * 2**20
_LEAST_RECORDS, _LEAST_BYTES = 1_000, 2**18


class Mover:
    """A mover of records, which runs while `goes_on()`.

    `run` raises SlidestatError for what a person must correct, LostError and KafkaException for any
    other error: another mover may then begin where this one committed last.
    """

    def __init__(self, move: Move, goes_on: Callable[[], bool]) -> None:
        self._move = move
        self._goes_on = goes_on
        # When it was measured, and by the source. Read by other threads.
        self._behind: tuple[float, Mapping[str, Behind]] | None = None
        self._topology = move.topology
        self._topic = move.topology.events_topic
        self._reader = KeyReader(move.topology)
        self._open_transactions = OpenTransactions()
        self._left_out: frozenset[str] = frozenset()
        self._places: list[Place] = []
        self._paused: set[int] = set()
        config = client_config(move.bootstrap)
        self._admin = AdminClient(config)
        self._transactions = Transactions(move.bootstrap, move.topology, goes_on)
        self._consumer = Consumer(
            {
                **config,
                "group.id": mover_id(move.topology),
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "queued.max.messages.kbytes": 16 * 1024,
            }
        )

    @property
    def behind(self) -> Mapping[str, Behind] | None:
        """The lag by the source; None until it is known, and where nothing could be committed for
        half a minute.
        """
        if self._behind is None:
            return None
        at, behind = self._behind
        return behind if time.monotonic() - at < _KNOWN_S else None

    def run(self) -> None:
        """Take over from the mover before, and move until `goes_on()` is false."""
        try:
            self._transactions.take_over()
            self._begin(topics_now(self._admin, self._topology))
            while self._goes_on():
                self._fetch()
                taken = self._order.take()
                self._transactions.send(taken, self._now.of_all.partitions)
                self._note_last(taken)
                self._pace()
                self._transactions.listen()
                if time.monotonic() >= self._due:
                    self._commit()
                if time.monotonic() >= self._look_due:
                    self._look()
            self._commit()
        finally:
            self._consumer.close()
            self._transactions.close()

    # Where to begin.

    def _begin(self, now: TopicsNow) -> None:
        starts = starts_of(self._move, self._admin, now)
        # The marks of the last records that were moved, and of those that were read: by them a log
        # is recognised.
        self._marks = {place: it.mark for place, it in starts.items() if it.mark is not None}
        self._read = dict(self._marks)
        self._keep(now)
        if self._topology.has_pattern:
            sources = sorted(self._now.notes)
            log_event(
                "repartition sources",
                f"{self._topology.name}: the sources are {', '.join(sources) or 'none yet'}",
                topology=self._topology.name,
                topics=sources,
            )
        # A client keeps a pause over an assignment.
        self._consumer.resume([TopicPartition(*self._places[number]) for number in self._paused])
        self._paused.clear()
        # Partitions are numbered among those of all sources.
        self._places = self._now.places
        self._numbers = {place: number for number, place in enumerate(self._places)}
        self._order = MergeOrder[KeyedRecord](
            {self._numbers[place]: start.offset for place, start in starts.items()},
            self._topology.lateness_ms,
        )
        # Where partitions are read up to, of which nothing was fetched since.
        self._ends: dict[int, int] = {}
        self._committed: dict[Place, int] = {}
        self.has_moved = False
        self._due = self._again_due = self._measure_due = 0.0
        self._awaiting = Reminder()
        self._awaiting.put_off()
        self._look_due = time.monotonic() + _LOOK_S
        self._consumer.assign([TopicPartition(*place, it.offset) for place, it in starts.items()])
        # A topic has its note before it has a record, of an aborted transaction even.
        self._commit()

    def _keep(self, now: TopicsNow) -> None:
        """Take these topics for those that there are, and log which are left out from now on."""
        compacted = "it is compacted; if it has events, set cleanup.policy=delete for it"
        written = "workers of another topology write it; if it is meant, name it among the sources"
        left_out = dict.fromkeys(now.compacted, compacted) | dict.fromkeys(now.written, written)
        for topic in sorted(left_out.keys() - self._left_out):
            log_event(
                "repartition leaves out",
                f"{self._topology.name}: {topic} matches {self._topology.sources_text} and is left"
                f" out, as {left_out[topic]}",
                topology=self._topology.name,
                topic=topic,
            )
        self._now, self._left_out = now, frozenset(left_out)

    # Records.

    def _fetch(self) -> None:
        found: list[Message] = []
        for message in self._consumer.consume(_FETCH_RECORDS, _GATHER_S):
            error = message.error()
            if error is None:
                found.append(message)
                self._ends.pop(self._number(message), None)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[self._number(message)] = message.offset() or 0
            elif error.code() in NOT_THERE:
                self._look_due = 0.0
            elif not passes(error):
                raise KafkaException(error)
        self._add(found)
        # An end is told once, also where a transaction begins there later and stays open.
        for number, end in self._ends.items():
            if self._waits_for_transaction(number):
                self._order.await_more(number)
            else:
                self._order.reach_end(number, end)

    def _waits_for_transaction(self, number: int) -> bool:
        """Return whether only records behind an open transaction are left of a partition."""
        return number in self._ends and self._ends[number] < self._high(number)

    def _number(self, message: Message) -> int:
        return self._numbers[str(message.topic()), message.partition() or 0]

    def _high(self, number: int) -> int:
        """Return the end of a partition at the last fetch; negative if nothing was fetched."""
        place = TopicPartition(*self._places[number])
        return int(self._consumer.get_watermark_offsets(place, cached=True)[1])

    def _add(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        values = cast(list[bytes | None], [message.value() for message in messages])
        own_keys = cast(list[bytes | None], [message.key() for message in messages])
        timestamps = [max(0, message.timestamp()[1]) for message in messages]
        keys, times = self._reader.read(
            values, own_keys, timestamps, [headers_of(message) for message in messages]
        )
        partitions = np.fromiter(map(self._number, messages), np.int64, len(messages))
        offsets = np.array([message.offset() for message in messages], np.int64)
        sizes = np.array([len(message) for message in messages], np.int64)
        records = list(zip(messages, keys, timestamps, strict=True))
        for number in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == number)
            own = [records[row] for row in rows.tolist()]
            self._require_same_log(number, own)
            self._order.add(number, offsets[rows], times[rows], sizes[rows], own)

    def _require_same_log(self, number: int, records: Sequence[KeyedRecord]) -> None:
        """Compare the log with what was read of it where another leader has appended since; raises
        LostError where it is another one: then it is read again from what was committed.
        """
        place = self._places[number]
        before = self._read.get(place)
        for first, last in _by_leader(records):
            if before is not None and first.leader_epoch() not in (None, before.leader_epoch):
                other = first_difference(self._move.bootstrap, *place, before)
                if other is not None:
                    raise LostError(
                        "{}/{} is another log".format(*place) + f" from offset {other} on"
                    )
            self._read[place] = before = mark_of(last)

    def _note_last(self, records: Sequence[KeyedRecord]) -> None:
        """Note the last record of each partition among those that were sent."""
        last: dict[Place, Message] = {}
        for message, _, _ in reversed(records):
            last.setdefault((str(message.topic()), message.partition() or 0), message)
            if len(last) == len(self._places):
                break
        self._marks.update({place: mark_of(message) for place, message in last.items()})

    def _pace(self) -> None:
        """Pause partitions with many waiting records; resume all once few records wait."""
        count = max(1, len(self._places))
        most = max(_LEAST_RECORDS, _HELD_RECORDS // count), max(_LEAST_BYTES, _HELD_BYTES // count)
        for number, (source, partition) in enumerate(self._places):
            records, size = self._order.waiting(number)
            place = TopicPartition(source, partition)
            needs_more = self._order.needs_more(number)
            is_much = records > most[0] or size > most[1]
            is_little = 2 * records < most[0] and 2 * size < most[1]
            if number not in self._paused and is_much and not needs_more:
                self._consumer.pause([place])
                self._paused.add(number)
            elif number in self._paused and (is_little or needs_more):
                self._consumer.resume([place])
                self._paused.discard(number)

    def _commit(self) -> None:
        now = time.monotonic()
        positions = {
            place: self._order.position(number) for number, place in enumerate(self._places)
        }
        if positions != self._committed or now >= self._again_due:
            # All of it was fetched before: so it is of the topics that are there now. The answer is
            # on its way while the offsets are. A pattern may have hundreds of sources: only those
            # are asked for that records are moved of.
            moved = {
                place[0] for place, it in positions.items() if it != self._committed.get(place)
            }
            asked = asked_for(self._admin, [*sorted(moved), self._topic], _TIMEOUT_S)
            offsets = offsets_of(self._topology, positions, self._now, self._marks)
            group = self._consumer.consumer_group_metadata()
            self._transactions.commit(offsets, group, lambda: self._confirm(asked))
            self.has_moved |= bool(self._committed and moved)
            self._committed, self._again_due = positions, now + _COMMIT_AGAIN_S
        if now >= self._measure_due:
            self._measure(positions)
            self._measure_due = now + _MEASURE_S
        self._due = time.monotonic() + (_BACKLOG_COMMIT_S if self._paused else _COMMIT_S)

    def _measure(self, positions: Mapping[Place, int]) -> None:
        """Note how far it is behind, by the ends that the last fetches found."""
        found: dict[str, list[Behind]] = {}
        for number, place in enumerate(self._places):
            end = self._high(number)
            if end < 0:
                return  # Nothing was fetched of it.
            first = self._order.first(number)
            one = Behind(max(0, end - positions[place]), None if first is None else first[2])
            found.setdefault(place[0], []).append(one)
        behind = {source: in_all(each) for source, each in found.items()}
        self._behind = time.monotonic(), behind

    # Looks.

    def _confirm(self, asked: Asked) -> None:
        """Raise an error unless the topics are still those of the notes, by their ids."""
        try:
            found = told(asked)
        except KafkaException:
            found = ask_again(lambda: identities(self._admin, asked, _TIMEOUT_S), _TIMEOUT_S)
        if gone := sorted(asked.keys() - found.keys()):
            raise LostError(f"{', '.join(gone)} is not there: what is left is looked up")
        own = found[self._topic].topic_id
        for source in asked.keys() - {self._topic}:
            note = self._now.notes[source]
            if (found[source].topic_id, own) != (note.source_id, note.topic_id):
                raise self._made_anew(source)

    def _made_anew(self, source: str) -> SlidestatError:
        return SlidestatError(
            f"{self._topology.name}: {source!r} or {self._topic!r} was made anew, or has more"
            " partitions, while records were moved.",
            "Start the worker again: it says what has changed.",
        )

    def _look(self) -> None:
        """Look every few seconds at the topics, and at the partitions that are waited for."""
        self._look_due = time.monotonic() + _LOOK_S
        found = topics_now(self._admin, self._topology, self._now.notes)
        for source, note in self._now.notes.items():
            if found.notes.get(source, note) != note:
                raise self._made_anew(source)
        if gone := sorted(self._now.notes.keys() - found.notes.keys() - found.written):
            # Offsets of it cannot be committed.
            raise LostError(f"{', '.join(gone)} was deleted, with what was not moved of it")
        if found.source_partitions != self._now.source_partitions:
            self._commit()
            self._begin(found)
        else:
            self._keep(found)
        self._open_transactions.look(
            {
                self._places[number]: (end, self._high(number))
                for number, end in self._ends.items()
                if self._waits_for_transaction(number)
            }
        )
        awaited = [
            number for number in self._order.awaited if not self._waits_for_transaction(number)
        ]
        if not awaited:
            self._awaiting.put_off()
        elif self._awaiting.is_due():
            places = ["{}/{}".format(*self._places[number]) for number in awaited]
            log_event(
                "repartition waits",
                f"{self._topology.name}: nothing is moved beyond the partitions"
                f" {', '.join(places)}, from which no answer has come: their broker may be down",
                topology=self._topology.name,
                partitions=places,
            )


def _by_leader(records: Sequence[KeyedRecord]) -> Iterator[tuple[Message, Message]]:
    """Yield the first and the last of the records that each leader of a partition has appended."""
    first, last = records[0][0], records[-1][0]
    if first.leader_epoch() == last.leader_epoch():  # Epochs never fall.
        yield first, last
        return
    for _, some in groupby((message for message, _, _ in records), lambda one: one.leader_epoch()):
        own = list(some)
        yield own[0], own[-1]
