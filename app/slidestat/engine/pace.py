"""The size of a slice of work, so that it does not block its thread for long."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

# A heartbeat, a question or an acknowledgement can wait for so long.
_HOLD_S = 0.03
# A slice may be slow by chance.
_GROWTH, _SHRINKAGE = 2, 4


class Pace:
    """A number of things to do at a time, which follows from how long the last ones took.

    Results must not depend on it.
    """

    def __init__(self, first: int, most: int) -> None:
        self.size = min(first, most)
        self._most = most

    @contextmanager
    def doing(self, count: int) -> Iterator[None]:
        """Measure a block that does `count` things.

        CPU time is measured: on a machine that is short of it smaller slices would take more of it
        in all.
        """
        started = thread_time()
        yield
        self.took(count, thread_time() - started)

    def took(self, done: int, seconds: float) -> None:
        """Adapt the size to `done` things that took `seconds`."""
        fitting = int(done * _HOLD_S / max(seconds, 1e-6))
        slowest, quickest = self.size // _SHRINKAGE, self.size * _GROWTH
        self.size = max(1, min(fitting, quickest, self._most), slowest)
