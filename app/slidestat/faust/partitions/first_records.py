"""The first records of a topology: where all of them are refused, the declaration is at fault, and
the worker stops before it has set any aside.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.effects import Effects
from slidestat.engine.intake.letters import Letter
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.text.refusal_text import advice_on, reasons_text

MOST_REFUSED = 10_000
# Letters are in memory until it is known that they are to be written.
MOST_REFUSED_BYTES = 128 * 2**20
# Commits wait as well: not for long for a record that the topology's condition seldom takes.
MOST_PASSED_OVER = 10_000


class Step(NamedTuple):
    """The outputs of a step of a partition's batch, which was begun at `started`."""

    effects: Effects
    partition: int
    started: float


class FirstRecords:
    """A holder of the first records' letters, of a topology that never took in a record: they are
    written once one is taken in, many were passed over, or the source has no more.
    """

    def __init__(self, topology: Topology | Referee, *, is_watched: bool) -> None:
        """Create the holder; without `is_watched` it holds nothing back."""
        self._topology = topology
        self._is_watched = is_watched
        self._held: list[Step] = []
        self._bytes = 0
        self._refused: Counter[Reason] = Counter()
        # By partition: before the first one that was looked at, and by now.
        self._passed_over: dict[int, tuple[int, int]] = {}
        self._first: dict[Reason, tuple[int, Letter]] = {}

    @property
    def are_held(self) -> bool:
        """Return whether letters are held back: nothing of their partitions may be committed."""
        return bool(self._held)

    def due(self, step: Step, reached: Counters) -> Sequence[Step]:
        """Return the steps whose outputs are to be sent now, in order, given the next one;
        `reached` are the outcomes of its partition's records up to now.

        Raises SlidestatError where 10,000 records, or 128 MiB of them, were refused and none was
        taken in. What is held back then is never sent.
        """
        if not self._is_watched:
            return [step]
        if reached.counted or reached.late:
            self._is_watched = False
            return [*self.released(), step]
        letters = step.effects.dead_letters
        for letter in letters:
            self._first.setdefault(letter.reason, (step.partition, letter))
        self._refused.update(letter.reason for letter in letters)
        self._bytes += sum(map(_size, letters))
        if self._refused.total() >= MOST_REFUSED or self._bytes >= MOST_REFUSED_BYTES:
            raise self._error()
        before, _ = self._passed_over.get(step.partition, (reached.passed_over, 0))
        self._passed_over[step.partition] = before, reached.passed_over
        if sum(now - before for before, now in self._passed_over.values()) >= MOST_PASSED_OVER:
            return [*self.released(), step]
        if not step.effects.is_empty:
            self._held.append(step)
        return []

    def released(self) -> Sequence[Step]:
        """Return the steps that were held back, which are to be sent now."""
        held, self._held, self._bytes = self._held, [], 0
        return held

    def forget(self) -> None:
        """Drop what is held back, as partitions may move: its records are read again."""
        self.released()
        self._refused.clear()
        self._passed_over.clear()
        self._first.clear()

    def _error(self) -> SlidestatError:
        reason = self._refused.most_common(1)[0][0]
        partition, letter = self._first[reason]
        return SlidestatError(
            f"{self._topology.name}: all of the first {self._refused.total():,} records that were"
            f" read are refused ({reasons_text(self._refused)}), such as the one of"
            f" {self._topology.events_topic!r}, partition {partition}, offset {letter.offset}:"
            f" {reason.value}, {letter.detail}.",
            f"{advice_on(reason)}Correct the declaration, and start again: as long as no worker has"
            " counted any, all is read again under the same name. To have such records set aside as"
            " dead letters, start with --anyway.",
        )


def _size(letter: Letter) -> int:
    headers = sum(len(value or b"") for _, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers
