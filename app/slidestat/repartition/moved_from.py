"""A note of what was moved to a topic, as metadata of the offsets up to which it was.

By it the topic is known as ours, and what it was made from: another source, another key or another
number of partitions would put records of one key in two places. Each of several sources has a note
of its own, so that others may be added later. Brokers drop offsets with their topic: as a pattern
may have no topic for a while, it has a further note, which outlives them.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from slidestat.declare.naming import written_by_workers
from slidestat.declare.topology import Topology
from slidestat.engine.records import UNKNOWN_EPOCH, LogMark
from slidestat.errors import SlidestatError
from slidestat.kafka.groups import Committed, group_offsets
from slidestat.kafka.read.same_log import first_difference
from slidestat.kafka.retries import ask_again
from slidestat.kafka.topic_identity import are_compacted, identities
from slidestat.log import log_event

# The header of a record that one of several sources had, with where it was: topic/partition/offset.
MOVED_FROM = "moved_from"

_TIMEOUT_S = 30.0
_DIGITS = 16

# A partition of a source.
Place = tuple[str, int]


def mover_id(topology: Topology) -> str:
    """Return the consumer group of the offsets, which is also the transactional id of the mover."""
    return f"slidestat-{topology.events_topic}"


class MovedFrom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The origin of moved records: the source, the key by which they are moved, and the number of
    partitions; with both topics' ids, "" where the brokers keep none. In the note of all sources
    together, the source and its id are "". Beside the offset of a partition it has the mark of the
    last record that was moved, if any was since marks are noted.
    """

    source: str
    source_id: str
    topic_id: str
    partitions: int
    key: str
    mark: LogMark | None = None

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Sources(NamedTuple):
    """The sources among the topics that there are, and those that patterns match and leave out:
    compacted ones, and those that workers of other topologies write.
    """

    topics: list[str]
    compacted: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


class TopicsNow(msgspec.Struct, frozen=True):
    """The topics that there are now: the note and the partitions of each source, by its name, and
    the note of all together; with the topics of a pattern that are left out, as in `Sources`.
    """

    notes: dict[str, MovedFrom]
    source_partitions: dict[str, int]
    of_all: MovedFrom
    compacted: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @property
    def places(self) -> list[Place]:
        """Return the partitions of all sources."""
        return [
            (source, number)
            for source, count in sorted(self.source_partitions.items())
            for number in range(count)
        ]


def sources_of(
    admin: AdminClient, topology: Topology, topics: Collection[str], known: Collection[str] = ()
) -> Sources:
    """Return the named sources, and existing topics that match patterns. A pattern matches topics
    that workers of other topologies write only if it ends as their names do: otherwise a source and
    the topic moved from it would count each event twice. `known` are known as sources. Raises
    KafkaException where no broker answers.
    """
    named = set(topology.named_sources)
    matched = set(topology.sources_among(topics)) - named
    endings = written_by_workers(matched, topics)
    written = frozenset(
        topic
        for topic, ending in endings.items()
        if not any(it.endswith(ending) and fnmatchcase(topic, it) for it in topology.source_topics)
    )
    matched -= written
    new = matched.difference(known)
    policies = ask_again(lambda: are_compacted(admin, new, _TIMEOUT_S), _TIMEOUT_S)
    compacted = frozenset(name for name, is_compacted in policies.items() if is_compacted)
    # A source that no broker knows yet is found the next time.
    found = sorted(named | matched - (new - policies.keys()) - compacted)
    return Sources(found, compacted, written)


def topics_now(admin: AdminClient, topology: Topology, known: Collection[str] = ()) -> TopicsNow:
    """Ask the brokers for the sources, `known` as in `sources_of`, and for the topic of the
    topology. Raises KafkaException where none answers, SlidestatError where one is missing.
    """
    named = topology.named_sources
    sources = Sources(named)
    if topology.has_pattern:
        listed = ask_again(lambda: admin.list_topics(timeout=_TIMEOUT_S), _TIMEOUT_S)
        sources = sources_of(admin, topology, listed.topics, known)
    found = identities(admin, [*sources.topics, topology.events_topic], _TIMEOUT_S)
    for name in (*named, topology.events_topic):
        if name not in found:
            raise SlidestatError(
                f"There is no topic {name!r} any more.",
                "It was deleted while workers ran: look with `slidestat topics list`.",
            )
    own = found.pop(topology.events_topic)
    of_all = MovedFrom("", "", own.topic_id, own.partitions, _key_text(topology))
    return TopicsNow(
        {
            name: msgspec.structs.replace(of_all, source=name, source_id=source.topic_id)
            for name, source in found.items()
        },
        {name: source.partitions for name, source in found.items()},
        of_all,
        sources.compacted,
        sources.written,
    )


