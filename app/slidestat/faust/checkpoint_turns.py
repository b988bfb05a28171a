"""When which slot of keys has its turn to become durable: each once in a checkpoint interval.

A flush takes the slots whose turn has come since the last one, so that writing is spread evenly. It
takes more of them where more is unwritten than memory and a restart should bear: the round is then
shorter than the interval, and what is unwritten stays bounded.
"""

from collections.abc import Sequence
from math import ceil

from slidestat.engine.states.unwritten import SLOTS


class CheckpointTurns:
    """A round through the slots in `interval_s` seconds; with 0, each flush is a whole round."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._turn_s = interval_s / SLOTS
        self._given_until = now
        self._next = 0

    def due(self, now: float, share: float = 0.0) -> Sequence[int]:
        """Return the slots whose turn is due at `now` (of time.monotonic), at least a `share` of
        all.
        """
        turns = SLOTS
        if self._turn_s:
            turns = int((now - self._given_until) / self._turn_s)
        if turns >= SLOTS or share > turns / SLOTS:
            turns = min(SLOTS, max(turns, ceil(share * SLOTS)))
            self._given_until = now
        else:
            self._given_until += turns * self._turn_s
        slots = [(self._next + turn) % SLOTS for turn in range(turns)]
        self._next = (self._next + turns) % SLOTS
        return slots
