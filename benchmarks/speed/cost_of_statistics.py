"""What each statistic costs a key: the figures of docs/choose-a-statistic.md.

    python -m benchmarks.speed.cost_of_statistics

Bytes of a key with five events an hour and of one with 900,000 (one each 4 ms, values around 100 of
two decimals), the longest window being an hour; and CPU nanoseconds an event of the busy key, in
batches of 10,000, once its window is full. About a minute. Writes results/costs.json, for `make
figures`.
"""

import time

import msgspec
import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.speed.kernel_subjects import (
    SPAN_MS,
    Insert,
    States,
    bitmaps,
    count,
    counter_table,
    distinct,
    extreme,
    frequent,
    frequent_in_blocks,
    lean_distinct,
    norm,
    quantiles,
    sample,
    spread,
    total,
    value_histogram,
    value_quantiles,
    wave,
)
from slidestat.synopses.core.arrays import Floats

SUBJECTS: dict[str, Insert] = {
    "count, 0.1": count(0.1),
    "count, 0.01": count(0.01),
    "count, 0.001": count(0.001),
    "sum, 0.01": total(0.01),
    "count wave, 0.01": wave("count", 0.01),
    "sum wave, 0.01": wave("sum", 0.01),
    "position wave, 0.01": wave("position", 0.01),
    "minimum or maximum, exact (random order)": extreme("minimum"),
    "minimum or maximum, 0.01": extreme("minimum", 0.01),
    "mean, variance, deviation, 0.1": spread(0.1),
    "mean, variance, deviation, 0.01": spread(0.01),
    "quantiles by value, 0.02 and 0.1": value_quantiles(0.02, 0.1),
    "quantiles by value, 0.01 and 0.1": value_quantiles(0.01, 0.1),
    "quantiles by value, 0.01 and 0.02": value_quantiles(0.01, 0.02),
    "quantiles by rank, 0.1": quantiles(0.1),
    "quantiles by rank, 0.05": quantiles(0.05),
    "quantiles by rank, 0.01": quantiles(0.01),
    "quantiles by rank, 0.005": quantiles(0.005),
    "frequent items, 0.1": frequent(0.1),
    "frequent items, 0.05": frequent(0.05),
    "frequent items, 0.01": frequent(0.01),
    "frequent items in blocks, 0.01": frequent_in_blocks(0.01),
    "value histogram, 12 bins, 0.1": value_histogram(0.1),
    "value histogram, 12 bins, 0.01": value_histogram(0.01),
    "count of each item, 0.01 (200 items)": counter_table(0.01),
    "distinct items, 0.1 (14,000 different)": distinct(0.1),
    "distinct items, 0.05": distinct(0.05),
    "lean distinct items, 0.05": lean_distinct(0.05),
    "distinct items, 256 bitmaps": bitmaps(256),
    "L_2 norm, 0.5 (200 items)": norm(2, 0.5),
    "sample of 10": sample(10),
    "sample of 100": sample(100),
}

RESULTS = RESULTS_FOLDER / "costs.json"
_START_MS = 1_700_000_000_000
_GAP_MS, _BATCH, _BATCHES = 4, 10_000, 150


def _values(rng: np.random.Generator, size: int) -> Floats:
    return rng.lognormal(4.6, 0.2, size).round(2)


def cost(insert: Insert) -> tuple[int, int, float]:
    """Return the bytes of a key with few events, those of a busy one, and its ns an event."""
    rng = np.random.default_rng(3)
    few = _START_MS + np.sort(rng.integers(0, SPAN_MS, 5))
    quiet = insert([None], np.array([0, 5]), few, _values(rng, 5))[0]
    states: States = [None]
    seconds = 0.0
    for i in range(_BATCHES):
        times = _START_MS + (i * _BATCH + np.arange(_BATCH)) * _GAP_MS
        values = _values(rng, _BATCH)
        start = time.process_time()
        states = insert(states, np.array([0, _BATCH]), times, values)
        if times[0] >= _START_MS + SPAN_MS:
            seconds += time.process_time() - start
    full = _BATCHES * _BATCH - SPAN_MS // _GAP_MS
    return len(quiet), len(states[0] or b""), seconds / full * 1e9


def main() -> None:
    """Measure, write, and print a row for each statistic and error."""
    rows = {}
    for name, insert in SUBJECTS.items():
        few, busy, ns = cost(insert)
        rows[name] = {"few": few, "busy": busy, "ns": ns}
        print(f"{name}: {few} bytes, {busy:,} bytes, {ns:,.0f} ns", flush=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
