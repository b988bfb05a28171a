"""Faust, with batches: an agent receives all that one fetch brought for one partition at once.

Faust makes a message of every record, which costs it most of its time. Here a fetched partition of
a batch topic is one message whose value is a RecordBatch and whose offset is that of its last
record. Changelog topics are delivered as Faust always does.

Offsets of batch topics are not derived from acknowledged messages. Faust's tracking would take the
records inside a batch for a gap; and what may be committed depends on what has been written, not on
what an agent has seen. So the owner of the state returns, at each commit, the offsets up to which
everything is durable (`BatchApp.before_commit`), and exactly those are committed.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import ceil, inf
from typing import Any, NamedTuple, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, OffsetMetadataTooLargeError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from faust.web.base import Web

from slidestat.engine.records import RecordBatch
from slidestat.errors import EndedError
from slidestat.faust.bootstrap import BootstrapContact
from slidestat.faust.broker_contact import refused, until_told
from slidestat.kafka.fetches.columns import FetchedColumns, Fetches, keep_fetched_bytes
from slidestat.kafka.fetches.record_kernel import load_kernels
from slidestat.live.batch_traces import BatchTraces, now_ns
from slidestat.log import log_event

# The time that a fetch waits for more records, on topics that bring a few all the time.

# Shorter waits wake a worker for each record: at 1,000 events/s that costs ten times what the
# events do.
_WAIT_MS, _BYTES = 50, 64 * 2**10
# Records lead to no output before the next tick: a fetch waits for it, but for no longer than this.
_LONGEST_WAIT_MS = 250
# Fetches wait this long once the tick is due: its figures come so much later if it was not passed.
_DUE_WAIT_MS = 5
# A fetch that a broker ends by its clock comes so much later than one that has its bytes.
_TIMER_MS = 3
# The first record of a tick may come this long after the tick.
_MARGIN_S = 0.002
# And so long after it is due at the latest, of a partition that brings records.
_OVERDUE_S = 0.1
# The rate is that of so many fetches.
_RATE_FETCHES = 8
# Batches of so many records are of a backlog, and are decoded in the thread that fetches. With
# smaller ones it would wait for Python's lock for longer than decoding them takes.
_DECODED_AHEAD = 3_000


class TricklePace:
    """A regulator of how long aiokafka's fetches wait, and for how many bytes."""

    def __init__(self) -> None:
        # The client's configured settings.
        self._unpaced: tuple[int, int] | None = None
        # When fetches ended, and how many bytes had come by then.
        self._fetches: deque[tuple[float, int]] = deque(maxlen=_RATE_FETCHES)

    def note(self, now: float, size: int) -> None:
        """Note that a fetch has ended, with which `size` bytes have come in all."""
        self._fetches.append((now, size))

    @property
    def _bytes_per_s(self) -> float | None:
        (began, first), (ended, last) = self._fetches[0], self._fetches[-1]
        return (last - first) / (ended - began) if ended > began else None

    def set(self, fetcher: Any, due_in_s: float | None, *, is_trickling: bool) -> None:
        """Have the next fetch wait for more than a record while records come. After a pause the
        first one is brought at once.

        `due_in_s` is how far off the next tick is by the clock, below 0 once it is due; None where
        that is not known.
        """
        if self._unpaced is None:
            self._unpaced = fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes
        paced = trickle_pace(due_in_s, self._bytes_per_s) if is_trickling else self._unpaced
        fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes = paced


