"""Work over tasks, as evenly as it can be cut."""

from collections.abc import Mapping
from heapq import heapify, heapreplace

from pyspark.sql import DataFrame, SparkSession, functions as f


def spread(loads: Mapping[int, int], tasks: int) -> dict[int, int]:
    """Return the task of each piece of work, the heaviest given out first, each to the task that
    has least so far: the longest task is at most 4/3 of the best there is (Graham 1969).
    """
    heap = [(0, task) for task in range(tasks)]
    heapify(heap)
    found = {}
    for piece, load in sorted(loads.items(), key=lambda item: (-item[1], item[0])):
        had, task = heap[0]
        found[piece] = task
        heapreplace(heap, (had + load, task))
    return found


def placed_by_partition(rows: DataFrame, partitions: int) -> DataFrame:
    """Place rows with each `partition` in one task, and partitions in different ones."""
    slots = f.array(*map(f.lit, task_slots(rows.sparkSession, partitions)))
    placed = rows.withColumn("slot", f.get(slots, f.col("partition")))
    return placed.repartition(partitions, "slot").drop("slot")


def task_slots(spark: SparkSession, tasks: int) -> list[int]:
    """Return a number for each of so many tasks, by which `repartition(tasks, column)` places each
    in one of its own. Spark places rows by a hash, which would put several into one task, and none
    into another.
    """
    wanted = f.expr(f"pmod(hash(CAST(id AS INT)), {tasks})")
    found = (
        spark.range(64 * tasks + 64)
        .groupBy(wanted.alias("task"))
        .agg(f.min("id").cast("int").alias("slot"))
        .collect()
    )
    slot_of = {row["task"]: row["slot"] for row in found}
    return [slot_of.get(task, task) for task in range(tasks)]
