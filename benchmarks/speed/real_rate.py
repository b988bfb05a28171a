"""A partition's code at the real rate of a workload, in process: what it costs of a core, and what
it writes to its changelog.

    python -m benchmarks.speed.real_rate [sums|latencies|hot-keys|silent-keys|figures|waiting]
        [--interval SECONDS] [--rounds N] [--keys N]

Batches of 50 events, as fetches bring them, and a flush each second, after history has filled the
states. Each workload runs with `emit = "events"` and with the default, `"windows"`, in turn: the
ratio is what it costs to write the windows that have emptied. `silent-keys` has each of `--silent`
keys come once in the hour of history, beside a thousand busy ones. `figures` writes each of
`--keys` keys at every tick, with derived figures and a ranking: of the CPU time of a tick, what
these take, each timed by itself. `waiting` measures what an event costs while few others wait for
the watermark, and while ten or 36 million do (an hour at 10,000 events/s), with the memory that
takes. No broker takes part: what Kafka and Faust cost comes on top.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from benchmarks.harness.cases import CaseName, make_topology
from benchmarks.harness.results import Spread
from slidestat.declare.derived import EMIT_EVENTS, EMIT_WINDOWS
from slidestat.declare.expressions.derived_figures import DerivedFigure
from slidestat.declare.rankings import Ranking
from slidestat.declare.statistics import Count, Mean, Quantiles, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_text import EmissionText
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.engine.ticks.ranked_ticks import RankedFigure, RankedTicks
from slidestat.faust.partitions.durable_states import CheckpointTurns
from slidestat.options import CHECKPOINT_INTERVAL_S
from slidestat.testing.records import MemoryStore

_START_MS = 1_700_000_000_000
_HISTORY_BATCH, _LIVE_BATCH = 25_000, 50
_OTHERS = ("silent-keys", "figures", "waiting")
_WAITING_BATCH = 10_000


@dataclass(frozen=True)
class Held:
    """Log-normal values of three decimals, of uniformly chosen keys, at a rate of event time; each
    of the `silent_keys` has one event of the history.
    """

    topology: Topology
    keys: int
    events_per_s: int
    history_s: int
    live_s: int
    silent_keys: int = 0


WORKLOADS: Mapping[str, Held] = {
    # The latencies of a service.
    "latencies": Held(
        Topology(
            name="latencies", source="events", span="1h", every="10s", windows=("1m", "5m", "1h")
        ),
        keys=100,
        events_per_s=1_000,
        history_s=7_200,
        live_s=120,
    ),
    # A Faust user's question: faust-streaming/faust 184.
    "hot-keys": Held(
        Topology(
            name="hot-keys",
            source="events",
            span="300s",
            every="10s",
            windows=("10s", "30s", "60s", "300s"),
            statistics=(Count(), Sum(), Mean()),
        ),
        keys=50_000,
        events_per_s=5_000,
        history_s=360,
        live_s=120,
    ),
}


# The topology of the comparison's workload `sums`, and its rate of event time.
_SUMS = Held(
    make_topology(CaseName.SUMS, "events", "sums", "1m"),
    keys=1_000,
    events_per_s=100,
    history_s=7_200,
    live_s=600,
)
_SILENT = Held(
    Topology(
        name="silent-keys", source="events", span="1h", every="10s", windows=("1m", "5m", "1h")
    ),
    keys=1_000,
    events_per_s=1_000,
    history_s=3_600,
    live_s=120,
    silent_keys=100_000,
)


# Every key of the span has a record at each tick, with a ranking or without.
_FIGURES = Held(
    Topology(
        name="figures",
        source="events",
        span="1m",
        every="10s",
        windows=("30s", "1m"),
        emit="always",
        statistics=(Count(), Count(name="slow", where="value >= 100"), Quantiles()),
        derived=(
            "slow_1m / count_1m as share",
            "(count_1m - slow_1m) / count_1m as rest",
            "p99_1m / p50_1m as tail",
            "(p99_1m - p50_1m) / p50_1m as beyond",
        ),
        rankings=(Ranking(name="slowest", by="p99_1m", largest=20, having="count_1m >= 1"),),
    ),
    keys=100_000,
    events_per_s=4_000,
    history_s=60,
    live_s=70,
)


class _Run:
    """A partition, and what it has done; records are made outside of the time that counts."""

    def __init__(self, workload: Held, interval_s: float, file: Path | None = None) -> None:
        self._workload = workload
        self._random = np.random.default_rng(1)
        self._turns = CheckpointTurns(interval_s, 0.0)
        store = MemoryStore()
        self.processor = PartitionProcessor(workload.topology, "events", 0, store, file=file)
        self.offset = 0
        self.cpu_s = 0.0
        self.changelog = self.output = 0
        self.ticks_s: list[float] = []
        # The longest stretch without a moment for anything else; and of emissions, how long after
        # the tick was passed.
        self.hold_s = 0.0
        self.latencies_s: list[float] = []

    def batches(self, count: int, size: int) -> Iterator[RecordBatch]:
        end = self.offset + count
        while self.offset < end:
            yield self._batch(size)
            self.offset += size

    def _batch(self, size: int) -> RecordBatch:
        offsets = np.arange(self.offset, self.offset + size)
        times = (_START_MS + offsets * 1_000 // self._workload.events_per_s).tolist()
        keys = self._random.integers(0, self._workload.keys, size)
        if silent := self._workload.silent_keys:
            # Busy keys have the numbers below theirs.
            history = self._workload.history_s * self._workload.events_per_s
            stride = max(1, history // silent)
            is_silent = (offsets % stride == 0) & (offsets < min(history, silent * stride))
            keys = np.where(is_silent, self._workload.keys + offsets // stride, keys)
        values = self._random.lognormal(4.0, 1.0, size).tolist()
        rows = zip(keys.tolist(), times, values, strict=True)
        records = [b'{"key":"k%d","time":%d,"value":%.3f}' % row for row in rows]
        return RecordBatch("events", 0, offsets, [None] * size, records, times, self.offset)

    def take(self, batch: RecordBatch) -> None:
        emitted = len(self.latencies_s)
        started = before = time.process_time()
        for effects in self.processor.steps(batch):
            now = time.process_time()
            self.hold_s, before = max(self.hold_s, now - before), now
            self.latencies_s += [now - started] * len(effects.emissions)
            self.output += sum(len(key) + len(value) for key, value, _ in effects.emissions)
        took = time.process_time() - started
        self.cpu_s += took
        if len(self.latencies_s) > emitted:
            self.ticks_s.append(took)

    def flush(self, now: float) -> None:
        started = time.process_time()
        snapshot = self.processor.snapshot(self._turns.due(now))
        if snapshot is not None:
            rows = snapshot.states.items()
            self.changelog += sum(len(key) + len(state or b"") for key, state in rows)
            self.changelog += len(snapshot.checkpoint)
            self.processor.written()
        self.cpu_s += time.process_time() - started


def measure(name: str, workload: Held, interval_s: float, rounds: int) -> Iterator[str]:
    """Run the same events with two values of `emit` in turn; yield a line for each run, and the
    ratios of their CPU time, over all of it and at the real rate.
    """
    total, live = [], []
    for _ in range(rounds):
        cpu_s = {}
        for emit in (EMIT_EVENTS, EMIT_WINDOWS):
            asked = replace(workload, topology=replace(workload.topology, emit=emit))
            cpu_s[emit], line = _held(f"{name}, {emit}", asked, interval_s)
            yield line
        (history, held), (base_history, base_held) = cpu_s[EMIT_WINDOWS], cpu_s[EMIT_EVENTS]
        total.append((history + held) / (base_history + base_held))
        live.append(held / base_held)
    for label, ratios in (("over all", Spread.of(total)), ("at the real rate", Spread.of(live))):
        yield (
            f"{name}: {ratios.median:.3f} ({ratios.least:.3f} - {ratios.most:.3f}) times the CPU"
            f" time of {EMIT_EVENTS}, {label}"
        )


def _held(name: str, workload: Held, interval_s: float) -> tuple[tuple[float, float], str]:
    """Return the seconds of CPU time for the history and at the real rate, and a line of both."""
    run, rate = _Run(workload, interval_s), workload.events_per_s
    for batch in run.batches(workload.history_s * rate, _HISTORY_BATCH):
        run.take(batch)
        run.flush(run.offset / rate)
    history_cpu_s, catching_up = run.cpu_s, run.offset / run.cpu_s
    run.cpu_s, run.changelog, run.output, run.hold_s = 0.0, 0, 0, 0.0
    run.ticks_s.clear()
    run.latencies_s.clear()
    for second in range(workload.live_s):
        for batch in run.batches(rate, _LIVE_BATCH):
            run.take(batch)
        run.flush(workload.history_s + second)
    events = workload.live_s * rate
    p50, p99 = np.percentile(run.latencies_s, (50, 99)) * 1e3
    return (history_cpu_s, run.cpu_s), (
        f"{name}: catching up {catching_up:,.0f} events/s; at {rate:,} events/s"
        f" {100 * run.cpu_s / workload.live_s:.1f} % of a core,"
        f" {run.changelog / events:.0f} bytes of changelog and {run.output / events:.0f} of output"
        f" an event; a tick takes {1e3 * median(run.ticks_s):.0f} ms, {1e3 * run.hold_s:.0f} at the"
        f" most in one go; an emission comes after {p50:.0f} (p50) and {p99:.0f} ms (p99)"
    )


def measure_figures(workload: Held) -> Iterator[str]:
    """Yield what each figure of figures takes of the ticks at which all keys are written: a line
    with nanoseconds a record, and one with the ranking's share of the rest of a tick.
    """
    run, size = _Run(workload, CHECKPOINT_INTERVAL_S), workload.events_per_s * 10
    spent: defaultdict[str, float] = defaultdict(float)
    found: dict[str, list[float]] = {}
    with ExitStack() as timing:
        timing.enter_context(_timed(spent, DerivedFigure, "numbers", lambda figure: figure.name))
        timing.enter_context(_timed(spent, EmissionText, "write"))
        for name in ("add", "take"):
            timing.enter_context(_timed(spent, RankedTicks, name))
        # The numbers of all figures are computed for the records in any case.
        timing.enter_context(_timed(spent, RankedFigure, "table"))
        for tick in range((workload.history_s + workload.live_s) // 10):
            spent.clear()
            run.cpu_s = 0.0
            run.latencies_s.clear()
            for batch in run.batches(size, size):
                run.take(batch)
            if tick * 10 < workload.history_s:
                continue
            ranked = spent.pop("add") + spent.pop("take") - spent.pop("table")
            share = 100 * ranked / (run.cpu_s - ranked)
            found.setdefault("a ranking, % of the rest of a tick", []).append(share)
            text = spent.pop("write") / len(workload.topology.named_figures)
            for name, seconds in (*spent.items(), ("the text of a figure", text)):
                each = 1e9 * seconds / len(run.latencies_s)
                found.setdefault(f"{name}, ns a record", []).append(each)
    yield f"{len(run.latencies_s):,} records a tick"
    for name, figures in found.items():
        spread = Spread.of(figures)
        yield f"{name}: {spread.median:.1f} ({spread.least:.1f} - {spread.most:.1f})"


@contextmanager
def _timed(
    spent: defaultdict[str, float],
    owner: type,
    name: str,
    label: Callable[[Any], str] | None = None,
) -> Iterator[None]:
    """Add the CPU time of a method to what was spent, under its name or the label of its object."""
    method = getattr(owner, name)

    def timed(this: object, *arguments: object, **named: object) -> object:
        started = time.process_time()
        try:
            return method(this, *arguments, **named)
        finally:
            spent[label(this) if label else name] += time.process_time() - started

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, method)


def measure_waiting(waiting: int, file: Path) -> tuple[float, float]:
    """Microseconds an event while so many others wait for the watermark, and the MiB of memory that
    the process has of its own then: files of waiting events are not.
    """
    rate = 2_500  # The same ticks and runs, whatever waits.
    topology = Topology(
        name="waiting",
        source="events",
        span="4h",
        every="1m",
        lateness=f"{waiting // rate}s",
        statistics=(Count(), Sum()),
    )
    run = _Run(Held(topology, 1_000, rate, 0, 0), 30.0, file)
    for batch in run.batches(waiting + 10 * _WAITING_BATCH, _WAITING_BATCH):
        run.take(batch)
    run.cpu_s, events = 0.0, 50 * _WAITING_BATCH
    for batch in run.batches(events, _WAITING_BATCH):
        run.take(batch)
    memory = psutil.Process().memory_info()
    return 1e6 * run.cpu_s / events, (memory.rss - memory.shared) / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=["sums", *WORKLOADS, *_OTHERS])
    parser.add_argument("--silent", type=int, default=_SILENT.silent_keys)
    parser.add_argument("--keys", type=int, default=_FIGURES.keys)
    parser.add_argument("--interval", type=float, default=CHECKPOINT_INTERVAL_S)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    workloads = {
        **WORKLOADS,
        "sums": _SUMS,
        "silent-keys": replace(_SILENT, silent_keys=asked.silent),
    }
    for asked_name in asked.names:
        if asked_name == "waiting":
            for count in (100_000, 1_000_000, 10_000_000, 36_000_000):
                with tempfile.TemporaryDirectory(prefix="slidestat-waiting-") as folder:
                    took_us, memory_mib = measure_waiting(count, Path(folder) / "waiting")
                print(
                    f"{count:,} events wait: {took_us:.2f} us an event, {memory_mib:,.0f} MiB",
                    flush=True,
                )
        elif asked_name == "figures":
            with calm_garbage_collector():
                for text in measure_figures(replace(_FIGURES, keys=asked.keys)):
                    print(text, flush=True)
        else:
            with calm_garbage_collector():
                for text in measure(
                    asked_name, workloads[asked_name], asked.interval, asked.rounds
                ):
                    print(text, flush=True)
