"""A lake as a client of Spark Connect reads it: its folders are known by what the server finds."""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from slidestat.errors import SlidestatError
from slidestat.spark.delta import require_delta_of_server
from slidestat.spark.lake.lake import Lake, no_records, set_aside

_NOT_THERE = {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"}


def read_by_server(lake: Lake, spark: Any, dataset: str) -> DataFrame:
    """Return all rows of a dataset; raises SlidestatError as `Lake.read` does.

    Cost: some requests to the server.
    """
    folder = lake.data(dataset)
    if _has_files(spark, f"{folder}/_delta_log/*"):
        with require_delta_of_server(folder):
            return _found(spark.read.format("delta").load(folder))
    dates = f"{lake.compaction}/old/{dataset}"
    if _has_files(spark, f"{dates}/*"):
        raise set_aside(dates)
    try:
        return _found(spark.read.option("mergeSchema", True).parquet(folder))
    except AnalysisException as error:
        if error.getCondition() in _NOT_THERE:
            raise no_records(lake, dataset) from error
        raise


def _has_files(spark: Any, paths: str) -> bool:
    try:
        _found(spark.read.format("binaryFile").load(paths))
    except AnalysisException as error:
        if error.getCondition() in _NOT_THERE:
            return False
        raise SlidestatError(f"{paths} cannot be read: {error}.", "Check the lake.") from error
    return True


def _found(rows: DataFrame) -> DataFrame:
    """Return the rows, once the server has looked for them, which it does when it is asked for
    their columns.
    """
    rows.columns  # noqa: B018
    return rows
