"""A producer of records that are worth something only for as long as this process may send them.

What is queued for a partition without a leader waits, and may be sent long after another process
has taken over; so may what a process has queued that is then frozen. Such a record expires:
librdkafka looks for those that have, by the clock, before it sends anything.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from confluent_kafka import KafkaError, Message

from slidestat.kafka.producer import BulkProducer


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
        # What is queued, and what of it has expired.
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
        """Queue a record; of those of one key that expire, the last is remembered."""
        self._queued[_Place(topic, partition, key)] = _Rest(value, timestamp, headers)
        super().produce(topic, partition, key, value, timestamp, headers)

    async def flush_while(self, wanted: Callable[[], bool]) -> None:
        """Wait for all acknowledgements; what expires is queued again as long as it is `wanted`.

        What was on its way when it expired may be with the broker. So nothing that is to follow on
        it may be sent before this returns: a producer begins a new epoch when a record expires on
        its way, and once that is acknowledged the broker takes nothing of an older one.
        """
        while True:
            await self.flush()
            expired, self._expired = dict.fromkeys(self._expired), []
            again = [(place, self._queued.pop(place)) for place in expired]
            if not again or not wanted():
                return
            for place, rest in again:
                self.produce(*place, *rest)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        place = _Place(*cast(_Place, (message.topic(), message.partition(), message.key())))
        if error is not None and error.code() == KafkaError._MSG_TIMED_OUT:
            self._expired.append(place)
            return
        self._queued.pop(place, None)
        super()._delivered(error, message)
