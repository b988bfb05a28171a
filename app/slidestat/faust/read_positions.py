"""The position of each partition, so that a batch can state which offsets it covers."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from faust.types import TP


class _Reached(NamedTuple):
    """The beginning of a partition's next fetch, and the end of the records before it."""

    position: int
    end: int


class ReadPositions:
    """The positions of the partitions of some topics, followed from fetch to fetch.

    A fetch continues after transaction markers and other offsets without records: there is nothing
    between its beginning and the end of the last batch, unless the position was changed by a seek,
    or because the offset to continue from was gone.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics
        self._reached: dict[TP, _Reached] = {}
        # Where partitions were put; until a record comes.
        self._jumps: dict[TP, int] = {}

    def before_fetch(self, assignment: Any) -> set[TP]:
        """Note the positions that were changed since the last fetch; return the partitions that
        have one. `assignment` is aiokafka's, or None.
        """
        self._note_jumps(assignment)
        positions = self._positions(assignment)
        for tp, position in positions.items():
            reached = self._reached.get(tp)
            if reached is None or reached.position != position:
                self._jumps[tp] = position
        return set(positions)

    def start_of(self, tp: TP) -> int:
        """Return the first offset that a fetched batch covers. Asked once a batch."""
        reached = self._reached.get(tp)
        return self._jumps.pop(tp, reached.end if reached else 0)

    def after_fetch(self, partitions: set[TP], ends: dict[TP, int], assignment: Any) -> None:
        """Note where the next fetch begins. `partitions` had a position before it; `ends` is where
        the batches that it brought end.
        """
        positions = self._positions(assignment)
        for tp in positions.keys() & (partitions | ends.keys()):
            reached = self._reached.get(tp)
            end = ends.get(tp, reached.end if reached else 0)
            self._reached[tp] = _Reached(positions[tp], end)

    def jumped_to(self, tp: TP, offset: int) -> int | None:
        """Return the offset to which a partition was moved, if no record has come from there, and
        none was fetched from `offset` on, else None.
        """
        reached = self._reached.get(tp)
        return None if reached and reached.end > offset else self._jumps.get(tp)

    def _positions(self, assignment: Any) -> dict[TP, int]:
        consumed = assignment.all_consumed_offsets() if assignment else {}
        return {tp: at.offset for tp, at in consumed.items() if tp.topic in self._topics}

    def _note_jumps(self, assignment: Any) -> None:
        """Have the states of partitions report changes of their position while a fetch waits."""
        for tp in assignment.tps if assignment else ():
            state = assignment.state_value(tp)
            if tp.topic in self._topics and "reset_to" not in vars(state):
                state.reset_to = partial(self._jump, tp, state.reset_to)
                state.seek = partial(self._jump, tp, state.seek)

    def _jump(self, tp: TP, put: Callable[[int], None], position: int) -> None:
        self._jumps[tp] = position
        put(position)
