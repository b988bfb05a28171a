"""Workloads held at their real rate, on a broker, with full states.

    python -m benchmarks.speed.held [latencies|hot-keys]... [--write]

A worker as users run it catches up on history that fills its windows; then events go to the topic
as they happen, at the workload's rate, for half a minute and for the two minutes that are measured.
Catching up is timed from the first batch taken up to the last. Told of the two minutes are the
worker's CPU time, the bytes that it wrote to its changelog and its output, and the latency of an
emission: from the sending of the record by which it was due to the broker's stamp. Every key and
tick must have its emission, and each count lie between its bounds.
"""

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
from confluent_kafka import Producer
from rich.console import Console

from benchmarks.delay.due import SUBJECTS, Answer, latencies
from benchmarks.harness import results
from benchmarks.harness.answers import read_messages
from benchmarks.harness.check import check_complete, check_figures
from benchmarks.harness.exact import Exact
from benchmarks.harness.figures import Figure
from benchmarks.harness.measure import SubjectProcess, cpu_seconds
from benchmarks.harness.progress import Progress
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import Workload
from benchmarks.speed.real_rate import WORKLOADS, Held
from benchmarks.speed.throughput import PARTITIONS, broker, delete_topics, run_command
from slidestat.admin.topics import create_topic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

_LEAD_IN_S = 30
_PATIENCE_S = 600.0
_PAUSE_S = 0.005
_KEPT = {"retention.ms": "-1"}
_STAMPED = {**_KEPT, "message.timestamp.type": "LogAppendTime"}
# Emissions whose figures are checked.
_SAMPLE = 20_000


class _Latency(msgspec.Struct):
    p50: float
    p99: float


class HeldRun(msgspec.Struct):
    """What a worker did; bytes are those of keys and values."""

    events_per_s: float
    events_per_cpu_s: float
    live_core_percent: float
    live_changelog_bytes_per_event: float
    live_output_bytes_per_event: float
    live_latency_ms: _Latency
    live_emissions: int
    peak_memory_mib: float
    load: float


