"""The general framework keeps its theorem for any function that qualifies: exact sketches first."""

from collections.abc import Callable
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest

from slidestat.synopses import Batch, LpNorm, LpNormParameters, run_lp_norm_batch
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.norm import composition
from slidestat.synopses.norm.composition import Buckets, Function, absorb, look
from tests.synopses.celled import ITEMS, SPAN
from tests.synopses.streams import TIMES

WIDTH = 7
WINDOWS = [1, 2, 7, 50, 200, 333, 500]


class Powers(Function):
    """The sum of the p-th powers of the totals of 7 items: the sketch is the totals themselves."""

    width = WIDTH

    def __init__(self, order: float) -> None:
        self.order = order

    def sketches(self, items: Integers, weights: Integers) -> Integers:
        rows = np.zeros((len(items), WIDTH), np.int64)
        rows[np.arange(len(items)), items % WIDTH] = weights
        return rows

    def sizes(self, sketches: Integers) -> Floats:
        return np.sum(sketches.astype(np.float64) ** self.order, axis=1)


WEIGHTS: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "ones": lambda rng, size: np.ones(size, np.int64),  # noqa: ARG005
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**5),
    "old ones weigh most": lambda rng, size: (  # noqa: ARG005
        10**6 * 0.97 ** np.arange(size) + 1
    ).astype(np.int64),
    "new ones weigh most": lambda rng, size: (1.03 ** np.arange(size)).astype(np.int64),  # noqa: ARG005
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("weight_name", WEIGHTS)
def test_the_theorem_holds_for_any_function_that_qualifies(
    weight_name: str, beta: float, order: int
) -> None:
    """f(BC) <= f(W) <= f(ABC), both within (1 + beta^(1/r))^r, at every moment, for every n."""
    function = Powers(order)
    for i, (time_name, item_name) in enumerate(zip(TIMES, [*ITEMS, *ITEMS], strict=False)):
        rng = np.random.default_rng(i)
        times = TIMES[time_name](rng, 400)
        items = ITEMS[item_name](rng, 400).astype(np.int64)
        weights = WEIGHTS[weight_name](rng, 400).astype(np.int64)
        rows = function.sketches(items, weights)
        buckets = Buckets(WIDTH)
        for start in range(0, 400, 23):
            part = slice(start, start + 23)
            absorb(function, beta, SPAN, buckets, times[part], items[part], weights[part])
            for n in WINDOWS:
                oldest = buckets.now - n
                inside = rows[:400][: start + 23][times[: start + 23] >= oldest].sum(axis=0)
                window = look(function, buckets, oldest)
                if window.inner is None or window.outer is None:
                    known = function.sketches(window.items, window.weights).sum(axis=0)
                    assert np.array_equal(known, inside)
                    continue
                least, exact, most = (
                    sum(int(total) ** order for total in totals)
                    for totals in (window.inner, inside, window.outer)
                )
                assert least <= exact <= most
                root = 1 + beta ** (1 / order)
                assert most <= root**order * (1 + 2**-40) * least


def test_the_function_on_the_card_works_as_written() -> None:
    """The example of the README: the square of a sum, within what the theorem says."""
    card = Path(composition.__file__).with_name("README.md").read_text()
    names: dict[str, type[Function]] = {}
    exec(card.split("```python")[1].split("```")[0], names)  # noqa: S102 - our own page
    function = names["SumOfSquares"]()
    buckets = Buckets(function.width)
    events = np.arange(5_000)
    absorb(function, 0.25, 4_000, buckets, events, events, np.ones(5_000, np.int64))
    window = look(function, buckets, 1_500)
    assert window.inner is not None
    assert window.outer is not None
    assert window.inner[0] <= 3_500 <= window.outer[0] <= 1.5 * window.inner[0]
    assert len(buckets.newest) < 250


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("beta", [0.5, 0.1])
def test_buckets_are_as_few_as_the_theorem_says(order: int, beta: float) -> None:
    """Twice 2 log(F) / log(1 + beta) + 3 and 32 at most, at many moments of 50,000 events."""
    function = Powers(order)
    rng = np.random.default_rng(7)
    buckets = Buckets(WIDTH)
    for start in range(0, 50_000, 997):
        items = rng.integers(0, WIDTH, 997)
        weights = np.minimum(rng.zipf(1.5, 997), 10**4)
        absorb(function, beta, 40_000, buckets, np.arange(start, start + 997), items, weights)
        largest = float(sum(int(total) ** order for total in buckets.rows(function).sum(axis=0)))
        most = 2 * log(largest) / log(1 + beta) + 3
        assert len(buckets.newest) <= 2 * most + 32


