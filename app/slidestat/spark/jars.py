"""The jars that Spark needs in addition to its own, for each release line of PySpark.

Kafka's connector and Delta Lake are compiled against one line, and fail on others with missing
classes and methods, some of them only when a table is compacted or has a checkpoint of its log.
"""

from dataclasses import dataclass
from pathlib import Path

from slidestat.errors import SlidestatError
from slidestat.local.jars import fetched_jars


@dataclass(frozen=True)
class ReleaseLine:
    """The releases of the connector and of Delta Lake for a release line of PySpark."""

    connector: str
    delta: str
    delta_artifact: str

    @property
    def connector_lock(self) -> Path:
        """The lock of the connector with what it needs."""
        return _lock(f"spark-kafka-{self.connector}")

    @property
    def delta_lock(self) -> Path:
        """The lock of Delta Lake."""
        return _lock(f"spark-delta-{self.delta}")

    @property
    def connector_package(self) -> str:
        """The connector for spark-submit's --packages."""
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self.connector}"

    @property
    def delta_package(self) -> str:
        """Delta Lake for spark-submit's --packages."""
        return f"io.delta:{self.delta_artifact}:{self.delta}"


LINES = {
    # Connectors after it lack a companion artifact in some mirrors; it runs with every PySpark 4.0.
    # Delta Lake after it comes with a catalog's client.
    "4.0": ReleaseLine("4.0.0", "4.0.1", "delta-spark_2.13"),
    # Before 4.1.3 a query that goes on with a batch that broke off fails (SPARK-57438). Its
    # companion is that of 4.1.1. Delta Lake before 4.3 cannot compact on Spark 4.1.2 and later.
    "4.1": ReleaseLine("4.1.3", "4.3.1", "delta-spark_4.1_2.13"),
    # Neither a connector of 4.2.1 nor one of 4.3 can be had; this one runs with every PySpark 4.2.
    "4.2": ReleaseLine("4.2.0", "4.4.0", "delta-spark_4.2_2.13"),
}


def release_line() -> ReleaseLine:
    """Return the line of the PySpark that is installed; raises SlidestatError for another one."""
    from pyspark.version import __version__ as version

    line = LINES.get(".".join(version.split(".")[:2]))
    if line is None:
        raise SlidestatError(
            f"PySpark {version} is installed, and slidestat runs on PySpark {', '.join(LINES)}.",
            "Install one of these: pip install 'slidestat[spark]'. On a cluster, choose a release"
            " of Spark that is one of these.",
        )
    return line


def connector_jars() -> list[Path]:
    """Return the paths of the jars of Kafka's connector, fetched if they are not there."""
    return fetched_jars(release_line().connector_lock, "Spark's Kafka connector")


def delta_jars() -> list[Path]:
    """Return the paths of Delta Lake's jars, fetched if they are not there. They have 8 MB."""
    line = release_line()
    try:
        return fetched_jars(line.delta_lock, f"Delta Lake {line.delta}")
    except SlidestatError as error:
        raise SlidestatError(
            error.message,
            f"{error.advice} Or start the job with spark-submit --packages {line.delta_package},"
            " which takes it from any Maven repository.",
        ) from error


def _lock(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.sha256")
