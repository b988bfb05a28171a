"""The minimum or the maximum over the union of a bundle's parts.

Contract: as of one part (extreme.py): lower <= exact <= upper, and the relative error stays; NaN
for an empty window. Cost: that of one batch over all parts.

Proof. The exact extreme of the union is that of one part. An estimate is the middle of the exact
one's rank, and middles, least and largest values of ranks do not fall as ranks rise: so the extreme
of the estimates is the estimate of the part that has the extreme, and so are lower and upper.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters, run_extreme_batch
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle


def union_extremes(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of minima or of maxima.

    times: int64[B]; spans: int64[K], 1 to the span kept. Raises SynopsisError as `ask` does.
    """
    asked = ask(ExtremeParameters, Extreme.kinds, bundles, times, spans)
    parts = run_extreme_batch(asked.parameters, asked.states, asked.batch())
    extreme = np.fmax if asked.parameters.side == "maximum" else np.fmin
    first = asked.starts[:-1]
    return UnionAnswers(
        extreme.reduceat(parts.estimates, first, axis=0),
        extreme.reduceat(parts.lowers, first, axis=0),
        extreme.reduceat(parts.uppers, first, axis=0),
    )