@pytest.mark.parametrize("epsilon", [0.9, 0.3, 0.05])
@pytest.mark.parametrize("weight_name", WEIGHTS)
def test_the_norm_of_order_1_is_sure(weight_name: str, epsilon: float) -> None:
    """Bounds and error hold without a chance of a miss, for every n tried, at many moments."""
    parameters = LpNormParameters(1, epsilon, 0.5, SPAN)
    promise = Fraction(epsilon)
    for i, time_name in enumerate(TIMES):
        rng = np.random.default_rng(i)
        times = TIMES[time_name](rng, 400)
        weights = WEIGHTS[weight_name](rng, 400).astype(np.int64)
        queries = sorted({int(t) + d for t in times[::9] for d in (0, 1, 30)})
        asked = [0, len(queries)]
        result = run_lp_norm_batch(
            parameters, [None], Batch([0, 400], times, times, asked, queries, WINDOWS), weights
        )
        for q, now in enumerate(queries):
            for k, n in enumerate(WINDOWS):
                exact = int(weights[(times >= now - n) & (times < now)].sum())
                assert result.lowers[q, k] <= exact <= result.uppers[q, k]
                assert abs(Fraction(result.estimates[q, k]) - exact) <= promise * exact


def test_too_much_weight_is_refused_wherever_batches_end() -> None:
    """2^30 in the span is taken, one more is not, until some has expired; nothing is taken then."""
    half = 1 << 29
    for cuts in ([], [1], [1, 2]):
        norm = LpNorm.create(LpNormParameters(2, 0.9, 0.3, 100))
        for part in np.split(np.arange(2), cuts):
            norm.insert(part, part, np.full(len(part), half))
        before = norm.to_bytes()
        with pytest.raises(WindowTooLargeError, match=r"2\^30"):
            norm.insert([99, 100], [5, 5], [1, 1])
        assert norm.to_bytes() == before
        norm.insert([100], [5], [half])
        assert LpNorm.from_bytes(norm.to_bytes()).query(100).lower > half


def test_a_bucket_counts_whole_in_the_limit_until_all_of_it_has_expired() -> None:
    """The limit is of kept weights, at the very event, whatever the batches; then there is room."""
    rest = composition.MAX_WEIGHT - 64 * 1_000
    times = np.concatenate([np.arange(64), [1_050, 1_050]])
    weights = np.concatenate([np.full(64, 1_000), [rest, 1]])
    function = Powers(1)

    def absorb_all(cuts: list[int]) -> None:
        buckets = Buckets(WIDTH)
        for part in np.split(np.arange(66), cuts):
            absorb(function, 9.0, 1_000, buckets, times[part], part, weights[part])

    for cuts in ([], [32], [64], [65], [10, 20, 64, 65]):
        with pytest.raises(WindowTooLargeError, match="older ones in one bucket"):
            absorb_all(cuts)
    buckets = Buckets(WIDTH)
    absorb(function, 9.0, 1_000, buckets, times[:65], np.arange(65), weights[:65])
    # 51 of the events have expired, all of which are in the buckets that were merged
    assert int(weights[:65][times[:65] >= 51].sum()) < int(buckets.weights.sum())
    assert int(buckets.weights.sum()) == composition.MAX_WEIGHT
    absorb(function, 9.0, 1_000, buckets, np.array([1_100]), np.array([1]), np.array([64_000]))
    assert int(buckets.weights.sum()) == composition.MAX_WEIGHT


@pytest.mark.parametrize("order", [1, 2])
def test_a_window_that_fills_half_of_the_limit_is_always_taken(order: int) -> None:
    """However much lies in one bucket with its first events: old events that are all different, and
    new ones that are one, of whose squares theirs are a small part.
    """
    function, rng = Powers(order), np.random.default_rng(order)
    buckets = Buckets(WIDTH)
    size, weight = 3_000, composition.MAX_WEIGHT >> 11
    times = np.arange(size)
    items = np.where(times % 1_000 < 500, rng.integers(0, WIDTH, size), 3)
    for part in np.split(times, range(100, size, 100)):
        # A window of the span, 1,024, has half of MAX_WEIGHT.
        absorb(function, 9.0, 1_024, buckets, part, items[part], np.full(len(part), weight))
        merged = buckets.weights[~buckets.single]
        assert merged.max(initial=0) <= composition.MAX_MERGED
        window = look(function, buckets, buckets.now - 1_000)
        exact = function.sketches(items[: part[-1] + 1], np.full(part[-1] + 1, weight))
        inside = exact[max(0, part[-1] + 1 - 1_000) :].sum(axis=0)
        if window.inner is not None and window.outer is not None:
            assert np.all(window.inner <= inside)
            assert np.all(inside <= window.outer)
