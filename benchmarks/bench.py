"""One broker with one topic on it, and the subjects that are run against them."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from secrets import token_hex

from app.client.connection import admin_client
from app.client.topics import create_topic, create_topology_topics
from benchmarks.cases import CaseName, make_topology
from benchmarks.check import Check, check_output
from benchmarks.measure import GroupOffsets, Measurement, SubjectProcess, time_commits, time_loop
from benchmarks.progress import Progress
from benchmarks.workload import Workload, send

_FAUST_WARM_UP = 3_000


class Subject(StrEnum):
    """A way to go through the topic."""

    BARE = "bare"
    FAUST_COUNT = "faust-count"
    FAUST_COUNT_SUM = "faust-count-sum"
    OURS = "ours"


class Bench:
    """Runs subjects, each in a process of its own, as a new group with an empty data folder.

    `broker_pid` is the local broker's process, None for another's. `every` is how often ours
    emits, `case` what it computes; `faust_events` is how many events plain Faust is timed on.
    """

    def __init__(
        self,
        bootstrap: str,
        broker_pid: int | None,
        case: CaseName,
        workload: Workload,
        every: str,
        faust_events: int,
        folder: Path,
    ) -> None:
        self._bootstrap = bootstrap
        self._broker_pid = broker_pid
        self._case = case
        self._workload = workload
        self._every = every
        self._faust_until = min(_FAUST_WARM_UP + faust_events, len(workload))
        self._folder = folder
        self._name = f"bench-{token_hex(4)}"
        self._topic = f"{self._name}-events"
        self._runs = 0

    @property
    def topic(self) -> str:
        """The topic that `fill_topic` fills."""
        return self._topic

    def fill_topic(self) -> int:
        """Create the topic and send the events; the mean size of an event in bytes."""
        keep = {"retention.ms": "-1"}
        create_topic(self._bootstrap, self._topic, self._workload.partitions, keep)
        return send(self._workload, self._bootstrap, self._topic)

    def run(self, subject: Subject) -> tuple[Measurement, Check | None]:
        """Run a subject once; what ours put out is checked too.

        Raises SlidestatError if it fails or its figures are impossible.
        """
        self._runs += 1
        group = f"{self._name}-{self._runs}"
        data = self._folder / group
        data.mkdir()
        try:
            if subject is Subject.OURS:
                return self._run_ours(group, data)
            return self._run_loop(subject, group, data), None
        finally:
            shutil.rmtree(data, ignore_errors=True)

    def clean_up(self) -> None:
        """Delete the topics and groups that this bench made."""
        admin = admin_client(self._bootstrap)
        topics = [name for name in admin.list_topics(timeout=30).topics if self._name in name]
        groups = [
            group.group_id
            for group in admin.list_consumer_groups().result().valid
            if self._name in group.group_id
        ]
        futures = admin.delete_topics(topics) if topics else {}
        if groups:
            futures = {**futures, **admin.delete_consumer_groups(groups)}
        for future in futures.values():
            future.exception()

    def _run_loop(self, subject: Subject, group: str, data: Path) -> Measurement:
        if subject is Subject.BARE:
            with self._start("bare", group, data) as (process, progress):
                return time_loop(process, progress, 1, len(self._workload), self._broker_pid)
        tables = "count" if subject is Subject.FAUST_COUNT else "count,sum"
        partitions = str(self._workload.partitions)
        with self._start("plain_faust", group, data, str(data), partitions, tables) as (
            process,
            progress,
        ):
            return time_loop(process, progress, _FAUST_WARM_UP, self._faust_until, self._broker_pid)

    def _run_ours(self, name: str, data: Path) -> tuple[Measurement, Check]:
        topology = make_topology(self._case, self._topic, name, self._every)
        partitions = self._workload.partitions
        create_topology_topics(self._bootstrap, topology, partitions)
        offsets = GroupOffsets(self._bootstrap, self._topic, topology.application_id, partitions)
        arguments = (str(data), str(partitions), self._every, self._case)
        with closing(offsets), self._start("ours", name, data, *arguments) as (process, progress):
            measurement = time_commits(
                process, progress, offsets, len(self._workload), self._broker_pid
            )
        return measurement, check_output(self._workload, topology, self._bootstrap)

    @contextmanager
    def _start(
        self, module: str, group: str, data: Path, *arguments: str
    ) -> Iterator[tuple[SubjectProcess, Progress]]:
        file = data / "progress"
        progress = Progress.create(file)
        command = [self._bootstrap, self._topic, group, str(file), *arguments]
        with SubjectProcess(module, command, self._folder / f"{group}.log") as process:
            yield process, progress
