"""Produce records to a topology's own topic in transactions, with the offsets they came from."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from slidestat.declare.topology import Topology
from slidestat.kafka.clients import client_config
from slidestat.options import COMPRESSION
from slidestat.repartition.moved_from import mover_id

_Result = TypeVar("_Result")

_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 1_000_000_000

# A record, the key by which it goes, None without one, and its timestamp. A plain tuple, as making
# a named one takes as long as producing the record.
KeyedRecord = tuple[Message, str | None, int]


class Transactions:
    """The transactions of a mover, one after another, each begun by its first record.

    Methods raise KafkaException for a record that the broker refused, and for an error that cannot
    be retried, or that may not because `goes_on()` is false.
    """

    def __init__(self, bootstrap: str, topology: Topology, goes_on: Callable[[], bool]) -> None:
        self._topic = topology.events_topic
        self._goes_on = goes_on
        self._is_open = False
        self._refused: KafkaError | None = None
        self._producer = Producer(
            {
                **client_config(bootstrap),
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
        self._until_done(lambda: self._producer.init_transactions(_TIMEOUT_S))

    def send(self, records: Sequence[KeyedRecord], partitions: int) -> None:
        """Queue records for a topic of so many partitions; a timestamp of 0, which is no event
        time, would be that of now.
        """
        if not records:
            return
        self._open()
        produce, topic = self._producer.produce, self._topic
        for message, key, timestamp in records:
            value, headers = message.value(), cast(Any, message.headers())
            own: str | bytes | None = key
            partition = -1
            if key is None:
                own, partition = message.key(), (message.offset() or 0) % partitions
            while True:
                try:
                    produce(topic, value, own, partition, timestamp=timestamp or 1, headers=headers)
                except BufferError:
                    self._producer.poll(0.05)
                    self._raise_refusal()
                else:
                    break
        self._producer.poll(0)

    def commit(self, offsets: list[TopicPartition], group: Any) -> None:
        """Commit what was sent, and with it the offsets of a consumer's group."""
        self._open()
        self._until_done(
            lambda: self._producer.send_offsets_to_transaction(offsets, group, _TIMEOUT_S)
        )
        self._until_done(lambda: self._producer.commit_transaction(_TIMEOUT_S))
        self._is_open = False

    def _open(self) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True

    def _until_done(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of a call that may be made again where it took too long."""
        while True:
            try:
                return call()
            except KafkaException as error:
                self._raise_refusal()
                if not (error.args[0].retriable() and self._goes_on()):
                    raise

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error

    def _raise_refusal(self) -> None:
        if self._refused is not None:
            raise KafkaException(self._refused)
