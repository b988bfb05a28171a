"""What `exactly_once = true` costs: latency, CPU, and the pause after a kill, beside the default.

    python -m benchmarks.delay.exactly_once [--rate 5000] [--seconds 30] [--runs 3]

One worker emits count, sum and mean of 1,000 keys each second, of events sent as they happen, with
and without `exactly_once` in turn. A consumer with `isolation.level=read_committed` notes when it
sees each emission: its latency is from the end of its window. Then the worker is killed (SIGKILL)
and another one is started at once in the same folder: the pause is from the kill to the first
emission of a later window that the consumer sees, and has the worker's start-up in it.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import msgspec
import numpy as np
import typer
from confluent_kafka import Consumer
from rich.console import Console

from benchmarks.harness import results
from benchmarks.harness.measure import SubjectProcess, cpu_seconds
from benchmarks.speed.questions import PARTITIONS, send
from benchmarks.speed.throughput import broker, run_command
from slidestat.admin.topics import create_topic
from slidestat.kafka.settings import client_config

_WARM_UP_S = 8.0
_AFTER_KILL_S = 40.0
_PATIENCE_S = 180.0
_TOPOLOGY = """
name = "{name}"
source = "{source}"
span = "10m"
every = "1s"
windows = ["1m", "10m"]
statistics = [{{kind = "count"}}, {{kind = "sum"}}, {{kind = "mean"}}]
exactly_once = {exactly_once}
"""


class Cost(msgspec.Struct):
    """Latencies in ms, the share of a core, and the seconds from a kill to the next emission."""

    p50_ms: float
    p99_ms: float
    core: float
    pause_s: float


class _Emission(msgspec.Struct):
    window_end_ms: int


class _Watch(threading.Thread):
    """Reads an output topic, committed records alone, and notes when each window end came."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, int]] = []
        self._is_ended = threading.Event()
        config = {**client_config(bootstrap), "group.id": f"{topic}-watch"}
        config |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic])

    def run(self) -> None:
        decode = msgspec.json.Decoder(_Emission).decode
        while not self._is_ended.is_set():
            messages = self._consumer.consume(10_000, timeout=0.02)
            now = time.time()
            for message in messages:
                if message.error() is None:
                    self.seen.append((now, decode(message.value() or b"").window_end_ms))

    def close(self) -> None:
        self._is_ended.set()
        self.join()
        self._consumer.close()


def measure(bootstrap: str, rate: int, seconds: int, *, exactly_once: bool) -> Cost:
    """Measure one worker, its kill and its successor."""
    name = f"once-{token_hex(4)}"
    source, output = f"{name}-events", f"{name}-statistics"
    for topic in (source, output):
        create_topic(bootstrap, topic, PARTITIONS, {"retention.ms": "-1"})
    start = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder:
        file = Path(folder) / f"{name}.toml"
        text = _TOPOLOGY.format(name=name, source=source, exactly_once=str(exactly_once).lower())
        file.write_text(text)
        command = [sys.executable, "-m", "slidestat", "run", str(file), "--bootstrap", bootstrap]
        command += ["--data-dir", f"{folder}/data"]
        first, second = Path(folder) / "first.log", Path(folder) / "second.log"
        watch = _Watch(bootstrap, output)
        watch.start()
        with closing(watch):
            with SubjectProcess(command, first) as worker:
                worker.wait_for(lambda: "ready, partitions" in first.read_text(), 1, _PATIENCE_S)
                sends = _WARM_UP_S + seconds + _AFTER_KILL_S
                sender = start.Process(target=send, args=(bootstrap, source, rate, sends))
                sender.start()
                time.sleep(_WARM_UP_S)
                began, used = time.time(), cpu_seconds(worker.pid)
                time.sleep(seconds)
                killed = time.time()
                core = (cpu_seconds(worker.pid) - used) / (killed - began)
                os.kill(worker.pid, signal.SIGKILL)
            with SubjectProcess(command, second) as successor:
                successor.wait_for(
                    lambda: any(at > killed and end > killed * 1000 for at, end in watch.seen[-1:]),
                    1,
                    _PATIENCE_S,
                )
                sender.terminate()
                sender.join()
    took = [at * 1000 - end for at, end in watch.seen if began * 1000 < end < killed * 1000 - 2000]
    pause = min(at for at, end in watch.seen if end > killed * 1000) - killed
    p50, p99 = np.percentile(took, (50, 99)).tolist()
    return Cost(p50, p99, core, pause)


def exactly_once(
    rate: Annotated[int, typer.Option(min=100, help="Events a second.")] = 5_000,
    seconds: Annotated[int, typer.Option(min=10, help="For how long.")] = 30,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
) -> None:
    """Measure both in turn."""
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    found: dict[bool, list[Cost]] = {False: [], True: []}
    with broker() as (bootstrap, _):
        for run in range(1, runs + 1):
            for once, costs in found.items():
                cost = measure(bootstrap, rate, seconds, exactly_once=once)
                costs.append(cost)
                name = "exactly once" if once else "at least once"
                console.print(
                    f"run {run}: {name}: p50 {cost.p50_ms:,.0f} ms, p99 {cost.p99_ms:,.0f} ms,"
                    f" {cost.core:.1%} of a core, {cost.pause_s:.1f} s after a kill",
                    highlight=False,
                )
    ratios = np.array([once.core for once in found[True]])
    ratios /= np.array([default.core for default in found[False]])
    console.print(
        f"CPU: {np.median(ratios):.2f} times ({ratios.min():.2f} to {ratios.max():.2f})",
        highlight=False,
    )


if __name__ == "__main__":
    run_command(exactly_once)
