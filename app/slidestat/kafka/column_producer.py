"""A producer for bulk writes that takes records by the column."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaException

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.kafka.clients import client_config
from slidestat.kafka.librdkafka import NativeProducer, library
from slidestat.kafka.producer import SETTINGS, BulkProducer, not_sent

Int64s = npt.NDArray[np.int64]

_FULL_S = 0.1


def bulk_producer(bootstrap_servers: str, *, track_offsets: bool = False) -> BulkProducer:
    """Return a producer for many records at once, as fast as the Python client allows."""
    kind = BulkProducer if library() is None else ColumnProducer
    return kind(bootstrap_servers, track_offsets=track_offsets)


class ColumnProducer(BulkProducer):
    """A producer of two clients: columns need one of their own, as the Python client takes no
    columns.

    So the order of records holds only within each of the two.
    """

    def __init__(self, bootstrap_servers: str, *, track_offsets: bool = False) -> None:
        super().__init__(bootstrap_servers, track_offsets=track_offsets)
        settings = client_config(bootstrap_servers) | SETTINGS
        self._native = NativeProducer(settings | {"delivery.report.only.error": not track_offsets})

    def produce_columns(
        self,
        topic: str,
        partition: int,
        keys: BinaryColumn,
        values: BinaryColumn,
        timestamps: Int64s,
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Queue records, as `produce` does, in a quarter of its time."""
        first = 0
        while first < len(keys):
            rest = slice(first, None)
            try:
                first += self._native.produce(
                    topic, partition, keys[rest], values[rest], timestamps[rest], headers
                )
            except BufferError:
                self._poll(_FULL_S)
                self._raise_error()
            except KafkaException as error:
                raise not_sent(topic, partition, error.args[0]) from error

    def last_offset(self, topic: str, partition: int) -> int:
        """Return the largest acknowledged offset of a partition; raises KeyError if there is none
        or offsets are not tracked.
        """
        offset = self._native.last_offset(topic, partition)
        return super().last_offset(topic, partition) if offset < 0 else offset

    def _unacknowledged(self) -> int:
        return super()._unacknowledged() + self._native.queued()

    def _poll(self, seconds: float) -> None:
        super()._poll(0)
        self._native.poll(seconds)
        self._take_refusals()

    def _flush_for(self, seconds: float) -> int:
        left = self._native.flush(seconds) + super()._flush_for(seconds)
        self._take_refusals()
        return left

    def _take_refusals(self) -> None:
        for refusal in self._native.refusals():
            self._note_refusal(*refusal)
