"""Read a topic's records as they come, or those that are there."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Generic, NamedTuple, TypeVar

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from slidestat.engine.emissions.emission_codec import NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat
from slidestat.errors import SlidestatError
from slidestat.kafka.read.scan import concerns_group, headers_of, offset_bounds
from slidestat.kafka.retries import passes
from slidestat.kafka.settings import client_config
from slidestat.options import TAIL_RECORDS
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from slidestat.schemas.emission import Emission
from slidestat.schemas.sequence import decode_alert_change

_FETCH_RECORDS = 1_000
_ANSWER_S = 10.0

Read = TypeVar("Read")


@dataclass
class Letters:
    """The number of dead letters with a reason, and the detail of one of them."""

    count: int
    one: DeadLetterHeaders


@dataclass
class TopicReader(ABC, Generic[Read]):
    """A reader of a topic's `partitions`, which joins no consumer group.

    With `once` it ends at the records that were there at the start. `read` counts the records of
    the kind, those of other keys too, `letters` dead letters by their reason, and `skipped` the
    records that are neither. Memory: one fetch.
    """

    bootstrap: str
    topic: str
    partitions: Collection[int]
    key_glob: str | None = None
    from_beginning: bool = False
    once: bool = False
    read: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)
    letters: dict[Reason, Letters] = field(default_factory=dict, init=False)
    _lost: str | None = field(default=None, init=False)
    _is_cut_off: bool = field(default=False, init=False)
    _behind: set[int] = field(default_factory=set, init=False)

    @property
    def is_at_end(self) -> bool:
        """Return whether each partition has been read to an end that it had since the start."""
        return not self._behind

    def batches(self) -> Iterator[list[Read]]:
        """Yield the records since the last batch, possibly none, about four times a second.

        Raises SlidestatError when the broker is lost, or the registry that a record needs.
        """
        consumer = Consumer(
            client_config(self.bootstrap)
            | {
                # Required by the client and never used: nothing is subscribed or committed.
                "group.id": f"slidestat-watch-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "error_cb": self._failed,
            }
        )
        try:
            ends = self._assign(consumer)
            while not self.once or ends:
                messages = consumer.consume(_FETCH_RECORDS, timeout=0.25)
                yield [record for message in messages if (record := self._read(message, ends))]
                if self._is_cut_off and self._lost is None:
                    self._is_cut_off = False
                    # Raises an error if none answers.
                    consumer.list_topics(self.topic, _ANSWER_S)
                if self._lost is not None:
                    raise SlidestatError(
                        f"The broker no longer serves {self.topic!r}: {self._lost}.",
                        "Look at the broker's log, and start watching again.",
                    )
        except KafkaException as error:
            raise SlidestatError(
                f"{self.topic!r} cannot be read: {error.args[0].str()}.",
                "Look at the broker's log.",
            ) from error
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> dict[int, int]:
        """Start each partition; return, if it is read `once`, the ends still to be reached."""
        ends: dict[int, int] = {}
        self._behind = set(self.partitions)
        starts = []
        for number in self.partitions:
            partition = TopicPartition(self.topic, number)
            partition.offset = OFFSET_BEGINNING if self.from_beginning else OFFSET_END
            if self.once:
                low, high = offset_bounds(consumer, self.topic, number)
                partition.offset = low if self.from_beginning else max(low, high - TAIL_RECORDS)
                if high > partition.offset:
                    ends[number] = high
            starts.append(partition)
        consumer.assign(starts)
        return ends

    def _read(self, message: Message, ends: dict[int, int]) -> Read | None:
        # By their types these are None for records that are not sent yet.
        partition, offset = message.partition() or 0, message.offset() or 0
        kafka_error = message.error()
        if kafka_error is not None:
            # The end may lie behind the last record: transactions leave marks that are none.
            if kafka_error.code() == KafkaError._PARTITION_EOF:
                ends.pop(partition, None)
                self._behind.discard(partition)
            else:
                self._failed(kafka_error)
            return None
        if self.once:
            end = ends.get(partition, 0)
            if offset + 1 >= end:
                ends.pop(partition, None)
            if offset >= end:
                return None
        # A foreign header may be null.
        texts = [(name, text) for name, text in headers_of(message) if text is not None]
        return self._decoded(message.value() or b"", texts)

    def _failed(self, kafka_error: KafkaError) -> None:
        if concerns_group(kafka_error):
            return
        if not passes(kafka_error):
            self._lost = kafka_error.str()
        # The code also comes for one broker of several, if the client has not used the others yet.
        self._is_cut_off |= kafka_error.code() == KafkaError._ALL_BROKERS_DOWN

    @abstractmethod
    def _decoded(self, value: bytes, headers: list[tuple[str, bytes]]) -> Read | None:
        """Read a record's value; None for one of another kind, or that is not wanted."""

    def _wants(self, key: str) -> bool:
        """Count a record of the kind, and return whether its key is wanted."""
        self.read += 1
        return self.key_glob is None or fnmatchcase(key, self.key_glob)

    def _set_aside(self, headers: list[tuple[str, bytes]]) -> None:
        try:
            letter = DeadLetterHeaders.decode(headers)
        except (msgspec.ValidationError, UnicodeDecodeError):
            self.skipped += 1
            return
        self.letters.setdefault(letter.reason, Letters(0, letter)).count += 1


# Read a topic's changes of alerts as they come, or those that are there.


class ChangeRecord(NamedTuple):
    """A change of an alert, and the record's own bytes."""

    change: AlertChange
    json: bytes


@dataclass
class AlertReader(TopicReader[ChangeRecord]):
    """A reader of alert changes."""

    def _decoded(self, value: bytes, headers: list[tuple[str, bytes]]) -> ChangeRecord | None:
        try:
            change = decode_alert_change(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._set_aside(headers)
            return None
        return ChangeRecord(change, value) if self._wants(change.key) else None


# Read a topic's emissions as they come, or those that are there.


@dataclass(frozen=True)
class Record:
    """An emission, and its JSON: the record's own bytes, if they are."""

    emission: Emission
    json: bytes


@dataclass
class EmissionReader(TopicReader[Record]):
    """A reader of emissions; those in Avro need a schema `registry`, without which `batches` raises
    SlidestatError.
    """

    registry: str = ""

    def __post_init__(self) -> None:
        self._format = AnyFormat(self.registry)

    def _decoded(self, value: bytes, headers: list[tuple[str, bytes]]) -> Record | None:
        try:
            emission = self._format.decode(value)
        except NotAnEmissionError:
            self._set_aside(headers)
            return None
        if not self._wants(emission.key):
            return None
        return Record(emission, value if value[:1] == b"{" else msgspec.json.encode(emission))
