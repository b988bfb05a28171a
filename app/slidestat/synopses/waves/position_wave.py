"""The position wave of one key: how long ago the Nth most recent event was.

Paper: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002), section
5 (Nth most recent 1): a wave over positions that carries ranks, where the wave of a count is one
over ranks that carries positions. Here positions are event times, most of which have no event: an
event at t, the one before being at t', stands for the positions t' + 1 to t, as an event of value v
stands for v units in the sum wave. Events of one time are one item. Each level keeps its
c = (1 / epsilon + 1) / 2 newest items.

contract   lower <= exact <= upper, exact being now - time of the event; deterministic;
           |estimate - exact| <= exact / (2 c - 1) <= epsilon * exact while exact <= span. Further
           back all three still hold, but the estimate and upper may be infinite; all three are
           if there never were so many events
space      at most c (J + 1) + 2 items, J = max(0, ceil(log2(span / c)))
update     O(1) in the worst case (reading and writing the state is O(bytes) a batch)
query      O(items newer than the event), after reading the state
order      times must not fall; ties are fine
merge      merge/age_union.py: the Nth most recent event of all parts, both promises stay

Why it holds. As shown in sum_wave.py, with S the last event's time: the item that stands for a
multiple u of 2^i with S - u < c 2^(i+1) is kept, until it expires. Let p be the time of the event
asked for, d = S - p, i the least with d < (2 c - 1) 2^i, and u the largest multiple of 2^i below p:
S - u <= d + 2^i < c 2^(i+1). The item of u is kept (or lost, and then noted) and has a time from u
to p; if that is p, or the item of the next multiple u + 2^i has time p, p is known. Else the newest
item before p has t1 >= u; and the oldest item after p has, as the event before it, one of time at
most u + 2^i - 1 (it is the item of u + 2^i or an older one; or u + 2^i is after S, and the item is
the last event). So p is in [u + 1, u + 2^i - 1], and the middle is off by less than 2^(i-1): by
nothing if i = 0, else by less than d / (2 c - 1), and now - p > d.
"""

from typing import ClassVar

import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.waves.ages import age_steps
from slidestat.synopses.waves.stored_wave import StoredWave
from slidestat.synopses.waves.wave_codec import POSITION


class PositionWave(StoredWave):
    """A deterministic wave that knows how old the Nth most recent event is."""

    kinds: ClassVar[tuple[int, ...]] = (POSITION,)
    kind = "position"

    def insert(self, times: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on.

        Raises SynopsisError, and takes in nothing, if a time goes back. Cost: O(events + bytes).
        """
        self._insert(times, None)

    def query(self, number: int, now: int | None = None) -> Estimate:
        """Answer how long before `now` the `number`th most recent event was; 1 is the last.

        `now` is the wave's if None. A later one is a look ahead that changes nothing; an earlier
        one raises SynopsisError, as does a number below 1. Cost: O(bytes).
        """
        return self._ask(number, now)

    def ages(self, now: int | None = None) -> tuple[Integers, Floats]:
        """Answer for all events at once, from the newest on: int64[S], how many in a row have one
        answer, and float64[3, S], these answers: estimates, lowers and uppers.

        `now` as in `query`. Cost: O(bytes).
        """
        at = self._at(now)
        if at < self._now:
            raise error_codes.synopsis_error(error_codes.QUERY_WENT_BACK, at, self._now, -1)
        state, items = self._decoded()
        counts, answers = age_steps(state, items, at)
        return counts, answers
