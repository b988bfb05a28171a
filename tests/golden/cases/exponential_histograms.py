"""Exponential histograms."""

import numpy as np

from slidestat.synopses import CountParameters, ExponentialHistogram, Parameters, SumParameters
from tests.golden.golden import HOUR, NOON, of_synopses, steps


def _fed(
    parameters: Parameters, times: np.ndarray, values: np.ndarray | None = None
) -> ExponentialHistogram:
    histogram = ExponentialHistogram.create(parameters)
    histogram.insert(times, values)
    return histogram


def _advanced(histogram: ExponentialHistogram, now: int) -> ExponentialHistogram:
    histogram.advance(now)
    return histogram


STEPS, TIMES = steps(5_000)
PRICES = (STEPS * 7_919 % 100_003) / 100
STATES = {
    "count-empty": lambda: ExponentialHistogram.create(CountParameters(0.1, HOUR)),
    "count-five": lambda: _fed(CountParameters(0.01, HOUR), NOON + STEPS[:5] * 1_000),
    "count-ties": lambda: _fed(CountParameters(0.01, HOUR), NOON + STEPS // 700),
    "count-many": lambda: _fed(CountParameters(0.01, HOUR), TIMES),
    "count-coarse": lambda: _fed(CountParameters(1.0, HOUR), TIMES),
    "count-expired": lambda: _advanced(_fed(CountParameters(0.1, HOUR), TIMES), NOON + 99 * HOUR),
    "count-before-1970": lambda: _fed(CountParameters(0.1, HOUR), STEPS - 10**12),
    "sum-empty": lambda: ExponentialHistogram.create(SumParameters(0.1, HOUR)),
    "sum-decimals": lambda: _fed(SumParameters(0.05, HOUR, 2), TIMES, PRICES),
    "sum-whole": lambda: _fed(SumParameters(0.05, HOUR, 0), TIMES, STEPS * 1.0),
    "sum-parts": lambda: _fed(SumParameters(0.05, HOUR, 3), TIMES, PRICES / 3),
    "sum-beyond-2-to-the-62": lambda: _fed(
        SumParameters(0.05, 100, 0), STEPS, np.full(5_000, 2.0**53 - 1)
    ),
}


def facts(histogram: ExponentialHistogram) -> dict[str, object]:
    span = histogram.parameters.span
    return {
        "now": histogram.now,
        "span": span,
        "relative error": histogram.parameters.relative_error,
        "buckets": len(histogram.buckets()),
        "answers": {str(n): list(histogram.query(n)) for n in (1, span // 10, span)},
    }


GOLDEN = of_synopses(STATES, facts, "exponential-histogram-1")
