"""The statistics a topology may ask for, each with the error it promises."""

from slidestat.declare.statistics.ages import AgeOfLast
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.statistics.counts import Count, Rate
from slidestat.declare.statistics.histograms import Above, Histogram
from slidestat.declare.statistics.items import Distinct, LeanDistinct, Norm, TopItems
from slidestat.declare.statistics.items_named import Items
from slidestat.declare.statistics.landmarks import LandmarkCount, LandmarkSum
from slidestat.declare.statistics.quantiles import Quantiles, RankQuantiles
from slidestat.declare.statistics.samples import Sample
from slidestat.declare.statistics.signed_sums import NetSum, SumHistogram
from slidestat.declare.statistics.spreads import Deviation, Mean, MeanHistogram, Variance
from slidestat.declare.statistics.values import Maximum, Minimum, Sum

# What most people want of a number: how many, how it lies, how it spreads, how its tail looks.
DEFAULT = (Count(), Mean(), Deviation(), Minimum(), Maximum(), Quantiles())

KINDS: dict[str, type[Statistic]] = {
    kind.kind: kind
    for kind in (
        Count,
        Rate,
        Sum,
        NetSum,
        Mean,
        Variance,
        Deviation,
        Minimum,
        Maximum,
        Quantiles,
        RankQuantiles,
        Histogram,
        SumHistogram,
        MeanHistogram,
        Above,
        TopItems,
        Items,
        Distinct,
        LeanDistinct,
        Norm,
        AgeOfLast,
        Sample,
        LandmarkCount,
        LandmarkSum,
    )
}

__all__ = [
    "DEFAULT",
    "KINDS",
    "Above",
    "AgeOfLast",
    "Count",
    "Deviation",
    "Distinct",
    "Histogram",
    "Items",
    "LandmarkCount",
    "LandmarkSum",
    "LeanDistinct",
    "Maximum",
    "Mean",
    "MeanHistogram",
    "Minimum",
    "NetSum",
    "Norm",
    "Quantiles",
    "RankQuantiles",
    "Rate",
    "Sample",
    "Statistic",
    "Sum",
    "SumHistogram",
    "TopItems",
    "Variance",
]
