"""Which keys of a history are hot, and where it is cut (`stretches.py`)."""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from pyspark.sql import DataFrame, Row, functions as f

from slidestat.declare.topology import Topology
from slidestat.spark.backfill.stretches import FIRST, LAST, Stretch

# So many stretches for what one task should have, where each is then so many spans long; else one.
_PIECES = 4
_LONG = 4


def stretches_of(topology: Topology, judged: DataFrame, tasks: int) -> list[Stretch]:
    """Cut the hot keys of judged events, those that have more than half of what a task should have.
    A key whose history is shorter than two spans stays whole. Cost: four passes over the events.
    """
    span = topology.span_length.length
    events = judged.where("key IS NOT NULL")
    fair = events.count() / tasks
    of_key = events.groupBy("partition", "key").agg(
        f.count(f.lit(1)).alias("events"), (f.max("time") - f.min("time")).alias("length")
    )
    counts = {
        (row["partition"], row["key"]): n
        for row in of_key.where(f.col("events") * 2 > fair).collect()
        if (n := _count(row["events"] / fair, row["length"] / span)) > 1
    }
    if not counts:
        return []
    ends = _ends(judged, counts, _PIECES * tasks)
    found: list[Stretch] = []
    for (partition, key), rows in ends.items():
        first_time, after = FIRST, FIRST
        for row in rows:
            tick = (row["clock"] - topology.lateness_ms) // topology.every_ms * topology.every_ms
            if tick > after:
                number = len(found) + 1
                found.append(
                    Stretch(number, partition, key, first_time, row["offset"], after, tick)
                )
                first_time, after = tick - span, tick
        number = len(found) + 1
        found.append(Stretch(number, partition, key, first_time, LAST, after, LAST))
    return found


def _count(shares: float, spans: float) -> int:
    """Return how many stretches a key has that is so many tasks' shares of the events, and so many
    spans long: each is fed a span more.
    """
    small = ceil(_PIECES * shares)
    return small if small * _LONG <= spans else int(min(ceil(shares), spans))


def _ends(
    judged: DataFrame, counts: Mapping[tuple[int, str], int], grid: int
) -> dict[tuple[int, str], Sequence[Row]]:
    """Return for each key the records (offset, clock) with which its stretches but the last end,
    rising: for each the first record at which a tick passed after so many of its events.
    """
    spark = judged.sparkSession
    hot = spark.createDataFrame(list(counts), "partition int, key string")
    shares = [place / grid for place in range(1, grid)]
    offsets = (
        judged.join(f.broadcast(hot), ["partition", "key"])
        .groupBy("partition", "key")
        .agg(f.percentile_approx("offset", shares, 10_000).alias("offsets"))
        .collect()
    )
    cuts = []
    for row in offsets:
        place = row["partition"], row["key"]
        n = counts[place]
        at = np.unique([row["offsets"][round(i * grid / n) - 1] for i in range(1, n)])
        cuts += [(*place, offset) for offset in at.tolist()]
    wanted = spark.createDataFrame(cuts, "partition int, of string, cut bigint")
    ticks = judged.where("key IS NULL AND letter IS NULL").select("partition", "offset", "clock")
    ends = (
        ticks.join(f.broadcast(wanted), "partition")
        .where("offset >= cut")
        .groupBy("partition", "of", "cut")
        .agg(f.min(f.struct("offset", "clock")).alias("end"))
        .orderBy("partition", "of", "cut")
        .collect()
    )
    found: dict[tuple[int, str], list[Row]] = {place: [] for place in sorted(counts)}
    for row in ends:
        found[row["partition"], row["of"]].append(row["end"])
    return dict(found)
