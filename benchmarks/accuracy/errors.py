"""Observed errors beside promised ones, for every statistic.

    python -m benchmarks.accuracy.errors [events]

A partition's code with ten keys, emitting each minute windows of 1 minute, 5 minutes and 1 hour,
and totals since the first event. No two values are alike: log-normal whole numbers of a median of a
million. Ties would flatter quantiles, which are exact wherever many events have one value. For
statistics of items the values are the items: whole numbers, the k-th of 20,000 in proportion to
1/k. Each figure's error is a share of what its own fields promise: 1 is the promise. A figure out
of its bounds, or further off than promised, ends the run, but where chance comes in.

Of as many events as the README tells of (the default), what is found goes to
results/statistics.json, for the README's table (`make figures`) and the plot; a test counts again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, log, sqrt
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from benchmarks.accuracy.recounted import NUMBER, OF_ITEMS, STATISTICS, Window, keep, rank_of
from benchmarks.harness.command import typed
from benchmarks.harness.exact import Exact
from benchmarks.harness.inside import batches
from benchmarks.harness.workload import KeyDistribution, Workload, draw
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.emission import Emission, Figure
from slidestat.testing.records import MemoryStore

EVENTS = 200_000
_KEYS, _ITEMS = 10, 20_000
_MEDIAN = 1_000_000
_BATCH = 10_000
_THOUSAND = 1_000
_SEED = 1
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class Row(NamedTuple):
    """How a statistic's errors lie, as shares of their promise; `kept` is the share of figures that
    keep it, and their bounds, which may be as little as `confidence`.
    """

    statistic: str
    figures: int
    median: float
    most: float
    kept: float
    confidence: float


def bounds_hold(figure: Figure, window: Window) -> bool:
    """Whether a figure's bounds have the exact one between them."""
    if figure.lower is None or figure.upper is None:
        return False
    exact, square = window.figure(figure)
    power = 2 if square else 1
    return bool(Fraction(figure.lower) ** power <= exact <= Fraction(figure.upper) ** power)


def share_of_promise(figure: Figure, window: Window) -> float:
    """The error of a figure by what it promises, infinite where it promises none."""
    if figure.estimate is None:
        return inf
    exact, square = window.figure(figure)
    wanted, events = Fraction(sqrt(exact)) if square else exact, len(window.values)
    error = abs(Fraction(figure.estimate) - wanted)
    if figure.quantile is not None and figure.relative_error:
        return _share_by_value(figure, window)
    if figure.quantile is not None:
        rank = rank_of(figure, events)
        first, last = (
            int(np.searchsorted(window.values, figure.estimate, side)) for side in _SIDES
        )
        error = Fraction(max(first + 1 - rank, rank - max(last, 1), 0))
    if not error:
        return 0.0
    allowed = (
        Fraction(figure.relative_error) * abs(wanted)
        + Fraction(figure.absolute_error)
        + Fraction(figure.share_error) * events
    )
    if figure.deviation_error:
        allowed += Fraction(figure.deviation_error) * Fraction(
            sqrt(window.variance(figure.at_least, figure.below))
        )
    # The values are not negative.
    allowed += Fraction(figure.magnitude_error) * abs(wanted)
    return float(error / allowed) if allowed else inf


def _share_by_value(figure: Figure, window: Window) -> float:
    """The least share of both errors of a quantile by value, of its rank and of the value, with
    which it would still keep its promise; to the thousandth, if it is no more than 1.
    """
    thousandths = bisect_left(
        range(_THOUSAND), 1, key=lambda n: _used(figure, window, Fraction(n, _THOUSAND)) <= 1
    )
    if thousandths < _THOUSAND:
        return thousandths / _THOUSAND
    return _used(figure, window, Fraction(1))


def _used(figure: Figure, window: Window, of: Fraction) -> float:
    """The error of the value, by `of` what is allowed, from the nearest quantile whose rank is off
    by at most `of` what is allowed.
    """
    p, share = Fraction(repr(figure.quantile)), of * Fraction(repr(figure.share_error))
    events = len(window.values)
    low = float(window.values[max(1, ceil((p - share) * events)) - 1])
    high = float(window.values[min(events, floor((p + share) * events) + 1) - 1])
    nearest = min(max(figure.estimate or 0.0, low), high)
    error = abs(Fraction(figure.estimate or 0.0) - Fraction(nearest))
    allowed = Fraction(figure.relative_error) * abs(Fraction(nearest))
    allowed = of * (allowed + Fraction(figure.absolute_error))
    return float(error / allowed) if allowed else float(inf if error else 0.0)


