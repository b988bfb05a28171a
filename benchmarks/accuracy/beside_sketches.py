"""Quantiles by value beside DDSketch, KLL and REQ, which have no windows: size, errors, speed.

    python -m benchmarks.accuracy.beside_sketches            # five streams: some minutes
    python -m benchmarks.accuracy.beside_sketches 1          # one

Each stream has 1,350,000 log-normal values of a median of 100 and a sigma of 1, with three
decimals, evenly over an hour and a half. Ours is asked for all of it, as the others are, and in a
second row for its last hour, in batches of 100,000 and of 10,000 events; the others, as they come,
are fed in the largest batches that they take. Errors are the largest of all streams. Ours must
keep bounds and promise, or this ends with an error. What is written to results/quantiles.json
stands in docs/choose-a-statistic.md (`make figures`).
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from math import ceil, floor
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks import REPOSITORY, RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.harness.results import machine
from benchmarks.peers.environments import environment_python
from benchmarks.speed.kernel_subjects import KLL_K
from slidestat.synopses import (
    Batch,
    ValueHistogramParameters,
    ValueQuantileParameters,
    ValueQuantiles,
    run_value_histogram_batch,
    run_value_quantile_batch,
)
from slidestat.synopses.core.arrays import Floats

RESULTS = RESULTS_FOLDER / "quantiles.json"
SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
EVENTS = 1_350_000
HOUR_MS = 3_600_000
SPAN_MS = HOUR_MS * 3 // 2
REQ_K = 12
_START_MS = 1_700_000_000_000
_EDGES = (10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 130.0, 180.0, 300.0, 600.0, 1_200.0)
_LONG, _SHORT = 100_000, 10_000
_NOTHING: tuple[list[int], list[int], list[int]] = ([0, 0], [], [])  # asked of one group


class Run(NamedTuple):
    """What one sketch made of one stream; quantiles are in the order of SHARES, or none."""

    bytes: int
    ns: float
    quantiles: list[float]


def drawn(seed: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Times and values of a stream."""
    rng = np.random.default_rng(seed)
    times = _START_MS + np.arange(EVENTS) * SPAN_MS // EVENTS
    return times, np.round(rng.lognormal(np.log(100.0), 1.0, EVENTS), 3)


def ours(span_ms: int, batch: int) -> Callable[[int], Run]:
    """Quantiles by value with the defaults; raises AssertionError for a broken promise."""
    parameters = ValueQuantileParameters(0.01, 0.1, span_ms)

    def run(seed: int) -> Run:
        times, values = drawn(seed)
        states: list[bytes] = []
        start = time.process_time()
        for first in range(0, EVENTS, batch):
            part = slice(first, first + batch)
            size = len(times[part])
            result = run_value_quantile_batch(
                parameters, states or [None], Batch([0, size], times[part], values[part])
            )
            states = result.states
        seconds = time.process_time() - start
        summary = ValueQuantiles.from_bytes(states[0])
        now = _START_MS + SPAN_MS
        window = np.sort(values[times >= now - span_ms])
        answers = [summary.query(span_ms, p, now) for p in SHARES]
        for p, (estimate, lower, upper) in zip(SHARES, answers, strict=True):
            exact = window[ceil(Fraction(repr(p)) * len(window)) - 1]
            share = Fraction(repr(parameters.epsilon)) * (1 - Fraction(repr(p)))
            least = window[ceil((Fraction(repr(p)) - share) * len(window)) - 1]
            place = floor((Fraction(repr(p)) + share) * len(window))
            most = window[min(len(window) - 1, place)]
            nearest = min(max(estimate, least), most)
            if not lower <= exact <= upper:
                raise AssertionError(f"p{100 * p}: {exact} is not in [{lower}, {upper}]")
            if abs(estimate - nearest) > parameters.value_error * nearest:
                raise AssertionError(f"p{100 * p}: {estimate} is off more than was promised")
        return Run(len(states[0]), seconds / EVENTS * 1e9, [answer[0] for answer in answers])

    return run


