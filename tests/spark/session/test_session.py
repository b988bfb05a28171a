"""The session that all jobs have: whose Java, whose Python, whose code."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

import slidestat
from slidestat.errors import SlidestatError
from slidestat.local.jars import locked_jars
from slidestat.spark import register_functions, stream
from slidestat.spark.jars import LINES
from slidestat.spark.session import ended_in_silence, spark_session
from tests.docs.markdown import ROOT
from tests.spark.requests_history import TOPOLOGY


def test_python_workers_run_the_same_interpreter_and_code(spark: SparkSession) -> None:
    """Whatever python3 is on PATH and wherever slidestat is installed."""

    @pandas_udf("string")
    def place(rows: pd.Series) -> pd.Series:
        import slidestat

        return rows.map(lambda _: f"{sys.executable} {slidestat.__file__}")

    (row,) = spark.range(1).select(place("id").alias("place")).collect()
    assert row.place == f"{sys.executable} {slidestat.__file__}"


def test_times_are_utc(spark: SparkSession) -> None:
    """A timestamp reads the same on every machine."""
    (row,) = spark.sql("SELECT string(timestamp_millis(0)) AS text").collect()
    assert row.text == "1970-01-01 00:00:00"


@pytest.mark.parametrize("name", LINES)
def test_jars_are_locked_for_each_line_of_pyspark(name: str) -> None:
    """By their digests: connector, its tokens, Kafka's client, its pool; Delta Lake, its files. The
    documentation has the same releases.
    """
    line = LINES[name]
    connector, delta = (
        {jar.coordinate: jar.sha256 for jar in locked_jars(lock)}
        for lock in (line.connector_lock, line.delta_lock)
    )
    assert (len(connector), len(delta)) == (4, 2)
    assert line.connector_package in connector
    assert line.connector.startswith(f"{name}.")
    assert line.delta_package in delta
    row = f"| {name} | `{line.connector_package}` | `{line.delta_package}` |"
    assert row in (ROOT / "docs" / "spark.md").read_text("utf-8")
    assert all(re.fullmatch("[0-9a-f]{64}", it) for it in (*connector.values(), *delta.values()))


def test_a_line_of_pyspark_that_has_no_jars_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    """By a job, a stream and a function of columns, before Spark begins."""
    rows = spark.readStream.schema("key string, time bigint").json(str(tmp_path))
    monkeypatch.setattr("pyspark.version.__version__", "4.9.2")
    for ask in (
        lambda: spark_session("tests").__enter__(),
        lambda: stream(rows, TOPOLOGY),
        lambda: register_functions(spark),
    ):
        with pytest.raises(SlidestatError) as caught:
            ask()
        said = "PySpark 4.9.2 is installed, and slidestat runs on PySpark 4.0, 4.1, 4.2."
        assert caught.value.message == said
        assert "pip install 'slidestat[spark]'" in caught.value.advice


def test_what_keeps_spark_from_starting_is_told(tmp_path: Path) -> None:
    """A setting of the machine's own, such as a plugin that is not there."""
    (tmp_path / "spark-defaults.conf").write_text("spark.plugins com.nowhere.Plugin\n")
    code = (
        "from slidestat.spark.session import spark_session as s; s('tests', 'local[1]').__enter__()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "SlidestatError: Spark did not start: ClassNotFoundException: com.nowhere.Plugin"
    assert said in done.stderr


def interrupted() -> None:
    """Do as py4j does when Ctrl-C comes while it waits for an answer."""
    logging.exception("a fault", exc_info=ValueError())
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command.")
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            logging.getLogger("py4j.clientserver").exception("Exception occurred")
        raise


def test_ctrl_c_leaves_no_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Of what py4j waited for, and could not tell; other errors are logged."""
    with pytest.raises(KeyboardInterrupt), ended_in_silence():
        interrupted()
    assert [record.getMessage() for record in caplog.records] == ["a fault"]
    logging.exception("later", exc_info=KeyboardInterrupt())
    assert caplog.records[-1].getMessage() == "later"
