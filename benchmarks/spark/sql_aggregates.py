"""Aggregates of SQL beside Spark's own approximate ones, in a GROUP BY over the same rows.

    python -m benchmarks.spark.sql_aggregates [--rows 4000000] [--groups 200]

Each of ours runs in turn with Spark's, with the same error, on two cores, after one run of each
that is not timed; the ratio is of each pair. Writes results/sql_aggregates.json, which
docs/spark.md tells (`make figures`).
"""

import time
from statistics import median
from typing import Annotated

import msgspec
import typer
from pyspark.sql import SparkSession, functions as f

from benchmarks import RESULTS_FOLDER
from benchmarks.harness import results
from slidestat.spark.session import spark_session
from slidestat.spark.sql.functions import register_functions

RESULTS = RESULTS_FOLDER / "sql_aggregates.json"
_PAIRS = 5
# Ours, and Spark's own of the same sort and error; counts it has exact ones alone.
CALLS = {
    "basic_distinct(v, t, 20)": "approx_count_distinct(v, 0.05)",
    "basic_quantile(v, t, 100, 0.99D)": "percentile_approx(v, 0.99D, 100)",
    "basic_rank_quantile(v, t, 100, 0.99D)": "percentile_approx(v, 0.99D, 100)",
    "basic_count(v % 2, t, 100)": "count_if(v % 2 = 1)",
}


class Measured(msgspec.Struct):
    """A call of ours and the one beside it: seconds of each, by median, and their ratio."""

    call: str
    beside: str
    seconds: float
    seconds_beside: float
    ratio: float
    least: float
    most: float


def seconds(spark: SparkSession, call: str) -> float:
    """How long a GROUP BY with one aggregate takes."""
    began = time.monotonic()
    found = spark.table("rows").groupBy("g").agg(f.expr(call))
    found.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def measured(spark: SparkSession, call: str, beside: str) -> Measured:
    """Both in turn."""
    pairs = [(seconds(spark, call), seconds(spark, beside)) for _ in range(_PAIRS + 1)][1:]
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (median(pair[side] for pair in pairs) for side in (0, 1))
    return Measured(call, beside, ours, theirs, median(ratios), min(ratios), max(ratios))


def main(
    rows: Annotated[int, typer.Option(min=1_000, help="Rows in all groups.")] = 4_000_000,
    groups: Annotated[int, typer.Option(min=1, help="Groups.")] = 200,
) -> None:
    """Measure, print and write."""
    with spark_session("bench", "local[2]") as spark:
        register_functions(spark)
        spark.range(rows).selectExpr(
            f"id % {groups} AS g", "id AS t", "CAST(pmod(xxhash64(id), 100000) AS INT) AS v"
        ).cache().createOrReplaceTempView("rows")
        spark.table("rows").count()
        found = [measured(spark, *pair) for pair in CALLS.items()]
    data = {"machine": results.machine(), "rows": rows, "groups": groups, "calls": found}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    for one in found:
        print(f"{one.call} {one.seconds:.2f} s, {one.ratio:.1f} times {one.beside}")


if __name__ == "__main__":
    typer.run(main)
