"""The figures of a lake as one tidy table."""

import msgspec
from msgspec.structs import FieldInfo
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from slidestat.schemas.emission import Figure
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.spark.connect import is_connect
from slidestat.spark.lake.connect_lake import read_by_server
from slidestat.spark.lake.lake import Dataset, Lake


def read_statistics(spark: SparkSession, lake: str, topology: str) -> DataFrame:
    """Read the figures that an ingest or a backfill has put into a lake, one a row.

    Columns: `key`; `window_start` and `window_end`, timestamps, the start inside and the end not,
    or, of a topology of a sequence, `window_end_seq`, its number, with NULL for both times;
    `statistic`, `quantile`, `item`, `at_least` and `below`, which distinguish figures of a window,
    NULL where they do not apply; `window_ms` or `window_events`, its length; `estimate`, `lower`
    and `upper`; what is promised (`relative_error` and the others of the schema of emissions); and
    `provisional`. Figures that came twice, or were replaced, are there once: the newest. The start
    of a window of events, or of all since a key's first one, is NULL.

    `spark` may be a session of Spark Connect: then the server reads the lake.

    Raises SlidestatError where there is no such lake. Cost: nothing until the rows are asked for,
    then one shuffle by key and window.
    """
    of, read = Lake(lake, topology), read_by_server if is_connect(spark) else Lake.read
    rows = read(of, spark, Dataset.STATISTICS).where("event_key IS NOT NULL")
    emission = f.struct("event_key", "window_end_ms", "figures", "provisional")
    # What a backfill wrote has no offsets, and is there once.
    place = f.coalesce("record_offset", f.lit(-1))
    newest = rows.groupBy("key").agg(f.max_by(emission, place).alias("emission"))
    figures = newest.select("emission.*", f.explode("emission.figures").alias("figure"))
    is_time = f.col("window_end_ms") >= EARLIEST_TIME_MS
    end = f.when(is_time, f.col("window_end_ms"))
    start = end - f.col("figure.window_ms")
    return figures.select(
        f.col("event_key").alias("key"),
        f.timestamp_millis(start).alias("window_start"),
        f.timestamp_millis(end).alias("window_end"),
        f.when(~is_time, f.col("window_end_ms")).alias("window_end_seq"),
        *[_field(field) for field in msgspec.structs.fields(Figure)],
        f.coalesce("provisional", f.lit(False)).alias("provisional"),
    )


def _field(field: FieldInfo) -> Column:
    """Return a figure's field as a column; one that an emission leaves out has its default."""
    column = f.col("figure")[field.name]
    if field.required or field.default is None:
        return column.alias(field.name)
    return f.coalesce(column, f.lit(field.default)).alias(field.name)
