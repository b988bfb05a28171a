"""Synopses composed of others, and the general framework: bins, tables of counters, norms."""

from app.synopses.framework.counter_table import (
    CounterTable,
    CounterTableParameters,
    run_counter_table_batch,
)
from app.synopses.framework.lp_norm import LpNorm, LpNormParameters, run_lp_norm_batch
from app.synopses.framework.value_histogram import (
    ValueHistogram,
    ValueHistogramParameters,
    run_value_histogram_batch,
)

__all__ = [
    "CounterTable",
    "CounterTableParameters",
    "LpNorm",
    "LpNormParameters",
    "ValueHistogram",
    "ValueHistogramParameters",
    "run_counter_table_batch",
    "run_lp_norm_batch",
    "run_value_histogram_batch",
]
