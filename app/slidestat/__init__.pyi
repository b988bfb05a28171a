from slidestat.declare.alerts import Alert as Alert
from slidestat.declare.forms.files import load_topology as load_topology
from slidestat.declare.referee import Referee as Referee
from slidestat.declare.statistics import (
    Above as Above,
    AgeOfLast as AgeOfLast,
    Count as Count,
    Deviation as Deviation,
    Distinct as Distinct,
    Histogram as Histogram,
    Items as Items,
    LandmarkCount as LandmarkCount,
    LandmarkSum as LandmarkSum,
    LeanDistinct as LeanDistinct,
    Maximum as Maximum,
    Mean as Mean,
    MeanHistogram as MeanHistogram,
    Minimum as Minimum,
    NetSum as NetSum,
    Norm as Norm,
    Quantiles as Quantiles,
    RankQuantiles as RankQuantiles,
    Rate as Rate,
    Sample as Sample,
    Statistic as Statistic,
    Sum as Sum,
    SumHistogram as SumHistogram,
    TopItems as TopItems,
    Variance as Variance,
)
from slidestat.declare.topology import Topology as Topology
from slidestat.errors import SlidestatError as SlidestatError
from slidestat.testing.driver import TopologyDriver as TopologyDriver
from slidestat.testing.referee_driver import RefereeDriver as RefereeDriver
