"""StreamInsight's demonstration again: 100 million events, a window of the last million, 1 percent.

    python -m benchmarks.accuracy.demonstration              # about ten seconds
    python -m benchmarks.accuracy.demonstration 1_000_000    # fewer events

Source: Meijer, "Taming the Event Stream: Fast Approximate Counting" (MSDN Magazine, February 2013),
whose program takes events of 0 or 1, each with 50 percent chance, and estimates the ones among the
last N, with "a few hundred thousand events per second" on an Intel 2.4 GHz dual core. Here one
thread of one process takes them, 10,000 at a time, asks after each batch, and each answer is
compared with the exact one. The clock is the CPU's, and counts taking in and asking alone.
"""

import time

import numpy as np

from benchmarks.harness.command import typed
from benchmarks.harness.results import machine
from slidestat.synopses import ApproximateCount, ApproximateCountParameters

EVENTS, WINDOW, EPSILON = 100_000_000, 1_000_000, 0.01
_BATCH = 10_000
_ARTICLE = "a few hundred thousand"


def demonstrate(events: int) -> dict[str, float]:
    """Events a CPU second, largest error, buckets and bytes at the end.

    Raises AssertionError if a bound does not hold.
    """
    rng = np.random.default_rng(2013)
    count = ApproximateCount.create(ApproximateCountParameters(WINDOW, EPSILON))
    kept = np.zeros(WINDOW // _BATCH, np.int64)  # Ones of the window's batches, in a ring.
    largest = seconds = 0.0
    for place in range(events // _BATCH):
        bits = rng.integers(0, 2, _BATCH, np.int8)
        start = time.process_time()
        count.insert(bits)
        answer = count.query()
        # The first batch loads the kernels.
        seconds += time.process_time() - start if place else 0.0
        kept[place % len(kept)] = bits.sum()
        exact = int(kept.sum())
        if not answer.lower <= exact <= answer.upper:
            raise AssertionError(f"{answer}, exactly {exact}")
        largest = max(largest, abs(answer.estimate / exact - 1))
    if largest > EPSILON:
        raise AssertionError(f"an error of {largest}, more than {EPSILON}")
    return {
        "events": events,
        "window": WINDOW,
        "epsilon": EPSILON,
        "events_per_cpu_s": (events - _BATCH) / seconds,
        "largest_relative_error": largest,
        "buckets": len(count.buckets()),
        "state_bytes": len(count.to_bytes()),
    }


def main(events: int) -> None:
    """Print what it came to beside the article's figure."""
    print(machine(), flush=True)
    found = demonstrate(events)
    print(
        f"{events:,} events, the last {WINDOW:,} counted, epsilon {EPSILON:.0%}, one core:\n"
        f"  slidestat      {found['events_per_cpu_s']:>13,.0f} events a CPU second\n"
        f"  the article  {_ARTICLE} events a second (StreamInsight, 2013)\n"
        f"  largest error {found['largest_relative_error']:.4%}, {found['buckets']:,} buckets,"
        f" {found['state_bytes']:,} bytes"
    )


if __name__ == "__main__":
    main(*typed(__doc__, events=EVENTS))
