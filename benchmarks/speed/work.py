"""How much is done for an event, counted instead of timed: the same on a busy machine.

    python -m benchmarks.speed.work            # print the counts
    python -m benchmarks.speed.work --write    # and keep them as those that the tests hold work to

Three counts. Of each synopsis, the source lines that its kernel runs for an event, as plain Python:
what the compiled one does as well, since it is the same code. Of a partition's whole way from JSON
to states, the source lines of Python around the compiled kernels, and the most bytes that were
allocated at once. The fourth thing that could grow in silence, records written, is no count but a
law: a state and a checkpoint for each commit, one emission for each key and tick.
"""

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import slidestat
from benchmarks import REPOSITORY, RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.harness.inside import batches
from benchmarks.harness.workload import KeyDistribution, draw
from benchmarks.speed.kernel_subjects import OF_ITEMS, WHOLE_SET, Insert, States
from slidestat.declare.kinds import DEFAULT
from slidestat.declare.statistics import Count, Mean, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.testing.records import MemoryStore

EXPECTED = RESULTS_FOLDER / "work.json"

_ROOT = str(Path(slidestat.__file__).parent)
_GAP_MS = 2_000  # A span holds 1,800 events: the histograms are full, and expire.
_BATCH, _BATCHES = 200, 4
_KEYS, _EVENTS, _PER_BATCH = 100, 10_000, 5_000
_AS_PYTHON = "NUMBA_DISABLE_JIT"
_SETS: dict[str, Sequence[Statistic]] = {
    "count, sum, mean": (Count(epsilon=0.01), Sum(epsilon=0.01, decimals=3), Mean()),
    "default": DEFAULT,
}


def lines_run(work: Callable[[], object]) -> int:
    """How many source lines of the package `work` runs, in this thread."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if event == "call":
            return trace if frame.f_code.co_filename.startswith(_ROOT) else None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def kernel_lines(insert: Insert) -> float:
    """Source lines that an event takes in a synopsis of one key; kernels must be plain Python."""
    values = np.random.default_rng(1).integers(1, 10_000, _BATCH * _BATCHES) / 100
    times = np.arange(_BATCH * _BATCHES, dtype=np.int64) * _GAP_MS
    starts = np.array([0, _BATCH], np.int64)

    def run() -> None:
        states: States = [None]
        for rows in np.split(np.arange(len(times)), _BATCHES):
            states = insert(states, starts, times[rows], values[rows])

    return lines_run(run) / len(times)


def pipeline_work(statistics: Sequence[Statistic]) -> dict[str, float]:
    """Lines of Python an event of a partition with 100 keys, and the most bytes at once; kernels
    are compiled, and loaded before.
    """
    events = draw(_EVENTS, _KEYS, KeyDistribution.ZIPF, 1)
    topology = Topology(
        name="work", source="events", span="1h", every="1m", statistics=tuple(statistics)
    )
    taken = list(batches(events, topology.source, _PER_BATCH))

    def run() -> None:
        processor = PartitionProcessor(topology, topology.source, 0, MemoryStore())
        for batch in taken:
            processor.process(batch)
            processor.snapshot()
            processor.written()

    run()
    lines = lines_run(run)
    tracemalloc.start()
    try:
        run()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {"python lines an event": lines / _EVENTS, "most bytes an event": most / _PER_BATCH}


def kernels() -> dict[str, float]:
    """`kernel_lines` of every synopsis, from a process whose kernels are plain Python."""
    command = [sys.executable, "-m", "benchmarks.speed.work", "--kernels"]
    done = subprocess.run(  # noqa: S603 - this module
        command,
        env={**os.environ, _AS_PYTHON: "1"},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure() -> dict[str, float]:
    """All counts by name."""
    counts = {f"{name}: lines an event": lines for name, lines in kernels().items()}
    for name, statistics in _SETS.items():
        for what, amount in pipeline_work(statistics).items():
            counts[f"pipeline of {name}: {what}"] = amount
    return {name: round(amount, 3) for name, amount in counts.items()}


def main(kernels_only: bool, write: bool) -> None:
    """Print the counts, and write them where that is asked for."""
    if kernels_only:
        print(json.dumps({n: kernel_lines(i) for n, i in {**WHOLE_SET, **OF_ITEMS}.items()}))
        return
    counts = measure()
    for name, amount in counts.items():
        print(f"{amount:12,.3f}  {name}")
    if write:
        EXPECTED.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main(*typed(__doc__, "--kernels", "--write"))
