"""A key that is most of a history, split by time over the tasks: every figure keeps its promise."""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec
import numpy as np
import pytest
from pyspark.sql import SparkSession

from benchmarks.spark.spread import tasks_of_stage
from slidestat.declare.statistics import (
    Count,
    Distinct,
    LandmarkCount,
    Maximum,
    Mean,
    Quantiles,
    Sum,
    TopItems,
)
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission
from slidestat.spark.backfill.backfill import by_partition, fill_lake
from slidestat.spark.backfill.by_key import spread_by_key
from slidestat.spark.backfill.engine_outputs import KEYS, READ
from slidestat.spark.lake.lake import Lake
from slidestat.synopses import ExponentialHistogram
from tests.audit.test_audit_key import Partition
from tests.engine.memory import SOURCE
from tests.engine.model import Record
from tests.spark.requests_history import NOON, history_of

MINUTE = 60_000
TASKS = 7
HOT = "hot"
TOPOLOGY = Topology(
    name="filled",
    source=SOURCE,
    span="10m",
    windows=("2m", "10m"),
    every="2m",
    lateness="5s",
    statistics=(
        Count(epsilon=0.1),
        Sum(epsilon=0.1),
        Mean(epsilon=0.1),
        Maximum(),
        Quantiles(quantiles=(0.5, 0.9)),
        TopItems(field="path", epsilon=0.1),
        Distinct(field="path"),
    ),
)
COUNTS = replace(TOPOLOGY, statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)))


def _history(events: int, hours: int) -> list[tuple[bytes, bytes, int]]:
    """Records of one partition, nine tenths of one key, which pauses for an hour; some are late or
    bad.
    """
    chance = Random(17)
    times = sorted(NOON + chance.randrange(hours * 60 * MINUTE) for _ in range(events))
    found = []
    for now in times:
        pauses = NOON + 3 * 60 * MINUTE <= now < NOON + 4 * 60 * MINUTE
        key = HOT if chance.random() < 0.9 and not pauses else f"k{chance.randrange(30)}"
        event = {
            "key": key,
            "time": now - chance.choice([0, 0, 0, 900, 4_000, 4_999, 9_000]),
            "value": chance.choice([0.5, 2, 30, 400]) * chance.randrange(1, 9),
            "path": f"/{int(12 * chance.random() ** 2)}",
        }
        value = msgspec.json.encode(event) if chance.randrange(99) else b"{"
        found.append((key.encode(), value, now))
    return found


def _of(rows: list[Any], topic: str) -> list[Any]:
    return [row for row in rows if row.topic == topic]


def _place(row: Any) -> tuple[bytes, Any]:
    return bytes(row.key), row.timestamp


def _others(rows: list[Any]) -> list[str]:
    """What is not of the hot key's figures: letters, other keys."""
    letters = TOPOLOGY.late_topic, TOPOLOGY.dead_letter_topic
    return sorted(
        repr(row)
        for row in rows
        if row.topic in letters
        or (row.topic not in (KEYS, READ) and f'"{HOT}",'.encode() not in row.key)
    )


def _records_read(rows: list[Any]) -> int:
    return sum(int(row.value) for row in _of(rows, READ))


@pytest.mark.long
def test_each_figure_of_a_key_that_is_split_keeps_its_promise(spark: SparkSession) -> None:
    """Of a key with nine tenths of the events, over all tasks: figures of every kind lie within
    their bounds and errors of what all of its events say, none is missing or there twice, each at
    the record at which a worker would have told it. Other keys, and letters, have a worker's bytes.

    No task has more than 1.5 times the rows of the median one, by Spark's own task metrics.
    """
    history = _history(9_000, 24)
    whole_history = history_of(spark, [history])
    spark.sparkContext.setJobGroup("hot keys", "a key that is split")
    with spread_by_key(TOPOLOGY, whole_history, TASKS, split_hot_keys=True) as spread:
        rows = spread.written.collect()
    spark.sparkContext.setJobGroup("others", "")
    assert Counter(it.key for it in spread.stretches) == {HOT: 25}

    records = [Record(i, *record) for i, record in enumerate(history)]
    partition = Partition(TOPOLOGY, records)
    assert not [text for key in partition.keys for text in partition.violations(key)]
    by_worker = dict(partition.emissions)
    partition.emissions = defaultdict(dict)
    for row in _of(rows, TOPOLOGY.output_topic):
        emission = msgspec.json.decode(row.value, type=Emission)
        assert emission.window_end_ms not in partition.emissions[emission.key]
        partition.emissions[emission.key][emission.window_end_ms] = emission
    for key in partition.keys:
        assert partition.violations(key) == []
        offsets, given = (
            {tick: it.source_offset for tick, it in sorted(emissions[key].items())}
            for emissions in (partition.emissions, by_worker)
        )
        assert offsets == given
    for finding in partition.audit(HOT):
        assert finding.verdict is not None
        assert finding.verdict.observed is not None
        assert finding.verdict.observed <= finding.verdict.promised
    whole = by_partition(TOPOLOGY, whole_history, 1).collect()
    assert _others(rows) == _others(whole)
    assert sorted(map(_place, _of(rows, TOPOLOGY.synopsis_topic))) == sorted(
        map(_place, _of(whole, TOPOLOGY.synopsis_topic))
    )

    engines = _rows_of_engines(spark, "hot keys")
    assert max(engines) <= 1.5 * median(engines)


