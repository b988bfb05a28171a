"""The SQL and pandas of docs/read-the-output.md, over the same lines, and over the same lake."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pytest
from msgspec.structs import replace

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from tests.docs.markdown import ROOT, Block, blocks
from tests.spark.lake_topics import NOON_MS, Topics, emission, make_topics
from tests.spark.requests_history import history_of, requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = ROOT / "docs" / "read-the-output.md"
START_MS = 1_764_000_000_000


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """What `slidestat watch --json` writes of the topology in docs/declare-a-topology.md."""
    (declared,) = blocks(ROOT / "docs" / "declare-a-topology.md", "toml")
    (tmp_path / declared.name).write_text(declared.text, "utf-8")
    driver = TopologyDriver(load_topology(str(tmp_path / declared.name)))
    for i in range(300):
        driver.send({"path": f"2025-11-2{i % 3}", "at": START_MS + 1_000 * i, "ms": i})
    driver.close_windows()
    file = tmp_path / "statistics.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(e) + b"\n" for e in driver.emissions))
    return file


def test_both_find_the_same(spark: "SparkSession", lines: Path) -> None:
    """Each query of the document runs as it stands, and the two give the same rows; keys are texts,
    also where each of them is a day.
    """
    found = {}
    for block in blocks(DOCUMENT, "sql"):
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
    assert {key for key, *_ in by_spark} == {"2025-11-20", "2025-11-21", "2025-11-22"}
    assert datetime.fromtimestamp(by_spark[0][1], UTC).year == 2025


def test_a_lake_has_each_emission_once(
    spark: "SparkSession", make_topic: Callable[..., str], bootstrap_servers: str, tmp_path: Path
) -> None:
    """Of emissions that came twice, in one ingest or in two, and of one that replaced another,
    DuckDB, Spark and pandas take the newest; a record that is no emission is passed over.
    """
    topics = make_topics(make_topic, bootstrap_servers)
    lake = Lake(str(tmp_path / "lake"), topics.name)
    ends = [NOON_MS + 300_000 * i for i in range(50)]
    written = [a_count(topics.name, key, end, 7) for end in ends for key in ("a", "b")]
    topics.emit([replace(written[3], provisional=True, figures=five_minutes(3)), *written, b"?"])
    ingest(spark, topics, lake)
    topics.emit([*written[40:], a_count(topics.name, "c", ends[0], 9)])
    ingest(spark, topics, lake)
    assert lake.read(spark, "statistics").count() == 1 + 100 + 1 + 60 + 1

    texts = {block.name: block.text for block in (*blocks(DOCUMENT, "sql"), *pythons())}
    here = {name: text.replace("lake/latency", lake.folder) for name, text in texts.items()}
    by_spark = [
        (row["event_key"], row["until"].timestamp(), row["estimate"])
        for row in spark.sql(here["lake-in-spark"].rstrip().rstrip(";")).collect()
    ]
    by_duckdb = [
        (key, until.replace(tzinfo=UTC).timestamp(), estimate)
        for key, until, estimate, *_ in duckdb.execute(here["lake-in-duckdb"]).fetchall()
    ]
    names: dict[str, Any] = {}
    exec(here["counts_of_a_lake.py"], names)  # noqa: S102 - the document's own
    counts = names["counts"]
    by_pandas = [
        (row.event_key, row.window_end_ms / 1_000, row.estimate) for row in counts.itertuples()
    ]
    expected = [(key, end / 1_000, 7.0) for key in ("a", "b") for end in ends]
    assert by_spark == by_duckdb == by_pandas == [*expected, ("c", ends[0] / 1_000, 9.0)]


def test_a_lake_of_a_backfill_has_no_offsets(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB, Spark and pandas read its emissions by the same lines."""
    parts = [requests(2_000, 0)]
    topology = Topology(
        name="latency", source="requests", span="5m", every="10s", statistics=(Count(),)
    )
    counts = fill_lake(topology, history_of(spark, parts), Lake(str(tmp_path / "lake"), "latency"))
    monkeypatch.chdir(tmp_path)
    texts = {block.name: block.text for block in (*blocks(DOCUMENT, "sql"), *pythons())}
    folder = str(tmp_path / "lake" / "latency")
    by_spark = texts["lake-in-spark"].replace("lake/latency", folder).rstrip().rstrip(";")
    names: dict[str, Any] = {}
    exec(texts["counts_of_a_lake.py"], names)  # noqa: S102 - the document's own
    found = [
        spark.sql(by_spark).count(),
        len(duckdb.execute(texts["lake-in-duckdb"]).fetchall()),
        len(names["counts"]),
    ]
    assert found == [counts.counts["statistics"]] * 3


def pythons() -> list[Block]:
    return [block for block in blocks(DOCUMENT, "python") if block.name.startswith("counts_of")]


def five_minutes(count: float) -> list[Figure]:
    return [Figure("count", count, count, count, window_ms=300_000, relative_error=0.01)]


def a_count(topology: str, key: str, end: int, count: float) -> Emission:
    return replace(emission(topology, key, end), figures=five_minutes(count))


def ingest(spark: "SparkSession", topics: Topics, lake: Lake) -> None:
    wanted = {dataset: f"{topics.name}-{dataset}" for dataset in Dataset}
    said: list[str] = []
    Ingest(spark, topics.bootstrap, lake, wanted, 1_000, False, said.append).take_what_is_there()
