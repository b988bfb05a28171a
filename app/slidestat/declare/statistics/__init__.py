"""The statistics a topology may ask for, each with the error it promises."""

from slidestat.declare.statistics.ages import AgeOfLast as AgeOfLast
from slidestat.declare.statistics.base import Statistic as Statistic
from slidestat.declare.statistics.counts import Count as Count, Rate as Rate
from slidestat.declare.statistics.distinct import Distinct as Distinct, LeanDistinct as LeanDistinct
from slidestat.declare.statistics.extremes import Maximum as Maximum, Minimum as Minimum
from slidestat.declare.statistics.histograms import (
    Above as Above,
    Histogram as Histogram,
    Items as Items,
)
from slidestat.declare.statistics.landmarks import (
    LandmarkCount as LandmarkCount,
    LandmarkSum as LandmarkSum,
)
from slidestat.declare.statistics.norms import Norm as Norm
from slidestat.declare.statistics.quantiles import (
    Quantiles as Quantiles,
    RankQuantiles as RankQuantiles,
)
from slidestat.declare.statistics.samples import Sample as Sample
from slidestat.declare.statistics.spreads import (
    Deviation as Deviation,
    Mean as Mean,
    MeanHistogram as MeanHistogram,
    Variance as Variance,
)
from slidestat.declare.statistics.sums import (
    NetSum as NetSum,
    Sum as Sum,
    SumHistogram as SumHistogram,
)
from slidestat.declare.statistics.top import TopItems as TopItems

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
