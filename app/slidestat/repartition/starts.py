"""Decide from where a source's records are moved on: what was committed, what is still there."""

from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.group_offsets import Committed, group_offsets
from slidestat.log import log_event
from slidestat.repartition.moved_from import (
    TopicsNow,
    check_note,
    first_offsets,
    is_unwritten,
    mover_id,
)


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
