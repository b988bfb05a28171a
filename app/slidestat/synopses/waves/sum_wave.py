"""The sum wave of one key: how much, of whole numbers from 0 to 2^53, in O(1) steps an event.

Paper: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002), section
3.3 (figure 5). An event of value v is v units at once, z - v + 1 to z; its level is the largest i
with a multiple of 2^i among them, and each level keeps its c = (1 / epsilon + 1) / 2 newest events.

contract   lower <= exact <= upper; |estimate - exact| <= exact / (2 c - 1) <= epsilon * exact;
           deterministic; any window n <= span. Above 2^53, bounds are rounded outwards
space      at most c (J + 1) + 1 items, J = max(0, ceil(log2(N' / c))), N' units in the span
update     O(1) in the worst case, whatever the value (the state is read and written once a batch)
query      O(1) for the whole span, O(items) for less, after reading the state
order      times must not fall; ties are fine
merge      merge/totals.py; sums of separate streams add up, and so do estimates and bounds: the
           relative error stays

Why it holds. An event whose units hold a multiple of 2^i, but none of 2^(i+1), holds one such
multiple only (the next one but one is a multiple of 2^(i+1)). Let e be an event of level m, pushed
out by c newer events of that level, y its multiple of 2^m. Each of those has an odd multiple of 2^m
after y, so S >= y + 2 c 2^m. For a multiple u of 2^i in e: if i < m, u < y + 2^m (which is of a
higher level, so not in e), and S - u > (2 c - 1) 2^m >= c 2^(i+1); if i = m, u = y and
S - u >= c 2^(i+1). So the event that holds a multiple u of 2^i with S - u < c 2^(i+1) is kept,
until it expires, and then it is noted as lost if none newer is.

Now let x be the window's sum, a = S - x, i the least with x <= (2 c - 1) 2^i, and u the largest
multiple of 2^i up to a. S - u < c 2^(i+1), so the event of u is kept or lost, or u is 0: what is
known to be outside ends at z1 >= u. The event of u + 2^i is kept (or, if that is after S, the
newest event is), so the oldest kept event inside starts at z2 - v2 <= u + 2^i - 1. Hence x is in
[S - z2 + v2, S - z1], which is at most 2^i - 1 wide, and its middle is off by nothing if i = 0,
else by less than 2^(i-1) < x / (2 c - 1). The paper keeps 1 / epsilon + 1 events a level; half is
enough.

Space: each live event of level J or above holds a multiple of 2^J,
of which there are at most c + 1 in N' units; below level J there are c a level.
"""

from typing import ClassVar

import numpy.typing as npt

from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.waves.stored_wave import StoredWave
from slidestat.synopses.waves.wave_codec import SUM


class SumWave(StoredWave):
    """A deterministic wave that sums whole numbers; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (SUM,)
    kind = "sum"

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value, 0 to 2^53, for each.

        Raises SynopsisError, and takes in nothing, if a time goes back, a value is out of range or
        no whole number, or `upper` would come to 2^62. Cost: O(events + bytes).
        """
        self._insert(times, values)

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the wave's if None.

        A later `now` is a look ahead that changes nothing; an earlier one raises SynopsisError.
        Cost: O(bytes).
        """
        return self._ask(n, now)
