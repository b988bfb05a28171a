"""A million keys in one worker: its memory, what it stores, a restart, and what silence leaves.

    python -m benchmarks.size.million_keys [keys] [events]

A worker with the default statistics on a broker of its own, everything on:

1. each key comes once, in random order;
2. the worker is stopped and started again, and takes `events` more (2,000,000), the k-th key in
   proportion to 1/k^1.1, while all keys stay in the span;
3. some events for each partition come after the span has passed: all other keys are emitted once
   more and go.

Every emission is looked for and compared as in `benchmarks.speed.throughput`. Memory is the
resident set of the worker's process, looked at five times a second; above 4 GiB the exit code is 2.
"""

import re
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.command import typed
from benchmarks.harness.measure import (
    GroupOffsets,
    Measurement,
    SubjectProcess,
    memory_verdict,
    time_commits,
)
from benchmarks.harness.progress import Progress
from benchmarks.harness.results import machine
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import Workload, send
from benchmarks.size.stored import changelog_end, folder_bytes, read_changelog, read_table
from slidestat.admin.topics import create_topology_topics
from slidestat.local.broker import LocalBroker
from slidestat.synopses.core.arrays import Integers

_CASE = CaseName.MILLION_KEYS
_PARTITIONS = 2
_EVERY = "1m"
_QUIET_S = 15
# No single record moves a partition's clock far ahead.
_LAST_EVENTS = 16 * _PARTITIONS
_PATIENCE_S = 300.0
_ANSWER_S = 5.0
_URL = re.compile(r"answers at (http://[^\s\"]+)")
MOST_MEMORY = 4 * 2**30


def _draw(keys: int, events: int, silence_ms: int) -> Workload:
    """All keys once, then the load, then as many events long after as move the clock."""
    case = CASES[_CASE]
    drawn = case.draw(keys + events, keys, _PARTITIONS)
    everyone: Integers = np.random.default_rng(1).permutation(keys)
    last = np.arange(_LAST_EVENTS)
    return replace(
        drawn,
        keys=np.concatenate((everyone, drawn.keys[keys:], last % _PARTITIONS)),
        times=np.concatenate((drawn.times, drawn.times[-1] + silence_ms + last)),
        cents=np.concatenate((drawn.cents, last + 1)),
    )