def histogram(seed: int) -> Run:
    """The plain value histogram, whose edges are known beforehand: what a time costs an event."""
    parameters = ValueHistogramParameters(epsilon=0.01, span=SPAN_MS, edges=_EDGES)
    times, values = drawn(seed)
    states: list[bytes] = []
    start = time.process_time()
    for first in range(0, EVENTS, _LONG):
        part = slice(first, first + _LONG)
        size = len(times[part])
        result = run_value_histogram_batch(
            parameters, states or [None], Batch([0, size], times[part], values[part])
        )
        states = result.states
    return Run(len(states[0]), (time.process_time() - start) / EVENTS * 1e9, [])


def of_datasketches(made: Callable[[Any], Any]) -> Callable[[int], Run]:
    """A sketch of DataSketches."""

    def run(seed: int) -> Run:
        _, values = drawn(seed)
        sketch = made(import_module("datasketches"))
        start = time.process_time()
        sketch.update(values if "doubles" in type(sketch).__name__ else values.astype(np.float32))
        seconds = time.process_time() - start
        found = [float(sketch.get_quantile(p)) for p in SHARES]
        return Run(len(sketch.serialize()), seconds / EVENTS * 1e9, found)

    return run


def ddsketch(seed: int) -> Run:
    """DDSketch's own package, value by value; raises UnavailableError if it cannot be installed."""
    python = environment_python("ddsketch")
    _, values = drawn(seed)
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, values)
        file.flush()
        done = subprocess.run(  # noqa: S603 - our own module
            [python, "-m", "benchmarks.peers.ddsketch_quantiles", file.name, *map(str, SHARES)],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        )
    return Run(**json.loads(done.stdout))


SUBJECTS: dict[str, tuple[int, Callable[[int], Run]]] = {
    "slidestat, all of the stream": (SPAN_MS, ours(SPAN_MS, _LONG)),
    "slidestat, its last hour": (HOUR_MS, ours(HOUR_MS, _LONG)),
    "slidestat, its last hour, batches of 10,000": (HOUR_MS, ours(HOUR_MS, _SHORT)),
    "DDSketch, 1 %": (SPAN_MS, ddsketch),
    f"KLL, k = {KLL_K}": (
        SPAN_MS,
        of_datasketches(lambda module: module.kll_doubles_sketch(KLL_K)),
    ),
    f"REQ, k = {REQ_K}": (
        SPAN_MS,
        of_datasketches(lambda module: module.req_floats_sketch(REQ_K, True)),
    ),
    "value histogram, 12 bins, 1 %": (SPAN_MS, histogram),
}
"""By name: the window that is asked for, and the run."""


def errors(seed: int, window_ms: int, found: list[float]) -> list[tuple[float, float]]:
    """(error of the value, as a share of it; error of the rank, as a share of the events beyond) of
    each quantile.
    """
    times, values = drawn(seed)
    window = np.sort(values[times >= _START_MS + SPAN_MS - window_ms])
    told = []
    for p, estimate in zip(SHARES, found, strict=True):
        exact = window[ceil(Fraction(repr(p)) * len(window)) - 1]
        below = float(np.searchsorted(window, estimate, "left")) / len(window)
        up_to = float(np.searchsorted(window, estimate, "right")) / len(window)
        off = abs(min(max(p, below), up_to) - p)
        told.append((abs(estimate / exact - 1), off / (1 - p)))
    return told


def main(streams: int) -> None:
    """Measure and write; prints a line for each run."""
    for _, run in SUBJECTS.values():
        run(0)  # Kernels are loaded.
    runs: dict[str, list[Run]] = {name: [] for name in SUBJECTS}
    for seed in range(1, streams + 1):
        for name, (_, run) in SUBJECTS.items():
            done = run(seed)
            runs[name].append(done)
            print(f"{seed} {name}: {done.bytes:,} bytes, {done.ns:,.0f} ns", flush=True)
    rows = {}
    for name, (window_ms, _) in SUBJECTS.items():
        off = [
            errors(seed, window_ms, run.quantiles)
            for seed, run in enumerate(runs[name], 1)
            if run.quantiles
        ]
        rows[name] = {
            "bytes": round(median(run.bytes for run in runs[name])),
            "ns": median(run.ns for run in runs[name]),
            "value_errors": np.max(off, axis=0)[:, 0].tolist() if off else [],
            "rank_errors": np.max(off, axis=0)[:, 1].tolist() if off else [],
        }
    data = {"machine": machine(), "streams": streams, "shares": SHARES, "rows": rows}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    main(*typed(__doc__, streams=5))
