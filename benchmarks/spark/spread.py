"""How evenly a backfill keeps its tasks busy, by Spark's own task metrics.

    python -m benchmarks.spark.spread [--events 600000] [--keys 1000000] [--hot 0.5]
                                     [--tasks 8] [--split]

A history of four partitions, of random keys and a share of one hot key, goes into a lake in so many
tasks at once. Told are the run times and events of the tasks that run the engine, and what the
readings of the four partitions took before them.
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.harness import results
from benchmarks.speed.throughput import run_command
from slidestat.declare.statistics import Count, Mean, Sum
from slidestat.declare.topology import Topology
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.backfill.history import Files, read_files
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session

_PARTITIONS = 4
_DAYS = 2
_START_MS = 1_764_028_800_000
_TOPOLOGY = Topology(
    name="spread",
    source="events",
    span="1h",
    windows=("5m", "1h"),
    every="5m",
    statistics=(Count(), Sum(), Mean(epsilon=0.1)),
)


def measure(
    events: Annotated[int, typer.Option(min=1_000)] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys, each as likely.")] = 1_000_000,
    hot: Annotated[float, typer.Option(min=0, max=1, help="Share of one key more.")] = 0.0,
    tasks: Annotated[int, typer.Option(min=5, help="Tasks at once, more than partitions.")] = 8,
    split: Annotated[bool, typer.Option("--split", help="Split hot keys by time.")] = False,
) -> None:
    """Backfill a generated history, and tell what its tasks did."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(results.machine())
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
        spark_session("bench", f"local[{tasks}]") as spark,
    ):
        file = Path(name) / "events.parquet"
        pq.write_table(_history(events, keys, hot), file)
        history = read_files(spark, _TOPOLOGY, Files(str(file), partitions=_PARTITIONS))
        began = time.monotonic()
        lake = Lake(f"{name}/lake", "spread")
        filled = fill_lake(_TOPOLOGY, history, lake, _PARTITIONS, split_hot_keys=split)
        seconds = time.monotonic() - began
        console.print(
            f"{events:,} events, {keys:,} keys, {hot:.0%} of one more: {seconds:.1f} s,"
            f" {filled.counts['statistics']:,} emissions"
        )
        readings, engines = _tasks(spark, tasks)
        for told, found in (("readings", readings), ("engines", engines)):
            run = [ms / 1_000 for ms, _ in found]
            rows = [count for _, count in found]
            uneven = max(run) / median(run), max(rows) / median(rows)
            most = run[rows.index(max(rows))]
            console.print(
                f"  {len(found)} {told}: {median(run):.1f} s by median, {max(run):.1f} s the"
                f" longest, {uneven[0]:.2f} times; rows {uneven[1]:.2f} times; the task with most"
                f" of them {most:.1f} s"
            )


def _history(events: int, keys: int, hot: float) -> pa.Table:
    chance = np.random.default_rng(21)
    numbers = chance.integers(0, keys, events)
    numbers[chance.random(events) < hot] = keys
    times = _START_MS + np.sort(chance.integers(0, _DAYS * 86_400_000, events))
    return pa.table(
        {
            "key": pa.array(np.char.add("k", numbers.astype(str))),
            "time": times,
            "value": chance.integers(0, 10_000, events) / 100,
        }
    )


def _tasks(spark: SparkSession, tasks: int) -> tuple[list[tuple[int, int]], ...]:
    """(run time in ms, rows read from shuffles) of the tasks that read partitions, whose rows are
    pieces of many events, and of those
    that ran the engine: the stages of so many tasks that took longest.
    """
    stages = []
    store: Any = spark._jsc.sc().statusStore()
    stage = 0
    while True:
        try:
            attempt = store.lastStageAttempt(stage).attemptId()
        except Exception:  # noqa: BLE001  # py4j's, for NoSuchElementException: the end.
            break
        found = tasks_of_stage(store, stage, attempt)
        stages.append([task for task in found if task[1]])
        stage += 1
    of_readings = [found for found in stages if len(found) == _PARTITIONS]
    of_engines = [found for found in stages if len(found) == tasks]
    return max(of_readings, key=_total), max(of_engines, key=_total)


def tasks_of_stage(store: Any, stage: int, attempt: int) -> list[tuple[int, int]]:
    """(run time in ms, rows read from shuffles) of a stage's tasks, by Spark's status store."""
    found = []
    for task in _each(store.taskList(stage, attempt, 10_000)):
        metrics = task.taskMetrics()
        if metrics.isDefined():
            read = metrics.get().shuffleReadMetrics().recordsRead()
            found.append((metrics.get().executorRunTime(), read))
    return found


def _total(found: list[tuple[int, int]]) -> int:
    return sum(ms for ms, _ in found)


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


if __name__ == "__main__":
    run_command(measure)