class _Run:
    """One worker's topology on one broker, run several times over the same data."""

    def __init__(self, broker: LocalBroker, folder: Path, keys: int, events: int) -> None:
        self._broker = broker
        self._bootstrap = broker.bootstrap_servers
        self._data = folder / "worker"
        self._data.mkdir()
        self._log = folder / "worker.log"
        self._broker_data = folder / "broker"
        self._keys, self._events = keys, events
        self._peaks: dict[str, int] = {}
        self._topology = make_topology(_CASE, "million", "million-keys", _EVERY)
        span, every = self._topology.span_length.length, self._topology.every_ms
        self._workload = _draw(keys, events, span + 2 * every)
        create_topology_topics(self._bootstrap, self._topology, _PARTITIONS)
        self._offsets = GroupOffsets(
            self._bootstrap, self._topology.source, self._topology.application_id, _PARTITIONS
        )

    def go(self) -> int:
        """All three steps, saying what each came to; the exit code: 2 above `MOST_MEMORY`."""
        keys, events = self._keys, self._events
        with closing(self._offsets):
            self._send(0, keys)
            with self._start() as (process, progress):
                filled = time_commits(process, progress, self._offsets, keys, self._broker.pid)
                self._say(f"{keys:,} new keys", filled, process.rss())
            self._say_stored()
            self._send(keys, keys + events)
            start = time.monotonic()
            with self._start() as (process, progress):
                process.wait_for(self._has_answered, 1, _PATIENCE_S)
                answered = time.monotonic() - start
                process.wait_for(progress.read, 1, _PATIENCE_S)
                started = time.monotonic() - start
                loaded = time_commits(
                    process, progress, self._offsets, events, self._broker.pid, before=keys
                )
                self._say(f"{events:,} events of them", loaded, process.rss())
                print(
                    f"restart: {answered:.1f} s until the first answer to a question,"
                    f" {started:.1f} s until the first batch; {self._rebalances()} rebalances",
                    flush=True,
                )
                self._silence(process)
        self._say_stored()
        check = check_output(self._workload, self._topology, self._bootstrap)
        print(f"{check.records:,} emissions, all there; {check.figures:,} figures checked")
        return memory_verdict(self._peaks, MOST_MEMORY)

    def _has_answered(self) -> int:
        """Whether the worker answers for a key: 1 or 0."""
        url = _URL.search(self._log.read_text(errors="replace"))
        if url is None:
            return 0
        key = self._workload.key_text(int(self._workload.keys[0]))
        asked = f"{url[1]}/topologies/{self._topology.name}/keys/{key}?window=1h"
        try:
            with urlopen(asked, timeout=_ANSWER_S) as answer:  # noqa: S310 - our own worker
                return int(answer.status == HTTPStatus.OK)
        except OSError:
            return 0

    def _rebalances(self) -> int:
        """How often the group has taken the worker's partitions from it: it missed heartbeats."""
        return self._log.read_text(errors="replace").count("partitions given up")

    def _silence(self, process: SubjectProcess) -> None:
        process.peak_rss = 0
        start = time.monotonic()
        self._send(len(self._workload) - _LAST_EVENTS, len(self._workload))
        process.wait_for(self._offsets.committed, len(self._workload), _PATIENCE_S)
        emitted = time.monotonic() - start
        last, moved = -1, start

        def quiet() -> int:
            nonlocal last, moved
            end = changelog_end(self._topology, _PARTITIONS, self._bootstrap)
            if end != last:
                last, moved = end, time.monotonic()
            return int(time.monotonic() - moved)

        process.wait_for(quiet, _QUIET_S, _PATIENCE_S)
        self._peaks["silence"] = process.peak_rss
        print(
            f"silence: last emissions committed after {emitted:.1f} s, deletions after"
            f" {moved - start:.1f} s; peak {process.peak_rss / 2**20:,.0f} MiB, then"
            f" {process.rss() / 2**20:,.0f} MiB",
            flush=True,
        )

    def _say(self, what: str, measured: Measurement, rss: int) -> None:
        self._peaks[what] = max(measured.peak_rss, rss)
        print(
            f"{what}: {measured.seconds:.1f} s, {measured.events_per_s:,.0f} a second,"
            f" {measured.events_per_cpu_s:,.0f} a CPU s, peak {measured.peak_rss / 2**20:,.0f} MiB,"
            f" {rss / 2**20:,.0f} MiB at the end, load {measured.load:.1f}",
            flush=True,
        )

    def _say_stored(self) -> None:
        table = read_table(self._topology, _PARTITIONS, self._data)
        changelog = read_changelog(self._topology, _PARTITIONS, self._bootstrap)
        folders = self._broker_data.rglob(f"{self._topology.changelog_topic}-*")
        on_disk = sum(folder_bytes(folder, "*.log") for folder in folders)
        each = 1 / self._keys
        print(
            f"table: {table.keys:,} keys, {table.state_bytes * each:.0f} bytes a key in states,"
            f" {table.file_bytes * each:.0f} in files; opened in {table.open_s:.2f} s\n"
            f"changelog: {changelog.records:,} records, {changelog.bytes * each:.0f} bytes a key,"
            f" {on_disk * each:.0f} on the broker's disk; once compacted"
            f" {changelog.live_records:,} records, {changelog.live_bytes * each:.0f} bytes a key",
            flush=True,
        )

    def _send(self, start: int, end: int) -> None:
        send(self._workload.part(start, end), self._bootstrap, self._topology.source)

    def _start(self) -> "_Worker":
        arguments = (str(self._data), str(_PARTITIONS), _EVERY, _CASE)
        topology = self._topology
        file = self._data.parent / "progress"
        command = [*SYSTEMS[OURS].command(), self._bootstrap, topology.source, topology.name]
        command += [str(file), *arguments]
        return _Worker(command, file, self._log)


class _Worker:
    """A worker's process and how far it is, while the context lasts."""

    def __init__(self, command: list[str], file: Path, log: Path) -> None:
        self._progress = Progress.create(file)
        self._process = SubjectProcess(command, log)

    def __enter__(self) -> tuple[SubjectProcess, Progress]:
        return self._process.__enter__(), self._progress

    def __exit__(self, *error: object) -> None:
        self._process.__exit__(*error)


def main(keys: int, events: int) -> int:
    """Run it once, on a broker of its own, whose disk can be looked at; its exit code."""
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="slidestat-keys-") as name:
        folder = Path(name)
        with LocalBroker(folder / "broker") as broker:
            return _Run(broker, folder, keys, events).go()


if __name__ == "__main__":
    sys.exit(main(*typed(__doc__, keys=1_000_000, events=2_000_000)))
