"""One broker with one workload on it, and the systems that are run against them."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

import numpy as np

from benchmarks.harness.answers import changelog_bytes
from benchmarks.harness.cases import CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.measure import (
    GroupOffsets,
    Measurement,
    SubjectProcess,
    time_commits,
    time_loop,
)
from benchmarks.harness.progress import Progress
from benchmarks.harness.systems import OURS, System
from benchmarks.harness.workload import Workload, send
from benchmarks.size.stored import folder_bytes
from slidestat.admin.topics import create_topic, create_topology_topics
from slidestat.kafka.connection import admin_client

# A loop is timed from here on: its start-up, and what a compiler does while it warms up, are not.
_WARM_UP = 10
_SETTLE_S, _PATIENCE_S = 5, 120.0
_KEEP = {"retention.ms": "-1"}


@dataclass(frozen=True)
class Run:
    """What a system did, and what its answers are worth.

    `answers` is how many figures, or windows, were compared with the exact ones; `largest_error`
    the largest relative error among those that promise one, 0 for exact answers. Bytes on disk and
    in changelogs are those of the whole run, `keys` the keys that came in it.
    """

    measurement: Measurement
    answers: int
    largest_error: float
    promised_error: float
    disk_bytes: int
    changelog_bytes: int
    events: int
    keys: int


@dataclass(frozen=True)
class Restart:
    """Seconds from the start of a process to its first event, after `events`: with the data folder
    that it left, and with an empty one.
    """

    events: int
    kept_s: float
    emptied_s: float


class Bench:
    """Runs systems, each in a process of its own, as a new group with an empty data folder.

    `broker_pid` is the local broker's process, None for another's. `every` is how often ours
    emits, `case` what it computes.
    """

    def __init__(
        self,
        bootstrap: str,
        broker_pid: int | None,
        case: CaseName,
        workload: Workload,
        every: str,
        folder: Path,
    ) -> None:
        self._bootstrap = bootstrap
        self._broker_pid = broker_pid
        self._case = case
        self._workload = workload
        self._every = every
        self._folder = folder
        self._name = f"bench-{token_hex(4)}"
        self._topics: dict[int, str] = {}
        self._runs = 0

    @property
    def topic(self) -> str:
        """The topic that `fill_topic` fills."""
        return self._topics[len(self._workload)]

    def fill_topic(self) -> int:
        """Send the events to a topic of their own; return their mean size in bytes."""
        return self._send(self._workload)

    def _send(self, workload: Workload) -> int:
        topic = f"{self._name}-events-{len(workload)}"
        create_topic(self._bootstrap, topic, workload.partitions, _KEEP)
        self._topics[len(workload)] = topic
        return send(workload, self._bootstrap, topic)

    def _part(self, events: int | None) -> tuple[str, Workload]:
        """The first events of the workload, and a topic that has these and no more."""
        part = self._workload.part(0, events or len(self._workload))
        if len(part) not in self._topics:
            self._send(part)
        return self._topics[len(part)], part

    def run(self, system: System) -> Run:
        """Run a system once, and compare its answers.

        Raises UnavailableError if it cannot run here, SlidestatError if it fails or its answers are
        wrong.
        """
        command = system.command()
        topic, workload = self._part(system.most_events)
        self._runs += 1
        group = f"{self._name}-{self._runs}"
        data = self._folder / group
        data.mkdir()
        try:
            if system.name == OURS:
                return self._run_ours(command, topic, workload, group, data)
            return self._run_loop(system, command, topic, workload, group, data)
        finally:
            shutil.rmtree(data, ignore_errors=True)

    def restart(self, system: System, events: int) -> Restart:
        """Fill a system's state with so many events, then start it again: with the folder that it
        left, and with an empty one, which it fills from its changelog. Seconds up to the first
        event taken in, all start-up included. Raises as `run` does.
        """
        command = system.command()
        workload = self._workload.part(0, events)
        self._runs += 1
        group = f"{self._name}-{self._runs}"
        data = self._folder / group
        data.mkdir()
        topic = f"{group}-events"
        create_topic(self._bootstrap, topic, workload.partitions, _KEEP)
        send(workload, self._bootstrap, topic)
        if system.name == OURS:
            topology = make_topology(self._case, topic, group, self._every)
            create_topology_topics(self._bootstrap, topology, workload.partitions)
            arguments: tuple[str, ...] = (self._every, self._case)
        else:
            create_topic(self._bootstrap, f"{group}-answers", workload.partitions, _KEEP)
            arguments = (system.window,)
        try:
            with self._start(command, topic, group, data, *arguments) as (process, progress):
                process.wait_for(progress.read, events, _PATIENCE_S)
                time.sleep(_SETTLE_S)
            seconds = []
            for keep in (True, False):
                if not keep:
                    shutil.rmtree(data / "state")
                send(self._last_of_each_partition(workload), self._bootstrap, topic)
                start = time.monotonic()
                with self._start(command, topic, group, data, *arguments) as (process, progress):
                    process.wait_for(progress.read, 1, _PATIENCE_S)
                    seconds.append(time.monotonic() - start)
                    process.wait_for(progress.read, workload.partitions, _PATIENCE_S)
                    time.sleep(_SETTLE_S)
        finally:
            shutil.rmtree(data, ignore_errors=True)
        return Restart(events, *seconds)

    @staticmethod
    def _last_of_each_partition(workload: Workload) -> Workload:
        of = workload.keys % workload.partitions
        rows = [int(np.flatnonzero(of == p)[-1]) for p in range(workload.partitions)]
        keys, times, cents = (c[rows] for c in (workload.keys, workload.times, workload.cents))
        # All after what has been read: none is late.
        return replace(workload, keys=keys, times=times * 0 + workload.times[-1], cents=cents)

    def clean_up(self) -> None:
        """Delete the topics and groups that this bench made."""
        delete_made(self._bootstrap, self._name)

    def _run_loop(
        self,
        system: System,
        command: list[str],
        topic: str,
        workload: Workload,
        group: str,
        data: Path,
    ) -> Run:
        if system.answers is not None and not system.answers.is_table:
            create_topic(self._bootstrap, f"{group}-answers", workload.partitions, _KEEP)
        warm_up = len(workload) // _WARM_UP
        with self._start(command, topic, group, data, system.window) as (process, progress):
            until = len(workload)
            measurement = time_loop(process, progress.read, warm_up, until, self._broker_pid)
            self._settle(process, system, topic, group, until)
        # The process has stopped, so all of its output is written.
        answers = 0
        if system.answers is not None:
            answers = system.answers.check(workload, self._bootstrap, group)
        return self._weighed(measurement, answers, (0.0, 0.0), group, data, workload)

    def _settle(
        self, process: SubjectProcess, system: System, topic: str, group: str, events: int
    ) -> None:
        """Let a system send what it has, where it would lose that when it is stopped."""
        if system.answers is None or not system.answers.lost_when_stopped:
            return
        if system.answers.is_table:
            partitions = self._workload.partitions
            with closing(GroupOffsets(self._bootstrap, topic, group, partitions)) as offsets:
                process.wait_for(offsets.committed, events, _PATIENCE_S)
        time.sleep(_SETTLE_S)

    def _run_ours(
        self, command: list[str], topic: str, workload: Workload, name: str, data: Path
    ) -> Run:
        topology = make_topology(self._case, topic, name, self._every)
        partitions = workload.partitions
        create_topology_topics(self._bootstrap, topology, partitions)
        offsets = GroupOffsets(self._bootstrap, topic, topology.application_id, partitions)
        arguments = (self._every, self._case)
        with (
            closing(offsets),
            self._start(command, topic, name, data, *arguments) as (process, progress),
        ):
            events = len(workload)
            measurement = time_commits(process, progress, offsets, events, self._broker_pid)
        check = check_output(workload, topology, self._bootstrap)
        errors = (check.largest_relative_error, check.promised_relative_error)
        return self._weighed(measurement, check.figures, errors, name, data, workload)

    def _weighed(
        self,
        measurement: Measurement,
        answers: int,
        errors: tuple[float, float],
        group: str,
        data: Path,
        workload: Workload,
    ) -> Run:
        written = changelog_bytes(self._bootstrap, group)
        keys = len(set(workload.keys.tolist()))
        disk = folder_bytes(data / "state")
        events = len(workload)
        return Run(measurement, answers, *errors, disk, written, events, keys)

    @contextmanager
    def _start(
        self, command: list[str], topic: str, group: str, data: Path, *arguments: str
    ) -> Iterator[tuple[SubjectProcess, Progress]]:
        file, state = data / "progress", data / "state"
        state.mkdir(exist_ok=True)
        progress = Progress.create(file)
        partitions = str(self._workload.partitions)
        common = [self._bootstrap, topic, group, str(file), str(state), partitions]
        log = self._folder / f"{group}.log"
        with SubjectProcess([*command, *common, *arguments], log) as process:
            yield process, progress


def delete_made(bootstrap: str, name: str) -> None:
    """Delete the topics and groups whose names have this in them."""
    admin = admin_client(bootstrap)
    topics = [topic for topic in admin.list_topics(timeout=30).topics if name in topic]
    groups = [
        group.group_id
        for group in admin.list_consumer_groups().result().valid
        if name in group.group_id
    ]
    futures = admin.delete_topics(topics) if topics else {}
    if groups:
        futures = {**futures, **admin.delete_consumer_groups(groups)}
    for future in futures.values():
        future.exception()
