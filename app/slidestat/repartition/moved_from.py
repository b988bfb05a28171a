"""A note of what was moved to a topic, as metadata of the offsets up to which it was.

By it the topic is known as ours, and what it was made from: another source, another key or another
number of partitions would put records of one key in two places.
"""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    OffsetSpec,
)

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.groups import Committed, group_offsets
from slidestat.kafka.retries import ask_again
from slidestat.kafka.topic_identity import identities
from slidestat.log import log_event

_TIMEOUT_S = 30.0
_DIGITS = 16


def mover_id(topology: Topology) -> str:
    """Return the consumer group of the offsets, which is also the transactional id of the mover."""
    return f"slidestat-{topology.events_topic}"


class MovedFrom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The origin of moved records: the source, the key by which they are moved, and the number of
    partitions; with both topics' ids, "" where the brokers keep none.
    """

    source: str
    source_id: str
    topic_id: str
    partitions: int
    key: str

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class TopicsNow(msgspec.Struct, frozen=True):
    """The note of the topics that there are now, and how many partitions the source has."""

    note: MovedFrom
    source_partitions: int


def topics_now(admin: AdminClient, topology: Topology) -> TopicsNow:
    """Ask the brokers for both topics. Raises KafkaException where none answers, SlidestatError
    where one is missing.
    """
    names = (topology.source, topology.events_topic)
    found = identities(admin, names, _TIMEOUT_S)
    for name in names:
        if name not in found:
            raise SlidestatError(
                f"There is no topic {name!r} any more.",
                "It was deleted while workers ran: look with `slidestat topics list`.",
            )
    source, own = (found[name] for name in names)
    note = MovedFrom(
        topology.source, source.topic_id, own.topic_id, own.partitions, _key_text(topology)
    )
    return TopicsNow(note, source.partitions)


def first_offsets(admin: AdminClient, topic: str, partitions: int) -> dict[int, int]:
    """Return the offset of the first record of each partition, or of the one that will be."""
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return _listed(admin, topic, partitions, earliest)


def is_unwritten(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Return whether a topic never had a record."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return not any(_listed(admin, topic, partitions, latest).values())


def _listed(admin: AdminClient, topic: str, partitions: int, which: OffsetSpec) -> dict[int, int]:
    places = [TopicPartition(topic, number) for number in range(partitions)]

    def ask() -> dict[int, int]:
        found = admin.list_offsets(dict.fromkeys(places, which), request_timeout=_TIMEOUT_S)
        return {place.partition: answer.result().offset for place, answer in found.items()}

    return ask_again(ask, _TIMEOUT_S, may_be_new=True)


def check_note(
    topology: Topology, now: MovedFrom, committed: dict[int, Committed], *, is_empty: bool
) -> bool:
    """Return whether the topic was moved to before, in the same way; False for one that is to be
    taken over.

    Raises SlidestatError for a topic with records of another program, or of another source or key,
    and where offsets are missing.
    """
    notes = [_note(beside.note) for beside in committed.values()]
    own = [note for note in notes if note is not None and note.topic_id == now.topic_id]
    topic = topology.events_topic
    if not own:
        if is_empty:
            return False
        raise SlidestatError(
            f"The topic {topic!r} has records, and the group {mover_id(topology)} knows of none of"
            f" {now.source!r} that it has moved there: they are of another source, or somebody"
            " else's, or no worker has run for longer than the brokers keep offsets.",
            "Give the topology another name, and nothing is moved twice; or, if nobody needs the"
            " topic, delete it.",
        )
    for note in own:
        if note != now:
            raise SlidestatError(
                f"The topic {topic!r} has records of {note.source!r}"
                f" (id {note.source_id or 'unknown'}), by the key {note.key} on {note.partitions}"
                f" partitions; now they would be those of {now.source!r}"
                f" (id {now.source_id or 'unknown'}), by {now.key} on {now.partitions}.",
                "Give the topology another name, so that they go to a topic of their own.",
            )
    forgotten = sorted(set(range(max(committed))) - committed.keys())
    if forgotten:
        raise SlidestatError(
            f"The brokers have forgotten up to where partitions {', '.join(map(str, forgotten))} of"
            f" {now.source!r} were moved to {topic!r}: their records would be moved twice.",
            "Give the topology another name, and nothing is moved twice.",
        )
    return True


def offsets_of(
    topology: Topology, positions: dict[int, int], note: MovedFrom
) -> list[TopicPartition]:
    """Return the offsets to commit, each with the note as its metadata."""
    text = note.text()
    return [
        TopicPartition(topology.source, partition, offset, text)
        for partition, offset in sorted(positions.items())
    ]


def _key_text(topology: Topology) -> str:
    """Return the key's name, with a digest of its expression if it is computed."""
    if not topology.key_expression:
        return topology.key_name
    digest = hashlib.sha256(topology.key_expression.encode()).hexdigest()[:_DIGITS]
    return f"{topology.key_name} (computed, {digest})"


