"""What values are like: their extremes, their mean and spread, a sample of them."""

from app.synopses.values.extreme import Extreme, ExtremeParameters, run_extreme_batch
from app.synopses.values.sample import SampleParameters, SlidingSample, run_sample_batch
from app.synopses.values.spread import Spread, SpreadParameters, run_spread_batch

__all__ = [
    "Extreme",
    "ExtremeParameters",
    "SampleParameters",
    "SlidingSample",
    "Spread",
    "SpreadParameters",
    "run_extreme_batch",
    "run_sample_batch",
    "run_spread_batch",
]
