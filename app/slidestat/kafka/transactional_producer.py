"""A producer whose records become visible together, to readers of committed records, or never.

A new one of the same transactional id fences the one before it, and has what that left open aborted
before it returns (Kafka's exactly-once semantics, KIP-98).
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from slidestat.errors import SlidestatError
from slidestat.kafka.producer import BulkProducer

# Brokers take a quarter of an hour at most. For as long they may be away; what a killed worker left
# open its successor has aborted at once.
_TIMEOUT_MS = 600_000
_CALL_S = 5.0
# A request that is not full is sent before the commit, which comes each second: else it would wait
# for the commit of each partition, some at a time.
_LINGER_MS = 50
_FLUSH_CHECK_S = 1.0
_QUEUED_KIB = 64 * 2**10

# librdkafka answers a request that no broker coordinates with a time-out alone.
LOOK_AT_COORDINATORS = "if it lasts, look at the brokers' log, and at the topic __transaction_state"

# The consequences of errors of transactions.

# Another producer has the transactional id now, or the brokers gave up a transaction that was open
# for too long: both have the same codes.
_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
# The brokers have forgotten the id or the producer (transactional.id.expiration.ms and
# producer.id.expiration.ms after its last record), or its transaction is not as it takes it to be.
_LOST = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TRANSACTION_ABORTABLE,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
# Answers of librdkafka for the records of a transaction that has failed; its commit has the cause.
_FAILED_BEFORE = frozenset({KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# Waiting does not mend these, nor does a new producer.
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
    }
)


class Failure(Enum):
    """The ways to continue after an error of a transaction."""

    RETRY = auto()  # the same call
    FENCED = auto()  # give way: another producer may have taken over
    LOST = auto()  # take over with a new producer, from what was committed last
    REFUSED = auto()  # a person must correct something
    UNKNOWN = auto()


def failure_of(error: KafkaError) -> Failure:
    """Return how to continue after an error of a transactional producer."""
    code = error.code()
    if code in _FENCED:
        return Failure.FENCED
    if code in _REFUSED:
        return Failure.REFUSED
    if error.retriable():
        return Failure.RETRY
    if code in _LOST | _FAILED_BEFORE or error.txn_requires_abort():
        return Failure.LOST
    return Failure.UNKNOWN


class FencedError(Exception):
    """An error of a producer whose id another has taken, or whose transaction was open too long."""


class LostError(Exception):
    """An error of a producer that must begin no other transaction: a new one of the same id takes
    over, from what was committed last.
    """


# Commits in doubt.
#
# librdkafka repeats the request to end a transaction when it loses the connection before an answer.
# The first request may still reach the broker, after the next transaction has begun, and would end
# that one half-way: the protocol before KIP-890 does not distinguish them, and librdkafka has no
# other one (its issue 5423). `init_transactions` of a new producer raises the epoch, and the broker
# refuses what comes late from the old one. The same goes for a late commit of offsets.
#
# Only librdkafka's log has every lost connection: its error callback leaves out repeated ones.

IN_DOUBT = "a connection was lost while a transaction was committed"


class ConnectionWatch:
    """A logger for librdkafka which notes lost connections, and transactions that failed. It must
    `listen` every few seconds.
    """

    def __init__(self) -> None:
        self.has_lost_one = False
        self.has_failed = False

    def settings(self) -> dict[str, Any]:
        """Return the client's settings with this logger."""
        return {"debug": "broker", "logger": self}

    def listen(self, producer: Producer) -> None:
        """Take in what its client logs while nothing is committed. Until then librdkafka queues
        each line, by a search through all of them: while a broker is down, that takes a core.
        """
        with suppress(KafkaException):  # The commit raises it again.
            served(producer.poll, 0.0)

    def log(self, _level: int, _form: str, facility: str, *_text: object) -> None:
        """Take a line of the log. Called by the client's `poll` and `flush`."""
        self.has_lost_one |= facility == "FAIL"
        self.has_failed |= facility == "TXNERR"


_Result = TypeVar("_Result")


def served(call: Callable[[float], _Result], timeout_s: float) -> _Result:
    """Return the result of a client's method that may call the watch; raises KafkaException."""
    try:
        return call(timeout_s)
    except SystemError as error:
        # The client raises a fatal error after the callbacks, and Python finds it in between.
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


# librdkafka's `send_offsets_to_transaction` ignores its time-out, and never returns once the
# coordinator of the group that it knew is gone from the cluster (its issues 5456 and 5511).

LONGEST_CALL_S = 30.0


def made_in_time(call: Callable[[], object]) -> None:
    """Make a call of a client in a thread of its own, which raises what the call raises; raises
    LostError if it has not returned within half a minute.
    """
    errors: list[BaseException | None] = []

    def make() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  It is raised below.
            errors.append(error)
        else:
            errors.append(None)

    thread = threading.Thread(target=make, name="call", daemon=True)
    thread.start()
    thread.join(LONGEST_CALL_S)
    if not errors:
        raise LostError(f"the client has not returned from a call for {LONGEST_CALL_S:.0f} s")
    if errors[0] is not None:
        raise errors[0]


