"""How throughput grows with the worker processes of one machine.

    python -m benchmarks.speed.scaling [--events 8000000] [--runs 3]

`slidestat run --workers N` reads a topic of four partitions a core, with the statistics of `sums`.
N goes from 1 to the cores of the machine, alternately. The topic has 1,000 keys that come equally
often, so that no partition has more to do than another. The clock runs from the first commit after
all workers are in the group to the last one, so that start-up and rebalances are not in it. The
broker has the same cores: its share of them is said, and is what more workers cannot have. Writes
results/scaling.json, which docs/deploy.md tells (`make figures`).
"""

import os
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import msgspec
import numpy as np
import typer
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmarks import REPOSITORY
from benchmarks.documents.measured_speed import SCALING
from benchmarks.harness import results
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.check import check_output
from benchmarks.harness.measure import (
    COORDINATOR_MOVES,
    GroupOffsets,
    Measurement,
    SubjectProcess,
    time_loop,
)
from benchmarks.harness.workload import KeyDistribution, Workload, draw, send
from benchmarks.speed.throughput import broker, run_command
from slidestat.admin.topics import create_topic, create_topology_topics
from slidestat.kafka.connection import admin_client
from slidestat.synopses.core.arrays import Floats

_CASE = CaseName.SUMS
_KEYS = 1_000
_PARTITIONS_A_CORE = 4
_START_S = 60.0
_TOPOLOGY = """
import sys

sys.path.append({root!r})
from benchmarks.harness.cases import CaseName, make_topology

topology = make_topology(CaseName({case!r}), {topic!r}, {name!r}, {every!r})
"""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _members(admin: AdminClient, group: str) -> int:
    """The members of a group that has shared out its partitions; 0 while it does."""
    try:
        found = admin.describe_consumer_groups([group])[group].result()
    except KafkaException as error:
        if error.args[0].code() in {*COORDINATOR_MOVES, KafkaError.GROUP_ID_NOT_FOUND}:
            return 0
        raise
    return len(found.members) if found.state == ConsumerGroupState.STABLE else 0


def measure(
    bootstrap: str, broker_pid: int | None, topic: str, events: Workload, workers: int
) -> Measurement:
    """Read the whole topic with so many workers of a new group; check all that they wrote.

    Raises SlidestatError if they end before, or if a figure is wrong.
    """
    name, every = f"scaling-{token_hex(4)}", CASES[_CASE].every
    topology = make_topology(_CASE, topic, name, every)
    create_topology_topics(bootstrap, topology, events.partitions)
    offsets = GroupOffsets(bootstrap, topic, topology.application_id, events.partitions)
    with tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder, closing(offsets):
        file = Path(folder) / "topology.py"
        said = {"case": _CASE.value, "topic": topic, "name": name, "every": every}
        file.write_text(_TOPOLOGY.format(root=str(REPOSITORY), **said))
        command = [sys.executable, "-m", "slidestat", "run", str(file), "--bootstrap", bootstrap]
        command += ["--workers", str(workers), "--checkpoint-interval", "1s"]
        command += ["--data-dir", f"{folder}/data"]
        with SubjectProcess(command, Path(folder) / "log") as process:
            in_group = partial(_members, admin_client(bootstrap), topology.application_id)
            process.wait_for(in_group, workers, _START_S)
            warm_up = offsets.committed() + 1
            measurement = time_loop(process, offsets.committed, warm_up, len(events), broker_pid)
    check_output(events, topology, bootstrap)
    return measurement


def scaling(
    events: Annotated[int, typer.Option(min=100_000, help="Events on the topic.")] = 8_000_000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each number of workers.")] = 3,
    json: Annotated[Path, typer.Option(help="Write what docs/deploy.md tells there.")] = SCALING,
) -> None:
    """Measure one worker process, two, ... up to one a core."""
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    rates: dict[int, list[float]] = {workers: [] for workers in range(1, cores() + 1)}
    drawn = draw(events, _KEYS, KeyDistribution.UNIFORM, _PARTITIONS_A_CORE * cores())
    with broker() as (bootstrap, broker_pid):
        topic = f"scaling-{token_hex(4)}-events"
        create_topic(bootstrap, topic, drawn.partitions, {"retention.ms": "-1"})
        send(drawn, bootstrap, topic)
        for run in range(1, runs + 1):
            for workers, found in rates.items():
                measurement = measure(bootstrap, broker_pid, topic, drawn, workers)
                found.append(measurement.events_per_s)
                console.print(
                    f"run {run}: {workers} workers: {measurement.events_per_s:,.0f} events/s,"
                    f" {measurement.events_per_cpu_s:,.0f} a CPU second,"
                    f" {measurement.cpu_seconds / measurement.seconds:.0%} of a core, the broker"
                    f" {(measurement.broker_cpu_seconds or 0) / measurement.seconds:.0%} of a core,"
                    f" load {measurement.load:.1f}",
                    highlight=False,
                )
    rows = [_row(workers, np.array(found), np.array(rates[1])) for workers, found in rates.items()]
    told = {"machine": results.machine(), "runs": runs, "rows": rows}
    json.write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
    console.print(f"written: {json}", highlight=False)


def _row(workers: int, rates: Floats, rates_of_one: Floats) -> dict[str, float]:
    ratios = rates / rates_of_one
    return {
        "workers": workers,
        "events_per_s": round(float(np.median(rates))),
        "ratio": round(float(np.median(ratios)), 2),
        "least_ratio": round(float(ratios.min()), 2),
        "largest_ratio": round(float(ratios.max()), 2),
    }


if __name__ == "__main__":
    run_command(scaling)
