"""Each statistic as it is measured: its parameters, its exact figures, its words in the README."""

import json
from fractions import Fraction
from functools import cached_property
from math import ceil, inf

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.exact import variance
from slidestat.declare.statistics import (
    Above,
    AgeOfLast,
    Count,
    Deviation,
    Distinct,
    Histogram,
    ItemCounts,
    Items,
    LandmarkCount,
    LandmarkSum,
    LeanDistinct,
    Maximum,
    Mean,
    MeanHistogram,
    Minimum,
    NetSum,
    Norm,
    Quantiles,
    RankQuantiles,
    Rate,
    RootMeanSquare,
    Sample,
    Statistic,
    Sum,
    SumHistogram,
    TopItems,
    Variance,
)
from slidestat.schemas.emission import Figure
from slidestat.synopses.core.arrays import Integers

RESULTS = RESULTS_FOLDER / "statistics.json"
_EDGES = (200_000.0, 500_000.0, 1_000_000.0, 2_000_000.0, 5_000_000.0)
# The number of the event, from the last one on, whose age is asked for.
NUMBER = 1_000
STATISTICS: tuple[Statistic, ...] = (
    Count(),
    Rate(),
    Sum(),
    Mean(),
    Variance(),
    Deviation(),
    RootMeanSquare(),
    Minimum(),
    Maximum(),
    Quantiles(),
    RankQuantiles(),
    TopItems(),
    Distinct(),
    LeanDistinct(),
    Histogram(edges=_EDGES),
    Above(thresholds=(5_000_000.0,)),
    Norm(),
    NetSum(),
    SumHistogram(edges=_EDGES),
    MeanHistogram(edges=_EDGES),
    Items(items=("1", "20", "20000")),
    ItemCounts(items=("1", "20", "20000")),
    AgeOfLast(number=NUMBER, name="age_of_last"),
    Sample(),
    LandmarkCount(),
    LandmarkSum(),
)
OF_ITEMS = ("top", "distinct", "lean_distinct", "norm", "items", "item_counts")

_SPREAD = "`mean`, `variance`, `deviation`, `rms`"
# Words for the statistics that stand in one row, by the kind whose size is given.
WORDS = {
    "count": ("`count`, `rate`", "how many events; how many a second", "1 %"),
    "sum": ("`sum`", "the total of values that are never negative", "1 %"),
    "net_sum": (
        "`net_sum`",
        "the total of values of both signs",
        "1 % of the total without the signs",
    ),
    "mean": (
        _SPREAD,
        "the average, how much values vary, and their root mean square",
        "7 % of a standard deviation; 10 %; 5 %; 7 %",
    ),
    "maximum": (
        "`minimum`, `maximum`",
        "the smallest and the largest value",
        "1 %; exact with epsilon 0",
    ),
    "quantile": (
        "`quantile`",
        "the median, p99 and others: the value that a share p of the values does not exceed",
        "1 % of the value; p is off by at most 10 % of the share beyond it, so p99 is one of p98.9"
        " to p99.1",
    ),
    "rank_quantile": (
        "`rank_quantile`",
        "the same, with an error of the rank alone",
        "rank off by 1 % of the events",
    ),
    "top": ("`top`", "the most frequent items, with their counts", "0.5 % of the events"),
    "distinct": (
        "`distinct`",
        "how many different items; can be asked for a part of them later",
        "10 % in 99 % of cases; exact while few",
    ),
    "lean_distinct": (
        "`lean_distinct`",
        "how many different items, in few bytes",
        "10 % in 99 % of cases",
    ),
    "histogram": (
        "`histogram`, `above`",
        "how many values lie in each range; from a threshold on",
        "1 %",
    ),
    "sum_histogram": ("`sum_histogram`", "the total of the values in each range", "1 %"),
    "mean_histogram": (
        "`mean_histogram`",
        "the average of the values in each range",
        "7 % of a standard deviation",
    ),
    "items": ("`items`", "how often each item came that you name", "1 % of each"),
    "item_counts": (
        "`item_counts`",
        "how often any item came, asked for later",
        "5 % of the events in 99 % of cases",
    ),
    "age_of_last": (
        "`age_of_last`",
        "how long ago the last event was, or the nth last",
        "1 %",
    ),
    "sample": (
        "`sample`",
        "some values drawn at random, each as likely as any other",
        "the values are exact",
    ),
    "norm": (
        "`norm`",
        "how unevenly items are spread: the L_p norm of their counts",
        "30 % in 95 % of cases; slow",
    ),
    "landmark_sum": (
        "`landmark_count`, `landmark_sum`",
        "count and total since the key's first event",
        "exact",
    ),
}
NOTES = {
    "mean": " for all four",
    "maximum": " each",
    "histogram": " for five ranges",
    "sum_histogram": " for five ranges",
    "mean_histogram": " for five ranges",
    "items": " for two",
    "sample": " for 10",
    "landmark_sum": " each",
}