def _is_of_nothing(figure: Figure, window: Window) -> bool:
    """Return whether there is no exact figure, and none is told: the age of an event that is not
    there, the mean of no values.
    """
    if figure.estimate is not None:
        return False
    if figure.statistic == "age_of_last":
        return len(window.ages) < NUMBER
    between = window.between(figure.at_least, figure.below)
    return figure.statistic == "mean_histogram" and not between


def skewed(events: int) -> Workload:
    """Events whose values are items: 1 comes most often."""
    drawn = draw(events, _KEYS, KeyDistribution.ZIPF, 1)
    weights = np.cumsum(1.0 / np.arange(1, _ITEMS + 1))
    places = np.random.default_rng(_SEED).random(events) * weights[-1]
    return replace(drawn, cents=100 * (np.searchsorted(weights, places, "right") + 1))


def untied(events: int) -> Workload:
    """Events whose values are whole numbers, log-normal, of which no two are alike."""
    drawn = draw(events, _KEYS, KeyDistribution.ZIPF, 1)
    values = np.random.default_rng(_SEED).lognormal(log(_MEDIAN), 1.0, events).astype(np.int64)
    order, ranks = np.argsort(values, kind="stable"), np.arange(events)
    # The least rising numbers that are not below them.
    values[order] = np.maximum.accumulate(values[order] - ranks) + ranks
    return replace(drawn, cents=100 * values)


def rows(events: int) -> Iterator[Row]:
    """A row for each statistic.

    Raises AssertionError if a figure breaks its promise that chance has no part in.
    """
    of_items = [statistic for statistic in STATISTICS if statistic.kind in OF_ITEMS]
    of_values = [statistic for statistic in STATISTICS if statistic.kind not in OF_ITEMS]
    found = [*_rows(untied(events), of_values), *_rows(skewed(events), of_items)]
    order = [statistic.kind for statistic in STATISTICS]
    yield from sorted(found, key=lambda row: order.index(row.statistic))


def _rows(workload: Workload, statistics: Sequence[Statistic]) -> Iterator[Row]:
    topology = Topology(
        name="errors",
        source="events",
        span="1h",
        every="1m",
        windows=("1m", "5m", "1h"),
        statistics=statistics,
    )
    processor = PartitionProcessor(topology, topology.source, 0, MemoryStore())
    exact = Exact(workload)
    times_of = [workload.times[workload.keys == key] for key in range(_KEYS)]
    shares: dict[str, list[float]] = defaultdict(list)
    kept: dict[str, int] = defaultdict(int)
    confidences: dict[str, float] = {}
    decode = msgspec.json.Decoder(Emission).decode
    for batch in batches(workload, topology.source, _BATCH):
        for _, value, _ in processor.process(batch).emissions:
            emission = decode(value)
            key, end = workload.key_number(emission.key), emission.window_end_ms
            windows: dict[int, Window] = {}
            for figure in emission.figures:
                # Without a length it is of all events.
                length = figure.window_ms or end - int(workload.times[0])
                if length not in windows:
                    windows[length] = Window(
                        exact.cents(key, end - length, end) // 100,
                        end - times_of[key][times_of[key] < end][::-1],
                    )
                if not len(windows[length].values) or _is_of_nothing(figure, windows[length]):
                    continue
                share = share_of_promise(figure, windows[length])
                keeps = share <= 1 and bounds_hold(figure, windows[length])
                if not keeps and figure.confidence == 1:
                    raise AssertionError(f"{figure} of {emission.key} breaks its promise")
                shares[figure.statistic].append(share)
                kept[figure.statistic] += keeps
                confidences[figure.statistic] = figure.confidence
    for name, found in shares.items():
        middle, most, of = float(np.median(found)), max(found), len(found)
        yield Row(name, of, middle, most, kept[name] / of, confidences[name])


def main(events: int) -> None:
    """Print a row for each statistic, as a Markdown table, and keep them."""
    print("| statistic | figures | median error by its promise | largest | promise kept |")
    print("|---|---|---|---|---|")
    found = list(rows(events))
    for row in found:
        print(
            f"| {row.statistic} | {row.figures:,} | {row.median:.3f} | {row.most:.3f} |"
            f" {row.kept:.2%} |"
        )
    if events == EVENTS:
        keep("errors", [row._asdict() for row in found])


if __name__ == "__main__":
    main(*typed(__doc__, events=EVENTS))
