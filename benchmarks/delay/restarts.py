"""How long partitions stand still when one of two workers is restarted.

    python -m benchmarks.delay.restarts [--rate 2000] [--runs 3]

Two workers emit a count of 1,000 keys each second, of events sent as they happen. One of them is
ended (SIGTERM), or killed (SIGKILL), and started again at once in its folder, as a rolling update
does. Of each partition the longest time without an emission is taken: of those of the worker that
was restarted, and of those of the other one, which has to stop for the group's rebalances alone.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Annotated, NamedTuple

import typer
from confluent_kafka import Consumer
from rich.console import Console

from benchmarks.harness import results
from benchmarks.harness.measure import SubjectProcess
from benchmarks.speed.questions import PARTITIONS, send
from benchmarks.speed.throughput import broker, run_command
from slidestat.admin.topics import create_topic
from slidestat.kafka.settings import client_config

_WARM_UP_S, _AFTER_S = 6.0, 8.0
_PATIENCE_S = 240.0
_TOPOLOGY = """
name = "{name}"
source = "{name}-events"
span = "10m"
every = "1s"
statistics = [{{kind = "count"}}]
"""


class Still(NamedTuple):
    """The longest seconds without an emission of any partition of each worker."""

    restarted: float
    other: float


class _Watch(threading.Thread):
    """Reads an output topic, and notes when each partition had emissions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self._is_ended = threading.Event()
        config = {**client_config(bootstrap), "group.id": f"{topic}-watch"}
        self._consumer = Consumer({**config, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])

    def run(self) -> None:
        while not self._is_ended.is_set():
            now = time.monotonic()
            for number in {m.partition() or 0 for m in self._consumer.consume(10_000, 0.02)}:
                self.seen[number].append(now)

    def longest(self, number: int, since: float) -> float:
        """Return the longest time without an emission of a partition, from a moment on till now."""
        times = [since, *(at for at in self.seen[number] if at >= since), time.monotonic()]
        return max((b - a for a, b in pairwise(times)), default=0.0)

    def close(self) -> None:
        self._is_ended.set()
        self.join()
        self._consumer.close()


def _partitions(log: Path) -> set[int]:
    """Return the partitions that a worker has by its log."""
    lines = [line for line in log.read_text().splitlines() if "ready, partitions" in line]
    text = lines[-1].split("ready, partitions")[1] if lines else ""
    return {int(word) for word in text.replace(":", " ").replace(",", " ").split()}


def _shared_out(logs: list[Path]) -> Callable[[], int]:
    """Return whether the workers with these logs have all partitions, evenly."""
    return lambda: [len(_partitions(log)) for log in logs] == [PARTITIONS // 2] * 2


def measure(bootstrap: str, rate: int, number: int) -> Still:
    """Measure the restart of one of two workers, after it got a signal of this number."""
    name = f"still-{token_hex(4)}"
    for topic in (f"{name}-events", f"{name}-statistics"):
        create_topic(bootstrap, topic, PARTITIONS, {"retention.ms": "-1"})
    start = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="slidestat-bench-") as text, ExitStack() as stack:
        folder = Path(text)
        file = folder / f"{name}.toml"
        file.write_text(_TOPOLOGY.format(name=name))

        def worker(data: str, log: str) -> tuple[SubjectProcess, Path]:
            command = [sys.executable, "-m", "slidestat", "run", str(file)]
            command += ["--bootstrap", bootstrap, "--data-dir", str(folder / data)]
            process = stack.enter_context(SubjectProcess(command, folder / log))
            return process, folder / log

        watch = _Watch(bootstrap, f"{name}-statistics")
        watch.start()
        stack.enter_context(closing(watch))
        one, first = worker("one", "first.log")
        one.wait_for(lambda: len(_partitions(first)), PARTITIONS, _PATIENCE_S)
        other, second = worker("other", "second.log")
        other.wait_for(_shared_out([first, second]), 1, _PATIENCE_S)
        sender = start.Process(target=send, args=(bootstrap, f"{name}-events", rate, _PATIENCE_S))
        sender.start()
        stack.callback(sender.join)
        stack.callback(sender.terminate)
        time.sleep(_WARM_UP_S)
        held, began = _partitions(second), time.monotonic()
        os.kill(other.pid, number)
        other.__exit__()  # A folder is one worker's at a time.
        again, third = worker("other", "third.log")
        again.wait_for(_shared_out([first, third]), 1, _PATIENCE_S)
        time.sleep(_AFTER_S)
        still = [watch.longest(number, began) for number in range(PARTITIONS)]
    return Still(
        max(still[number] for number in held),
        max(still[number] for number in range(PARTITIONS) if number not in held),
    )


def restarts(
    rate: Annotated[int, typer.Option(min=100, help="Events a second.")] = 2_000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
) -> None:
    """Measure both ways in turn."""
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    with broker() as (bootstrap, _):
        for run in range(1, runs + 1):
            for number, how in ((signal.SIGTERM, "ended"), (signal.SIGKILL, "killed")):
                still = measure(bootstrap, rate, number)
                console.print(
                    f"run {run}: {how}: its partitions stood still for {still.restarted:.1f} s,"
                    f" those of the other worker for {still.other:.1f} s",
                    highlight=False,
                )


if __name__ == "__main__":
    run_command(restarts)
