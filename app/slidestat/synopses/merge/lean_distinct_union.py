"""Lean distinct items over the union of a bundle's parts.

Source: as of one part (lean_distinct/sketch.py); Gibbons, Tirthapura 2002, section 4: the Referee.

Contract: as of one part, byte for byte: the merged state is that of one synopsis fed with all
streams. An item that many parties saw counts once. All parties have one seed. Cost: O(bytes).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.lean_distinct.batch import run_lean_distinct_batch
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import merge_lean_distinct
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.merge.families import LEAN_DISTINCT


def union_lean_distinct(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of lean distinct items.

    times: int64[B]; spans: int64[K], 1 to the span kept. The bounds hold with the synopses'
    confidence of 1 - delta each. Raises SynopsisError as `ask` does.
    """
    asked = ask(LeanDistinctParameters, (LEAN_DISTINCT,), bundles, times, spans)
    merged = [merge_lean_distinct([part.data for part in bundle.parts]) for bundle in bundles]
    each = np.arange(len(bundles) + 1)
    at = asked.times[asked.starts[:-1]]
    found = run_lean_distinct_batch(
        asked.parameters, merged, np.zeros_like(each), [], [], each, at, asked.spans
    )
    return UnionAnswers(found.estimates, found.lowers, found.uppers)
