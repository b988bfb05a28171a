"""What there is for a notebook works with Spark Connect; what cannot is refused in words."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slidestat.errors import SlidestatError
from slidestat.spark import read_statistics
from slidestat.spark.session import spark_session
from tests.docs.markdown import ROOT
from tests.spark.connect_client import counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def answers(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    """What a client was told, who asked for a lake of files, and for one of Delta tables."""
    tables = folder / "delta" / "flights" / "statistics"
    spark.range(1).write.format("delta").save(str(tables))
    out = folder / "answers.json"
    places = [str(folder / "history"), str(folder / "delta"), str(out)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", *places],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), str(ROOT))),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "MPLBACKEND": "agg",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr[-3_000:]
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return found


@pytest.mark.long
def test_a_client_of_spark_connect(
    answers: dict[str, Any], spark: "SparkSession", folder: Path
) -> None:
    """Figures of a lake, functions of columns and of SQL answer as in any session; a lake of Delta
    tables, whose files alone are not its rows, counts of foreign values and jobs are refused.
    """
    assert answers["session"] == "pyspark.sql.connect.session"
    assert answers["counts"] == counts(read_statistics(spark, str(folder / "history"), "flights"))
    assert len(answers["counts"]) > 5
    assert answers["plot"] == 1
    # Of ids beyond 2^53 with a NULL among them, each is another.
    assert answers["columns"] == answers["sql"] == [[98.0]]
    assert answers["frames"] == [[pytest.approx(93.5, rel=0.02)]]
    assert answers["in parts"] == [[pytest.approx(99, rel=1 / 9)]]
    assert answers["foreign"] == [[None]]
    refused = {
        "no lake": "has no records",
        "delta": "the server of Spark Connect cannot read it",
        "foreign count": "fail_on_foreign=True",
        **dict.fromkeys(
            ("audit", "ingest", "backfill", "backfill of a topic"),
            "the session is of Spark Connect",
        ),
    }
    for name, text in refused.items():
        assert answers[name]["error"] == "SlidestatError", answers[name]
        assert text in answers[name]["text"]
    assert "3 bytes that are no synopsis" in answers["foreign fails"]["text"]


def test_a_job_is_given_no_server_of_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """By --master, or by the variable that makes every session one of Spark Connect."""
    with (
        pytest.raises(SlidestatError, match="sc://one is a server"),
        spark_session("x", "sc://one"),
    ):
        pass
    monkeypatch.setenv("SPARK_REMOTE", "sc://two")
    with pytest.raises(SlidestatError, match="sc://two is a server"), spark_session("x"):
        pass
