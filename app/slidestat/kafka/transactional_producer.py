"""A producer whose records become visible together, to readers of committed records, or never.

A new one of the same transactional id fences the one before it, and has what that left open aborted
before it returns (Kafka's exactly-once semantics, KIP-98).
"""

import asyncio
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message

from slidestat.errors import SlidestatError
from slidestat.kafka.producer import BulkProducer

# Brokers take a quarter of an hour at most. For as long they may be away; what a killed worker left
# open its successor has aborted at once.
_TIMEOUT_MS = 600_000
_CALL_S = 5.0
_QUEUED_KIB = 64 * 2**10
# What a producer gets whose transactional id another one has now.
FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)


class FencedError(Exception):
    """An error of a producer whose transactional id another one has now, or whose transaction was
    open for too long.
    """


class TransactionalProducer(BulkProducer):
    """A producer of transactions, each of which begins with the first record after a commit."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._id = transactional_id
        self._is_open = self._is_fenced = False
        super().__init__(
            bootstrap_servers,
            track_offsets=True,
            **{
                "transactional.id": transactional_id,
                "transaction.timeout.ms": _TIMEOUT_MS,
                "message.timeout.ms": _TIMEOUT_MS,
                # A worker has one of these for each partition.
                "queue.buffering.max.kbytes": _QUEUED_KIB,
            },
        )

    async def take_over(self, is_wanted: Callable[[], bool]) -> None:
        """Fence the producer before this one off, and have what it left open aborted; raises
        SlidestatError if the brokers refuse.
        """
        loop = asyncio.get_running_loop()
        while is_wanted():
            try:
                await loop.run_in_executor(None, self._producer.init_transactions, _CALL_S)
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
        """Queue a record; do nothing once fenced, as the commit will raise the error."""
        try:
            if not self._is_open and not self._is_fenced:
                self._producer.begin_transaction()
                self._is_open = True
            if not self._is_fenced:
                super().produce(topic, partition, key, value, timestamp, headers)
        except KafkaException as error:
            self._note_fence(error.args[0])
            if not self._is_fenced:
                raise self._refused(error.args[0]) from error
        except SlidestatError as error:
            if isinstance(error.__cause__, KafkaException):
                self._note_fence(error.__cause__.args[0])
            if not self._is_fenced:
                raise

    async def commit(self) -> None:
        """Make visible what was queued, however long the brokers are away; raises FencedError if
        another producer has taken over, and SlidestatError if the brokers refuse.
        """
        loop = asyncio.get_running_loop()
        with self._waiting():
            while self._is_open or self._is_fenced:
                if self._is_fenced:
                    raise FencedError
                try:
                    await loop.run_in_executor(None, self._producer.commit_transaction, _CALL_S)
                except KafkaException as error:
                    reason: KafkaError = error.args[0]
                    self._note_fence(reason)
                    if self._is_fenced:
                        raise FencedError from error
                    self._raise_error()
                    if not reason.retriable():
                        raise self._refused(reason) from error
                else:
                    self._is_open = False

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._note_fence(error)
        if not self._is_fenced:
            super()._delivered(error, message)

    def _note_fence(self, reason: KafkaError) -> None:
        # A record expires when the brokers give its transaction up, or would if they were there.
        code = reason.code()
        self._is_fenced = self._is_fenced or code in FENCED or code == KafkaError._MSG_TIMED_OUT

    def _refused(self, reason: KafkaError) -> SlidestatError:
        return SlidestatError(
            f"The brokers refuse a transaction of {self._id!r}: {reason.str().rstrip('.')}.",
            "Check that this user may write with that transactional id, and that the brokers'"
            " transaction.max.timeout.ms is at least 600000; then start the worker again: nothing"
            " is lost, and what was not committed is written anew.",
        )
