"""Delta Lake in a Spark session: its settings, and whether a session has its jars and them.

Its classes must be there when the JVM starts, and its settings when the session does; neither can
be brought later.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slidestat.errors import SlidestatError
from slidestat.spark.jars import release_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "spark.sql.catalog.spark_catalog"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Delta's parser drops a query's parameters on Spark 4.1, unless they are bound later (delta 7640,
# SPARK-59672). Spark 4.0 always binds them later, and does not know the setting.
_BOUND_LATE = "spark.sql.legacy.parameterSubstitution.constantsOnly"
# The number of tasks in which Delta reads the log of a table.
LOG_TASKS = "spark.databricks.delta.snapshotPartitions"


def delta_settings(extensions: str = "") -> dict[str, str]:
    """Return the settings of a session with Delta tables, together with its other extensions."""
    return {
        EXTENSIONS: ",".join(dict.fromkeys([*filter(None, extensions.split(",")), _EXTENSION])),
        CATALOG: _CATALOG,
        _BOUND_LATE: "true",
    }


def has_jars(jvm: Any) -> bool:
    """Return whether a JVM of Spark's has Delta Lake's classes."""
    from py4j.java_gateway import JavaClass

    return isinstance(jvm.io.delta.sql.DeltaSparkSessionExtension, JavaClass)


def has_delta(spark: "SparkSession") -> bool:
    """Return whether a session can read and write Delta tables."""
    return has_jars(spark._jvm) and spark.conf.get(CATALOG, None) is not None


def require_delta(spark: "SparkSession", what: str) -> None:
    """Raise SlidestatError, with what to start Spark with, for a session that cannot have `what`,
    as it cannot read and write Delta tables.
    """
    if not has_delta(spark):
        raise _no_delta(f"{what} has Delta tables, and this Spark has no Delta Lake.")


@contextmanager
def require_delta_of_server(what: str) -> Iterator[None]:
    """Raise SlidestatError as `require_delta` does where a server of Spark Connect cannot read."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _no_delta(
            f"{what} has Delta tables, and the server of Spark Connect cannot read it:"
            f" {str(error).splitlines()[0]}"
        ) from error


def _no_delta(message: str) -> SlidestatError:
    settings = " ".join(f"--conf {name}={value}" for name, value in delta_settings().items())
    package = release_line().delta_package
    return SlidestatError(message, f"Start Spark with it: --packages {package} {settings}")
