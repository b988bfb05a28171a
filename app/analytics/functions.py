"""The SQL functions, registered with a session."""

from typing import TYPE_CHECKING

from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    StringType,
    StructField,
    StructType,
)

from app.analytics import aggregates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LISTED = ArrayType(
    StructType(
        [
            StructField("item", StringType()),
            StructField("estimate", DoubleType()),
            StructField("lower", DoubleType()),
            StructField("upper", DoubleType()),
        ]
    )
)
_AGGREGATES = {
    "basic_count": (aggregates.basic_count, DoubleType()),
    "basic_sum": (aggregates.basic_sum, DoubleType()),
    "basic_quantile": (aggregates.basic_quantile, DoubleType()),
    "basic_distinct": (aggregates.basic_distinct, DoubleType()),
    "basic_top": (aggregates.basic_top, _LISTED),
}


def register_functions(spark: "SparkSession") -> None:
    for name, (make, returns) in _AGGREGATES.items():
        spark.udf.register(name, _aggregate(make(), returns))


def _aggregate(function, returns):
    import pandas as pd

    def aggregate(v: pd.Series, t: pd.Series, *rest: pd.Series) -> object:
        return function(v, t, *rest)

    return pandas_udf(aggregate, returns)
