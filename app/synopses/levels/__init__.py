"""Blocks over levels, of Arasu and Manku: quantiles and frequent items."""

from app.synopses.levels.frequent_batch import run_frequent_batch
from app.synopses.levels.frequent_items import FrequentItems
from app.synopses.levels.named_batch import run_named_items_batch
from app.synopses.levels.named_items import NamedItems
from app.synopses.levels.parameters import (
    FrequentParameters,
    QuantileParameters,
    RandomQuantileParameters,
)
from app.synopses.levels.quantile_batch import run_quantile_batch
from app.synopses.levels.quantiles import Quantiles
from app.synopses.levels.random_frequent import RandomFrequentItems
from app.synopses.levels.random_frequent_batch import (
    RandomFrequentParameters,
    run_random_frequent_batch,
)
from app.synopses.levels.random_quantiles import RandomQuantiles

__all__ = [
    "FrequentItems",
    "FrequentParameters",
    "NamedItems",
    "QuantileParameters",
    "Quantiles",
    "RandomFrequentItems",
    "RandomFrequentParameters",
    "RandomQuantileParameters",
    "RandomQuantiles",
    "run_frequent_batch",
    "run_named_items_batch",
    "run_quantile_batch",
    "run_random_frequent_batch",
]