class TransactionalProducer(BulkProducer):
    """A producer of transactions, each of which begins with the first record after a commit."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._id = transactional_id
        self._is_open = self._has_failed = False
        # The error of the first record that was not delivered, as the transaction's own error hides
        # it.
        self._cause: KafkaError | None = None
        self._end: FencedError | LostError | None = None
        self._watch = ConnectionWatch()
        super().__init__(
            bootstrap_servers,
            track_offsets=True,
            **{
                "transactional.id": transactional_id,
                "transaction.timeout.ms": _TIMEOUT_MS,
                "message.timeout.ms": _TIMEOUT_MS,
                "linger.ms": _LINGER_MS,
                # A worker has one of these for each partition.
                "queue.buffering.max.kbytes": _QUEUED_KIB,
                **self._watch.settings(),
            },
        )

    async def take_over(self, is_wanted: Callable[[], bool]) -> None:
        """Fence the producer before this one off, and have what it left open aborted; raises
        SlidestatError if the brokers refuse.
        """
        while is_wanted():
            try:
                await asyncio.to_thread(self._producer.init_transactions, _CALL_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise self._refused(error.args[0]) from error
            else:
                return

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Queue a record; once the transaction has failed, do nothing: the commit raises it."""
        if self._has_failed:
            return
        try:
            if not self._is_open:
                self._is_open = True
                self._producer.begin_transaction()
            super().produce(topic, partition, key, value, timestamp, headers)
        except KafkaException as error:
            self._note_failure(error.args[0])
            if not self._has_failed:
                raise self._refused(error.args[0]) from error
        except SlidestatError as error:
            if isinstance(error.__cause__, KafkaException):
                self._note_failure(error.__cause__.args[0])
            if not self._has_failed:
                raise

    async def commit(self) -> None:
        """Make visible what was queued, however long the brokers are away; raises FencedError if
        another producer has taken over, LostError if a new one must, and SlidestatError if the
        brokers refuse. After LostError what was queued may be visible: all of it, or nothing.
        """
        if self._is_open and self._end is None:
            with self.waiting():
                await self._acknowledged()
                self._watch.has_lost_one = False
                while self._is_open and self._end is None:
                    await self._try_commit()
            if self._end is None:
                self._poll(0)
                if self._watch.has_lost_one:
                    self._end = LostError(IN_DOUBT)
        if self._end is not None:
            raise self._end

    async def _acknowledged(self) -> None:
        """Wait for the records: no request to end their transaction is under way until then."""
        # A transaction that has failed keeps its records until it is aborted.
        while not self._has_failed and not self._watch.has_failed:
            try:
                if not await asyncio.to_thread(self._flush_for, _FLUSH_CHECK_S):
                    return
            except KafkaException:  # The commit raises it again.
                return
            self._raise_error()

    async def _try_commit(self) -> None:
        try:
            await asyncio.to_thread(served, self._producer.commit_transaction, _CALL_S)
        except KafkaException as error:
            # Reports that were not taken in yet say which topic did not take which record.
            self.listen()
            reason: KafkaError = self._cause or error.args[0]
            failure = failure_of(reason)
            if failure is Failure.FENCED:
                self._end = FencedError(reason.str())
                return
            self._raise_error()
            if failure is Failure.LOST:
                self._end = LostError(reason.str().rstrip("."))
            elif failure is not Failure.RETRY:
                raise self._refused(reason) from error
        else:
            self._is_open = False

    def listen(self) -> None:
        """Take in what the client logs while nothing is committed."""
        self._watch.listen(self._producer)

    def _poll(self, seconds: float) -> None:
        served(self._producer.poll, seconds)

    def _flush_for(self, seconds: float) -> int:
        return served(self._producer.flush, seconds)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        is_refused = error is not None and failure_of(error) is Failure.REFUSED
        if error is not None:
            self._note_failure(error)
            if self._has_failed and error.code() not in _FAILED_BEFORE:
                self._cause = self._cause or error
        # Records that it takes with it may be reported before the one that is refused.
        if is_refused or not self._has_failed:
            super()._delivered(error, message)

    def _note_failure(self, reason: KafkaError) -> None:
        self._has_failed |= failure_of(reason) in (Failure.FENCED, Failure.LOST)

    def _refused(self, reason: KafkaError) -> SlidestatError:
        return SlidestatError(
            f"The brokers refuse a transaction of {self._id!r}: {reason.str().rstrip('.')}.",
            "Check that this user may write with that transactional id, and that the brokers'"
            " transaction.max.timeout.ms is at least 600000; then start the worker again: nothing"
            " is lost, and what was not committed is written anew.",
        )