def keep(name: str, found: object) -> None:
    """Write the figures of one name into results/statistics.json."""
    told = {**json.loads(RESULTS.read_text()), name: found}
    RESULTS.write_text(json.dumps(told, indent=2) + "\n")


class Window:
    """The values of a window that has some: int64[n], whole numbers, ascending; and how long
    before its end its events were, ascending too.
    """

    def __init__(self, values: Integers, ages: Integers) -> None:
        self.values = values
        self.ages = ages
        self._variances: dict[tuple[float | None, float | None], Fraction] = {}

    @cached_property
    def counts(self) -> Integers:
        """How often each different value comes."""
        counts: Integers = np.unique(self.values, return_counts=True)[1]
        return counts

    def variance(self, least: float | None = None, below: float | None = None) -> Fraction:
        """Return the variance of the values not below `least`, and below `below`."""
        if (least, below) not in self._variances:
            inside = self.values[self._places(least, below)]
            self._variances[least, below] = variance(inside * 100)
        return self._variances[least, below]

    def between(self, least: float | None, below: float | None) -> int:
        """How many values are not below `least`, and below `below`."""
        places = self._places(least, below)
        return int(places.stop - places.start)

    def sum_between(self, least: float | None, below: float | None) -> int:
        """The sum of the values not below `least`, and below `below`."""
        return int(self.values[self._places(least, below)].sum())

    def _places(self, least: float | None, below: float | None) -> slice:
        ends = (-inf if least is None else least, inf if below is None else below)
        return slice(*np.searchsorted(self.values, ends, "left").tolist())

    def figure(self, figure: Figure) -> tuple[Fraction, bool]:
        """What a figure should be, and whether that is the square of it: a root is no fraction."""
        values, square = self.values, figure.statistic in ("deviation", "rms", "norm")
        exact: Fraction | int
        match figure.statistic:
            case "count" | "landmark_count":
                exact = len(values)
            case "rate":
                exact = Fraction(1_000 * len(values), figure.window_ms)
            case "sum" | "net_sum" | "landmark_sum":
                exact = int(values.sum())
            case "sum_histogram":
                exact = self.sum_between(figure.at_least, figure.below)
            case "age_of_last":
                exact = int(self.ages[NUMBER - 1])
            case "sample":
                # A value as it was, if it is one of the window's.
                told = int(np.searchsorted(values, figure.estimate or 0.0, "left"))
                exact = int(values[min(told, len(values) - 1)])
            case "mean_histogram":
                least, below = figure.at_least, figure.below
                exact = Fraction(self.sum_between(least, below), self.between(least, below))
            case "mean":
                exact = Fraction(int(values.sum()), len(values))
            case "variance" | "deviation":
                exact = self.variance()
            case "rms":
                exact = self.variance() + Fraction(int(values.sum()), len(values)) ** 2
            case "minimum":
                exact = int(values[0])
            case "maximum":
                exact = int(values[-1])
            case "quantile" | "rank_quantile":
                exact = int(values[rank_of(figure, len(values)) - 1])
            case "top" | "items" | "item_counts":
                item = int(float(figure.item or ""))
                exact = self.between(item, item + 1)
            case "distinct" | "lean_distinct":
                exact = len(self.counts)
            case "norm":
                exact = int((self.counts**2).sum())
            case "histogram" | "above":
                exact = self.between(figure.at_least, figure.below)
            case other:
                raise AssertionError(f"nothing is known of {other}")
        return Fraction(exact), square


def rank_of(figure: Figure, events: int) -> int:
    # The quantile is the decimal that was declared, not the double next to it.
    return max(1, ceil(Fraction(repr(figure.quantile)) * events))
