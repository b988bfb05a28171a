"""The session that all jobs have: whose Java, whose Python, whose code."""

import sys

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

import slidestat
from slidestat.local.jars import locked_jars
from slidestat.spark.session import CONNECTOR_LOCK, CONNECTOR_VERSION


def test_python_workers_run_the_same_interpreter_and_code(spark: SparkSession) -> None:
    """Whatever python3 is on PATH and wherever slidestat is installed."""

    @pandas_udf("string")
    def place(rows: pd.Series) -> pd.Series:
        import slidestat

        return rows.map(lambda _: f"{sys.executable} {slidestat.__file__}")

    (row,) = spark.range(1).select(place("id").alias("place")).collect()
    assert row.place == f"{sys.executable} {slidestat.__file__}"


def test_times_are_utc(spark: SparkSession) -> None:
    """A timestamp reads the same on every machine."""
    (row,) = spark.sql("SELECT string(timestamp_millis(0)) AS text").collect()
    assert row.text == "1970-01-01 00:00:00"


def test_the_connector_is_locked_with_what_spark_lacks() -> None:
    """Four jars, each by its digest: connector, its tokens, Kafka's client, its pool."""
    artifacts = [jar.coordinate.split(":")[1:] for jar in locked_jars(CONNECTOR_LOCK)]
    assert ["spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION] in artifacts
    assert len(artifacts) == 4
