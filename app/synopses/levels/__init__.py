"""Blocks over levels, of Arasu and Manku: quantiles and frequent items."""

from app.synopses.levels.frequent_batch import run_frequent_batch
from app.synopses.levels.frequent_items import FrequentItems
from app.synopses.levels.frequent_parameters import FrequentParameters
from app.synopses.levels.quantile_batch import run_quantile_batch
from app.synopses.levels.quantile_parameters import QuantileParameters
from app.synopses.levels.quantiles import Quantiles

__all__ = [
    "FrequentItems",
    "FrequentParameters",
    "QuantileParameters",
    "Quantiles",
    "run_frequent_batch",
    "run_quantile_batch",
]
