"""A backfill on Spark beside one streaming worker, on one topic, in one run.

    python -m benchmarks.spark.backfill [--events 16000000] [--keys 1000] [--keys 100000]
                                       [--rounds 3]

Both compute the same statistics of the same events and write them. The worker reads the topic, and
writes to its output topic and its tables; it is timed as in `measure.py`, from its first batch to
its last commit. The backfill reads the topic, or Parquet, and writes Parquet: the records that the
worker writes, or a lake, which has their figures as columns, too. It is timed from the start of its
query to its end, two tasks at a time, in a session that has run each job before, so that Python has
its kernels, as the worker has, and the JVM its compiled code. A round is a worker and then each
job; a ratio is of one round.
"""

import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.harness import results
from benchmarks.harness.bench import Bench
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import KeyDistribution, Workload, draw
from benchmarks.spark.spark_cpu import spark_cpu_seconds
from benchmarks.speed.throughput import run_command
from slidestat.declare.topology import Topology
from slidestat.local.broker import LocalBroker
from slidestat.spark.backfill.backfill import backfill, fill_lake
from slidestat.spark.backfill.history import Files, read_files, read_topic
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session

_PARTITIONS = 2
# Runs of each job before it is timed, so that its code has been compiled.
_RUNS_BEFORE = 2
_EVENTS = "events.parquet"


class Job(StrEnum):
    """What is timed: where history comes from, and what is written of it."""

    TOPIC_TO_RECORDS = "topic to records"
    TOPIC_TO_LAKE = "topic to a lake"
    FILES_TO_RECORDS = "files to records"
    FILES_TO_LAKE = "files to a lake"


@dataclass(frozen=True)
class Timing:
    """The seconds and CPU seconds that one run took."""

    seconds: float
    cpu_seconds: float


def _time_job(
    spark: SparkSession, job: Job, topology: Topology, bootstrap: str, folder: Path
) -> Timing:
    began, cpu_before = time.monotonic(), spark_cpu_seconds()
    if job in (Job.TOPIC_TO_RECORDS, Job.TOPIC_TO_LAKE):
        history = read_topic(spark, topology, bootstrap)
    else:
        files = Files(str(folder / _EVENTS), partitions=_PARTITIONS)
        history = read_files(spark, topology, files)
    out = str(folder / job)
    if job in (Job.TOPIC_TO_LAKE, Job.FILES_TO_LAKE):
        fill_lake(topology, history, Lake(out, topology.name), _PARTITIONS)
    else:
        backfill(topology, history).write.parquet(out)
    timing = Timing(time.monotonic() - began, spark_cpu_seconds() - cpu_before)
    shutil.rmtree(out)
    return timing


def _write_events(workload: Workload, file: Path) -> None:
    names = np.array([workload.key_text(key) for key in range(workload.key_count)])
    table = pa.table(
        {"key": names[workload.keys], "time": workload.times, "value": workload.cents / 100}
    )
    # Each core gets its share of the rows.
    pq.write_table(table, file, row_group_size=250_000)


def told(values: Iterable[float], form: str) -> str:
    """The median of some values, and the least and the greatest."""
    spread = results.Spread.of(list(values))
    return f"{spread.median:{form}} ({spread.least:{form}} - {spread.most:{form}})"


def compare(
    events: Annotated[int, typer.Option(min=200_000, help="Events on the topic.")] = 16_000_000,
    keys: Annotated[list[int] | None, typer.Option(help="Different keys; may be repeated.")] = None,
    workload: Annotated[CaseName, typer.Option(help="What is computed.")] = CaseName.SUMS,
    every: Annotated[
        str | None, typer.Option(help="How often is emitted, in event time, or the workload's.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of the worker and of each job.")] = 3,
) -> None:
    """Compare a worker with a backfill on two cores."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(results.machine())
    case = CASES[workload]
    every = every or case.every
    for key_count in keys or [1_000]:
        drawn = draw(events, key_count, KeyDistribution.ZIPF, _PARTITIONS, case.mean_gap_ms)
        with (
            tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
            LocalBroker() as broker,
            spark_session("bench", f"local[{_PARTITIONS}]") as spark,
        ):
            folder = Path(name)
            bootstrap = broker.bootstrap_servers
            bench = Bench(bootstrap, broker.pid, workload, drawn, every, folder)
            bench.fill_topic()
            topology = make_topology(workload, bench.topic, "history", every)
            _write_events(drawn, folder / _EVENTS)
            for job in [*Job] * _RUNS_BEFORE:
                _time_job(spark, job, topology, bootstrap, folder)
            workers: list[Timing] = []
            jobs: dict[Job, list[Timing]] = {job: [] for job in Job}
            for _ in range(rounds):
                run = bench.run(SYSTEMS[OURS]).measurement
                workers.append(Timing(run.seconds, run.cpu_seconds))
                for job, timings in jobs.items():
                    timings.append(_time_job(spark, job, topology, bootstrap, folder))
        console.print(
            f"{events:,} events, {key_count:,} keys, {workload}, every {every}, {rounds} rounds: a"
            f" worker {told((events / it.seconds for it in workers), ',.0f')} events a second,"
            f" {told((events / it.cpu_seconds for it in workers), ',.0f')} a CPU second"
        )
        for job, timings in jobs.items():
            pairs = list(zip(workers, timings, strict=True))
            by_clock = told((one.seconds / it.seconds for one, it in pairs), ".2f")
            by_cpu = told((one.cpu_seconds / it.cpu_seconds for one, it in pairs), ".2f")
            console.print(
                f"  {job}: {told((events / it.seconds for it in timings), ',.0f')} events a"
                f" second, {by_clock} times the worker;"
                f" {told((events / it.cpu_seconds for it in timings), ',.0f')} a CPU second,"
                f" {by_cpu} times the worker"
            )


if __name__ == "__main__":
    run_command(compare)