def _note(text: str) -> MovedFrom | None:
    try:
        return msgspec.json.decode(text, type=MovedFrom)
    except msgspec.DecodeError:
        return None


# Decide from where a source's records are moved on: what was committed, what is still there.


@dataclass(frozen=True)
class Move:
    """A move of the records of the topology's source.

    With `allow_loss`, records that are gone before they were moved are logged; else they end it.
    """

    bootstrap: str
    topology: Topology
    allow_loss: bool = False


def committed_offsets(move: Move, now: TopicsNow, *, waits: bool = True) -> dict[int, Committed]:
    """Return the offset up to which each partition of the source was moved, with its note; `waits`
    as in `group_offsets`.
    """
    group, source = mover_id(move.topology), move.topology.source
    return group_offsets(move.bootstrap, group, source, now.source_partitions, waits=waits)


def starts_of(move: Move, admin: AdminClient, now: TopicsNow) -> dict[int, int]:
    """Return the offset from which each partition of the source is moved on.

    Raises SlidestatError for topics that are not those of the notes, and for records that are gone
    unless that is allowed.
    """
    topology = move.topology
    # Before notes are read: who moves notes it before there is a record.
    is_empty = is_unwritten(admin, topology.events_topic, now.note.partitions)
    committed = committed_offsets(move, now)
    if not check_note(topology, now.note, committed, is_empty=is_empty):
        committed = {}
    starts = {}
    oldest = first_offsets(admin, topology.source, now.source_partitions)
    for number, first in oldest.items():
        start = committed[number].offset if number in committed else first
        if start < first:
            _tell_lost(move, number, start, first)
        starts[number] = max(start, first)
    return starts


def _tell_lost(move: Move, number: int, start: int, first: int) -> None:
    topology = move.topology
    name = topology.name
    lost = f"{first - start:,} records of {topology.source}/{number}, from {start} on,"
    if not move.allow_loss:
        raise SlidestatError(
            f"{name}: {lost} were deleted before they were moved to {topology.events_topic!r}.",
            "Keep a source's records for longer than workers may be down. To go on without"
            " these: `--allow-loss`.",
        )
    log_event("records lost", f"{name}: {lost} are gone, and are not moved", topology=name)


# How far moving a source's records is behind.


class Behind(NamedTuple):
    """The lag of moving: how many offsets of the source are not moved yet, of all its partitions,
    and the Kafka timestamp, in milliseconds, of the oldest such record that was fetched; None
    without one.
    """

    records: int
    oldest_ms: int | None

    def seconds(self, now_s: float) -> float | None:
        """Return the age of that record, by a clock in seconds: 0 where all is moved, None where
        nothing of the rest was fetched yet.
        """
        if not self.records:
            return 0.0
        return None if self.oldest_ms is None else max(0.0, now_s - self.oldest_ms / 1000)
