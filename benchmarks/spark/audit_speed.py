"""`slidestat spark audit` of a topic on a local broker: events a second, and what a figure costs.

    python -m benchmarks.spark.audit_speed [--events 10000000] [--every 1h] [--every 10m]

A backfill of the topic makes the lake, which is not timed. An audit is timed from its first job to
its report, in a session that has begun, with two tasks at once, and by CPU: the JVM's and that of
its Python workers. How long an audit takes depends on how much there is to judge: `every` says how
often a key is emitted. Ends with an error if a promise is broken.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.harness import results
from benchmarks.harness.bench import Bench
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.workload import KeyDistribution, draw
from benchmarks.spark.spark_cpu import spark_cpu_seconds
from benchmarks.speed.throughput import run_command
from slidestat.declare.forms.resolved import resolved
from slidestat.local.broker import LocalBroker
from slidestat.spark.audit.audit import Audit
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.backfill.history import read_topic
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session

_PARTITIONS = 4
_MASTER = "local[2]"


def measure(
    events: Annotated[int, typer.Option(min=1_000, help="Events on the topic.")] = 10_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys.")] = 1_000,
    every: Annotated[list[str] | None, typer.Option(help="How often; may be repeated.")] = None,
    workload: Annotated[CaseName, typer.Option(help="What is audited.")] = CaseName.SUMS,
) -> None:
    """Time an audit for each `every`."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(results.machine())
    drawn = draw(events, keys, KeyDistribution.ZIPF, _PARTITIONS, CASES[workload].mean_gap_ms)
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
        LocalBroker() as broker,
    ):
        bench = Bench(broker.bootstrap_servers, broker.pid, workload, drawn, "1h", Path(name))
        bench.fill_topic()
        for interval in every or ["1h", "10m"]:
            topology = make_topology(workload, bench.topic, "audited", interval)
            lake = Lake(str(Path(name) / interval), topology.name)
            with spark_session("bench", _MASTER) as spark:
                fill_lake(topology, read_topic(spark, topology, broker.bootstrap_servers), lake)
                audit = Audit(spark, broker.bootstrap_servers, lake, resolved(topology))
                began, cpu_before = time.monotonic(), spark_cpu_seconds()
                report = audit.run()
                seconds, cpu = time.monotonic() - began, spark_cpu_seconds() - cpu_before
            figures = sum(statistic.figures for statistic in report.statistics)
            read = report.records.read
            console.print(
                f"{read:,} events, {figures:,} figures each {interval}: {seconds:.1f} s,"
                f" {read / seconds:,.0f} events a second, {read / cpu:,.0f} a CPU second"
            )
            if not report.is_clean:
                sys.exit("A promise is broken: " + "; ".join(report.broken))


if __name__ == "__main__":
    run_command(measure)
