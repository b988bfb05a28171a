"""Windows that ended some time ago: bounds against exact recounts, on hostile streams."""

from bisect import bisect_left
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    CountParameters,
    NamedItems,
    PairedParameters,
    Spread,
    SpreadParameters,
    SumParameters,
    ValueQuantileParameters,
    ValueQuantiles,
    run_batch,
    run_named_items_batch,
)
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.parameters import Parameters
from slidestat.synopses.past.past import (
    past_items,
    past_spreads,
    past_totals,
    past_value_quantiles,
)
from tests.oracles import decimal
from tests.synopses.streams import TIMES, VALUES, Times

SPAN = 2_000
QUANTILES = (0.0, 0.01, 0.5, 0.99, 1.0)


def pasts(now: int, times: Times, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Windows and how long ago they ended: some at the times of events, some anywhere."""
    found = [(1, 1), (1, SPAN - 1), (SPAN - 1, 1), (SPAN // 2, SPAN // 2)]
    for _ in range(12):
        ago = int(rng.integers(1, SPAN))
        found.append((int(rng.integers(1, SPAN - ago + 1)), ago))
    near = [now - int(time) for time in rng.choice(times, 8)]
    found += [(1, ago) for ago in near if 1 <= ago < SPAN]
    return found


def asked(window: int, ago: int, now: int) -> Batch:
    return Batch([0, 0], (), None, [0, 1], [now], [window + ago, ago])


def totals(parameters: Parameters, state: bytes, window: int, ago: int, now: int) -> Floats:
    batch = asked(window, ago, now)
    if isinstance(parameters, SumParameters):
        batch = batch.holding(np.empty(0))
    found = run_batch(parameters, [state], batch)
    return past_totals(np.array([found.estimates, found.lowers, found.uppers]))[:, 0, 0]


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("time_name", TIMES)
def test_counts_and_sums_of_the_past(time_name: str, epsilon: float) -> None:
    """Bounds hold, and the estimate is within epsilon of what the window and all after it have,
    twice what came after: no slack.
    """
    rng = np.random.default_rng(5)
    times = TIMES[time_name](rng, 3_000)
    now = int(times[-1]) + 1
    values = rng.integers(0, 100, len(times)).astype(np.float64)
    count, sum_ = CountParameters(epsilon, SPAN), SumParameters(epsilon, SPAN, 0)
    state = run_batch(count, [None], Batch([0, len(times)], times)).states[0]
    of_values = run_batch(sum_, [None], Batch([0, len(times)], times, values)).states[0]
    for window, ago in pasts(now, times, rng):
        first, last, end = (int(np.searchsorted(times, now - n)) for n in (window + ago, ago, 0))
        for parameters, data, weights in (
            (count, state, np.ones_like(values)),
            (sum_, of_values, values),
        ):
            exact, since = weights[first:last].sum(), weights[last:end].sum()
            estimate, lower, upper = totals(parameters, data, window, ago, now).tolist()
            assert lower <= exact <= upper
            allowed = Fraction(parameters.relative_error) * Fraction(exact + 2 * since)
            assert abs(Fraction(estimate) - Fraction(exact)) <= allowed
            assert Fraction(upper - lower) / 2 <= allowed


@pytest.mark.parametrize("value_name", VALUES)
def test_sums_of_any_values_of_the_past(value_name: str) -> None:
    """Bounds hold in doubles too: values of many decimals, far too small and far too large ones."""
    rng = np.random.default_rng(8)
    times = TIMES["bursty"](rng, 1_500)
    values = VALUES[value_name](rng, len(times))
    parameters = SumParameters(0.1, SPAN, 0 if values.max() > 1e9 else 3)
    state = run_batch(parameters, [None], Batch([0, len(times)], times, values)).states[0]
    now = int(times[-1]) + 1
    for window, ago in pasts(now, times, rng):
        inside = (times >= now - ago - window) & (times < now - ago)
        exact = sum(map(decimal, values[inside].tolist()), Fraction())
        _, lower, upper = totals(parameters, state, window, ago, now).tolist()
        assert lower <= exact <= upper


@pytest.mark.parametrize("time_name", TIMES)
@pytest.mark.parametrize("kind", ["plain", "one far off", "alike"])
def test_spreads_of_the_past(time_name: str, kind: str) -> None:
    """Mean, variance and deviation lie within their bounds, wherever the ends cut buckets; where
    nothing is told there is no event.
    """
    rng = np.random.default_rng(11)
    times = TIMES[time_name](rng, 1_200)
    values = rng.integers(-500, 500, len(times)).astype(np.float64)
    if kind == "one far off":
        values[rng.integers(0, len(times), 6)] = 1e9
    if kind == "alike":
        values[:] = 7.0
    spread = Spread.create(SpreadParameters(0.5, SPAN, 0))
    spread.insert(times, values)
    state, now = spread.to_bytes(), int(times[-1]) + 1
    widths = 0
    for window, ago in pasts(now, times, rng):
        inside = values[(times >= now - ago - window) & (times < now - ago)].tolist()
        (found,) = np.moveaxis(past_spreads(state, now, [window], ago), -1, 0)
        if not inside:
            continue
        exact = list(map(Fraction, inside))
        mean = sum(exact) / len(exact)
        variance = sum((x - mean) ** 2 for x in exact) / len(exact)
        for (estimate, lower, upper), right in zip(
            found[:2].tolist(), (mean, variance), strict=True
        ):
            assert lower <= right <= upper
            assert lower <= estimate <= upper
        _, lower, upper = found[2].tolist()
        assert Fraction(lower) ** 2 <= variance <= Fraction(upper) ** 2
        widths += found[0, 2] > found[0, 1] + 1e-6
    assert widths or kind == "alike" or time_name != "one a tick"


@pytest.mark.parametrize("time_name", TIMES)
def test_quantiles_of_the_past(time_name: str) -> None:
    """A quantile lies within its bounds, and is told wherever there is an event."""
    rng = np.random.default_rng(3)
    times = TIMES[time_name](rng, 2_000)
    values = np.round(rng.lognormal(4.6, 1.0, len(times)), 3)
    parameters = ValueQuantileParameters(0.05, 0.5, SPAN)
    summary = ValueQuantiles.create(parameters)
    summary.insert(times, values)
    state, now = summary.to_bytes(), int(times[-1]) + 1
    for window, ago in pasts(now, times, rng):
        inside = np.sort(values[(times >= now - ago - window) & (times < now - ago)]).tolist()
        found = past_value_quantiles(parameters, state, now, [window], ago, QUANTILES)[:, 0]
        for p, (estimate, lower, upper) in zip(QUANTILES, found.T.tolist(), strict=True):
            if inside:
                exact = inside[max(1, ceil(Fraction(repr(p)) * len(inside))) - 1]
                assert lower <= exact <= upper
                assert lower <= estimate <= upper


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
@pytest.mark.parametrize("time_name", TIMES)
def test_items_of_the_past(time_name: str, epsilon: float) -> None:
    """Each item is within its bounds, and none is missing that came more than epsilon of the
    events in the window and all after it.
    """
    rng = np.random.default_rng(17)
    times = TIMES[time_name](rng, 1_500)
    items = rng.zipf(1.4, len(times)) % 200
    items[: len(items) // 3] += 200  # What was frequent once is so no more.
    texts = [f"/{i}" for i in range(400)]
    parameters = PairedParameters(epsilon, SPAN)
    state = run_named_items_batch(
        parameters, [None], Batch([0, len(times)], times, items), texts, 0
    ).states[0]
    assert NamedItems.from_bytes(state)
    now = int(times[-1]) + 1
    for window, ago in pasts(now, times, rng):
        batch = asked(window, ago, now).holding(np.empty(0, np.int64))
        past = past_items(run_named_items_batch(parameters, [state], batch, (), 0), 0, 0, 1)
        first, last, end = (bisect_left(times, now - n) for n in (window + ago, ago, 0))
        counts = np.bincount(items[first:last], minlength=400)
        assert past.events_low <= last - first
        for item in past.items:
            assert item.lower <= counts[int(item.name[1:])] <= item.upper
        listed = {int(item.name[1:]) for item in past.items}
        missed = set(np.flatnonzero(counts > epsilon * (end - first)).tolist()) - listed
        assert not missed