class _Emission(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int
    figures: list[Figure]


class _Stream:
    """Events of uniformly drawn keys with log-normal values, sent to a topic, and remembered."""

    def __init__(self, held: Held, bootstrap: str, topic: str) -> None:
        self._held, self._topic = held, topic
        self._random = np.random.default_rng(1)
        self._sent: list[tuple[Integers, Integers]] = []
        settings = {"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True}
        self._producer = Producer(
            {**client_config(bootstrap), **settings, "queue.buffering.max.messages": 1_000_000}
        )
        self._time = int(time.time() * 1000) - 1000 * held.history_s

    def send_history(self) -> int:
        """Send what fills the windows, up to now; how many events."""
        held, rate = self._held, self._held.events_per_s
        for second in range(held.history_s):
            self._send(self._time + 1000 * second + np.arange(rate) * 1000 // rate)
        self._time += 1000 * held.history_s
        self._flush()
        return held.history_s * rate

    def send_live(self, seconds: int) -> int:
        """Send events as they happen for so long, on after what was sent before; by how much their
        times are behind the clock, in milliseconds.
        """
        rate, begin = self._held.events_per_s, time.time()
        behind, done = int(begin * 1000) - self._time, 0
        while done < seconds * rate:
            now = time.time()
            more = min(int((now - begin) * rate), seconds * rate) - done
            self._send(np.full(more, int(now * 1000) - behind))
            done += more
            time.sleep(_PAUSE_S)
        self._time = int(time.time() * 1000) - behind
        self._flush()
        return behind

    def workload(self) -> Workload:
        """All that was sent, without its values."""
        keys, times = map(np.concatenate, zip(*self._sent, strict=True))
        return Workload(self._held.keys, PARTITIONS, keys, times, np.zeros(len(keys), np.int64))

    def _send(self, times: Integers) -> None:
        keys = self._random.integers(0, self._held.keys, len(times))
        values = self._random.lognormal(4.0, 1.0, len(times))
        self._sent.append((keys, times))
        rows = zip(keys.tolist(), times.tolist(), values.tolist(), strict=True)
        for key, time_ms, value in rows:
            name = b"key-%06d" % key
            record = b'{"key":"%b","time":%d,"value":%.3f}' % (name, time_ms, value)
            while True:
                try:
                    self._producer.produce(
                        self._topic, record, name, key % PARTITIONS, timestamp=time_ms
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
        self._producer.poll(0)

    def _flush(self) -> None:
        if left := self._producer.flush(_PATIENCE_S):
            raise SlidestatError(
                f"The broker did not take {left} of the events.", "Look at the broker's log."
            )


@dataclass(frozen=True)
class _Stretch:
    """What was measured, while events came: from when to when, in milliseconds."""

    start_ms: int
    end_ms: int
    cpu_s: float
    peak_rss: int

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    def has(self, stamp_ms: int) -> bool:
        return self.start_ms <= stamp_ms < self.end_ms


def hold(bootstrap: str, name: str) -> HeldRun:
    """Run a workload of `WORKLOADS`; raises SlidestatError if the worker fails or is wrong."""
    held, group = WORKLOADS[name], f"held-{name}"
    topology = replace(held.topology, source=f"{group}-events", name=group)
    create_topic(bootstrap, topology.source, PARTITIONS, _KEPT)
    for topic in (topology.output_topic, topology.dead_letter_topic, topology.late_topic):
        create_topic(bootstrap, topic, PARTITIONS, _STAMPED)
    folder = Path(tempfile.mkdtemp(prefix="slidestat-bench-"))
    try:
        stream = _Stream(held, bootstrap, topology.source)
        history = stream.send_history()
        progress = Progress.create(folder / "progress")
        command = [*SYSTEMS[OURS].command(), bootstrap, topology.source, group]
        command += [str(folder / "progress"), str(folder), str(PARTITIONS), topology.every, name]
        with SubjectProcess(command, folder / "log") as worker:
            load = worker.load
            first = worker.wait_for(progress.read, 1, _PATIENCE_S)
            start, before = time.monotonic(), cpu_seconds(worker.pid)
            worker.wait_for(progress.read, history, _PATIENCE_S)
            caught_up = history - first
            events_per_s = caught_up / (time.monotonic() - start)
            events_per_cpu_s = caught_up / (cpu_seconds(worker.pid) - before)
            stream.send_live(_LEAD_IN_S)
            before, begin = cpu_seconds(worker.pid), time.time()
            behind = stream.send_live(held.live_s)
            cpu_s, rss = cpu_seconds(worker.pid) - before, worker.rss()
            live = _Stretch(int(begin * 1000), int(time.time() * 1000), cpu_s, rss)
            workload = stream.workload()
            worker.wait_for(progress.read, len(workload), _PATIENCE_S)
        speed = events_per_s, events_per_cpu_s
        return _weighed(bootstrap, topology, workload, live, behind, speed, load)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        delete_topics(bootstrap, group)


def _weighed(
    bootstrap: str,
    topology: Topology,
    workload: Workload,
    live: _Stretch,
    behind: int,
    speed: tuple[float, float],
    load: float,
) -> HeldRun:
    answers, output = _check(bootstrap, topology, workload, live, behind)
    took = latencies(
        SUBJECTS[OURS], replace(workload, times=workload.times + behind), answers, live.start_ms
    )
    changelog = sum(
        len(message.key() or b"") + len(message.value() or b"")
        for message in read_messages(bootstrap, topology.changelog_topic)
        if live.has(message.timestamp()[1])
    )
    events = int(np.sum(workload.times + behind >= live.start_ms))
    return HeldRun(
        *speed,
        100 * live.cpu_s / live.seconds,
        changelog / events,
        output / events,
        _Latency(*np.percentile(took, (50, 99)).tolist()),
        len(took),
        live.peak_rss / 2**20,
        load,
    )


def _check(
    bootstrap: str, topology: Topology, workload: Workload, live: _Stretch, behind: int
) -> tuple[list[Answer], int]:
    """The emissions of a stretch, by the clock, and their bytes; all emissions must be there, and
    the counts of a sample be right.
    """
    for topic in (topology.dead_letter_topic, topology.late_topic):
        if letters := sum(1 for _ in read_messages(bootstrap, topic)):
            raise SlidestatError(f"{letters} good events went to {topic}.", "Report it.")
    decode = msgspec.json.Decoder(_Emission).decode
    answers, size = list[Answer](), 0
    keys, ends, sampled = list[int](), list[int](), list[_Emission]()
    for message in read_messages(bootstrap, topology.output_topic):
        text = message.value() or b""
        emission = decode(text)
        key, end, stamp = (
            workload.key_number(emission.key),
            emission.window_end_ms,
            message.timestamp()[1],
        )
        keys.append(key)
        ends.append(end)
        if live.has(stamp):
            answers.append(Answer(key, end + behind, end + behind, 0, stamp))
            size += len(message.key() or b"") + len(text)
            if len(sampled) < _SAMPLE:
                sampled.append(emission)
    check_complete(workload, topology, np.array(keys), np.array(ends))
    counts = [(e, f) for e in sampled for f in e.figures if f.statistic == "count"]
    check_figures(
        Exact(workload),
        len(keys),
        [figure for _, figure in counts],
        np.array([workload.key_number(emission.key) for emission, _ in counts]),
        np.array([emission.window_end_ms for emission, _ in counts]),
    )
    return answers, size


def measure_held(names: Sequence[str], console: Console) -> dict[str, object]:
    """Workloads one after another, saying what each came to; settings and systems of each."""
    found: dict[str, object] = {}
    for name in names:
        with broker() as (bootstrap, _), console.status(f"held: {name}"):
            run, held = hold(bootstrap, name), WORKLOADS[name]
        console.print(
            f"{name}: catching up {run.events_per_s:,.0f} events/s,"
            f" {run.events_per_cpu_s:,.0f} a CPU second; held at"
            f" {held.events_per_s:,} events/s {run.live_core_percent:.1f} % of a core,"
            f" {run.live_changelog_bytes_per_event:.0f} bytes of changelog and"
            f" {run.live_output_bytes_per_event:.0f} of output an event, latency p50"
            f" {run.live_latency_ms.p50:,.0f} ms, p99 {run.live_latency_ms.p99:,.0f} ms of"
            f" {run.live_emissions:,} emissions, {run.peak_memory_mib:,.0f} MiB,"
            f" load {run.load:.1f}",
            highlight=False,
            soft_wrap=True,
        )
        settings = {
            "keys": held.keys,
            "live_events_per_s": held.events_per_s,
            "history_s": held.history_s,
            "live_s": held.live_s,
            "every": held.topology.every,
            "partitions": PARTITIONS,
            "runs": 1,
        }
        found[name] = {"settings": settings, "systems": {OURS: run}}
    return found


def held(
    workload: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(WORKLOADS)}.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write them over those of the last `make bench`.")
    ] = False,
) -> None:
    """Hold workloads at their real rate."""
    if unknown := [name for name in workload or () if name not in WORKLOADS]:
        raise SlidestatError(
            f"There is no workload {unknown[0]} to hold.", f"One of: {', '.join(WORKLOADS)}."
        )
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    found = measure_held(workload or list(WORKLOADS), console)
    if write:
        results.replace_workloads(results.LATEST, found)


if __name__ == "__main__":
    run_command(held)
