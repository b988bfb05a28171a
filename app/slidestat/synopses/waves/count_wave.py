"""The deterministic wave of one key: how many events, over any window, in O(1) steps an event.

Paper: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002), section
3.2, the optimal wave, with duplicated positions (event times). Of each level i it keeps the
c = (1 / epsilon + 1) / 2 newest events whose rank 2^i divides and 2^(i+1) does not.

contract   lower <= exact <= upper; |estimate - exact| <= exact / (2 c - 1) <= epsilon * exact;
           deterministic; exact while exact <= 2 c - 1; any window n <= span
space      at most c (J + 1) + 1 items, J = max(0, ceil(log2(N' / c))), N' events in the span
update     O(1) in the worst case (reading and writing the state is O(bytes) a batch)
query      O(1) for the whole span, O(items) for less, after reading the state
order      times must not fall; ties are fine
merge      merge/totals.py; counts of separate streams add up, and so do estimates and bounds: the
           relative error stays

Why it holds. S events were seen, the window has x of them, a = S - x are before it. Rank u of level
i is kept while floor((S - u) / 2^(i+1)) < c, so all multiples of 2^i, of whatever level, with
S - u < c 2^(i+1) are. Let i be the least with x <= (2 c - 1) 2^i, and u the largest multiple of 2^i
up to a. Then S - u <= x + 2^i - 1 < c 2^(i+1), so u is kept, or expired and noted as lost, or 0;
and so is u + 2^i, unless it is after S, which is kept itself. So the newest rank r1 known to be
outside and the oldest kept one r2 inside are at most 2^i apart, x is in [S - r2 + 1, S - r1], and
the middle of it, rounded up to a whole number, is off by at most floor((r2 - r1) / 2): by nothing
if i = 0, else by 2^(i-1) < x / (2 c - 1).

Three differences from the paper. It needs a bound on the events of a window to know how many levels
to keep; here levels are made as ranks reach them, and end at 2^60. Its estimate, S + 1 -
(r1 + r2) / 2, is half an event too high when r2 = r1 + 1, which is more than allowed for a count of
one; here it is rounded down. And a window that starts at the time of r2 is exact only if no two
events are of one time, so nothing is made of that here.

Space: of level i, c are kept; of the levels from J on there are at most N' / 2^J + 1 <= c + 1
multiples of 2^J in N' ranks in a row.

>>> from slidestat.synopses import CountWave
>>> from slidestat.synopses import WaveParameters
>>> visits = CountWave.create(WaveParameters(epsilon=0.1, span=60_000))
>>> visits.insert([1_000, 2_000, 2_000, 59_000])
>>> visits.query(1_000, now=60_000)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from typing import ClassVar

import numpy.typing as npt

from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.waves.stored_wave import StoredWave
from slidestat.synopses.waves.wave_codec import COUNT


class CountWave(StoredWave):
    """A deterministic wave that counts events; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (COUNT,)
    kind = "count"

    def insert(self, times: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on.

        Raises SynopsisError, and takes in nothing, if a time goes back. Cost: O(events + bytes).
        """
        self._insert(times, None)

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the wave's if None.

        A later `now` is a look ahead that changes nothing; an earlier one raises SynopsisError.
        Cost: O(bytes).
        """
        return self._ask(n, now)