def _ends(admin: AdminClient, places: Sequence[Place]) -> dict[Place, ListOffsetsResultInfo]:
    """Return the end of each partition, with the epoch of the leader that appended last."""
    return _listed(admin, places, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def _listed(
    admin: AdminClient, places: Sequence[Place], which: OffsetSpec
) -> dict[Place, ListOffsetsResultInfo]:
    if not places:
        return {}
    wanted = {TopicPartition(topic, number): which for topic, number in places}

    def ask() -> dict[Place, ListOffsetsResultInfo]:
        found = admin.list_offsets(wanted, request_timeout=_TIMEOUT_S)
        return {(place.topic, place.partition): it.result() for place, it in found.items()}

    return ask_again(ask, _TIMEOUT_S, may_be_new=True)


def check_notes(
    topology: Topology, now: TopicsNow, committed: Mapping[Place, Committed], *, is_empty: bool
) -> bool:
    """Return whether the topic was moved to before, in the same way; False for one to take over.

    Raises SlidestatError for a topic with records of another program, or of another source or key,
    and where offsets are missing.
    """
    noted = {place: note_of(beside.note) for place, beside in committed.items()}
    own = {
        place: note
        for place, note in noted.items()
        if note is not None and note.topic_id == now.of_all.topic_id
    }
    topic = topology.events_topic
    notes = {**now.notes, topic: now.of_all} if topology.has_pattern else now.notes
    if not any(source in notes for source, _ in own):
        if is_empty:
            return False
        raise SlidestatError(
            f"The topic {topic!r} has records, and the group {mover_id(topology)} knows of none of"
            f" {topology.sources_text!r} that it has moved there: they are of another source, or"
            " another program wrote them, or no worker has run for longer than the brokers keep"
            " offsets.",
            "Give the topology another name, and nothing is moved twice; or, if nobody needs the"
            " topic, delete it.",
        )
    for (source, _), note in own.items():
        if source in now.compacted:
            raise SlidestatError(
                f"The source {source!r}, of which records were moved, is compacted now:"
                " events that are not the newest of their key are deleted before they are counted.",
                "Set cleanup.policy=delete for it.",
            )
        if source not in notes:
            if source == topic or topology.sources_among([source]):
                # The note covers all sources, or a broker did not list this one yet: the next look
                # finds it.
                continue
            raise SlidestatError(
                f"The topic {topic!r} has records of {source!r}, which is no source of"
                f" {topology.name} any more.",
                "Leave it among the sources, or give the topology another name: then it counts the"
                " others from their beginning.",
            )
        if msgspec.structs.replace(note, mark=None) != (new := notes[source]):
            text = topology.sources_text
            raise SlidestatError(
                f"The topic {topic!r} has records of {note.source or text!r}"
                f" (id {note.source_id or 'unknown'}), by the key {note.key} on {note.partitions}"
                f" partitions; now they would be those of {new.source or text!r}"
                f" (id {new.source_id or 'unknown'}), by {new.key} on {new.partitions}.",
                "Give the topology another name, so that they go to a topic of their own.",
            )
    for source in now.notes:
        numbers = {number for topic, number in committed if topic == source}
        forgotten = sorted(set(range(max(numbers, default=0))) - numbers)
        if forgotten:
            raise SlidestatError(
                f"The brokers have forgotten up to where partitions"
                f" {', '.join(map(str, forgotten))} of {source!r} were moved to {topic!r}: their"
                " records would be moved twice.",
                "Give the topology another name, and nothing is moved twice.",
            )
    return True


def offsets_of(
    topology: Topology,
    positions: Mapping[Place, int],
    now: TopicsNow,
    marks: Mapping[Place, LogMark],
) -> list[TopicPartition]:
    """Return the offsets to commit, each with the note of its source as its metadata, and in it the
    mark of the partition; for patterns also the note of all, at no position.
    """
    offsets = []
    for place, offset in sorted(positions.items()):
        note = msgspec.structs.replace(now.notes[place[0]], mark=marks.get(place))
        offsets.append(TopicPartition(*place, offset, note.text()))
    if topology.has_pattern:
        offsets.append(TopicPartition(*_place_of_all(topology), 0, now.of_all.text()))
    return offsets


def _place_of_all(topology: Topology) -> Place:
    """Return the partition whose committed offset carries the note about all sources."""
    return topology.events_topic, 0


def _key_text(topology: Topology) -> str:
    """Return the key's name, with a digest of its expression if it is computed."""
    if not topology.key_expression:
        return topology.key_name
    digest = hashlib.sha256(topology.key_expression.encode()).hexdigest()[:_DIGITS]
    return f"{topology.key_name} (computed, {digest})"


def note_of(text: str) -> MovedFrom | None:
    try:
        return msgspec.json.decode(text, type=MovedFrom)
    except msgspec.DecodeError:
        return None


# Decide from where a source's records are moved on: what was committed, what is still there.


@dataclass(frozen=True)
class Move:
    """A move of the records of the topology's sources.

    With `allow_loss`, records that are gone before they were moved are logged; else they end it.
    """

    bootstrap: str
    topology: Topology
    allow_loss: bool = False


def moved_before(
    move: Move, admin: AdminClient, now: TopicsNow, *, waits: bool = True
) -> dict[Place, Committed]:
    """Return the offset up to which each partition of the sources was moved, with its note; none
    for a topic that is to be taken over. `waits` as in `group_offsets`.

    Raises SlidestatError for topics that are not those of the notes.
    """
    topology, group = move.topology, mover_id(move.topology)
    # Read before the notes are: whoever moves notes it before there is a record.
    own_ends = _ends(admin, [(topology.events_topic, p) for p in range(now.of_all.partitions)])
    is_empty = not any(end.offset for end in own_ends.values())
    # Any topic may have been a source. (To ask for all that a group has, without their names, ends
    # the process where it has none, with confluent-kafka 2.16.)
    listed = ask_again(lambda: admin.list_topics(timeout=_TIMEOUT_S), _TIMEOUT_S).topics
    every = {(name, number) for name, topic in listed.items() for number in topic.partitions}
    asked = every.union(now.places, [_place_of_all(topology)])
    committed = group_offsets(move.bootstrap, group, asked, waits=waits)
    if not check_notes(topology, now, committed, is_empty=is_empty):
        return {}
    return committed


class Start(NamedTuple):
    """The offset from which a partition is moved on, and the mark of the last record that was."""

    offset: int
    mark: LogMark | None


def starts_of(move: Move, admin: AdminClient, now: TopicsNow) -> dict[Place, Start]:
    """Return from where each partition of the sources is moved on.

    Raises SlidestatError as `moved_before`, and for records that are gone, or are others now,
    unless that is allowed. Costs the read of a record where another leader has appended since.
    """
    committed = moved_before(move, admin, now)
    marks: dict[Place, LogMark | None] = {
        place: note.mark
        for place, beside in committed.items()
        if (note := note_of(beside.note)) is not None and place[0] in now.notes
    }
    ends = _ends(admin, [place for place, mark in marks.items() if mark is not None])
    starts = {}
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    for place, found in _listed(admin, now.places, earliest).items():
        # The time of the first record, or of the one that will be first.
        first = found.offset
        start = committed[place].offset if place in committed else first
        mark = marks.get(place)
        if mark is not None and not _has_appended_alone(ends[place], mark):
            other = first_difference(move.bootstrap, *place, mark)
            if other is not None:
                _tell_replaced(move, place, other, start)
                start, mark = min(start, other), None
        if start < first:
            _tell_lost(move, place, start, first)
        starts[place] = Start(max(start, first), mark)
    return starts


def _has_appended_alone(end: ListOffsetsResultInfo, mark: LogMark) -> bool:
    """Return whether the leader that appended a partition's end had also appended the record of a
    mark before it: then the log was not cut in between.
    """
    is_known = end.leader_epoch is not None and mark.leader_epoch != UNKNOWN_EPOCH
    return is_known and end.leader_epoch == mark.leader_epoch and mark.offset < end.offset


def _tell_replaced(move: Move, place: Place, first: int, start: int) -> None:
    name, topic = move.topology.name, move.topology.events_topic
    source, number = place
    lost = f"records {first} to {start - 1} of {source}/{number}"
    if not move.allow_loss:
        raise SlidestatError(
            f"{name}: {lost} are not those that were moved to {topic!r}: the log lost its end after"
            " that, as with an unclean election of a leader or a lost disk.",
            "Keep unclean.leader.election.enable=false, and several replicas. To move what is there"
            " now, behind what was counted of those: `--allow-loss`.",
        )
    log_event(
        "records lost",
        f"{name}: {lost} were moved and are gone; what is there now is moved as well",
        topology=name,
    )


def _tell_lost(move: Move, place: Place, start: int, first: int) -> None:
    topology = move.topology
    name = topology.name
    source, number = place
    lost = f"{first - start:,} records of {source}/{number}, from {start} on,"
    if not move.allow_loss:
        raise SlidestatError(
            f"{name}: {lost} were deleted before they were moved to {topology.events_topic!r}.",
            "Keep a source's records for longer than workers may be down. To go on without"
            " these: `--allow-loss`.",
        )
    log_event("records lost", f"{name}: {lost} are gone, and are not moved", topology=name)


# The lag of moving records.


class Behind(NamedTuple):
    """The lag of moving: how many offsets of a source are not moved yet, of all its partitions,
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


def in_all(behind: Iterable[Behind]) -> Behind:
    """Return the lag of all sources together."""
    lags = list(behind)
    oldest = [lag.oldest_ms for lag in lags if lag.oldest_ms is not None]
    return Behind(sum(lag.records for lag in lags), min(oldest, default=None))
