"""Ticks that the watermark has passed, and whose emissions wait for more to be read.

A worker that catches up passes several ticks in each batch, and each of them finds few events of a
key. Kept back over some batches, the events of many ticks are absorbed in one call of a kernel,
which answers at each tick between: a state is read, checked and written once for all of them.
"""

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.loss import Loss
from slidestat.engine.intake.intake import Taken
from slidestat.engine.ticks.advance import Advance

Int64s = npt.NDArray[np.int64]


class KeptTicks:
    """The batches since the last emissions, and the largest number of emissions that they lead
    to.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._before = 0
        self._moves: list[tuple[Int64s, Int64s]] = []
        # Of keys with events: each of a batch's keys at each of its ticks.
        self.emissions = 0

    def __bool__(self) -> bool:
        return bool(self._moves)

    def add(self, taken: Taken) -> None:
        """Keep back the ticks of a batch; nothing is kept if it passes none, and none is kept."""
        first, last = taken.before // self._every, int(taken.watermarks[-1]) // self._every
        if not self._moves:
            if first == last:
                return
            self._before = taken.before
        self._moves.append((taken.offsets, taken.watermarks))
        events = taken.events
        self.emissions += min(len(events), len(events.keys.unique()) * (last - first + 1))

    def take(self, emitted: int, loss: Loss | None) -> Advance:
        """Return the advance over all that was kept, and keep nothing any more."""
        moves, self._moves, self.emissions = self._moves, [], 0
        offsets, watermarks = map(np.concatenate, zip(*moves, strict=True))
        return Advance(self._before, offsets, watermarks, emitted, loss)
