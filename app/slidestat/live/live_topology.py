"""A topology's live state in this worker: which partitions can be asked, and how they are now."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.records import NO_TIME
from slidestat.live.observed import Observed
from slidestat.repartition.moved_from import Behind
from slidestat.schemas.query import AddedStatistic, KeyAnswer, PartitionStatus


class View(Protocol):
    """The keys of a partition as they are now: a `PartitionView`, of a referee a `RefereeView`."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def watermark(self) -> int:
        """The event time that it has reached."""

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""

    @property
    def keys_held(self) -> int | None:
        """The number of keys that can be asked for, None until that is known."""

    def alone(self, key: str) -> "OneKey | None":
        """Return a copy of a key's state, for use at any time in any thread; None without one."""

    def has(self, key: str) -> bool:
        """Return whether the key is in the view."""

    def keys(
        self, prefix: str, after: str, limit: int, firing: Collection[str] = ()
    ) -> Iterator[str]:
        """Yield the first `limit` keys after `after` that begin with `prefix`, in order; if alerts
        are named, of those for which one of them fires.
        """


class OneKey(Protocol):
    """One key of a partition as it was at some time."""

    @property
    def partition(self) -> int:
        """The partition's number."""


class Question(Protocol):
    """A question that can be asked of any key: a `LiveQuery` or, of a referee, a `RefereeQuery`."""

    def answer(self, view: Any, key: str) -> KeyAnswer | None:
        """Return the key's figures, None for a key that is not there. The view is one of a
        partition, or of the key alone.
        """


class Held(Protocol):
    """The partitions of a topology, or of a referee, that are in this process."""

    observed: Observed

    def view(self, partition: int) -> View:
        """Return the partition's keys as they are now."""

    def status(self, partition: int) -> PartitionStatus:
        """Return the partition's progress."""

    def firing(self) -> dict[str, int]:
        """Return the number of keys for which each alert fires."""

    def behind(self) -> Mapping[str, Behind] | None:
        """Return the backlog of moving each source's records; None unless this worker does it."""

    def changelog_written(self) -> tuple[int, int]:
        """Return the records and bytes written to the changelog since the process began."""


def partition_status(
    view: View,
    reached: Checkpoint,
    *,
    is_sequence: bool,
    next_offset: int,
    end_offset: int | None,
    waiting: int = 0,
    emissions: int,
    state_bytes: int,
    incomplete: Sequence[AddedStatistic] = (),
) -> PartitionStatus:
    """Return the status of a partition at its position `reached`, with its keys as in `view`."""
    counters = reached.counters
    reached_time = None if view.watermark <= NO_TIME else view.watermark
    return PartitionStatus(
        partition=view.partition,
        next_offset=next_offset,
        end_offset=end_offset,
        waiting=waiting,
        watermark_ms=None if is_sequence else reached_time,
        read=counters.read,
        counted=counters.counted,
        dead=counters.dead,
        late=counters.late,
        lost=counters.lost,
        passed_over=counters.passed_over,
        left_out=counters.left_out,
        emissions=emissions,
        keys=view.keys_held,
        state_bytes=state_bytes,
        watermark_seq=reached_time if is_sequence else msgspec.UNSET,
        incomplete=list(incomplete) or msgspec.UNSET,
    )


class LiveTopology:
    """The partitions that this worker holds of one topology, or of a referee's source.

    They can be asked from the end of a recovery to the next rebalance; `epoch` changes with both.
    """

    def __init__(self, topology: Declared, held: Held) -> None:
        self.topology = topology
        self.epoch = 0
        self.held = held
        # Whether brokers answer: else answers are as of when they did.
        self.is_up_to_date = True
        self._partitions: tuple[int, ...] | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether the topology can be asked."""
        return self._partitions is not None

    def ready(self, partitions: Collection[int]) -> None:
        """Mark the topology as ready: the states of these partitions are all here."""
        self.epoch += 1
        self._partitions = tuple(sorted(partitions))

    def not_ready(self) -> None:
        """Mark the topology as not ready, as partitions are about to move."""
        self.epoch += 1
        self._partitions = None

    def views(self) -> list[View]:
        """Return the partitions as they are now, for use at once; none while it is not ready.

        Raises SlidestatError for a stored state of another topology.
        """
        return [self.held.view(partition) for partition in self._partitions or ()]

    def status(self) -> list[PartitionStatus]:
        """Return the progress of the partitions; none while it is not ready.

        Raises SlidestatError for a stored state of another topology.
        """
        return [self.held.status(partition) for partition in self._partitions or ()]
