"""A topology on Structured Streaming beside a worker, and beside Spark's own aggregates.

    python -m benchmarks.spark.streaming [--events 2000000] [--keys 1000] [--keys 1000000]
                                        [--rounds 3]

All read one topic. The worker writes to its output topic and its tables, and is timed as in
`measure.py`, from its first batch to its last commit. `slidestat.spark.stream` keeps the same
statistics in Spark's state store. Spark's own query has count, average and approximate quantiles of
tumbling minutes, which are less: no sliding windows, no bounds. Both queries give their rows to a
sink that drops them; they are timed from their start to their end, two tasks at a time. The first
round pays for Python's start and the JVM's compiler as well. Memory is the most that JVM and Python
workers had together, sampled. A round is a worker and then each query; a ratio is of one round. Of
the last round it says how long each micro-batch took, and how much is in the state store then, by
Spark's own count and on the disk. Writes results/streaming.json, which docs/spark-streaming.md
tells (`make figures`).
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Annotated

import msgspec
import psutil
import typer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as f
from rich.console import Console

from benchmarks import RESULTS_FOLDER
from benchmarks.harness import results
from benchmarks.harness.bench import Bench
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.systems import OURS, SYSTEMS
from benchmarks.harness.workload import KeyDistribution, draw
from benchmarks.spark.backfill import told
from benchmarks.spark.spark_cpu import spark_cpu_seconds, spark_processes
from benchmarks.speed.throughput import run_command
from slidestat.declare.topology import Topology
from slidestat.local.broker import LocalBroker
from slidestat.spark import stream
from slidestat.spark.session import spark_session
from slidestat.spark.streaming.operator import PROVIDER, ROCKSDB

RESULTS = RESULTS_FOLDER / "streaming.json"
_PARTITIONS, _STARTS = 2, 20
_STREAM, _OWN = "slidestat.spark.stream", "Spark's own aggregates"


@dataclass(frozen=True)
class Timing:
    """What one run took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Batches:
    """How long each micro-batch of a run took, and the state store at its end."""

    seconds: list[float]
    state_rows: int
    state_bytes: int

    def __str__(self) -> str:
        return (
            f"{len(self.seconds)} batches of {told(self.seconds, '.1f')} s; at the end"
            f" {self.state_rows:,} rows in the state store, {self.state_bytes / 2**20:,.0f} MiB"
        )


@contextmanager
def _peak_bytes(found: list[int]) -> Iterator[None]:
    """Have the most memory of Spark's processes appended, when the block ends."""
    is_over, most = Event(), 0

    def sample() -> None:
        nonlocal most
        while not is_over.wait(0.2):
            now = 0
            for process in spark_processes():
                with suppress(psutil.NoSuchProcess):
                    now += process.memory_info().rss
            most = max(most, now)

    sampler = Thread(target=sample)
    sampler.start()
    try:
        yield
    finally:
        is_over.set()
        sampler.join()
        found.append(most)


def _records(spark: SparkSession, bootstrap: str, topic: str, batch: int) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", batch).load()


def _own(records: DataFrame) -> DataFrame:
    """Return the tumbling minutes that Spark itself computes."""
    event = f.from_json(f.col("value").cast("string"), "key string, time bigint, value double")
    events = records.select(event.alias("it")).select(
        "it.key", "it.value", f.timestamp_millis("it.time").alias("at")
    )
    return (
        events.withWatermark("at", "0 seconds")
        .groupBy("key", f.window("at", "1 minute"))
        .agg(
            f.count("*"),
            f.avg("value"),
            f.percentile_approx("value", [0.5, 0.9, 0.99], 100),
        )
    )


def _time_query(rows: DataFrame, folder: Path) -> tuple[Timing, Batches]:
    """Time a query from the start that Spark does not give up: on a busy machine it does so."""
    for _ in range(_STARTS):
        try:
            return _timed(rows, folder)
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
            shutil.rmtree(folder)
    raise RuntimeError(f"Spark gave up {_STARTS} starts: let the machine rest.")


