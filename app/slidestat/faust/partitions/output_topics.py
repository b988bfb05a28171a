"""Queue a topology's output for a partition to its topics."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from slidestat.declare.declared import Declared
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.output_records import OutputRecord, OutputRecords
from slidestat.engine.intake.letters import Letter
from slidestat.engine.publishing import Clock, Publication, SynopsisTopic
from slidestat.faust.alert_headers import headers_of_alert
from slidestat.kafka.letter_record import letter_record
from slidestat.kafka.producer import BulkProducer
from slidestat.live.observed import Observed
from slidestat.schemas.emission import DECLARATION_HEADER


class OutputTopics:
    """A sender of emissions, alerts, synopses and letters, queued, and counted in `observed`."""

    def __init__(
        self,
        topology: Declared,
        producer: BulkProducer,
        observed: Observed,
        silent_until: Mapping[int, int],
        partitions: int,
        letter_bytes: int,
    ) -> None:
        """Create the sender.

        Windows of a partition up to `silent_until` (a window end) were emitted before: nothing of
        them is queued. The source has so many `partitions`; `letter_bytes` of a letter are kept.
        """
        self._topology = topology
        self._producer = producer
        self._observed = observed
        self._silent_until = silent_until
        self._letter_bytes = letter_bytes
        self._declared_by = [(DECLARATION_HEADER, fingerprint_of(topology).encode())]
        self._synopses = SynopsisTopic(topology.answering, partitions)

    def send(self, effects: Effects, partition: int, started: float | None) -> None:
        """Queue all that a step led to, of a batch begun at `started`; None if there was none."""
        emissions = self._queue(self._topology.output_topic, effects.emissions, partition)
        self._observed.emitted(partition, emissions, started)
        if self._topology.alert_topic is not None and effects.alerts:
            if self._topology.alert_headers:
                for alert in effects.alerts:
                    headers = headers_of_alert(alert, self._topology)
                    self._queue(self._topology.alert_topic, [alert], partition, headers)
            else:
                self._queue(self._topology.alert_topic, effects.alerts, partition)
        if effects.published:
            self.publish(effects.published, partition)
        for letter in effects.dead_letters:
            self._send_letter(letter, partition, self._topology.dead_letter_topic)
        for letter in effects.late:
            self._send_letter(letter, partition, self._topology.late_topic)

    def publish(
        self, published: Iterable[Publication | Clock], partition: int, *, provisional: bool = False
    ) -> None:
        """Queue what a referee is to have, or keys' synopses, but those of ticks emitted before."""
        count = size = 0
        silent_until = self._silent_until.get(partition)
        for record in self._synopses.records(published, partition, provisional=provisional):
            if silent_until is not None and record.timestamp <= silent_until:
                continue
            self._producer.produce(self._synopses.name, *record)
            count += 1
            size += len(record.key) + len(record.value)
        self._observed.published(count, size)

    async def room(self) -> None:
        """Wait until more may be queued."""
        await self._producer.room()

    def send_now(self) -> None:
        """Have what is queued sent at once: for now nothing follows."""
        self._producer.send_now()

    def _queue(
        self,
        topic: str,
        records: Sequence[OutputRecord],
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> OutputRecords:
        """Queue those of (key, value, window end) that were not emitted before, and return them."""
        columns = OutputRecords.of(records)
        silent_until = self._silent_until.get(partition)
        if silent_until is not None:
            columns = columns.take(np.flatnonzero(columns.ends > silent_until))
        if not len(columns):
            return columns
        # To Kafka a number of a sequence is a time long ago, at which retention deletes.
        timed = columns.at(np.zeros_like(columns.ends)) if self._topology.is_sequence else columns
        self._producer.produce_columns(topic, partition, timed, [*self._declared_by, *headers])
        return columns

    def _send_letter(self, letter: Letter, partition: int, topic: str) -> None:
        name, source = self._topology.name, self._topology.events_topic
        record = letter_record(letter, name, source, partition, self._letter_bytes)
        self._producer.produce(topic, partition, *record)
