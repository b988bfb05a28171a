"""A producer for bulk writes that takes records by the column."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaException

from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.kafka.clients import client_config
from slidestat.kafka.librdkafka import NativeProducer, library
from slidestat.kafka.producer import SETTINGS, BulkProducer, not_sent

Int64s = npt.NDArray[np.int64]

_FULL_S = 0.1


def output_producer(bootstrap_servers: str) -> BulkProducer:
    """A producer for many records at once: as quick as the Python client lets it be."""
    kind = BulkProducer if library() is None else ColumnProducer
    return kind(bootstrap_servers)


class ColumnProducer(BulkProducer):
    """Two clients: the columns have one of their own, as that of Python takes no columns."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        settings = client_config(bootstrap_servers) | SETTINGS
        self._native = NativeProducer(
            settings | {"delivery.report.only.error": True}, self._note_refusal
        )

    def produce_records(
        self,
        topic: str,
        partition: int,
        records: OutputRecords,
        timestamps: Int64s,
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Queue records, as `produce` does, in a quarter of its time."""
        first = 0
        while first < len(records):
            try:
                first += self._native.produce(
                    topic, partition, records[first:], timestamps[first:], headers
                )
            except BufferError:
                self._poll(_FULL_S)
                self._raise_error()
            except KafkaException as error:
                raise not_sent(topic, partition, error.args[0]) from error

    def _unacknowledged(self) -> int:
        return super()._unacknowledged() + self._native.queued()

    def _poll(self, seconds: float) -> None:
        super()._poll(0)
        self._native.poll(seconds)

    def _flush_for(self, seconds: float) -> int:
        return self._native.flush(seconds) + super()._flush_for(seconds)
