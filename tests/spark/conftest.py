"""One Spark for the whole test session."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slidestat.spark.session as session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# There is no PySpark 4.0 for Python 3.14.
collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]

_HERE = Path(__file__).parent


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
        with session.spark_session("tests", "local[2]", delta=True) as spark:
            yield spark


@pytest.fixture
def jobs_in_one_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs as the command line runs them, in the session of all tests."""

    @contextmanager
    def shared(_job: str, _master: str | None = None, **_more: object) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr(session, "spark_session", shared)
