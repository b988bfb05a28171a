"""The SQL of docs/read-the-output.md, in Spark and in DuckDB, over the same lines."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import msgspec
import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from tests.docs.markdown import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_764_000_000_000


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """What `slidestat watch --json` writes of the topology in docs/declare-a-topology.md."""
    (declared,) = blocks(ROOT / "docs" / "declare-a-topology.md", "toml")
    (tmp_path / declared.name).write_text(declared.text, "utf-8")
    driver = TopologyDriver(load_topology(str(tmp_path / declared.name)))
    for i in range(300):
        driver.send({"path": f"/{i % 3}", "at": START_MS + 1_000 * i, "ms": i})
    driver.close_windows()
    file = tmp_path / "statistics.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(e) + b"\n" for e in driver.emissions))
    return file


def test_both_find_the_same(spark: "SparkSession", lines: Path) -> None:
    """Each query of the document runs as it stands, and the two give the same rows."""
    found = {}
    for block in blocks(ROOT / "docs" / "read-the-output.md", "sql"):
        found[block.name] = block.text.replace("statistics.jsonl", str(lines)).rstrip().rstrip(";")
    by_spark = [
        (row["key"], row["until"].timestamp(), row["estimate"], row["lower"], row["upper"])
        for row in spark.sql(found["spark"]).collect()
    ]
    by_duckdb = [
        (key, until.replace(tzinfo=UTC).timestamp(), *figures)
        for key, until, *figures in duckdb.execute(found["duckdb"]).fetchall()
    ]
    assert by_spark == by_duckdb
    assert {key for key, *_ in by_spark} == {"/0", "/1", "/2"}
    assert datetime.fromtimestamp(by_spark[0][1], UTC).year == 2025
