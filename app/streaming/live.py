"""A topology's live state in this worker: which partitions can be asked, and how they are now."""

from collections.abc import Collection
from typing import Protocol

from app.streaming.live_query import PartitionView
from app.streaming.observed import Observed
from app.streaming.topology import Topology
from schemas.query import PartitionStatus


class Held(Protocol):
    """The partitions of a topology that are in this process."""

    observed: Observed

    def view(self, partition: int) -> PartitionView:
        """Its keys as they are now."""

    def status(self, partition: int) -> PartitionStatus:
        """How far it has come."""

    def changelog_written(self) -> tuple[int, int]:
        """Records and bytes written to the changelog since the process began."""


class LiveTopology:
    """The partitions that this worker holds of one topology.

    They can be asked from the end of a recovery to the next rebalance; `epoch` changes with both.
    """

    def __init__(self, topology: Topology, held: Held) -> None:
        self.topology = topology
        self.epoch = 0
        self.held = held
        self._partitions: tuple[int, ...] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        return self._partitions is not None

    def ready(self, partitions: Collection[int]) -> None:
        """The states of these partitions are all here."""
        self.epoch += 1
        self._partitions = tuple(sorted(partitions))

    def not_ready(self) -> None:
        """Partitions are about to move."""
        self.epoch += 1
        self._partitions = None

    def views(self) -> list[PartitionView]:
        """The partitions as they are now, for use at once; none while it is not ready.

        Raises SlidestatError for a stored state of another topology.
        """
        return [self.held.view(partition) for partition in self._partitions or ()]

    def status(self) -> list[PartitionStatus]:
        """How far the partitions have come; none while it is not ready.

        Raises SlidestatError for a stored state of another topology.
        """
        return [self.held.status(partition) for partition in self._partitions or ()]
