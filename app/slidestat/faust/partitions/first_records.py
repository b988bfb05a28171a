"""The first records of a topology: where all of them are refused, the declaration is at fault, and
the worker stops before it has set millions aside.
"""

from collections import Counter
from collections.abc import Sequence

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.intake.letters import Letter
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.text.refusal_text import advice_on, reasons_text

MOST_REFUSED = 10_000


class FirstRecords:
    """A counter of the first records that are refused, until one is taken in, of a topology that
    never took in any.
    """

    def __init__(self, topology: Topology | Referee, *, is_watched: bool) -> None:
        """Create the counter; without `is_watched` it does nothing."""
        self._topology = topology
        self._is_watched = is_watched
        self._refused: Counter[Reason] = Counter()
        self._first: dict[Reason, tuple[int, Letter]] = {}

    def look(self, partition: int, letters: Sequence[Letter], reached: Counters) -> None:
        """Look at the dead letters of a partition before they are sent; `reached` are the outcomes
        of its records up to now.

        Raises SlidestatError where 10,000 records were refused and none was taken in. What was read
        last is neither sent nor committed.
        """
        if not self._is_watched:
            return
        if reached.counted or reached.late:
            self._is_watched = False
            return
        for letter in letters:
            self._first.setdefault(letter.reason, (partition, letter))
        self._refused.update(letter.reason for letter in letters)
        if self._refused.total() >= MOST_REFUSED:
            raise self._error()

    def _error(self) -> SlidestatError:
        reason = self._refused.most_common(1)[0][0]
        partition, letter = self._first[reason]
        return SlidestatError(
            f"{self._topology.name}: all of the first {self._refused.total():,} records that were"
            f" read are refused ({reasons_text(self._refused)}), such as the one of"
            f" {self._topology.events_topic!r}, partition {partition}, offset {letter.offset}:"
            f" {reason.value}, {letter.detail}.",
            f"{advice_on(reason)}Correct the declaration, and start again: nothing is counted yet,"
            " and all is read again under the same name. To have such records set aside as dead"
            " letters, start with --anyway.",
        )