def trickle_pace(due_in_s: float | None, bytes_per_s: float | None) -> tuple[int, int]:
    """Return the milliseconds that a fetch waits, and for how many bytes: it ends when the tick is
    due. Then it has the bytes that come until then at this rate, or the time is over.
    """
    if due_in_s is None:
        return _WAIT_MS, _BYTES
    if due_in_s <= 0:
        return _DUE_WAIT_MS, _most_bytes(_DUE_WAIT_MS)
    due_in_ms = ceil(due_in_s * 1000)
    if due_in_ms > _LONGEST_WAIT_MS:
        # The last one before the tick begins well before it.
        wait_ms = min(due_in_ms // 2, _LONGEST_WAIT_MS)
        return wait_ms, _most_bytes(wait_ms)
    if bytes_per_s is None:
        return due_in_ms, _most_bytes(due_in_ms)
    wait_ms = max(due_in_ms - _TIMER_MS, 1)
    size = int(bytes_per_s * (due_in_s + _MARGIN_S))
    return wait_ms, min(max(size, 1), _most_bytes(due_in_ms))


def _most_bytes(wait_ms: int) -> int:
    return _BYTES * wait_ms // _WAIT_MS


class DueTicks:
    """The times at which the next ticks of partitions are due, by the monotonic clock."""

    def __init__(self) -> None:
        self._due_at: dict[int, float] = {}

    def note(self, partition: int, fetched_at: float, due_in_ms: int) -> None:
        """Note how far event time was from the partition's next tick at the end of a batch that
        came at `fetched_at`; 0 if that gives no idea of when the tick is due.

        A batch comes now sooner, now later after its last event: the least delay counts.
        """
        known = self._due_at.pop(partition, -inf)
        if due_in_ms:
            due_at = fetched_at + due_in_ms / 1000
            self._due_at[partition] = due_at if known < fetched_at else min(due_at, known)

    def next(self, now: float) -> float | None:
        """Return when the first tick of any partition is due, None where that is not known. A
        partition that brings nothing does not keep the worker awake.

        Costs the partitions, so it is asked once a fetch; of the thread that fetches, while another
        one notes.
        """
        due = self._due_at.copy().values()
        return min((at for at in due if at > now - _OVERDUE_S), default=None)


# The position of each partition, so that a batch can state which offsets it covers.


class _Reached(NamedTuple):
    """The beginning of a partition's next fetch, and the end of the records before it."""

    position: int
    end: int


class ReadPositions:
    """The positions of the partitions of some topics, followed from fetch to fetch.

    A fetch continues after transaction markers and other offsets without records: there is nothing
    between its beginning and the end of the last batch, unless the position was changed by a seek,
    or because the offset to continue from was gone.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics
        self._reached: dict[TP, _Reached] = {}
        # Where partitions were put; until a record comes.
        self._jumps: dict[TP, int] = {}

    def before_fetch(self, assignment: Any) -> set[TP]:
        """Note the positions that were changed since the last fetch; return the partitions that
        have one. `assignment` is aiokafka's, or None.
        """
        self._note_jumps(assignment)
        positions = self._positions(assignment)
        for tp, position in positions.items():
            reached = self._reached.get(tp)
            if reached is None or reached.position != position:
                self._jumps[tp] = position
        return set(positions)

    def start_of(self, tp: TP) -> int:
        """Return the first offset that a fetched batch covers. Asked once a batch."""
        reached = self._reached.get(tp)
        return self._jumps.pop(tp, reached.end if reached else 0)

    def after_fetch(self, partitions: set[TP], ends: dict[TP, int], assignment: Any) -> None:
        """Note where the next fetch begins. `partitions` had a position before it; `ends` is where
        the batches that it brought end.
        """
        positions = self._positions(assignment)
        for tp in positions.keys() & (partitions | ends.keys()):
            reached = self._reached.get(tp)
            end = ends.get(tp, reached.end if reached else 0)
            self._reached[tp] = _Reached(positions[tp], end)

    def jumped_to(self, tp: TP, offset: int) -> int | None:
        """Return the offset to which a partition was moved, if no record has come from there, and
        none was fetched from `offset` on, else None.
        """
        reached = self._reached.get(tp)
        return None if reached and reached.end > offset else self._jumps.get(tp)

    def read_up_to(self, tp: TP, offset: int) -> int:
        """Return the offset up to which all is read, where all records before `offset` are: behind
        transaction markers, if nothing else was fetched since.
        """
        reached = self._reached.get(tp)
        return max(offset, reached.position) if reached and reached.end <= offset else offset

    def _positions(self, assignment: Any) -> dict[TP, int]:
        consumed = assignment.all_consumed_offsets() if assignment else {}
        return {tp: at.offset for tp, at in consumed.items() if tp.topic in self._topics}

    def _note_jumps(self, assignment: Any) -> None:
        """Have the states of partitions report changes of their position while a fetch waits."""
        for tp in assignment.tps if assignment else ():
            state = assignment.state_value(tp)
            if tp.topic in self._topics and "reset_to" not in vars(state):
                state.reset_to = partial(self._jump, tp, state.reset_to)
                state.seek = partial(self._jump, tp, state.seek)

    def _jump(self, tp: TP, put: Callable[[int], None], position: int) -> None:
        self._jumps[tp] = position
        put(position)


# A killed worker's partitions wait for as long, also when it is started again at once; Faust would
# have them wait for a minute.
SESSION_TIMEOUT_S = 10.0

# Records by partition, and the partitions that may be fetched from; None at the end.
_Fetched = tuple[Mapping[TP, list[Any]] | None, set[TP] | None]

_REBALANCE_CHECK_S = 0.02
# Partitions in the closing line; in JSON all are there.
_TOLD = 8
# A fetch that finds nothing waits for half a second.
_RECENT_FETCH_MS = 2_000


async def _nothing_durable() -> Mapping[TP, int]:
    return {}


async def _nothing() -> None:
    pass


def no_member(group: str, error: BaseException) -> EndedError:
    """Return the error of a worker that is no member of its group any more."""
    return EndedError(
        f"This worker cannot be a member of its group {group!r}: {error!r}.",
        "Check that no consumer of another program is in that group, what its user may do"
        " (`slidestat doctor`), and the brokers' group.max.size and group.min.session.timeout.ms (a"
        f" session has {SESSION_TIMEOUT_S:.0f} s), and start it again: nothing is lost, it reads on"
        " from the last commit.",
    )


def no_client(group: str, error: BaseException) -> EndedError:
    """Return the error of a worker whose consumer reads no further."""
    return EndedError(
        f"The consumer of the group {group!r} has failed: {error!r}.",
        "Start the worker again: nothing is lost, it reads on from the last commit.",
    )


class BatchConsumerThread(AIOKafkaConsumerThread):
    """The thread that fetches, and coalesces what it fetched of batch topics.

    These are read as columns: aiokafka makes an object or two of each record, which would take half
    of a busy worker's time.
    """

    consumer: "BatchConsumer"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.positions = ReadPositions(self.consumer.app.batch_topics)
        self._pace = TricklePace()
        self.contact: BootstrapContact | None = None

    async def on_start(self) -> None:
        """Start the consumer, and have the worker end if it can be no member of its group, or if
        one of the tasks ends without which aiokafka stands still in silence.
        """
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        coordinator = consumer._coordinator
        coordinator._coordination_task.add_done_callback(partial(self._ended, no_member))
        for task in (consumer._fetcher._fetch_task, consumer._client._sync_task):
            task.add_done_callback(partial(self._ended, no_client))
        tell_fetcher = coordinator._push_error_to_user

        def tell(error: Exception) -> Awaitable[None]:
            if not getattr(error, "retriable", False):
                self._end(no_member(self.consumer.app.conf.id, error))
            told: Awaitable[None] = tell_fetcher(error)
            return told

        coordinator._push_error_to_user = tell

    def _ended(
        self, explain: Callable[[str, BaseException], EndedError], task: "asyncio.Task[None]"
    ) -> None:
        """Report the error that ended a task of aiokafka."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(explain(self.consumer.app.conf.id, error.__cause__ or error))

    def _end(self, error: EndedError) -> None:
        """Have the worker end: aiokafka tells who fetches alone, and nobody does before there are
        partitions.
        """
        app = self.consumer.app
        app.loop.call_soon_threadsafe(app.group_lost, error)

    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Faust reads what a producer has taken back, unless it works in transactions itself.
        consumer._isolation_level = "read_committed"
        self.contact = BootstrapContact(consumer)
        plain_commit = consumer.commit

        async def commit(offsets: Mapping[Any, OffsetAndMetadata]) -> None:
            notes = self.consumer.notes
            await plain_commit(
                {
                    tp: OffsetAndMetadata(offset.offset, notes.get(TP(*tp), ""))
                    for tp, offset in offsets.items()
                }
            )

        async def commit_with_notes(offsets: Mapping[Any, OffsetAndMetadata]) -> None:
            try:
                await commit(offsets)
            except OffsetMetadataTooLargeError:
                # This broker's limit is smaller than Kafka's default.
                self.consumer.takes_notes = False
                self.consumer.notes = {}
                await commit(offsets)

        consumer.commit = commit_with_notes
        return consumer

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Check for streams that stand still, as Faust does, which only warns."""
        # aiokafka asserts that a partition has a position, and one just given may have none yet:
        # a worker must not end of it.
        with suppress(AssertionError):
            super().verify_event_path(now, tp)

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the offsets of the first records, as soon as the brokers answer."""
        return await until_told(partial(super().earliest_offsets, *partitions))

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the offsets after the last records, as soon as the brokers answer."""
        return await until_told(partial(super().highwaters, *partitions))

    async def on_thread_stop(self) -> None:
        """Stop fetching."""
        # aiokafka has left the group when it comes to cancel a fetch that waits for a broker, and
        # then takes the cancellation for its own: the thread would die of it, and hold up the rest.
        with suppress(asyncio.CancelledError):
            await super().on_thread_stop()

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Mapping[TP, list[Any]]:
        app = self.consumer.app
        if not isinstance(consumer._fetcher._records, Fetches):
            consumer._fetcher._records = Fetches(app.batch_topics, consumer._fetcher._records)
        partitions = self.positions.before_fetch(_assignment(consumer))
        began_ns = now_ns()
        try:
            fetched_records: Mapping[TP, list[Any]] = await super()._fetch_records(
                consumer, active_partitions, timeout, max_records
            )
        except KafkaError as error:
            if isinstance(error, GroupAuthorizationFailedError):
                raise no_member(app.conf.id, error) from error
            raise refused(error) from error
        now = time.monotonic()
        batches = {
            tp: _as_batch(tp, cast(FetchedColumns, records), self.positions.start_of(tp), now)
            for tp, records in fetched_records.items()
            if tp.topic in app.batch_topics
        }
        for batch in batches.values():
            if len(batch) >= _DECODED_AHEAD:
                # An error here comes again at the batch's turn, and is told then.
                with suppress(Exception):
                    app.decode_ahead(batch)
        if app.traces is not None:
            app.traces.fetched(batches.values(), began_ns)
        ends = {tp: int(batch.offsets[-1]) + 1 for tp, batch in batches.items()}
        self.positions.after_fetch(partitions, ends, _assignment(consumer))
        due_at = app.due_at(now)
        due_in_s = None if due_at is None else due_at - now
        is_trickling = bool(batches) and has_all_of(batches, _assignment(consumer))
        self._pace.note(now, consumer._fetcher._records.bytes)
        self._pace.set(consumer._fetcher, due_in_s, is_trickling=is_trickling)
        return {**fetched_records, **{tp: [batch] for tp, batch in batches.items()}}


def has_all_of(partitions: Iterable[TP], assignment: Any) -> bool:
    """Return whether each of these partitions has been read to its end as of its last fetch. If
    not, the next fetch must not wait: what is left may be less than a fetch waits for.
    """
    states = [assignment.state_value(tp) for tp in partitions if tp in assignment.tps]
    return all(
        state.position >= _readable_end(state) for state in states if state.has_valid_position
    )


def _assignment(consumer: AIOKafkaConsumer) -> Any:
    return consumer._subscription.subscription.assignment


def _readable_end(state: Any) -> int:
    """Return the end for readers of committed records, of aiokafka's state of a partition."""
    end: int = state.highwater if state.lso is None else min(state.lso, state.highwater)
    return end


class BatchConsumer(Consumer):
    """A consumer like Faust's, with batches and with offsets that the app is responsible for."""

    app: "BatchApp"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._durable: dict[TP, int] = {}
        # The metadata for the offsets of the next commit, if the broker takes it.
        self.notes: Mapping[TP, str] = {}
        self.takes_notes = True
        # The end of the last batch that was handed on.
        self._delivered: dict[TP, int] = {}
        self._has_room = asyncio.Event()
        self._has_committed_last = asyncio.Event()

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def on_buffer_drop(self, tp: TP) -> None:
        """Fetch from a partition again, as few of its batches wait."""
        super().on_buffer_drop(tp)
        self._has_room.set()

    async def _wait_next_records(self, timeout: float) -> _Fetched:
        if self.flow_active and self._buffered_partitions and not self._get_active_partitions():
            # Faust would sleep for a second, which costs a fifth of the speed of catching up.
            self._has_room.clear()
            await self.wait_first(self._has_room.wait(), timeout=timeout)
            if not self._get_active_partitions():
                return {}, set()
        fetched: _Fetched = await super()._wait_next_records(timeout)
        return fetched

    async def _getmany(
        self, active_partitions: set[TP] | None, timeout: float
    ) -> Mapping[TP, list[Any]]:
        batch_topics = self.app.batch_topics
        rebalances = self.app.rebalancing_count
        if self.app.rebalancing:
            # Faust lets everything flow to restore tables, then seeks the other partitions, then
            # clears what waits for the agents: a batch fetched meanwhile could vanish.
            active_partitions = {
                tp for tp in active_partitions or () if tp.topic not in batch_topics
            }
            if not active_partitions:
                await self.sleep(_REBALANCE_CHECK_S)
                return {}
        fetched: Mapping[TP, list[Any]] = await super()._getmany(active_partitions, timeout)
        if self.app.rebalancing or self.app.rebalancing_count != rebalances:
            others = {tp: found for tp, found in fetched.items() if tp.topic not in batch_topics}
            if len(others) < len(fetched):
                await self.perform_seek()  # a rebalance overtook the fetch: read it again
            return others
        return fetched

    def jumped_to(self, tp: TP, offset: int) -> int | None:
        """Return the offset at which a partition is read on, if that is not where it was left; None
        if records from `offset` on are on their way, or some have come since.
        """
        return cast(BatchConsumerThread, self._thread).positions.jumped_to(tp, offset)

    @property
    def lost_since(self) -> float | None:
        """The time.monotonic() since when no broker answers this consumer; None while one does."""
        contact = cast(BatchConsumerThread, self._thread).contact
        return None if contact is None else contact.lost_since

    def read_up_to(self, tp: TP, offset: int) -> int:
        """Return the offset up to which all is read, where all records before `offset` are."""
        return cast(BatchConsumerThread, self._thread).positions.read_up_to(tp, offset)

    def waiting(self, tp: TP) -> int:
        """Return how many offsets lie behind a transaction that has not ended, as of the last
        fetch: committed records are read up to the last stable offset.
        """
        assignment = _assignment(self._thread._ensure_consumer())
        if assignment is None or tp not in assignment.tps:
            return 0
        state = assignment.state_value(tp)
        return state.highwater - _readable_end(state) if state.timestamp is not None else 0

    def join_again(self) -> None:
        """Have the group assign partitions to this worker again, if only those that it has."""
        coordinator = self._thread._ensure_consumer()._coordinator
        self._thread.thread_loop.call_soon_threadsafe(coordinator.request_rejoin)

    def is_end(self, tp: TP, offset: int) -> bool:
        """Return whether no record from `offset` on is known or on its way, by a recent fetch; what
        lies behind an open transaction is not.

        A worker that was stopped for a while does not know, and False is returned.
        """
        assignment = _assignment(self._thread._ensure_consumer())
        if self._delivered.get(tp, 0) > offset or tp not in assignment.tps:
            return False
        state = assignment.state_value(tp)
        fetched = state.timestamp
        if fetched is None or not state.has_valid_position:
            return False
        is_recent = time.time() * 1000 - fetched < _RECENT_FETCH_MS
        return is_recent and bool(state.position >= _readable_end(state))

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        if not isinstance(record, RecordBatch):
            return super()._to_message(tp, record)
        self._delivered[tp] = int(record.offsets[-1]) + 1
        return ConsumerMessage(
            record.topic,
            record.partition,
            int(record.offsets[-1]),
            float(record.timestamps[-1]) / 1000,
            0,
            [],
            None,
            cast(bytes, record),  # Faust's "raw" codec hands any value on as it is
            None,
            0,
            0,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the committed offsets; to the beginning where nothing is committed yet.

        aiokafka leaves such partitions where they are. But a fetch that a rebalance interrupted has
        moved them on already, and what it brought was dropped: it would never be read.

        A partition is read from further back where a state needs it: it was left out of the group's
        workers for a while, or is new to them.
        """
        offsets = dict(await super().seek_to_committed())
        unread = [tp for tp, offset in offsets.items() if not offset or offset < 0]
        unread = [tp for tp in unread if tp.topic in self.app.batch_topics]
        for tp, offset in offsets.items():
            if tp.topic in self.app.batch_topics and tp not in unread:
                offsets[tp] = min(offset, self.app.needed_offset(tp))
                if offsets[tp] == 0:
                    unread.append(tp)
                elif offsets[tp] < offset:
                    await self._thread.seek_wait({tp: offsets[tp]})
        if unread:
            await self._thread.seek_to_beginning(*unread)
        return offsets

    async def on_stop(self) -> None:
        """Commit once more, also when a commit is under way: it may not be of all there is."""
        try:
            await self.maybe_wait_for_commit_to_finish()
            await super().on_stop()
            self._tell_committed()
        finally:
            self._has_committed_last.set()

    def _tell_committed(self) -> None:
        """Log what the next worker reads on from; after a crash, there is the crash to tell."""
        offsets = {
            f"{tp.topic}/{tp.partition}": offset
            for tp, offset in sorted(self._committed_offset.items())
            if offset is not None and tp.topic in self.app.batch_topics
        }
        if self.crashed or not offsets:
            return
        told = [f"{place} up to {offset:,}" for place, offset in offsets.items()]
        more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
        text = f"committed: {', '.join(told[:_TOLD])}{more}"
        log_event("committed", text, offsets=offsets)

    async def last_commit(self) -> None:
        """Return when a consumer that stops has committed for the last time, or failed to."""
        await self._has_committed_last.wait()

    async def force_commit(
        self, topics: Iterable[Any] | None = None, start_new_transaction: bool = True
    ) -> bool:
        if self.crashed:
            # The client's thread has ended: a commit would wait for it for ever.
            return False
        self._durable.update(await self.app.before_commit())
        if self.takes_notes:
            self.notes = self.app.commit_notes()
        done = bool(await super().force_commit(topics, start_new_transaction))
        if done and self.app.traces is not None:
            self.app.traces.committed()
        return done

    async def _commit_offsets(
        self, offsets: Mapping[TP, int], start_new_transaction: bool = True
    ) -> bool:
        before = {tp: self._committed_offset[tp] for tp in offsets}
        done = bool(await super()._commit_offsets(offsets, start_new_transaction))
        if not done:
            # Faust notes what the group has refused, too.
            self._committed_offset.update(before)
        return done

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        for tp in super()._filter_tps_with_pending_acks(topics):
            if tp.topic not in self.app.batch_topics:
                yield tp
        for tp in self._durable:
            if topics is None or tp in topics or tp.topic in topics:
                yield tp

    def _new_offset(self, tp: TP) -> int | None:
        if tp.topic not in self.app.batch_topics:
            return super()._new_offset(tp)
        # A rebalance needs acknowledgements for messages in flight; as offsets they would pile up.
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self._durable.pop(tp, None)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        if tp.topic not in self.app.batch_topics:
            await super()._add_gap(tp, offset_from, offset_to)


class BatchTransport(Transport):
    """A transport like Faust's for Kafka, with the batch consumer."""

    Consumer = BatchConsumer


class BatchApp(faust.App):
    """A Faust app whose `batch_topics` arrive as RecordBatch values.

    `before_commit` is awaited before offsets are committed: it makes what it can durable and
    returns, for each partition of the batch topics, the offset from which reading may start again.
    `commit_notes` returns the metadata for the offset of each partition. `needed_offset` is the
    last offset from which a partition may be read, whatever is committed. `due_at` is given the
    monotonic time, and returns when event time reaches the next tick, as of the last batches; None
    where that is not known. `decode_ahead` is called with a large batch in the thread that fetches.
    `make_web` makes its web server.
    `while_restoring` runs until the first tables are restored: timers begin then.
    `topics_error` is the error of its topics, if there is one. `group_lost` is called with the
    error of a worker that cannot be a member of its group, or reads no further. `traces` are those
    of batches, if anybody asks for them.
    """

    batch_topics: frozenset[str] = frozenset()
    before_commit: Callable[[], Awaitable[Mapping[TP, int]]] = staticmethod(_nothing_durable)
    commit_notes: Callable[[], Mapping[TP, str]] = staticmethod(lambda: {})
    needed_offset: Callable[[TP], int] = staticmethod(lambda _: sys.maxsize)
    due_at: Callable[[float], float | None] = staticmethod(lambda _: None)
    decode_ahead: Callable[[RecordBatch], None] = staticmethod(lambda _: None)
    while_restoring: Callable[[], Awaitable[None]] = staticmethod(_nothing)
    make_web: Callable[[], Web]
    topics_error: Callable[[], Exception | None]
    group_lost: Callable[[Exception], None]
    traces: BatchTraces | None = None
    # The numbers of the rebalances that partitions were assigned in, and that have ended.
    _assigned_in = _ended = 0

    @property
    def rebalancing(self) -> bool:
        """Return whether the last rebalance has not ended.

        Faust takes the end of any for that: the one before the last may end, with the recovery of
        its tables, after the last has begun. Records that are read in between would belong to
        nobody's partitions.
        """
        return self._ended != self.rebalancing_count

    @rebalancing.setter
    def rebalancing(self, is_any: bool) -> None:
        """Ignore what Faust takes for it."""

    def on_rebalance_end(self) -> None:
        """Note the end of the rebalance that partitions were assigned in."""
        self._ended = self._assigned_in
        super().on_rebalance_end()

    async def _on_partitions_revoked(self, revoked: set[TP]) -> None:
        # Faust would close the connections of an app that stops, and its last commit would be tried
        # again for ever. No other worker may have its partitions before that commit.
        if self.should_stop:
            await cast(BatchConsumer, self.consumer).last_commit()
        else:
            await super()._on_partitions_revoked(revoked)

    async def _on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        if not self.should_stop:
            self._assigned_in = self.rebalancing_count
            await super()._on_partitions_assigned(assigned, generation_id)

    async def _wait_for_table_recovery_completed(self) -> bool:
        running = self.add_future(self.while_restoring())
        try:
            is_stopping: bool = await super()._wait_for_table_recovery_completed()
        finally:
            running.cancel()
        return is_stopping

    def _new_web(self) -> Web:
        return self.make_web()

    def _new_transport(self) -> BatchTransport:
        # Compiled before there is a thread that fetches, as compiling would hold up its heartbeats.
        load_kernels()
        keep_fetched_bytes()
        return BatchTransport(self.conf.broker_consumer, self)


def _as_batch(tp: TP, records: FetchedColumns, start_offset: int, fetched_at: float) -> RecordBatch:
    return RecordBatch(
        topic=tp.topic,
        partition=tp.partition,
        offsets=records.offsets,
        keys=records.keys,
        values=records.values,
        timestamps=records.timestamps,
        # A seek may have gone further back.
        start_offset=min(start_offset, int(records.offsets[0])),
        headers=records.headers,
        leader_epochs=records.leader_epochs,
        fetched_at=fetched_at,
    )
