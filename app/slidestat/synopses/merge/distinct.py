"""Distinct items over the union of a bundle's parts, all of them or those that a predicate means.

Source: Gibbons, Tirthapura 2002, section 5 (distinct values, predicates at query time), and their
Referee of section 4.

Contract: as of one part (wave.py, lean_distinct/sketch.py), byte for byte: the merged
state is that of one synopsis fed with all streams. An item that many parties saw counts once; this
is what cannot be had by adding up. All parties have one seed, the stored coins of the paper: with
coins of its own, the samples of a party would say nothing of the others'.
Cost: O(bytes log(bytes)), and the hashing of what is kept.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.distinct.wave import (
    DistinctEstimate,
    DistinctWave,
    Predicate,
    merge_distinct,
)
from slidestat.synopses.lean_distinct.batch import run_lean_distinct_batch
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import LeanDistinct, merge_lean_distinct
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle


def union_distinct(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of randomised waves.

    times: int64[B]; spans: int64[K], 1 to the span kept. The bounds hold with the waves' confidence
    of 1 - delta each. Raises SynopsisError as `ask` does.
    """
    asked = ask(DistinctParameters, DistinctWave.kinds, bundles, times, spans)
    merged = [merge_distinct([part.data for part in bundle.parts]) for bundle in bundles]
    each = np.arange(len(bundles) + 1)
    at = asked.times[asked.starts[:-1]]
    found = run_distinct_batch(
        asked.parameters, merged, Batch(np.zeros_like(each), (), (), each, at, asked.spans)
    )
    return UnionAnswers(found.estimates, found.lowers, found.uppers)


def union_distinct_where(
    bundle: Bundle, spans: npt.ArrayLike, now: int, predicate: Predicate
) -> list[DistinctEstimate]:
    """Answer, for each of the windows [now - span, now), how many distinct items of all parts
    together the predicate means.

    The predicate is given the items, and may be thought of when the events are long gone; error and
    confidence are those of `DistinctWave.query`. Raises SynopsisError as `ask` does.
    """
    asked = ask(DistinctParameters, DistinctWave.kinds, [bundle], [now], spans)
    wave = DistinctWave.from_bytes(merge_distinct([part.data for part in bundle.parts]))
    return [wave.query(span, now, predicate) for span in asked.spans.tolist()]


def union_lean_distinct(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of lean distinct items.

    times: int64[B]; spans: int64[K], 1 to the span kept. The bounds hold with the synopses'
    confidence of 1 - delta each. Raises SynopsisError as `ask` does.
    """
    asked = ask(LeanDistinctParameters, LeanDistinct.kinds, bundles, times, spans)
    merged = [merge_lean_distinct([part.data for part in bundle.parts]) for bundle in bundles]
    each = np.arange(len(bundles) + 1)
    at = asked.times[asked.starts[:-1]]
    found = run_lean_distinct_batch(
        asked.parameters, merged, Batch(np.zeros_like(each), (), (), each, at, asked.spans)
    )
    return UnionAnswers(found.estimates, found.lowers, found.uppers)
