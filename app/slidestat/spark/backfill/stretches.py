"""The history of hot keys in stretches of time, each for a task of its own.

No figure of a window of time depends on an event that has left the span. So an engine that is fed
the events of a stretch, and before them those of the span before it, has at each tick of the
stretch the same events in every window as one that was fed all: what it emits keeps every promise,
whatever the statistics are. The bytes may be others, as a synopsis also depends on its history.

    offsets      ...........|...........o1...........o2...........     o1, o2: ticks T1, T2 passed
    stretch 1    fed and emitted: up to o1
    stretch 2               fed: times from T1 - span; emitted: ticks after T1, up to T2
    stretch 3                            fed: times from T2 - span; emitted: ticks after T2

Events after o1 that count are not before T1, for that is where the watermark was. The key's last
emission, at the first tick at which the span has none of its events left, is emitted by one stretch
as well: after T1 only if the last event is not before T1 - span.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, functions as f

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark.backfill.engine_outputs import KEYS

FIRST, LAST = -(2**62), 2**62
"""Where a key's first stretch begins, and its last one ends."""


@dataclass(frozen=True)
class Stretch:
    """A part of a key's history, numbered from 1 on: it is fed the events with times from
    `first_time` and offsets up to `last_offset`, and emits the ticks after `after` up to `until`.
    """

    number: int
    partition: int
    key: str
    first_time: int
    last_offset: int
    after: int
    until: int

    def told(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of those that come out of its engine that are its own, by their ticks."""
        ticks = rows["timestamp"].cast(pa.int64()).to_numpy() // 1_000
        own = pa.array((ticks > self.after) & (ticks <= self.until))
        return rows.filter(pc.or_(own, pc.equal(rows["topic"], KEYS)))


def require_stretches(topology: Topology) -> None:
    """Raise SlidestatError for a topology whose keys' histories cannot be split by time."""
    advice = "Leave --split-hot-keys out."
    if topology.has_referee:
        raise SlidestatError(
            f"{topology.name} publishes its synopses, or which keys lead in rankings, each of all"
            " that came before it, so no key's history can be split.",
            advice,
        )
    if topology.alerts:
        raise SlidestatError(
            f"{topology.name} has alerts, which go on from one tick to the next, so no key's"
            " history can be split by time.",
            f"{advice[:-1]}, or backfill a topology of another name without alerts.",
        )
    if not topology.sees_span_alone:
        raise SlidestatError(
            f"{topology.name} has figures of a key's last events, or of all since its first, so no"
            " key's history can be split by time.",
            advice,
        )


# Work over tasks, as evenly as it can be cut.


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
    """Return a number for each task, such that `repartition(tasks, column)` gives each its own.
    Spark places rows by a hash, which would put several into one task, and none into another.
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
