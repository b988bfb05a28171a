"""How long ago the Nth most recent event of all parts of a bundle was.

Source: Gibbons and Tirthapura 2002, section 5 (Nth most recent 1), and their Referee of section 4.

Contract: as of one part (waves.py): lower <= exact <= upper, always; |estimate - exact| <=
relative_error * exact while exact <= span. Further back the estimate and upper may be infinite; all
three are if there never were so many events. Cost: O(items log(items)) of all parts.

Proof. Of each event of each part, of age a, its wave knows l <= a <= u and an estimate e, in the
order of the events. The Nth most recent event of the union has the Nth smallest a of all. Let L, E
and U be the Nth smallest l, e and u of all. N events have an l of at most their a, and those of the
N smallest a have none above the Nth smallest a; so L is not above it, and in the same way U is not
below it, and L <= E <= U.

Let r be the relative error, and A the Nth smallest a, with A <= span. The events with a <= A, N at
least, are in the span, so e <= (1 + r) a <= (1 + r) A of each: E <= (1 + r) A. Of the others e >=
(1 - r) a, or e is infinite: this is so of events beyond the span, too, as waves.py needs no
more of an item than that it was kept or lost and noted. All events but N - 1 have a >= A, and so
e >= (1 - r) A: E is not below that.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.waves.batch import require_numbers
from slidestat.synopses.waves.parameters import WaveParameters
from slidestat.synopses.waves.waves import PositionWave


def union_ages(
    bundles: Sequence[Bundle], times: npt.ArrayLike, numbers: npt.ArrayLike
) -> UnionAnswers:
    """Answer how long before its time the most recent events of each bundle were:
    float64[bundles, numbers].

    times: int64[B]; numbers: int64[K], which events, 1 being the last, up to 2^61 - 1. Raises
    SynopsisError as `ask` does, and for other numbers.
    """
    asked = ask(WaveParameters, PositionWave.kinds, bundles, times, numbers)
    require_numbers(asked.spans)
    found = np.empty((3, len(bundles), len(asked.spans)))
    for bundle, (first, last) in enumerate(pairwise(asked.starts.tolist())):
        parts = [
            PositionWave.from_bytes(state).ages(time)
            for state, time in zip(
                asked.states[first:last], asked.times[first:last].tolist(), strict=True
            )
        ]
        counts = np.concatenate([counts for counts, _ in parts])
        answers = np.concatenate([answers for _, answers in parts], axis=1)
        for figure in range(3):
            found[figure, bundle] = _smallest(counts, answers[figure], asked.spans.tolist())
    return UnionAnswers(*found)


def _smallest(counts: Integers, ages: Floats, numbers: Sequence[int]) -> list[float]:
    """Return the nth smallest age for each n, `counts` events having each; infinity for none."""
    order = np.argsort(ages, kind="stable")
    # Whole numbers of any length: that of all events of all parts need not fit in 64 bits.
    upto = list(accumulate(counts[order].tolist()))
    rising = [*ages[order].tolist(), inf]
    return [rising[bisect_left(upto, number)] for number in numbers]
