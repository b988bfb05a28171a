"""A topology's live state in this worker: which partitions can be asked, and how they are now."""

from collections.abc import Callable, Collection

from app.streaming.live_query import PartitionView
from app.streaming.topology import Topology


class LiveTopology:
    """The partitions that this worker holds of one topology.

    They can be asked from the end of a recovery to the next rebalance; `epoch` changes with both.
    """

    def __init__(self, topology: Topology, view: Callable[[int], PartitionView]) -> None:
        self.topology = topology
        self.epoch = 0
        self._view = view
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
        return [self._view(partition) for partition in self._partitions or ()]
