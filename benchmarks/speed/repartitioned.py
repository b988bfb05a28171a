"""Counting by a key that the topic is not partitioned by: ours beside Kafka Streams.

    python -m benchmarks.speed.repartitioned [--events 2000000] [--runs 3]

The events of `sums` lie on a topic without keys, in turn on its partitions. Ours is one worker with
`repartition = true`: it moves records in Kafka transactions, each once, in the order of event time,
and keeps count, sum and mean of sliding windows. Kafka Streams has one thread: `selectKey`,
`repartition` and a count of tumbling minutes, at least once as it comes, and exactly once; it keeps
no order, so its windows take events of a day before. All commit each second. The clock runs from
the first commit on the source to the one of the repartition topic's records but for the last ten,
as seen from outside; answers are checked.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Annotated, cast

import numpy as np
import typer
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from benchmarks.harness import results
from benchmarks.harness.answers import Answers
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.measure import GroupOffsets, Measurement, SubjectProcess, time_loop
from benchmarks.harness.progress import Progress
from benchmarks.harness.systems import kafka_streams
from benchmarks.harness.workload import Workload, send
from benchmarks.speed.throughput import PARTITIONS, broker, run_command
from slidestat.admin.topics import create_topic
from slidestat.kafka.settings import client_config
from slidestat.repartition.moved_from import mover_id

_CASE = CaseName.SUMS
# The newest records of a partition wait for later ones while event time stands still.
_WAITING = 10
# Larger than a run of transaction marks at a partition's end.
_TAIL = 100
_STREAMS = ("repartitioned", "repartitioned_once")
_KEEP = {"retention.ms": "-1"}
_TOPOLOGY = """
from dataclasses import replace

from benchmarks.harness.cases import CaseName, make_topology

topology = make_topology(CaseName({case!r}), {topic!r}, {name!r}, {every!r})
topology = replace(topology, repartition=True, lateness="1ms")
"""


def _after_last(bootstrap: str, topic: str) -> dict[int, int]:
    """The offset after the last record of each partition that has one."""
    after: dict[int, int] = {}
    config = {**client_config(bootstrap), "group.id": "none", "enable.partition.eof": True}
    with closing(Consumer({**config, "enable.auto.commit": False})) as consumer:
        for number in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            partition = TopicPartition(topic, number)
            first, end = consumer.get_watermark_offsets(partition, timeout=30)
            partition.offset = max(first, end - _TAIL)
            consumer.assign([partition])
            while (message := consumer.poll(30)) is not None and message.error() is None:
                after[number] = cast(int, message.offset()) + 1
    return after


class Moved:
    """How many records a group has moved, and all of them once it has read them again."""

    def __init__(
        self, bootstrap: str, mover: GroupOffsets, group: str, topic: str, events: Workload
    ) -> None:
        self._bootstrap = bootstrap
        self._mover = mover
        self._topic = topic
        self._events = len(events)
        self._after_last: dict[int, int] = {}
        self._reader = Consumer({**client_config(bootstrap), "group.id": group})

    def read(self) -> int:
        """The count; one less than all while the last ones are not read again."""
        moved = self._mover.committed()
        if moved < self._events:
            return moved
        if not self._after_last:
            # Marks of transactions lie behind the last record.
            self._after_last = _after_last(self._bootstrap, self._topic)
        partitions = [TopicPartition(self._topic, number) for number in self._after_last]
        found = self._reader.committed(partitions, timeout=30)
        last = self._after_last
        is_read = all(each.offset + _WAITING >= last[each.partition] for each in found)
        return self._events if is_read else self._events - 1

    def close(self) -> None:
        self._reader.close()


class Repartitioned:
    """Runs ours and Kafka Streams on one topic without keys."""

    def __init__(self, bootstrap: str, broker_pid: int | None, events: Workload) -> None:
        self._bootstrap = bootstrap
        self._broker_pid = broker_pid
        self._events = events
        self._topic = f"repartitioned-{token_hex(4)}-events"
        create_topic(bootstrap, self._topic, events.partitions, _KEEP)
        send(events, bootstrap, self._topic, keyed=False)

    def ours(self) -> Measurement:
        """Run a worker of a new group."""
        name, every = f"repartitioned-{token_hex(4)}", CASES[_CASE].every
        topology = make_topology(_CASE, self._topic, name, every)
        topology = replace(topology, repartition=True, lateness="1ms")
        text = _TOPOLOGY.format(case=_CASE.value, topic=self._topic, name=name, every=every)
        command = [sys.executable, "-m", "slidestat", "run"]

        def arguments(folder: Path) -> list[str]:
            (folder / "topology.py").write_text(text)
            return [
                *(f"{folder}/topology.py", "--bootstrap", self._bootstrap),
                *("--checkpoint-interval", "1s", "--data-dir", f"{folder}/data"),
            ]

        groups = (mover_id(topology), topology.application_id, topology.events_topic)
        measurement = self._timed(command, arguments, groups)
        check_output(self._events, topology, self._bootstrap)
        return measurement

    def streams(self, mode: str) -> Measurement:
        """Run Kafka Streams as a new group."""
        group = f"repartitioned-{token_hex(4)}"
        create_topic(self._bootstrap, f"{group}-answers", self._events.partitions, _KEEP)

        def arguments(folder: Path) -> list[str]:
            Progress.create(folder / "progress")
            common = [self._bootstrap, self._topic, group, f"{folder}/progress", f"{folder}/state"]
            return [*common, str(self._events.partitions), mode]

        groups = (group, group, f"{group}-keyed-repartition")
        measurement = self._timed(kafka_streams(), arguments, groups)
        Answers.updated("tumbling").check(self._events, self._bootstrap, group)
        return measurement

    def _timed(
        self,
        command: list[str],
        arguments: Callable[[Path], list[str]],
        groups: tuple[str, str, str],
    ) -> Measurement:
        """Time a process; `groups` are that which moves, that which counts, and the topic between
        them.
        """
        mover, counter, topic = groups
        offsets = GroupOffsets(self._bootstrap, self._topic, mover, self._events.partitions)
        moved = Moved(self._bootstrap, offsets, counter, topic, self._events)
        with (
            tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder,
            closing(offsets),
            closing(moved),
            SubjectProcess([*command, *arguments(Path(folder))], Path(folder) / "log") as process,
        ):
            return time_loop(process, moved.read, 1, len(self._events), self._broker_pid)


def repartitioned(
    events: Annotated[int, typer.Option(min=100_000, help="Events on the topic.")] = 2_000_000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
) -> None:
    """Measure each in turn."""
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    drawn = CASES[_CASE].draw(events, CASES[_CASE].keys, PARTITIONS)
    with broker() as (bootstrap, broker_pid):
        subjects = Repartitioned(bootstrap, broker_pid, drawn)
        ratios: dict[str, list[float]] = {mode: [] for mode in _STREAMS}
        for run in range(1, runs + 1):
            ours = subjects.ours()
            _say(console, run, "slidestat", ours)
            for mode, found in ratios.items():
                theirs = subjects.streams(mode)
                _say(console, run, f"kafka_streams {mode}", theirs)
                found.append(ours.events_per_s / theirs.events_per_s)
    for mode, found in ratios.items():
        console.print(
            f"beside {mode}: {np.median(found):.2f} times ({min(found):.2f} to {max(found):.2f})",
            highlight=False,
        )


def _say(console: Console, run: int, name: str, found: Measurement) -> None:
    console.print(
        f"run {run}: {name}: {found.events_per_s:,.0f} events/s, {found.events_per_cpu_s:,.0f} a"
        f" CPU second, load {found.load:.1f}",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    run_command(repartitioned)
