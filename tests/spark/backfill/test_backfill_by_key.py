"""Keys over as many tasks as there are cores: the bytes of one task for each partition."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slidestat import TopologyDriver
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Count, ItemCounts, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.errors import SlidestatError
from slidestat.spark.backfill.backfill import by_partition, fill_lake
from slidestat.spark.backfill.by_key import spread_by_key, spreads_keys
from slidestat.spark.backfill.history import Files, History, read_files
from slidestat.spark.backfill.stretches import spread
from slidestat.spark.lake.lake import Lake
from tests.spark.requests_history import NOON, TOPOLOGY, Record, history_of, requests, send_all


def _same(topology: Topology, history: History, partitions: int) -> set[str]:
    """Compare what comes out, as records are compared that have no order; the topics of it."""
    held = history.rows.sparkSession._jsc.sc().getPersistentRDDs
    # Other jobs of the session may have left some.
    before = held().size()
    given = by_partition(topology, history, partitions).collect()
    with spread_by_key(topology, history, 3, partitions) as found:
        assert sorted(map(repr, found.written.collect())) == sorted(map(repr, given))
    assert held().size() == before
    return {row.topic for row in given}


def test_a_topic_comes_to_the_same(spark: SparkSession) -> None:
    """Emissions, letters of every kind, synopses: of three partitions in three tasks, and of one of
    which nothing counts.
    """
    parts = [requests(1_500, seed) for seed in range(3)]
    parts.append([(b"k", b"no JSON", NOON)] * 3)
    topology = replace(
        TOPOLOGY, statistics=(*TOPOLOGY.statistics, Count(name="some", where="value < 2"))
    )
    topics = _same(topology, history_of(spark, parts), 4)
    assert topics == {
        *(
            "filled-statistics",
            "filled-synopses",
            "filled-late",
            "filled-dead-letters",
            "_keys",
            "_read",
        )
    }


def test_figures_of_figures_are_those_of_a_worker(spark: SparkSession) -> None:
    """Derived ones, also of the past, those of objectives, windows of the calendar, items by weight
    and above a share, counts of any item: byte for byte, past a full hour, by key as by partition.
    """
    topology = replace(
        TOPOLOGY,
        span="1h",
        windows=("5m", "this_hour"),
        time_zone="Asia/Kathmandu",
        every="1m",
        having="busy > 0.1",
        statistics=(
            Count(),
            Count(name="errors", where="value >= 500"),
            TopItems(field="path", weight="size"),
            TopItems(field="path", share=0.2, name="often"),
            ItemCounts(field="path", items=("/",)),
        ),
        derived=(
            "errors_5m / count_5m as failing",
            "failing - ago(failing, '10m') as worse",
            "count_5m / count_this_hour as busy",
        ),
        slos=(
            Slo(name="up", good="value < 500", objective=0.9, alerts=["5 over 30m and 5m as page"]),
        ),
    )
    chance = Random(5)
    driver = TopologyDriver(topology, partitions=2)
    parts: list[list[Record]] = [[], []]
    for second in range(0, 4_500, 2):
        number = chance.randrange(2)
        event = {
            "key": f"k{number}{chance.randrange(3)}",
            "time": NOON - 1_800_000 + 1_000 * second,
            "value": chance.choice([200, 200, 404, 503]),
            "path": chance.choice(["/", "/a", "/b/c"]),
            "size": chance.randrange(100_000),
        }
        value = msgspec.json.encode(event)
        parts[number].append((b"k", value, event["time"]))
    for number, records in enumerate(parts):
        send_all(driver, records, number)
    history = history_of(spark, parts)
    rows = by_partition(topology, history, 2).collect()
    written = [bytes(row.value) for row in rows if row.topic == topology.output_topic]
    assert len(written) > 300
    assert sorted(written) == sorted(map(JsonCodec().encode, driver.emissions))
    _same(topology, history, 2)


def test_files_come_to_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets counted over all of a partition's rows, plain ones and refused ones; synopses at an
    interval.
    """
    chance = Random(3)
    rows = 2_000
    table = pa.table(
        {
            "key": [chance.choice(["a", "b", "c", "ü" * 256, None, ""]) for _ in range(rows)],
            "time": [NOON + 700 * i for i in range(rows)],
            "value": [chance.choice([0.1, 2.5, 7, None, -1]) for _ in range(rows)],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    topology = replace(TOPOLOGY, statistics=(Count(), Sum()), lateness="0s")
    topology = replace(topology, synopses=f"{2 * topology.every_ms}ms")
    records = read_files(spark, topology, Files(str(tmp_path / "rows.parquet"), partitions=2))
    topics = _same(topology, records, 2)
    assert topics == {
        "filled-statistics",
        "filled-synopses",
        "filled-dead-letters",
        "_keys",
        "_read",
    }


def test_a_history_that_is_all_refused_fills_no_lake(spark: SparkSession, tmp_path: Path) -> None:
    """As it is where partitions are worked on whole."""
    records = history_of(spark, [[(b"k", b"no JSON", NOON)] * 3])
    lake = Lake(str(tmp_path / "lake"), TOPOLOGY.name)
    with pytest.raises(
        SlidestatError, match=r"All 3 records of the history were refused: not-json"
    ):
        fill_lake(TOPOLOGY, records, lake)
    assert not lake.has(spark, "dead-letters")


def test_a_history_that_is_all_passed_over_is_none_that_is_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By a condition, and with nothing refused or with some."""
    topology = replace(TOPOLOGY, statistics=(Count(),), where="value > 1000")
    good = b'{"key": "k", "time": %d, "value": 1}' % NOON
    for name, values in (("none", [good]), ("some", [good, b"no JSON"])):
        records = history_of(spark, [[(b"k", value, NOON) for value in values]])
        filled = fill_lake(topology, records, Lake(str(tmp_path / name), topology.name))
        assert filled.counts["statistics"] == 0
        assert filled.refusals.total == len(values) - 1


def test_keys_are_spread_where_cores_are_more_than_partitions() -> None:
    """And where synopses are not of whole partitions."""
    assert spreads_keys(TOPOLOGY, cores=8, partitions=4)
    assert not spreads_keys(TOPOLOGY, cores=4, partitions=4)
    statistics = (Count(),)
    for publish in ("partition", ("k1",)):
        publishing = replace(TOPOLOGY, statistics=statistics, publish=publish)
        assert not spreads_keys(publishing, cores=8, partitions=4)


@pytest.mark.parametrize(
    "loads", [[], [5], [1] * 100, [50, *[1] * 50], [7, 7, 6, 6, 5, 5, 4, 4, 4]]
)
def test_no_task_has_more_than_a_third_above_the_best(loads: Sequence[int]) -> None:
    """Graham's bound, against the best of all ways for few pieces, else what none can be below."""
    for tasks in (1, 2, 3):
        found = spread(dict(enumerate(loads)), tasks)
        assert found.keys() == set(range(len(loads)))
        sums = [sum(loads[p] for p, task in found.items() if task == t) for t in range(tasks)]
        best = max(max(loads, default=0), -(-sum(loads) // tasks))
        if len(loads) < 10:
            ways = product(range(tasks), repeat=len(loads))
            best = min(_longest(loads, way, tasks) for way in ways)
        assert 3 * max(sums) <= 4 * best


def _longest(loads: Sequence[int], way: Sequence[int], tasks: int) -> int:
    return max(
        sum(load for load, task in zip(loads, way, strict=True) if task == t) for t in range(tasks)
    )
