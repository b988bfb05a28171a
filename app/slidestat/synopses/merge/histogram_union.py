"""Counts of values between edges over the union of a bundle's parts.

Contract: as of one part (value_histogram.py): of each bin and each sum of bins
lower <= exact <= upper, and the relative error stays. Cost: that of one batch over all parts.
Proof: counts of separate streams add up, and so do estimates and bounds (totals.py). They are whole
or half numbers, so that nothing is rounded below 2^52 events.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.value_histogram.value_histogram import (
    ValueHistogram,
    ValueHistogramParameters,
    run_value_histogram_batch,
)


def union_value_histograms(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for each bin of the windows [time - span, time): float64[bundles, spans, bins].

    times: int64[B]; spans: int64[K], 1 to the span kept. Raises SynopsisError as `ask` does.
    """
    asked = ask(ValueHistogramParameters, ValueHistogram.kinds, bundles, times, spans)
    parts = run_value_histogram_batch(asked.parameters, asked.states, asked.batch())
    first = asked.starts[:-1]
    return UnionAnswers(
        *(np.add.reduceat(f, first, axis=0) for f in (parts.estimates, parts.lowers, parts.uppers))
    )
