"""Synopses of streams: small, flat, versioned bytes that answer for any window, with bounds.

This package needs numba and NumPy alone: no Kafka, no Faust, no Spark.
"""

from app.synopses.batch import BatchResult, run_batch
from app.synopses.errors import SynopsisError
from app.synopses.estimate import Estimate
from app.synopses.exponential_histogram import ExponentialHistogram
from app.synopses.parameters import CountParameters, Parameters, SumParameters

__all__ = [
    "BatchResult",
    "CountParameters",
    "Estimate",
    "ExponentialHistogram",
    "Parameters",
    "SumParameters",
    "SynopsisError",
    "run_batch",
]
