"""One key of any number of events through an audit on Spark: its speed, and the memory of its task.

    python -m benchmarks.spark.audited_key 4_000_000 [100_000_000 ...]

Events come each 10 ms and go the way of an audit: read from JSON in Python, sorted by Spark,
streamed through one task, which recomputes each minute's windows. Their emissions are made by hand,
exact, as values repeat. A hundred million are eleven days of one key. What it leaves out is Kafka.
Ends with an error if a figure is found wrong.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as f

from benchmarks.harness.command import typed
from slidestat.declare.forms.resolved import resolved
from slidestat.declare.statistics import Count, Distinct, Mean, Quantiles
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.audit.audit import judged
from slidestat.spark.audit.declaration import declaration_of
from slidestat.spark.audit.events.reading import Asked, reader_of, reading_columns
from slidestat.spark.audit.workers import Bounds, auditor
from slidestat.spark.session import spark_session

STEP_MS = 10
# The number of different values, each as frequent in a window as the others.
VALUES = 1_000
MINUTE_MS = 60_000
START_MS = 1_764_072_000_000
KEY = "one"
TOPOLOGY = Topology(
    name="audited_key",
    source="events",
    span="10m",
    windows=("1m", "10m"),
    every="1m",
    statistics=(Count(), Mean(), Quantiles(quantiles=(0.5,)), Distinct(field="value")),
)
MARK = "f00d"


@dataclass(frozen=True)
class Measured:
    """An audit of one key: how long it took, the most memory that its task had more than before,
    and the most that the process of the task had in all.
    """

    events: int
    figures: int
    faults: int
    seconds: float
    task_bytes: int
    process_bytes: int


def _emission(tick: int) -> bytes:
    """The emission of a tick, of at least one span after the start: all is exact."""
    figures = []
    for window_ms in (MINUTE_MS, 10 * MINUTE_MS):
        values = {
            "count": float(window_ms // STEP_MS),
            "mean_value": (VALUES - 1) / 2,
            "quantile_value": float(VALUES // 2 - 1),
            "distinct_value": float(VALUES),
        }
        for label, kind in zip(TOPOLOGY.labels, values, strict=True):
            quantile = 0.5 if kind == "quantile_value" else None
            exact = values[kind]
            figures.append(Figure(label, exact, exact, exact, window_ms, quantile=quantile))
    return msgspec.json.encode(Emission("audited_key", KEY, tick, figures, "events", 0, 0))


def _ticks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ticks = batch.column("window_end_ms").to_pylist()
        yield pa.RecordBatch.from_arrays(
            [batch.column("window_end_ms"), pa.array(map(_emission, ticks), pa.binary())],
            ["window_end_ms", "value"],
        )


def _measured(
    audit: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The audit, in whose place its task says what it found and took."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The most that this process had is measured from here on.
        Path("/proc/self/clear_refs").write_text("5")
        before = _peak()
        rows = faults = 0
        for table in audit(batches):
            rows += table.num_rows
            faults += sum(fault != "" for fault in table.column("fault").to_pylist())
        peak = _peak()
        found = {"figures": [rows], "faults": [faults], "more": [peak - before], "all": [peak]}
        yield pa.RecordBatch.from_pydict(found)

    return run


def _peak(process: int | str = "self") -> int:
    """The most memory that a process had."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024


def events_of(spark: SparkSession, count: int) -> DataFrame:
    """The runs of events of the key, as an audit reads them from records."""
    readings = [declaration_of(resolved(TOPOLOGY))]
    number = f.col("id")
    event = f.format_string(
        f'{{"key":"{KEY}","time":%d,"value":%d}}', START_MS + number * STEP_MS, number % VALUES
    )
    records = spark.range(count).select(
        f.lit(0).alias("partition"),
        number.alias("offset"),
        f.lit(None).cast("binary").alias("key"),
        event.cast("binary").alias("value"),
        f.lit(START_MS).alias("ms"),
        f.lit(None).cast("string").alias("letter"),
    )
    read = reader_of(readings, Asked({}, {}, {}))
    return records.mapInArrow(read, reading_columns(readings)).where("event_key IS NOT NULL")


def emissions_of(spark: SparkSession, count: int) -> DataFrame:
    """An emission each minute from the first whole span on."""
    first, last = START_MS + 10 * MINUTE_MS, START_MS + count * STEP_MS
    ticks = spark.range(first, last, MINUTE_MS).withColumnRenamed("id", "window_end_ms")
    return ticks.mapInArrow(_ticks, "window_end_ms long, value binary").select(
        f.lit(KEY).alias("event_key"),
        f.lit(0).alias("source_partition"),
        "window_end_ms",
        f.col("window_end_ms").alias("place"),
        f.lit(MARK).alias("declaration"),
        "value",
    )


def audited(spark: SparkSession, count: int) -> Measured:
    """An audit of so many events of one key."""
    declarations = {MARK: declaration_of(resolved(TOPOLOGY))}
    bounds = {(0, MARK): Bounds(0, -(2**62))}
    started = time.perf_counter()
    rows = judged(
        declarations,
        events_of(spark, count),
        emissions_of(spark, count),
        _measured(auditor(declarations, bounds)),
        "figures long, faults long, more long, all long",
    ).collect()
    seconds = time.perf_counter() - started
    row = max(rows, key=lambda row: row.figures)
    faults = sum(row.faults for row in rows)
    return Measured(count, row.figures, faults, seconds, row["more"], row["all"])


def _jvm_peak() -> int:
    """The most memory that Spark's JVM had."""
    children = psutil.Process().children(recursive=True)
    return max(_peak(child.pid) for child in children if child.name().startswith("java"))


def main(sizes: list[str]) -> None:
    """Measure, and print a line for each size."""
    with spark_session("benchmark") as spark:
        for text in sizes or ["4_000_000"]:
            found = audited(spark, int(text))
            print(
                f"{found.events:,} events of one key: {found.events / found.seconds:,.0f} a second,"
                f" {found.figures:,} figures, {found.task_bytes / 2**20:,.0f} MiB in the task,"
                f" whose process has {found.process_bytes / 2**20:,.0f}; the JVM of all tasks"
                f" {_jvm_peak() / 2**20:,.0f}"
            )
            if found.faults or not found.figures:
                sys.exit(f"{found.faults:,} figures found wrong")


if __name__ == "__main__":
    main(*typed(__doc__, "events..."))
