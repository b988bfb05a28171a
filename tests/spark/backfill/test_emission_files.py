"""The files that the tasks of a backfill write, beside those that Spark writes of the same."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from slidestat.declare.statistics import AgeOfLast, Count, Distinct, Mean, Quantiles
from slidestat.spark.backfill import backfill
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.executors import runs_each_task_once
from slidestat.spark.lake import wire_columns
from slidestat.spark.lake.lake import Lake
from slidestat.spark.lake.wire_columns import arrow_schema
from tests.spark.requests_history import TOPOLOGY, history_of, requests

# No lists of items, figures that do not exist, and some of no window.
_NUMBERS_ALONE = replace(
    TOPOLOGY,
    statistics=(
        Count(epsilon=0.05),
        Mean(epsilon=0.1),
        Quantiles(quantiles=(0.5, 0.99), epsilon=0.1),
        Distinct(field="path"),
        AgeOfLast(number=200),
    ),
)


@pytest.mark.parametrize("partitions", [2, 1])
def test_tasks_write_the_rows_that_spark_writes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Of two partitions, and of one whose keys are spread over two tasks: the same columns with the
    same values, the same dates and types, and nothing in the files for one reader alone.
    """
    parts = [requests(1_500, seed, ("none",)) for seed in range(partitions)]
    found = []
    for name in ("tasks", "spark"):
        lake = Lake(str(tmp_path / name), TOPOLOGY.name)
        counts = fill_lake(_NUMBERS_ALONE, history_of(spark, parts), lake, partitions).counts
        rows = lake.read(spark, "statistics")
        assert counts["statistics"] == rows.count() > 100
        found.append(rows)
        monkeypatch.setattr(backfill, "emission_folder", lambda *_: None)
    of_tasks, of_spark = found
    assert of_tasks.dtypes == of_spark.dtypes
    assert _texts(of_tasks) == _texts(of_spark)
    assert of_tasks.where("exists(figures, it -> it.estimate IS NULL)").count() > 0
    schemas = [
        pq.read_schema(next((tmp_path / name).rglob("statistics/*/*/*.parquet")))
        for name in ("tasks", "spark")
    ]
    assert schemas[0].remove_metadata() == schemas[1].remove_metadata()


def _texts(rows: DataFrame) -> list[str]:
    # Whole numbers of doubles are told apart from others: -0.0 is not 0.0.
    return sorted(repr(row) for row in rows.collect())


def test_a_task_that_may_run_twice_writes_no_files() -> None:
    """On this machine a job ends with its first failure, unless its master says otherwise."""
    assert runs_each_task_once("local[*]")
    assert not runs_each_task_once("local[2, 3]")
    assert not runs_each_task_once("spark://there:7077")


def test_times_are_utc_in_each_release_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of 4.2 refuses a schema with times unless a zone is given; none before knows of one."""
    columns = StructType([StructField("at", TimestampType()), StructField("key", StringType())])
    expected = pa.schema([("at", pa.timestamp("us", "UTC")), ("key", pa.string())])
    assert arrow_schema(columns) == expected

    def of_4_2(columns: StructType, *, timezone: str | None = None) -> pa.Schema:
        assert timezone is not None
        kinds = {"at": pa.timestamp("us", timezone), "key": pa.string()}
        return pa.schema([(name, kinds[name]) for name in columns.names])

    monkeypatch.setattr(wire_columns, "to_arrow_schema", of_4_2)
    assert arrow_schema(columns) == expected
