"""Bytes in a synopsis column that are no synopsis: null and counted, or an error."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.functions import pandas_udf

from slidestat.errors import SlidestatError
from slidestat.spark.jars import release_line
from slidestat.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


class Foreign:
    """The treatment of foreign bytes, and how many there were."""

    def __init__(self, spark: "SparkSession", fails: bool) -> None:
        self._fails = fails
        # A server of Spark Connect has none for its clients.
        self._seen: Accumulator[int] | None = None
        if not is_connect(spark):
            self._seen = spark.sparkContext.accumulator(0)

    @property
    def count(self) -> int:
        """The number of foreign values made null so far.

        If Spark runs a task again, its values are counted again. Raises SlidestatError in a session
        of Spark Connect.
        """
        if self._seen is None:
            raise SlidestatError(
                "Foreign values are not counted in a session of Spark Connect.",
                "Count the NULLs, or end the query at the first one: fail_on_foreign=True.",
            )
        return int(self._seen.value)

    def met(self, data: bytes) -> None:
        """Count a foreign value; raises SlidestatError if such values fail the query."""
        if self._fails:
            raise SlidestatError(
                f"A synopsis column has {len(data)} bytes that are no synopsis, or a damaged one: "
                f"{data[:8].hex(' ')}...",
                "Leave such rows out, or have them read as NULL and counted.",
            )
        if self._seen is not None:
            self._seen.add(1)


# Functions of pandas columns as Spark's.

_untyped: Any = pandas_udf  # its overloads want annotations that determine the kind of function


def column_function(function: Callable[..., Any], returns: str) -> Any:
    """Return the function as one of Spark, of the SQL type `returns`.

    Its own annotations determine its kind: columns to a column or a table, or columns to one value,
    an aggregate. Raises SlidestatError for a PySpark whose workers are not known here.
    """
    release_line()
    return _untyped(function, returns)
