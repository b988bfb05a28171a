"""Cost of the exponential histograms' batch kernel alone: no Kafka, no Faust, no table.

    python -m benchmarks.kernels

Two tables, of CPU time: nanoseconds an event where one key has all 10,000 events of each batch, and
microseconds a key where each of 100,000 keys has 1 or 10 events in the batch. See README.md beside
this file.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from app.synopses import CountParameters, Parameters, SumParameters, run_batch
from benchmarks.report import machine

Int64s = npt.NDArray[np.int64]

_SPAN_MS = 3_600_000
_GAP_MS = 2
_BATCH, _BATCHES = 10_000, 100
_KEYS = 100_000
_MOST_KNOWN = 50
_REPEATS = 5
_SEED = 20020106

_no_queries = np.empty(0, np.int64)
_values = np.random.default_rng(_SEED).integers(1, 10_000, _KEYS * _MOST_KNOWN) / 100


def _parameters(kind: str, epsilon: float) -> Parameters:
    if kind == "count":
        return CountParameters(epsilon=epsilon, span=_SPAN_MS)
    return SumParameters(epsilon=epsilon, span=_SPAN_MS, decimals=2)


def _insert(
    parameters: Parameters, states: list[bytes | None], starts: Int64s, times: Int64s
) -> list[bytes | None]:
    values = _values[: len(times)] if isinstance(parameters, SumParameters) else None
    query_starts = np.zeros(len(states) + 1, np.int64)
    result = run_batch(
        parameters, states, starts, times, values, query_starts, _no_queries, _no_queries
    )
    return list(result.states)


def one_key(kind: str, epsilon: float) -> tuple[list[float], int]:
    """Nanoseconds an event, one figure a repeat, and the bytes of the state at the end.

    The state is carried from batch to batch as bytes, as a worker does; the span holds more events
    than there are, so that nothing expires and the state is the largest it can be.
    """
    parameters = _parameters(kind, epsilon)
    starts = np.array([0, _BATCH], np.int64)
    times = np.arange(_BATCH * _BATCHES, dtype=np.int64) * _GAP_MS
    batches = np.split(times, _BATCHES)
    states: list[bytes | None] = []

    def run() -> None:
        nonlocal states
        states = [None]
        for batch in batches:
            states = _insert(parameters, states, starts, batch)

    seconds = _repeated(run)
    return [s / len(times) * 1e9 for s in seconds], len(states[0] or b"")


def many_keys(kind: str, events: int, known: int) -> tuple[list[float], float]:
    """Microseconds a key, one figure a repeat, for a batch of `events` events of each key, and the
    mean bytes of a state after it.

    The keys are new, or have `known` events already; epsilon is 0.01.
    """
    parameters = _parameters(kind, 0.01)
    rng = np.random.default_rng(_SEED)
    states: list[bytes | None] = [None] * _KEYS

    def batch(first_ms: int, each: int) -> tuple[Int64s, Int64s]:
        times = np.sort(rng.integers(first_ms, first_ms + 60_000, (_KEYS, each)), axis=1)
        return np.arange(_KEYS + 1, dtype=np.int64) * each, times.ravel()

    if known:
        states = _insert(parameters, states, *batch(0, known))
    starts, times = batch(60_000, events)
    after: list[bytes | None] = []

    def run() -> None:
        nonlocal after
        after = _insert(parameters, states, starts, times)

    seconds = _repeated(run)
    size = sum(len(state or b"") for state in after) / _KEYS
    return [s / _KEYS * 1e6 for s in seconds], size


def _repeated(run: Callable[[], None]) -> list[float]:
    """CPU seconds of each of several runs, after one that loads and compiles: the kernels have one
    thread, and what else the machine does is none of their cost.
    """
    run()
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return seconds


def _table(title: str, unit: str) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for heading in (unit, "min - max", "state bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _add(table: Table, name: str, figures: list[float], size: float) -> None:
    spread = f"{min(figures):.2f} - {max(figures):.2f}"
    table.add_row(name, f"{median(figures):.2f}", spread, f"{size:,.0f}")


def main() -> None:
    """Measure and print both tables; about 30 s."""
    console = Console()
    console.print(machine(), highlight=False)
    table = _table(f"One key, batches of {_BATCH:,} events", "ns an event")
    for kind in ("count", "sum"):
        for epsilon in (0.1, 0.01, 0.001):
            _add(table, f"{kind}, epsilon {epsilon}", *one_key(kind, epsilon))
    console.print(table)
    table = _table(f"{_KEYS:,} keys, epsilon 0.01", "us a key")
    for kind in ("count", "sum"):
        for known in (0, _MOST_KNOWN):
            for events in (1, 10):
                name = f"{kind}, {known} events known, {events} new"
                _add(table, name, *many_keys(kind, events, known))
    console.print(table)


if __name__ == "__main__":
    main()
