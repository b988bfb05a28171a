"""The SQL functions, registered with a session."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pandas as pd

from slidestat.errors import SlidestatError
from slidestat.spark.sql import aggregates, readers
from slidestat.spark.sql.foreign import Foreign, column_function
from slidestat.text import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIGURE = "estimate double, lower double, upper double"
_RANK = f"{_FIGURE}, share double, share_lower double, share_upper double"
_LISTED = f"array<struct<item: string, {_FIGURE.replace(' double', ': double')}>>"
_AGGREGATES: dict[str, tuple[Callable[[], Any], str]] = {
    "basic_count": (aggregates.basic_count, "double"),
    "basic_sum": (aggregates.basic_sum, "double"),
    "basic_quantile": (aggregates.basic_quantile, "double"),
    "basic_rank_quantile": (aggregates.basic_rank_quantile, "double"),
    "basic_distinct": (aggregates.basic_distinct, "double"),
    "basic_top": (aggregates.basic_top, _LISTED),
}
_FIGURES: dict[str, Callable[[Any], Any]] = {
    "window_estimate": readers.of_total,
    "window_variance": lambda summary: summary.variance(),
    "window_deviation": lambda summary: summary.deviation(),
}


def register_functions(spark: "SparkSession", *, fail_on_foreign: bool = False) -> Foreign:
    """Make the functions of `aggregates` and `readers` known to the session's SQL.

    A value in a synopsis column that is no synopsis is read as NULL and counted in the result, or,
    with `fail_on_foreign`, ends the query.
    """
    for name, (make, returns) in _AGGREGATES.items():
        spark.udf.register(name, make_aggregate(name))
        if returns == "double":
            spark.udf.register(f"{name}_bounds", make_aggregate(name, bounds=True))
        spark.udf.register(f"{name}_partial", _partial(make()))
    foreign = Foreign(spark, fail_on_foreign)
    reader = readers.Reader(foreign)
    scalars: dict[str, tuple[Callable[..., Any], type, str]] = {
        name: (partial(reader.figures, answer), pd.DataFrame, _FIGURE)
        for name, answer in _FIGURES.items()
    }
    scalars |= {
        "window_quantile": (reader.quantiles, pd.DataFrame, _FIGURE),
        "window_rank": (reader.ranks, pd.DataFrame, _RANK),
        "window_item": (reader.counts_of_item, pd.DataFrame, _FIGURE),
        "window_items": (reader.items, pd.Series, _LISTED),
        "window_summary": (reader.summaries, pd.Series, "binary"),
    }
    for name, scalar in scalars.items():
        spark.udf.register(name, _scalar(name, *scalar))
    spark.udf.register("window_merge", _merge(reader))
    return foreign


def make_aggregate(name: str, *, bounds: bool = False) -> Any:
    """Make an aggregate of `aggregates` by its name, a function of columns; with `bounds`, of a
    figure by the names of its parts.
    """
    make, returns = _AGGREGATES[name]
    function = make()

    def aggregate(v: pd.Series, *rest: pd.Series) -> object:
        return function.bounds(v, *rest) if bounds else function(v, *rest)

    # PySpark has no structs as results of aggregates; SQL reads a field of a map in the same way.
    return column_function(aggregate, "map<string, double>" if bounds else returns)


def _partial(function: Any) -> Any:
    def summary(v: pd.Series, *k: pd.Series) -> bytes:
        return function.summary(v, *k)  # type: ignore[no-any-return]

    return column_function(summary, "binary")


def _merge(reader: readers.Reader) -> Any:
    def merge(data: pd.Series) -> bytes:
        return reader.merge(data)  # type: ignore[return-value]  # NULL of no rows.

    return column_function(merge, "binary")


def _scalar(name: str, function: Callable[..., Any], kind: type, returns: str) -> Any:
    *needed, last = signature(function).parameters

    def scalar(*columns: pd.Series) -> Any:
        if len(columns) - len(needed) not in (0, 1):
            raise SlidestatError(
                f"{name} was given {counted(len(columns), 'argument')}.",
                f"Give {', '.join(needed)}, and maybe {last}.",
            )
        return function(*columns)

    # Spark determines the kind of a function by its return annotation.
    scalar.__annotations__["return"] = kind
    return column_function(scalar, returns)
