"""From a record to the statistic that it brings about, at a fixed rate.

    python -m benchmarks.delay.latency [--rate 1000] [--seconds 60] [--system quix_tumbling]...

Records of 1,000 keys go to an empty topic as they happen: their event time is the time of sending,
which their timestamp says. The broker stamps each answer as it appends it. Latency is from the
sending of the record by which an answer was due to that stamp: decoding, statistics and producing,
and both ways to the broker; and from the end of the answer's window. Ours emits count, sum and mean
of three windows of each key each second; the others count a tumbling second. When an answer is due
is each one's own rule, said in `due.SUBJECTS`: what they wait on purpose counts from a window's end
alone. All answers are checked.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
from rich.console import Console

from benchmarks.delay.due import SUBJECTS, Answer, Scope, Subject, latencies
from benchmarks.delay.live_events import KEYS, LiveEvents
from benchmarks.harness import results
from benchmarks.harness.answers import Answers, read_messages
from benchmarks.harness.cases import CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.measure import GroupOffsets, SubjectProcess
from benchmarks.harness.progress import Progress
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import Workload
from benchmarks.peers.environments import UnavailableError
from benchmarks.speed.throughput import PARTITIONS, broker, delete_topics, run_command
from slidestat.admin.topics import create_topic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

_EVERY = "1s"
_NAME = "latency"
_STAMPED = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
_PATIENCE_S, _SETTLE_S = 180.0, 5
# The first seconds have loading and compiling in them.
_WARM_UP_S = 5


class Latency(msgspec.Struct):
    """Milliseconds over all answers after the first five seconds, since they were due; and since
    the end of their windows, of a system that answers once a window.
    """

    answers: int
    p50_ms: float
    p99_ms: float
    due_by: str
    p50_since_end_ms: float | None = None
    p99_since_end_ms: float | None = None


class _Emission(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int


def measure_latency(bootstrap: str, name: str, rate: int, seconds: int) -> Latency:
    """Send events at a rate to a system of `SUBJECTS`, and see when its answers come.

    Raises UnavailableError if it cannot run here, SlidestatError if it fails, if its answers are
    wrong, or if there are none.
    """
    subject = SUBJECTS[name]
    command = SYSTEMS[name].command()
    group = f"{_NAME}-{name.replace('_', '-')}"
    events = LiveEvents(bootstrap, f"{group}-events", PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder:
        try:
            create_topic(bootstrap, events.topic, PARTITIONS, {"retention.ms": "-1"})
            if subject.answers is None:
                topology = make_topology(CaseName.SUMS, events.topic, group, _EVERY)
                _run_ours(command, events, topology, Path(folder), rate, seconds)
                workload = events.read()
                check_output(workload, topology, bootstrap)
                found = list(_emissions(workload, bootstrap, topology.output_topic))
            else:
                topic = subject.answers.topic.format(group=group)
                create_topic(bootstrap, topic, PARTITIONS, _STAMPED)
                _run_other(command, subject, events, group, Path(folder), rate, seconds)
                workload = events.read()
                subject.answers.check(workload, bootstrap, group)
                found = list(_windows(subject.answers, workload, bootstrap, topic))
        finally:
            delete_topics(bootstrap, group)
    took = latencies(subject, workload, found, events.started_ms + 1_000 * _WARM_UP_S)
    if not len(took.since_due):
        raise SlidestatError("There were no answers.", "Measure for longer: --seconds.")
    latency = Latency(len(took.since_due), *_of_all(took.since_due), subject.rule)
    if subject.scope is not Scope.RECORD:
        latency.p50_since_end_ms, latency.p99_since_end_ms = _of_all(took.since_end)
    return latency


def _of_all(took: Integers) -> tuple[float, float]:
    p50, p99 = np.percentile(took, (50, 99)).tolist()
    return p50, p99


def _run_ours(
    command: list[str],
    events: LiveEvents,
    topology: Topology,
    folder: Path,
    rate: int,
    seconds: int,
) -> None:
    for topic in (topology.output_topic, topology.dead_letter_topic, topology.late_topic):
        create_topic(events.bootstrap, topic, PARTITIONS, _STAMPED)
    progress = Progress.create(folder / "progress")
    command += [events.bootstrap, events.topic, topology.name, str(folder / "progress")]
    command += [str(folder), str(PARTITIONS), _EVERY, CaseName.SUMS]
    group = topology.application_id
    with (
        SubjectProcess(command, folder / "log") as process,
        closing(GroupOffsets(events.bootstrap, events.topic, group, PARTITIONS)) as offsets,
    ):
        sent = _send(events, process, progress, rate, seconds)
        process.wait_for(offsets.committed, sent, _PATIENCE_S)


def _run_other(
    command: list[str],
    subject: Subject,
    events: LiveEvents,
    group: str,
    folder: Path,
    rate: int,
    seconds: int,
) -> None:
    progress = Progress.create(folder / "progress")
    state = folder / "state"
    state.mkdir()
    command += [events.bootstrap, events.topic, group, str(folder / "progress"), str(state)]
    command += [str(PARTITIONS), subject.window]
    with SubjectProcess(command, folder / "log") as process:
        sent = _send(events, process, progress, rate, seconds)
        process.wait_for(progress.read, sent, _PATIENCE_S)
        time.sleep(_SETTLE_S)


def _send(
    events: LiveEvents, process: SubjectProcess, progress: Progress, rate: int, seconds: int
) -> int:
    """Send all events; return how many. The system has joined once it takes up the first ones."""
    events.send(PARTITIONS, 1)
    process.wait_for(progress.read, 1, _PATIENCE_S)
    events.send(rate * seconds, rate)
    return PARTITIONS + rate * seconds


def _emissions(workload: Workload, bootstrap: str, topic: str) -> Iterator[Answer]:
    decode = msgspec.json.Decoder(_Emission).decode
    for message in read_messages(bootstrap, topic):
        emission = decode(message.value() or b"")
        end, key = emission.window_end_ms, workload.key_number(emission.key)
        yield Answer(key, end, end, 0, message.timestamp()[1])


def _windows(answers: Answers, workload: Workload, bootstrap: str, topic: str) -> Iterator[Answer]:
    for message in read_messages(bootstrap, topic):
        found = answers.window(workload, message.key() or b"", message.value() or b"")
        if found is not None:
            key, start, count = found
            yield Answer(key, start, start + answers.length_ms, count, message.timestamp()[1])


def measure_latencies(
    names: Sequence[str], rate: int, seconds: int, console: Console
) -> dict[str, object]:
    """Systems one after another, saying what each came to; for one that cannot, why."""
    found: dict[str, object] = {}
    with broker() as (bootstrap, _):
        for name in names:
            try:
                with console.status(f"latency: {name}"):
                    found[name] = latency = measure_latency(bootstrap, name, rate, seconds)
            except UnavailableError as why:
                found[name] = {"cannot": str(why)}
                continue
            except SlidestatError as error:
                if name == OURS:
                    raise
                found[name] = {"cannot": f"it failed: {error.message} {error.advice}"}
                console.print(f"latency: {name}: {error.message}", highlight=False)
                continue
            since_end = (
                ""
                if latency.p50_since_end_ms is None
                else (
                    f"; from the window's end {latency.p50_since_end_ms:,.0f} ms,"
                    f" {latency.p99_since_end_ms:,.0f} ms"
                )
            )
            console.print(
                f"latency: {name}: p50 {latency.p50_ms:,.0f} ms, p99 {latency.p99_ms:,.0f} ms of"
                f" {latency.answers:,} answers; due by {latency.due_by}{since_end}",
                highlight=False,
                soft_wrap=True,
            )
    return {"rate": rate, "seconds": seconds, "keys": KEYS, "systems": found}


def latency(
    rate: Annotated[int, typer.Option(min=100, help="Records a second.")] = 1_000,
    seconds: Annotated[int, typer.Option(min=10, help="For how long.")] = 60,
    system: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(SUBJECTS)}; several, or all.")
    ] = None,
) -> None:
    """Measure latency at a fixed rate."""
    if unknown := [name for name in system or () if name not in SUBJECTS]:
        raise SlidestatError(
            f"There is no latency of {unknown[0]}.", f"One of: {', '.join(SUBJECTS)}."
        )
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    measure_latencies(system or list(SUBJECTS), rate, seconds, console)


if __name__ == "__main__":
    run_command(latency)
