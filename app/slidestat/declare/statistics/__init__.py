"""The statistics that a topology may have: a new one is one line here, in the order of the docs.

Lists of statistics follow from it: the kinds (`declare/kinds.py`), and the names of `slidestat`,
whose stub and loader read these lines (`faces.py`), so nothing comes after them.
"""

# isort: off
from slidestat.declare.statistics.base import Statistic as Statistic
from slidestat.declare.statistics.counts import Count as Count
from slidestat.declare.statistics.counts import Rate as Rate
from slidestat.declare.statistics.sums import Sum as Sum
from slidestat.declare.statistics.sums import NetSum as NetSum
from slidestat.declare.statistics.spreads import Mean as Mean
from slidestat.declare.statistics.spreads import Variance as Variance
from slidestat.declare.statistics.spreads import Deviation as Deviation
from slidestat.declare.statistics.spreads import RootMeanSquare as RootMeanSquare
from slidestat.declare.statistics.spreads import Minimum as Minimum
from slidestat.declare.statistics.spreads import Maximum as Maximum
from slidestat.declare.statistics.quantiles import Quantiles as Quantiles
from slidestat.declare.statistics.quantiles import RankQuantiles as RankQuantiles
from slidestat.declare.statistics.histograms import Histogram as Histogram
from slidestat.declare.statistics.sums import SumHistogram as SumHistogram
from slidestat.declare.statistics.spreads import MeanHistogram as MeanHistogram
from slidestat.declare.statistics.histograms import Above as Above
from slidestat.declare.statistics.top import TopItems as TopItems
from slidestat.declare.statistics.histograms import Items as Items
from slidestat.declare.statistics.item_counts import ItemCounts as ItemCounts
from slidestat.declare.statistics.distinct import Distinct as Distinct
from slidestat.declare.statistics.distinct import LeanDistinct as LeanDistinct
from slidestat.declare.statistics.distinct import Norm as Norm
from slidestat.declare.statistics.counts import AgeOfLast as AgeOfLast
from slidestat.declare.statistics.top import Sample as Sample
from slidestat.declare.statistics.sums import LandmarkCount as LandmarkCount
from slidestat.declare.statistics.sums import LandmarkSum as LandmarkSum
