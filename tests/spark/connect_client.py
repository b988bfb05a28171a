"""A client of a real Spark Connect server, which this process starts; run by `test_connect.py`.

    python -m tests.spark.connect_client LAKE DELTA_LAKE OUT

A process has sessions of one sort, so it is not the tests' own. It writes to OUT what came of each
question, as JSON: a table as rows, an error as its type, message and advice.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession, functions as f
from pyspark.sql.window import Window

from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import resolved
from slidestat.spark import (
    basic_distinct,
    basic_quantile,
    plot_figures,
    read_statistics,
    register_functions,
)
from slidestat.spark.audit.audit import Audit
from slidestat.spark.backfill.history import Files, read_files, read_topic
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.spark_java import find_spark_java

COUNTS = "key = 'ATL' AND statistic = 'count' AND window_ms = 86400000"


def questions(spark: SparkSession, lake: str, delta: str) -> dict[str, Callable[[], Any]]:
    """What is asked, by name."""
    topology, folder = load_topology("flights"), Lake(lake, "flights")
    ids = "SELECT if(id = 0, NULL, 9007199254740993 + id) AS v, id AS t, id % 7 AS g FROM range(99)"
    rows = spark.sql(ids)
    rows.createOrReplaceTempView("ids")
    foreign = register_functions(spark)
    middle = basic_quantile("t", "t", 100, 0.5).over(Window.orderBy("t").rowsBetween(-9, 0))

    def fails_on_foreign() -> Any:
        register_functions(spark, fail_on_foreign=True)
        return spark.sql("SELECT window_estimate(CAST('abc' AS BINARY), NULL)").collect()

    return {
        "session": lambda: type(spark).__module__,
        "counts": lambda: counts(read_statistics(spark, lake, "flights")),
        "plot": lambda: len(
            plot_figures(read_statistics(spark, lake, "flights").where(COUNTS)).lines
        ),
        "no lake": lambda: read_statistics(spark, f"{lake}-none", "flights"),
        "delta": lambda: read_statistics(spark, delta, "flights"),
        "columns": lambda: rows.agg(basic_distinct("v", "t", 10)).collect(),
        "frames": lambda: rows.select(middle.alias("m")).agg(f.max("m")).collect(),
        "sql": lambda: spark.sql("SELECT basic_distinct(v, t, 10) FROM ids").collect(),
        "in parts": lambda: spark.sql(
            "SELECT window_estimate(m, NULL).estimate FROM (SELECT window_merge(p) AS m FROM"
            " (SELECT basic_count_partial(1, 9) AS p FROM ids GROUP BY g))"
        ).collect(),
        "foreign": lambda: spark.sql(
            "SELECT window_estimate(CAST('abc' AS BINARY), NULL).estimate"
        ).collect(),
        "foreign count": lambda: foreign.count,
        "foreign fails": fails_on_foreign,
        "audit": lambda: Audit(spark, "localhost:1", folder, resolved(topology)).run(),
        "ingest": lambda: Ingest(
            spark, "localhost:1", folder, {Dataset.STATISTICS: "flights-statistics"}
        ).take_what_is_there(),
        "backfill": lambda: read_files(spark, topology, Files(lake)),
        "backfill of a topic": lambda: read_topic(spark, topology, "localhost:1"),
    }


def counts(figures: Any) -> list[list[float]]:
    """Some figures, with the ends of their windows."""
    table: pd.DataFrame = figures.where(COUNTS).orderBy("window_end").toPandas()
    ends = table["window_end"].map(pd.Timestamp.timestamp)
    return [list(row) for row in zip(ends, table["lower"], table["upper"], strict=True)]


def told(question: Callable[[], Any]) -> Any:
    """What comes of a question."""
    try:
        found = question()
    except Exception as error:  # noqa: BLE001 - whatever a user would see
        return {"error": type(error).__name__, "text": f"{error} {getattr(error, 'advice', '')}"}
    return [list(row) for row in found] if isinstance(found, list) else found


def main() -> None:
    """Start a server, ask, and write the answers."""
    lake, delta, out = sys.argv[1:]
    os.environ["JAVA_HOME"] = str(find_spark_java().executable.parents[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    answers = {name: told(question) for name, question in questions(spark, lake, delta).items()}
    Path(out).write_text(json.dumps(answers), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
