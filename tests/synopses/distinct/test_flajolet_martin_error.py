"""The promise of Flajolet-Martin bitmaps: bounds that hold but for a chance of delta."""

import numpy as np
import pytest

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.distinct.codec import BITS
from slidestat.synopses.distinct.flajolet_martin import (
    BitmapsParameters,
    DistinctBitmaps,
    run_bitmaps_batch,
)
from tests.synopses.chances import trials
from tests.synopses.distinct.exact_distinct import ITEMS, SPAN, exact
from tests.synopses.streams import TIMES


@pytest.mark.parametrize(
    ("bitmaps", "distinct", "delta"),
    [
        *((16, 1, 0.1), (16, 17, 0.1), (16, 200, 0.1), (16, 60_000, 0.3)),
        *((256, 3, 0.1), (256, 200, 0.1), (256, 3_000, 0.2)),
    ],
)
def test_bounds_miss_no_more_than_delta(bitmaps: int, distinct: int, delta: float) -> None:
    """Over as many fixed seeds as tell delta from half as much again.

    And half of the answers are within the standard error that the header names, twice over.
    """
    seeds, most = trials(delta)
    missed, off = 0, []
    items = np.arange(distinct)
    for seed in range(seeds):
        synopsis = DistinctBitmaps.create(BitmapsParameters(bitmaps, delta, SPAN, seed))
        synopsis.insert(np.zeros(distinct, np.int64), items)
        answer = synopsis.query(SPAN)
        missed += not (answer.lower <= distinct <= answer.upper)
        assert answer.lower <= answer.estimate <= answer.upper
        off.append(abs(answer.estimate / distinct - 1))
    assert missed <= most
    assert np.median(off) < 0.69 / np.sqrt(bitmaps)


@pytest.mark.parametrize("time_name", TIMES)
def test_every_window_is_that_of_bitmaps_of_its_own(time_name: str) -> None:
    """The bits of a window are those that its own items set: as of a synopsis that saw no others.

    And bounds at all moments, which share a seed, miss no more than one in ten.
    """
    parameters = BitmapsParameters(64, 0.1, SPAN, 5)
    rng = np.random.default_rng(22)
    times = TIMES[time_name](rng, 300)
    queries = np.unique(np.concatenate([times[::20] + 1, times[-1:] + 99]))
    spans = [1, 17, 100, SPAN]
    for item_name in ITEMS:
        items = ITEMS[item_name](rng, 300)
        result = run_bitmaps_batch(
            parameters, [None], Batch([0, 300], times, items, [0, len(queries)], queries, spans)
        )
        for i, now in enumerate(queries):
            for j, n in enumerate(spans):
                inside = (times >= now - n) & (times < now)
                own = DistinctBitmaps.create(parameters)
                own.insert(times[inside], items[inside])
                figures = (result.estimates[i, j], result.lowers[i, j], result.uppers[i, j])
                assert figures == own.query(SPAN, max(now, own.now))
                assert figures[1] <= exact(times, items, now - n, now) <= figures[2]


def test_variance_is_at_most_what_the_proof_says() -> None:
    """V <= min(E, m + 1) for x from 1 to 2^62, with V and E summed over all bits."""
    for bitmaps in (16, 4_096):
        shares = np.minimum(np.arange(1, BITS + 1), BITS - 1)
        unset = np.log1p(-(2.0**-shares) / bitmaps)
        for x in np.geomspace(1, 2.0**62, 2_000):
            expected = -bitmaps * np.expm1(x * unset).sum()
            variance = -bitmaps * (np.exp(x * unset) * np.expm1(x * unset)).sum()
            assert variance <= min(expected, bitmaps + 1) * (1 + 1e-12)


def test_space_is_a_few_bytes_a_bit() -> None:
    """256 bitmaps of 10^6 items: about m (log2(x / m) + 1/3) bits, of 4 bytes each at most."""
    synopsis = DistinctBitmaps.create(BitmapsParameters(256, 0.01, 10**7, 1))
    synopsis.insert(np.arange(10**6), np.arange(10**6) * 7_919)
    expected = 256 * (np.log2(10**6 / 256) + 1 / 3)
    assert abs(synopsis.kept() / expected - 1) < 0.05
    assert len(synopsis.to_bytes()) < 5 * synopsis.kept()
    few = DistinctBitmaps.create(BitmapsParameters(4_096, 0.01, 2**53, 2**63 - 1))
    few.insert(1_700_000_000_000 + np.arange(5) * 100_000, np.arange(5))
    assert len(few.to_bytes()) < 80