def _rows_of_engines(spark: SparkSession, group: str) -> list[int]:
    """Rows that the tasks of the stage with most of them have read from shuffles."""
    tracker, store = spark.sparkContext.statusTracker(), spark._jsc.sc().statusStore()
    stages = []
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        assert info is not None
        for stage in info.stageIds:
            read = [rows for _, rows in tasks_of_stage(store, stage, 0) if rows]
            if len(read) == TASKS:
                stages.append(read)
    return max(stages, key=sum)


def test_synopses_at_an_interval_hold_what_those_of_a_whole_key_do(spark: SparkSession) -> None:
    """Of each interval one, with all events of the span before its end: rolled up, all of history
    once. So where spans are long, and there is one stretch for each task.
    """
    history, tasks = _history(3_000, 3), 3
    records, interval = history_of(spark, [history]), 10 * MINUTE
    kept = replace(COUNTS, synopses="10m")
    with spread_by_key(kept, records, tasks, split_hot_keys=True) as spread:
        written = _of(spread.written.collect(), COUNTS.synopsis_topic)
    assert len(spread.stretches) == tasks
    given = _of(by_partition(kept, records, 1).collect(), COUNTS.synopsis_topic)
    assert sorted(map(_place, written)) == sorted(map(_place, given))
    key = Partition(COUNTS, [Record(i, *record) for i, record in enumerate(history)]).keys[HOT]
    checked = 0
    for row in written:
        _, statistic, name, _ = msgspec.json.decode(row.key)
        end = round(row.timestamp.timestamp() * 1_000)
        if (statistic, name) == ("count", HOT) and end % interval == 0:
            found = ExponentialHistogram.from_bytes(bytes(row.value)).query(interval, end)
            exact = int(np.count_nonzero((end - interval <= key.times) & (key.times < end)))
            assert found.lower <= exact <= found.upper
            assert abs(found.estimate - exact) <= 0.1 * exact
            checked += 1
    assert checked >= 16


def test_a_key_is_whole_where_splitting_it_is_no_use(spark: SparkSession) -> None:
    """Over less than two spans each stretch would be fed nearly all of it; and a key of few events
    is not waited for.
    """
    short = [record for record in _history(2_000, 24) if record[2] < NOON + 19 * MINUTE]
    for history in (short, [record for record in _history(2_000, 24) if record[0] != b"hot"]):
        with spread_by_key(COUNTS, history_of(spark, [history]), 3, split_hot_keys=True) as spread:
            assert spread.stretches == []


def test_what_cannot_be_split_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Figures of a key's last events, or of all of them, and what partitions publish."""
    history = history_of(spark, [_history(20, 1)])
    since_first = replace(COUNTS, statistics=(Count(), LandmarkCount()))
    of_events = replace(COUNTS, span="100 events", windows=())
    for topology, told in (
        (since_first, "of all since its first"),
        (of_events, "of a key's last events"),
        (replace(COUNTS, publish=("hot",)), "publishes its synopses"),
    ):
        lake = Lake(str(tmp_path / "lake"), topology.name)
        with pytest.raises(SlidestatError, match=f"{told}.* Leave --split-hot-keys out"):
            fill_lake(topology, history, lake, split_hot_keys=True)
