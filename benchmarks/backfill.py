"""A backfill on Spark beside one streaming worker, on one topic, in one run.

    python -m benchmarks.backfill [--events 16000000] [--keys 1000] [--keys 100000]

Both compute the same statistics of the same events and write them. The worker reads the topic, and
writes to its output topic and its tables; it is timed as in `measure.py`, from its first batch to
its last commit. The backfill reads the topic, or Parquet, and writes Parquet: the records that the
worker writes, or a lake, which has their figures as columns, too. It is timed from the start of its
query to its end, with a session that has begun and workers that have their kernels, as the worker
has; with one task at a time and with two. (The JVM compiles and collects garbage on all cores.)
"""

import shutil
import sys
import tempfile
import time
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console

from benchmarks import results
from benchmarks.bench import Bench
from benchmarks.cases import CASES, CaseName, make_topology
from benchmarks.spark_cpu import spark_cpu_seconds
from benchmarks.systems import OURS, SYSTEMS
from benchmarks.workload import KeyDistribution, Workload, draw
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.local.broker import LocalBroker
from slidestat.spark.backfill.backfill import backfill, fill_lake
from slidestat.spark.backfill.history import Files, read_files, read_topic
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session

_PARTITIONS = 2
_ATTEMPTS = 3
_EVENTS = "events.parquet"


class Job(StrEnum):
    """What is timed: where history comes from, and what is written of it."""

    TOPIC_TO_RECORDS = "topic to records"
    TOPIC_TO_LAKE = "topic to a lake"
    FILES_TO_RECORDS = "files to records"
    FILES_TO_LAKE = "files to a lake"


def _time_backfill(
    job: Job, topology: Topology, bootstrap: str, cores: int, folder: Path
) -> tuple[float, float]:
    """Seconds and CPU seconds of the last of some backfills: those before it load the kernels, and
    have the JVM compile what it runs.
    """
    with spark_session("bench", f"local[{cores}]") as spark:
        seconds = cpu = 0.0
        for attempt in range(_ATTEMPTS):
            began, cpu_before = time.monotonic(), spark_cpu_seconds()
            if job in (Job.TOPIC_TO_RECORDS, Job.TOPIC_TO_LAKE):
                history = read_topic(spark, topology, bootstrap)
            else:
                files = Files(str(folder / _EVENTS), partitions=_PARTITIONS)
                history = read_files(spark, topology, files)
            out = str(folder / f"{job}-{cores}-{attempt}")
            if job in (Job.TOPIC_TO_LAKE, Job.FILES_TO_LAKE):
                fill_lake(topology, history, Lake(out, topology.name), _PARTITIONS)
            else:
                backfill(topology, history).write.parquet(out)
            seconds, cpu = time.monotonic() - began, spark_cpu_seconds() - cpu_before
            shutil.rmtree(out)
        return seconds, cpu


def _write_events(workload: Workload, file: Path) -> None:
    names = np.array([workload.key_text(key) for key in range(workload.key_count)])
    table = pa.table(
        {"key": names[workload.keys], "time": workload.times, "value": workload.cents / 100}
    )
    # So that each core has its share of the rows.
    pq.write_table(table, file, row_group_size=250_000)


def compare(
    events: Annotated[int, typer.Option(min=200_000, help="Events on the topic.")] = 16_000_000,
    keys: Annotated[list[int] | None, typer.Option(help="Different keys; may be repeated.")] = None,
    workload: Annotated[CaseName, typer.Option(help="What is computed.")] = CaseName.SUMS,
    every: Annotated[str, typer.Option(help="How often is emitted, in event time.")] = "1m",
) -> None:
    """Compare a worker with a backfill on one core and on two."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(results.machine())
    for key_count in keys or [1_000]:
        gap = CASES[workload].mean_gap_ms
        drawn = draw(events, key_count, KeyDistribution.ZIPF, _PARTITIONS, gap)
        with (
            tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
            LocalBroker() as broker,
        ):
            folder = Path(name)
            bootstrap = broker.bootstrap_servers
            bench = Bench(bootstrap, broker.pid, workload, drawn, every, folder)
            bench.fill_topic()
            worker = bench.run(SYSTEMS[OURS]).measurement
            topology = make_topology(workload, bench.topic, "history", every)
            console.print(
                f"{events:,} events, {key_count:,} keys, {workload}: a worker {worker.seconds:.1f} "
                f"s, {worker.events_per_s:,.0f} events a second, "
                f"{events / worker.cpu_seconds:,.0f} a CPU second, load {worker.load:.1f}"
            )
            _write_events(drawn, folder / _EVENTS)
            for job, cores in product(Job, (1, 2)):
                seconds, cpu = _time_backfill(job, topology, bootstrap, cores, folder)
                console.print(
                    f"  {job}, {cores} core{'s' if cores > 1 else ''}: {seconds:.1f} s, "
                    f"{events / seconds:,.0f} events a second, {events / cpu:,.0f} a CPU second; "
                    f"{worker.seconds / seconds:.1f} times the worker, "
                    f"{worker.cpu_seconds / cpu:.2f} times a CPU second"
                )


if __name__ == "__main__":
    try:
        typer.run(compare)
    except SlidestatError as error:
        print(f"error: {error.message}\nwhat to do: {error.advice}", file=sys.stderr)
        sys.exit(2)
