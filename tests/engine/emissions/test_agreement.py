"""Figures of one field and window that say something of each other: minimum, quantiles, maximum."""

import numpy as np
import pytest

from slidestat import Maximum, Mean, Minimum, Quantiles, RankQuantiles, Topology, TopologyDriver
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.engine.emissions.agreement import Agreement
from slidestat.schemas.emission import Figure
from tests.engine.checks import check_figure
from tests.engine.exact import exact

HOUR = 3_600_000
ABSOLUTE = 2.0**-30
QUANTILES = (0.0, 0.25, 0.5, 0.99, 1.0)


def at_the_bound(rng: np.random.Generator, value: float, promise: Promise) -> list[float]:
    """An estimate of a value that is as far off as is promised, or less, and bounds around both."""
    most = promise.relative_error * abs(value) + promise.absolute_error
    off = most * rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)])
    slack = rng.uniform(0, 2 * most, 2) * rng.choice([0.0, 1.0], 2)
    estimate = value + off
    return [estimate, min(estimate, value) - slack[0], max(estimate, value) + slack[1]]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("seed", range(4))
def test_promises_hold_and_figures_are_in_order(seed: int, scale: float) -> None:
    """For values of both signs, whatever errors are declared, each estimate as bad as it may be."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        errors = rng.choice([0.0, 0.001, 0.01, 0.1, 0.5], 3)
        low, high = (Promise(relative_error=error) for error in errors[:2])
        inner = Promise(relative_error=max(errors[2], 0.001), absolute_error=ABSOLUTE)
        values = np.sort(rng.normal(rng.choice([-3.0, 0.0, 3.0]), 1.0, 5) * scale)
        exacts = [values[0], *values, values[-1]]
        promises = [low, *[inner] * 5, high]
        figures = [at_the_bound(rng, v, p) for v, p in zip(exacts, promises, strict=True)]
        # Quantiles never pass each other.
        ordered = np.array(figures)
        ordered[1:6] = np.sort(ordered[1:6], axis=0)
        agreement = Agreement()
        agreement.add((("v",)), Minimum(), low, np.array([[0]]))
        agreement.add((("v",)), Quantiles(quantiles=QUANTILES), inner, np.arange(1, 6)[None])
        agreement.add((("v",)), Maximum(), high, np.array([[6]]))
        table = ordered[None].copy()
        agreement.settle(table)
        estimates, lowers, uppers = table[0].T
        assert (lowers <= exacts).all()
        assert (uppers >= exacts).all()
        assert (lowers >= ordered[:, 1]).all()
        assert (uppers <= ordered[:, 2]).all()
        for estimate, value, promise in zip(estimates, exacts, promises, strict=True):
            most = promise.relative_error * abs(value) + promise.absolute_error
            # The sums above and here round, each by half a unit in the last place.
            assert abs(estimate - value) <= most + 4 * np.spacing(abs(value) + most)
        assert (lowers <= lowers[-1]).all()
        assert (uppers >= uppers[0]).all()
        if scale >= 1.0 and (np.abs(exacts) > 1e-3 * scale).all():
            assert (np.diff(estimates) >= 0).all()


def test_what_does_not_exist_stays_so() -> None:
    """No window is given a figure that it has not, and none loses one."""
    agreement = Agreement()
    agreement.add((("v",)), Minimum(), Promise(), np.array([[0], [1]]))
    agreement.add((("v",)), Maximum(), Promise(relative_error=0.1), np.array([[2], [3]]))
    nothing = [np.nan] * 3
    table = np.array([[[5.0, 5.0, 5.0], nothing, [4.8, 4.7, 5.2], nothing]])
    agreement.settle(table)
    assert table[0].tolist()[::2] == [[5.0, 5.0, 5.0], [5.0, 5.0, 5.2]]
    assert np.isnan(table[0, 1::2]).all()


STATISTICS: dict[str, tuple[Statistic, ...]] = {
    "extremes are better": (Quantiles(), Minimum(epsilon=0), Mean(), Maximum(epsilon=0)),
    "quantiles are better": (Minimum(epsilon=0.5), Maximum(epsilon=0.5), Mean(), Quantiles()),
    "both by default": (Minimum(), Maximum(), Mean(), Quantiles()),
    "by rank": (Maximum(epsilon=0.1), RankQuantiles(), Mean(), Minimum(epsilon=0.1)),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("distribution", ["lognormal", "one value", "both signs", "few"])
def test_emissions_agree(name: str, distribution: str) -> None:
    """Over real synopses: every figure within its bounds and promise, and in order."""
    statistics = STATISTICS[name]
    rng = np.random.default_rng(len(name))
    values = {
        "lognormal": rng.lognormal(5, 1, 600),
        "one value": np.full(600, 8_933.0),
        "both signs": rng.normal(0, 100, 600),
        "few": rng.integers(1, 6, 600).astype(float),
    }[distribution].round(3)
    topology = Topology(name="t", source="s", span="1h", every="5m", statistics=statistics)
    driver = TopologyDriver(topology)
    times = np.arange(600) * 6_000
    driver.send(
        *[
            {"key": "k", "time": int(t), "value": float(v)}
            for t, v in zip(times, values, strict=True)
        ]
    )
    kinds = dict(zip(topology.labels, statistics, strict=True))
    for emission in driver.emissions:
        inside = times >= emission.window_end_ms - HOUR
        window = [float(v) for v in values[inside & (times < emission.window_end_ms)]]
        found: dict[str, list[Figure]] = {}
        for figure in emission.figures:
            found.setdefault(figure.statistic, []).append(figure)
        for label, figures in found.items():
            for figure, right in zip(figures, exact(kinds[label], window, HOUR), strict=True):
                check_figure(kinds[label], figure, right, window)
        (low,), (high,) = found["minimum"], found["maximum"]
        for figure in emission.figures:
            unit = np.spacing(abs(figure.estimate)) if figure.statistic == "mean" else 0
            assert low.lower - unit <= figure.lower
            assert figure.upper <= high.upper + unit
            if figure.statistic not in ("rank_quantile", "mean"):
                assert low.estimate <= figure.estimate <= high.estimate


def test_figures_of_other_events_say_nothing() -> None:
    """The maximum of the events of a condition does not bound the quantiles of all."""
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="5m",
        statistics=(Maximum(name="small", where="value < 10"), Quantiles(), Maximum()),
    )
    driver = TopologyDriver(topology)
    driver.send(*[{"key": "k", "time": 6_000 * i, "value": i % 100} for i in range(600)])
    for emission in driver.emissions:
        figures = {(f.statistic, f.quantile): f for f in emission.figures}
        if emission.window_end_ms > 6_000 * 100:
            assert 9 <= figures["small", None].upper < 10
            assert figures["quantile", 0.99].lower > 90
