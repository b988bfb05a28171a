"""The statistics a topology may ask for, each with the error it promises."""

from slidestat.declare.statistics.base import Statistic
from slidestat.declare.statistics.counts import Count, Rate
from slidestat.declare.statistics.histograms import Above, Histogram
from slidestat.declare.statistics.items import Distinct, Norm, TopItems
from slidestat.declare.statistics.landmarks import LandmarkCount, LandmarkSum
from slidestat.declare.statistics.quantiles import Quantiles, RankQuantiles
from slidestat.declare.statistics.spreads import Deviation, Mean, Variance
from slidestat.declare.statistics.values import Maximum, Minimum, Sum

# What most people want of a number: how many, how it lies, how it spreads, how its tail looks.
DEFAULT = (Count(), Mean(), Deviation(), Minimum(), Maximum(), Quantiles())

KINDS: dict[str, type[Statistic]] = {
    kind.kind: kind
    for kind in (
        Count,
        Rate,
        Sum,
        Mean,
        Variance,
        Deviation,
        Minimum,
        Maximum,
        Quantiles,
        RankQuantiles,
        Histogram,
        Above,
        TopItems,
        Distinct,
        Norm,
        LandmarkCount,
        LandmarkSum,
    )
}

__all__ = [
    "DEFAULT",
    "KINDS",
    "Above",
    "Count",
    "Deviation",
    "Distinct",
    "Histogram",
    "LandmarkCount",
    "LandmarkSum",
    "Maximum",
    "Mean",
    "Minimum",
    "Norm",
    "Quantiles",
    "RankQuantiles",
    "Rate",
    "Statistic",
    "Sum",
    "TopItems",
    "Variance",
]
