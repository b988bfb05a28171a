"""A Kafka producer for bulk writes: librdkafka's, idempotent, acknowledged by all replicas."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.errors import EndedError, SlidestatError
from slidestat.kafka.connection import ANY_TIME, MAX_MESSAGE_BYTES, set_command
from slidestat.kafka.retries import NOT_THERE
from slidestat.kafka.settings import client_config
from slidestat.options import COMPRESSION

# librdkafka has one request of a partition under way, and asks without a rest whether the next may
# go from when its records have waited this long: a core for as long as a broker takes for what is
# queued. So they may wait for long, and `send_now` says when nothing more comes to fill a request.
_LINGER_MS = 1_000

SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "compression.type": COMPRESSION.value,
    "linger.ms": _LINGER_MS,
    # However long the brokers are away, what is queued stays queued: who gives up loses or repeats.
    "message.timeout.ms": 0,
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
}
# The delay after which a refused record, and the end of the waiting thread, are noticed.
_FLUSH_CHECK_S = 1.0
# A broker that has looked at a record refuses it for its timestamp: keys and checksums are right.
REFUSED_TIMES = frozenset({KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
# The brokers, or the client, take nothing more of this producer: they have forgotten it, or lack a
# record of it. They take a new one.
_PRODUCER_LOST = frozenset(
    {
        KafkaError._FATAL,
        KafkaError._INCONSISTENT,
        # The client drops all that it has after such an error, and may tell of that first.
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
# In advice, where the address is not known.
_BOOTSTRAP = "HOST:PORT"
# 40 MB of emissions with three windows and five statistics.
FEW_RECORDS = 20_000
ROOM_CHECK_S = 0.005
_STUCK_CHECKS = 10
# The shortest flush that the client notices, so that it sends.
NOW_S = 0.001


class Watched:
    """A number of queued records that is looked at again and again."""

    def __init__(self) -> None:
        self._before, self._unchanged = 0, 0

    def is_stuck(self, left: int) -> bool:
        """Return whether it is the same for so long that it is to be flushed: of many partitions,
        none may have enough to fill a request.
        """
        self._unchanged = self._unchanged + 1 if left == self._before else 0
        self._before = left
        if self._unchanged < _STUCK_CHECKS:
            return False
        self._unchanged = 0
        return True


class BulkProducer:
    """A producer that queues records without waiting; `flush` waits until all are acknowledged.

    `waits_for` says what is waited for, if anything is.
    """

    waits_for = "records that it has sent are not acknowledged"

    def __init__(
        self, bootstrap_servers: str, *, track_offsets: bool = False, **settings: Any
    ) -> None:
        """Create the producer; `settings` are librdkafka's, in addition to our own."""
        self._offsets: dict[tuple[str, int], int] = {}
        self._error: Exception | None = None
        self._waits_since: float | None = None
        # While it lasts, a thread has what is queued sent; and whether it was asked for since.
        self._sending: asyncio.Task[None] | None = None
        self._is_asked = False
        self._producer = Producer(
            {
                **client_config(bootstrap_servers),
                **SETTINGS,
                **settings,
                "delivery.report.only.error": not track_offsets,
                "on_delivery": self._delivered,
            }
        )

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Queue a record; waits only while the queue is full. `timestamp` 0 means now."""
        while True:
            try:
                if headers:
                    self._producer.produce(
                        topic, value, key, partition, timestamp=timestamp, headers=list(headers)
                    )
                else:  # a third quicker than with an empty list
                    self._producer.produce(topic, value, key, partition, timestamp=timestamp)
            except BufferError:
                self._poll(0.1)
                self._raise_error()
            except KafkaException as error:
                raise not_sent(topic, partition, error.args[0], is_ours=True) from error
            else:
                return

    def produce_columns(
        self,
        topic: str,
        partition: int,
        records: OutputRecords,
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Queue records, whose timestamps are their `ends`, with the same headers, as `produce`
        does. A caller that queues columns for a partition queues nothing else for it.
        """
        rows = zip(records.keys, records.values, records.ends.tolist(), strict=True)
        for key, value, timestamp in rows:
            self.produce(topic, partition, key or b"", value, timestamp, headers)

    async def room(self) -> None:
        """Wait until few records are queued; other tasks get a turn in any case.

        Raises SlidestatError if the broker refused one.
        """
        await asyncio.sleep(0)
        queued = Watched()
        with self.waiting():
            while self._is_crowded():
                left = self._unacknowledged()
                self._poll(0)
                self._raise_error()
                if queued.is_stuck(left):
                    self._flush_for(NOW_S)
                await asyncio.sleep(ROOM_CHECK_S)

    def send_now(self) -> None:
        """Have all that is queued sent, also what does not fill a request, as for now nothing
        follows; otherwise it waits for a second, or for `flush`. Blocks for about a millisecond,
        and not while what was queued before is under way.
        """
        with suppress(KafkaException):  # Waiting for acknowledgements raises it.
            if not self._unacknowledged():
                return
            self._is_asked = True
            if self._sending is not None and not self._sending.done():
                self._wake()
                return
            if not self._flush_for(NOW_S):
                return
        # A thread would begin late, while the next batch is computed. It is for brokers that take
        # longer than that, and for a busy machine, on which the client's own thread has not seen in
        # that time that it is to send.
        self._sending = asyncio.get_running_loop().create_task(self._send_all())

    def _wake(self) -> None:
        """Have what was queued since a flush began that is still under way sent as well."""
        self._flush_for(0)

    async def _send_all(self) -> None:
        with suppress(KafkaException):
            # Records that a flush of a second has left have waited as long as any may. A backlog
            # that is read next asks for no flush, so that its requests are filled.
            while self._is_asked and self._error is None and self._unacknowledged():
                self._is_asked = False
                await asyncio.to_thread(self._flush_for, _FLUSH_CHECK_S)

    async def flush(self) -> None:
        """Wait for all acknowledgements, however long the brokers are away; raises SlidestatError
        if one refused a record.
        """
        with self.waiting():
            while await asyncio.to_thread(self._flush_for, _FLUSH_CHECK_S):
                self._raise_error()
        self._raise_error()

    def listen(self) -> None:
        """Take in what the client tells by itself. Called every few seconds."""

    def fail(self, error: Exception) -> None:
        """Raise this error within a second in every wait for acknowledgements, now or later."""
        self._error = self._error or error

    def waited_s(self) -> float:
        """Return for how many seconds `waits_for` has been so; 0 if nothing is waited for."""
        return 0.0 if self._waits_since is None else time.monotonic() - self._waits_since

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a block as waited for `waits_for`."""
        before = self._waits_since
        if before is None:
            self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self._waits_since = before

    def is_answered(self, topic: str, timeout_s: float) -> bool:
        """Return whether a broker answers a request about a topic, blocking up to that time."""
        try:
            self._producer.list_topics(topic, timeout_s)
        except KafkaException:
            return False
        return True

    def last_offset(self, topic: str, partition: int) -> int:
        """Return the largest acknowledged offset of a partition; raises KeyError if there is none
        or offsets are not tracked.
        """
        return self._offsets[topic, partition]

    def _is_crowded(self) -> bool:
        """Return whether so many records are queued that others wait for room."""
        return self._unacknowledged() > FEW_RECORDS

    def _unacknowledged(self) -> int:
        """Return how many records are not acknowledged."""
        return len(self._producer)

    def _poll(self, seconds: float) -> None:
        """Process delivery reports; wait this long for the first."""
        self._producer.poll(seconds)

    def _flush_for(self, seconds: float) -> int:
        """Wait this long for acknowledgements; return how many are still missing."""
        return int(self._producer.flush(seconds))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._note_refusal(cast(str, message.topic()), cast(int, message.partition()), error)
            return
        place = cast(tuple[str, int], (message.topic(), message.partition()))
        self._offsets[place] = max(cast(int, message.offset()), self._offsets.get(place, -1))

    def _note_refusal(self, topic: str, partition: int, error: KafkaError) -> None:
        self.fail(not_sent(topic, partition, error))

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def not_sent(
    topic: str, partition: int, kafka_error: KafkaError, *, is_ours: bool = False
) -> SlidestatError:
    """Return the error of a record that was not taken, with what to do. With `is_ours`, the client
    refused it, and no broker has seen it.
    """
    reason = kafka_error.str().rstrip(".")
    if kafka_error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        if is_ours:
            return SlidestatError(
                f"A record for {topic!r} cannot be sent: {reason}.",
                f"It has at most {MAX_MESSAGE_BYTES // 2**20} MiB: give the statistics larger"
                " errors.",
            )
        limit = f"max.message.bytes={MAX_MESSAGE_BYTES}"
        return SlidestatError(
            f"The topic {topic!r} takes no batch of records as large as one for it: {reason}.",
            "Its max.message.bytes is smaller than it was when this worker began, or the brokers'"
            f" message.max.bytes: set it, {set_command(_BOOTSTRAP, topic, limit)}. Nothing is lost:"
            " a restarted worker goes on from the last commit.",
        )
    if kafka_error.code() in REFUSED_TIMES:
        return SlidestatError(
            f"The topic {topic!r} takes no record with the time of one for it, which is an event"
            f" time: {reason}.",
            f"{advice_on_times(topic)} Nothing is lost: a restarted worker goes on from the last"
            " commit.",
        )
    if kafka_error.code() in _PRODUCER_LOST:
        return EndedError(
            f"The brokers take no more records of this worker for {topic!r}: {reason}.",
            "Start the worker again, with which it gets a new producer: nothing is lost, it goes on"
            " from the last commit.",
        )
    if kafka_error.code() in NOT_THERE:
        return SlidestatError(
            f"There is no partition {partition} of {topic!r} any more: {reason}.",
            "It was deleted, or made anew with fewer: look with `slidestat topics list`. A worker"
            " makes a topic that is missing when it starts, and goes on from the last commit.",
        )
    return SlidestatError(
        f"The broker refused a record for {topic!r}: {reason}.",
        "Check the topics with `slidestat topics list`; nothing is lost, a restarted worker goes on"
        " from the last commit.",
    )


def advice_on_times(topic: str, bootstrap: str = _BOOTSTRAP) -> str:
    """Return the advice for a topic that refuses records for their times."""
    command = set_command(bootstrap, topic, *map("=".join, ANY_TIME.items()))
    return f"Let it take any time: {command}."


# A producer of records that are worth something only for as long as this process may send them.
#
# What is queued for a partition without a leader waits, and may be sent long after another process
# has taken over; so may what a process has queued that is then frozen. Such a record expires:
# librdkafka looks for those that have, by the clock, before it sends anything.


class _Place(NamedTuple):
    topic: str
    partition: int
    key: bytes


class _Rest(NamedTuple):
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]]


class ExpiringProducer(BulkProducer):
    """A BulkProducer whose records are never sent later than `expires_s` after they were queued."""

    def __init__(self, bootstrap_servers: str, expires_s: float) -> None:
        expires = {"message.timeout.ms": int(expires_s * 1000)}
        super().__init__(bootstrap_servers, track_offsets=True, **expires)
        # The newest queued row of each place, and the places whose row has expired.
        self._queued: dict[_Place, _Rest] = {}
        self._expired: list[_Place] = []

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Queue a record; if several of one key expire, the last one is kept."""
        self._queued[_Place(topic, partition, key)] = _Rest(value, timestamp, headers)
        super().produce(topic, partition, key, value, timestamp, headers)

    async def flush_while(self, wanted: Callable[[], bool]) -> None:
        """Wait for all acknowledgements; what expires is queued again as long as it is `wanted`.

        A record that was on its way when it expired may be with the broker. So nothing that is to
        follow on it may be sent before this returns: a producer begins a new epoch when a record
        expires on its way, and once that is acknowledged the broker takes nothing of an older one.
        """
        while True:
            await self.flush()
            expired, self._expired = dict.fromkeys(self._expired), []
            # The last one of a key may have been acknowledged, where one before it has expired.
            again = [(place, self._queued.pop(place)) for place in expired if place in self._queued]
            if not again or not wanted():
                return
            for place, rest in again:
                self.produce(*place, *rest)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        place = _Place(*cast(_Place, (message.topic(), message.partition(), message.key())))
        if error is not None and error.code() == KafkaError._MSG_TIMED_OUT:
            self._expired.append(place)
            return
        # Only the arrival of the key's last row counts, not of an older one.
        if place in self._queued and self._queued[place].value == message.value():
            del self._queued[place]
        super()._delivered(error, message)
