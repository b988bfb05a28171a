"""What one more question to a full state takes, over windows of a minute, five and an hour at once.

    python -m benchmarks.speed.question_times     # half a minute

A key with 900,000 events in its hour: log-normal values of a median of 100, a sigma of 1 and three
decimals, and items by Zipf's law. A question comes with a batch, in which the state is read and
written once; what is told is what each further one takes: the CPU time of a thousand, less that of
one, the least of five times. Quantiles are asked for p50, p90 and p99. Writes
results/question_times.json, for `make figures`.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.harness.results import machine
from slidestat.synopses import (
    Batch,
    CountParameters,
    DistinctParameters,
    LeanDistinctParameters,
    PairedParameters,
    QuantileParameters,
    SpreadParameters,
    ValueQuantileParameters,
    run_batch,
    run_distinct_batch,
    run_lean_distinct_batch,
    run_paired_items_batch,
    run_quantile_batch,
    run_spread_batch,
    run_value_quantile_batch,
)

RESULTS = RESULTS_FOLDER / "question_times.json"
_HOUR_MS = 3_600_000
_WINDOWS_MS = (60_000, 300_000, _HOUR_MS)
_EVENTS, _BATCH = 900_000, 100_000
_QUESTIONS, _ROUNDS = 1_000, 5
_SHARES = (0.5, 0.9, 0.99)

# Takes states and a batch, returns the new states.
Run = Callable[[list[bytes | None], Batch], list[bytes]]
Values = npt.NDArray[Any]


def _times() -> Values:
    return np.arange(_EVENTS) * _HOUR_MS // _EVENTS


def _numbers() -> Values:
    return np.round(np.random.default_rng(1).lognormal(np.log(100.0), 1.0, _EVENTS), 3)


def _items() -> Values:
    return np.minimum(np.random.default_rng(1).zipf(1.2, _EVENTS), 10**6).astype(np.int64)


def _nothing() -> None:
    return None


def _run(run: Callable[..., Any], parameters: Any, *more: Any) -> Run:
    return lambda states, batch: list(run(parameters, states, batch, *more).states)


SUBJECTS: dict[str, tuple[Run, Callable[[], Values | None]]] = {
    "count, 0.01": (_run(run_batch, CountParameters(0.01, _HOUR_MS)), _nothing),
    "mean, variance, deviation, 0.1": (
        _run(run_spread_batch, SpreadParameters(0.1, _HOUR_MS, 3)),
        _numbers,
    ),
    "quantiles by value, 0.01 and 0.1": (
        _run(run_value_quantile_batch, ValueQuantileParameters(0.01, 0.1, _HOUR_MS), _SHARES),
        _numbers,
    ),
    "quantiles by rank, 0.01": (
        _run(run_quantile_batch, QuantileParameters(0.01, _HOUR_MS), _SHARES),
        _numbers,
    ),
    "quantiles by rank, 0.005": (
        _run(run_quantile_batch, QuantileParameters(0.005, _HOUR_MS), _SHARES),
        _numbers,
    ),
    "frequent items, 0.01": (
        _run(run_paired_items_batch, PairedParameters(0.01, _HOUR_MS), 0.01),
        _items,
    ),
    "distinct items, 0.1": (
        _run(run_distinct_batch, DistinctParameters(0.1, 0.01, _HOUR_MS, 0)),
        _items,
    ),
    "lean distinct items, 0.1": (
        _run(run_lean_distinct_batch, LeanDistinctParameters(0.1, 0.01, _HOUR_MS, 0)),
        _items,
    ),
}


def question_us(name: str) -> float:
    """Return what one more question of a subject takes, in microseconds."""
    run, drawn = SUBJECTS[name]
    times, values = _times(), drawn()
    states: list[bytes | None] = [None]
    for first in range(0, _EVENTS, _BATCH):
        part = slice(first, first + _BATCH)
        taken = None if values is None else values[part]
        states = [*run(states, Batch([0, _BATCH], times[part], taken, [0, 0]))]
    none = None if values is None else values[:0]

    def took(questions: int) -> float:
        asked = np.full(questions, _HOUR_MS)
        batch = Batch([0, 0], (), none, [0, questions], asked, _WINDOWS_MS)
        found = []
        for _ in range(_ROUNDS):
            start = time.process_time()
            run(states, batch)
            found.append(time.process_time() - start)
        return min(found)

    took(1)
    return (took(_QUESTIONS + 1) - took(1)) / _QUESTIONS * 1e6


def main() -> None:
    """Measure, write, and print a row for each statistic."""
    told: dict[str, float] = {}
    for name in SUBJECTS:
        told[name] = question_us(name)
        print(f"{name}: {told[name]:.1f} us", flush=True)
    data = {"machine": machine(), "us": told}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