def _timed(rows: DataFrame, folder: Path) -> tuple[Timing, Batches]:
    peaks: list[int] = []
    began, cpu_before = time.monotonic(), spark_cpu_seconds()
    with _peak_bytes(peaks):
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    timing = Timing(time.monotonic() - began, spark_cpu_seconds() - cpu_before, peaks[0])
    batches = [one for one in query.recentProgress if one.numInputRows]
    held = query.recentProgress[-1].stateOperators
    seconds = [one.durationMs["triggerExecution"] / 1e3 for one in batches]
    on_disk = sum(file.stat().st_size for file in (folder / "state").rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return timing, Batches(seconds, sum(one.numRowsTotal for one in held), on_disk)


def compare(
    events: Annotated[int, typer.Option(min=20_000, help="Events on the topic.")] = 2_000_000,
    keys: Annotated[list[int] | None, typer.Option(help="Different keys; may be repeated.")] = None,
    workload: Annotated[CaseName, typer.Option(help="What is computed.")] = CaseName.DEFAULT,
    batch: Annotated[int, typer.Option(help="Events in a micro-batch.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
) -> None:
    """Compare a worker with two queries on two cores."""
    console = Console(highlight=False, soft_wrap=True)
    machine = results.machine()  # Before the load that it is put under here.
    console.print(machine)
    case = CASES[workload]
    measured: list[dict[str, object]] = []
    for key_count in keys or [1_000]:
        drawn = draw(events, key_count, KeyDistribution.UNIFORM, _PARTITIONS, case.mean_gap_ms)
        with (
            tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
            LocalBroker() as broker,
            spark_session("bench", f"local[{_PARTITIONS}]") as spark,
        ):
            spark.conf.set(PROVIDER, ROCKSDB)
            spark.conf.set("spark.sql.shuffle.partitions", _PARTITIONS)
            changes = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
            spark.conf.set(changes, "true")
            folder, bootstrap = Path(name), broker.bootstrap_servers
            bench = Bench(bootstrap, broker.pid, workload, drawn, case.every, folder)
            bench.fill_topic()
            topology = make_topology(workload, bench.topic, "streamed", case.every)

            def queries(
                spark: SparkSession = spark,
                topology: Topology = topology,
                bootstrap: str = bootstrap,
            ) -> dict[str, DataFrame]:
                records = _records(spark, bootstrap, topology.source, batch)
                return {_STREAM: stream(records, topology), _OWN: _own(records)}

            timings: dict[str, list[Timing]] = {_STREAM: [], _OWN: []}
            workers: list[Timing] = []
            batches: dict[str, Batches] = {}
            for _ in range(rounds):
                run = bench.run(SYSTEMS[OURS]).measurement
                workers.append(Timing(run.seconds, run.cpu_seconds, run.peak_rss))
                for subject, rows in queries().items():
                    timing, batches[subject] = _time_query(rows, folder / "checkpoint")
                    timings[subject].append(timing)
        console.print(
            f"{events:,} events, {key_count:,} keys, {workload}, {rounds} rounds: a worker"
            f" {told((events / it.seconds for it in workers), ',.0f')} events a second, at most"
            f" {told((it.peak_bytes / 2**20 for it in workers), ',.0f')} MiB"
        )
        subjects = []
        for subject, found in timings.items():
            pairs = list(zip(workers, found, strict=True))
            by_clock = told((one.seconds / it.seconds for one, it in pairs), ".2f")
            by_cpu = told((one.cpu_seconds / it.cpu_seconds for one, it in pairs), ".2f")
            peak_mib = max(it.peak_bytes for it in found) / 2**20
            subjects.append(
                {"name": subject, "by_cpu": by_cpu, "by_clock": by_clock, "peak_mib": peak_mib}
            )
            console.print(
                f"  {subject}: {told((events / it.seconds for it in found), ',.0f')} events a"
                f" second, {by_clock} times the worker, {by_cpu} a CPU second; at most"
                f" {told((it.peak_bytes / 2**20 for it in found), ',.0f')} MiB"
            )
            console.print(f"    {batches[subject]}")
        queries_of_round = zip(timings[_STREAM], timings[_OWN], strict=True)
        ratio = told((own.seconds / it.seconds for it, own in queries_of_round), ".2f")
        console.print(f"  {_STREAM} beside {_OWN}: {ratio} times as fast")
        of_topic = {"events": events, "keys": key_count, "workload": workload, "rounds": rounds}
        peak_mib = max(it.peak_bytes for it in workers) / 2**20
        measured.append(
            of_topic | {"worker_peak_mib": peak_mib, "subjects": subjects, "of_own": ratio}
        )
    data = {"machine": machine, "topics": measured}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")


if __name__ == "__main__":
    run_command(compare)
