"""The partition where Kafka's clients would send a key, as a column.

Spark's JVM has Kafka's own client, with the hash that its producers place keys by: an expression
calls it, some 20 ns a row. A function of Python would have every row sent to a Python worker, and
back, before it is sent there again to be counted: a microsecond of CPU an event. Where the JVM has
no such client, as under a spark-submit that was not given it, that function places the keys.
"""

from functools import lru_cache
from typing import Any

import pandas as pd
from aiokafka.partitioner import DefaultPartitioner
from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession, functions as f

from slidestat.spark.sql.column_functions import column_function

_KEYS_KNOWN = 1 << 16
_HASHES = "org.apache.kafka.common.utils.Utils"


def partition_of(spark: SparkSession, key: Column, partitions: int) -> Column:
    """The partition of each key, 0 without one; `key` is of bytes."""
    try:
        hashed = _murmur2(spark, key)
    except (Py4JError, TypeError):
        # No client of Kafka; or what is called has moved, as it is not Spark's public face.
        return by_python(key, partitions)
    positive = hashed.bitwiseAND(f.lit(0x7FFFFFFF))
    return f.coalesce((positive % partitions).cast("int"), f.lit(0))


def _murmur2(spark: SparkSession, key: Column) -> Column:
    """The hash as an expression; raises Py4JError without Kafka's client."""
    jvm: Any = spark.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    hashes = jvm.java.lang.Class.forName(_HASHES, True, loader)
    call = catalyst.objects.StaticInvoke(
        hashes,
        jvm.org.apache.spark.sql.types.DataTypes.IntegerType,
        "murmur2",
        _seq(jvm, columns.expression(key._jc)),
        _seq(jvm),  # types of the arguments: those that they have
        True,  # null for null
        False,  # null for nothing else
        True,  # the same for the same
        jvm.scala.Option.empty(),
    )
    hashed: Column = Column(columns.column(call))
    return hashed


def _seq(jvm: Any, *members: Any) -> Any:
    """A sequence of Scala's."""
    found = jvm.java.util.ArrayList()
    for member in members:
        found.add(member)
    return jvm.scala.jdk.CollectionConverters.ListHasAsScala(found).asScala().toSeq()


def by_python(key: Column, partitions: int) -> Column:
    """The same from a function of Python."""

    def partition(keys: pd.Series) -> pd.Series:
        return keys.map(_placing(partitions), na_action=None)

    placed: Column = column_function(partition, "int")(key)
    return placed


@lru_cache(maxsize=1)
def _placing(partitions: int) -> Any:
    place, numbers = DefaultPartitioner(), list(range(partitions))

    @lru_cache(maxsize=_KEYS_KNOWN)
    def placed(key: bytes | None) -> int:
        return 0 if key is None else int(place(key, numbers, numbers))

    return placed
