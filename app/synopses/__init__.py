"""Synopses of streams: small, flat, versioned bytes that answer for any window, with bounds.

This package needs numba, NumPy, platformdirs and (for items that are strings) xxhash alone: no
Kafka, no Faust, no Spark. The kernels, and with them numba, which takes most of a second to import,
are loaded at their first use: whoever only names a statistic and its error does not wait for them.
"""

import importlib
from typing import TYPE_CHECKING

from app.synopses.errors import SynopsisError
from app.synopses.estimate import Estimate
from app.synopses.parameters import CountParameters, Parameters, SumParameters

if TYPE_CHECKING:
    from app.synopses.batch import BatchResult, run_batch
    from app.synopses.exponential_histogram import ExponentialHistogram

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

_MODULE_OF = {
    "BatchResult": "app.synopses.batch",
    "ExponentialHistogram": "app.synopses.exponential_histogram",
    "run_batch": "app.synopses.batch",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
