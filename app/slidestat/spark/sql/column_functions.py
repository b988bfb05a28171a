"""Functions of pandas columns as Spark's."""

from collections.abc import Callable
from typing import Any

from pyspark.sql.pandas.functions import pandas_udf

_untyped: Any = pandas_udf  # its overloads want annotations that determine the kind of function


def column_function(function: Callable[..., Any], returns: str) -> Any:
    """Return the function as one of Spark, of the SQL type `returns`.

    Its own annotations determine its kind: columns to a column or a table, or columns to one value,
    an aggregate.
    """
    return _untyped(function, returns)
