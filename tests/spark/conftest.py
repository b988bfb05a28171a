"""One Spark for the whole test session."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slidestat.spark.session as session
from slidestat.spark.delta import LOG_TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOON_MS = 1_764_072_000_000
_HERE = Path(__file__).parent
# A few rows take less time than the tasks that they are given to, and than what a worker imports.
# Code made for each plan stays as Spark has it: without it tests took as much CPU.
_FOR_LITTLE_DATA = " ".join(
    f"--conf {setting}"
    for setting in (
        "spark.python.daemon.module=tests.spark.python_daemon",
        "spark.sql.shuffle.partitions=2",
        # VACUUM lists files by so many tasks, 10,000 by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism=2",
        f"{LOG_TASKS}=1",
    )
)
# What a cluster may have for its defaults, and jobs have not: of Spark 4, as SQL has it, and as
# Hive's and Impala's files need it.
_OF_A_CLUSTER = " ".join(
    f"--conf spark.sql.{setting}=true"
    for setting in ("ansi.enforceReservedKeywords", "parquet.binaryAsString")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves some of its sockets to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A session on this machine, as the jobs have it, with two tasks at once. It has Delta Lake, as
    one Spark starts only once; that changes nothing for what is no Delta table.
    """
    with pytest.MonkeyPatch.context() as patch:
        # A quick start is worth more here than fast code; processes that tests start have it, too.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{_FOR_LITTLE_DATA} {_OF_A_CLUSTER} pyspark-shell")
        with session.spark_session("tests", "local[2]", delta=True) as spark:
            # What tests start has Spark's own settings.
            patch.delenv("PYSPARK_SUBMIT_ARGS")
            yield spark


@pytest.fixture
def jobs_in_one_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs as the command line runs them, in the session of all tests."""

    @contextmanager
    def shared(_job: str, _master: str | None = None, **_more: object) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr(session, "spark_session", shared)


@pytest.fixture
def folder(spark: "SparkSession", tmp_path: Path) -> Path:
    """A folder with three days of flights of three airports, and the lake that a backfill fills."""
    from slidestat.declare.forms.files import load_topology
    from slidestat.spark.backfill.backfill import fill_lake
    from slidestat.spark.backfill.history import Files, read_files
    from slidestat.spark.lake.lake import Lake

    chance = np.random.default_rng(5)
    rows = 1_500
    times = np.sort(chance.integers(0, 3 * 86_400_000, rows)) + _NOON_MS
    table = pa.table(
        {
            "origin": chance.choice(["ATL", "ORD", "DFW"], rows),
            "date": pa.array(times, pa.timestamp("ms", "UTC")),
            "delay": chance.integers(-20, 90, rows),
            "destination": chance.choice(["JFK", "LAX"], rows),
        }
    )
    pq.write_table(table, tmp_path / "flights.parquet")
    names = {"key": "origin", "time": "date", "value": "delay"}
    files = Files(str(tmp_path / "flights.parquet"), "parquet", names, partitions=1)
    topology = load_topology("flights")
    records = read_files(spark, topology, files)
    fill_lake(topology, records, Lake(str(tmp_path / "history"), "flights"))
    return tmp_path
