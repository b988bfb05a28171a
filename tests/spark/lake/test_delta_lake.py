"""A lake of Delta tables: each record once, whatever happens, and all jobs as on Parquet files."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyspark
import pytest
from pyspark.sql import SparkSession, functions as f

from slidestat import TopologyDriver, load_topology
from slidestat.cli.spark import audit, compact, ingest, report
from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.schemas.dead_letter import Reason
from slidestat.spark import read_statistics
from slidestat.spark.backfill.backfill import fill_lake
from slidestat.spark.jars import connector_jars, delta_jars, release_line
from slidestat.spark.lake.compaction import Compacted, Compaction
from slidestat.spark.lake.delta_table import DeltaTable
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import Ingest
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.lake.locks import locked
from slidestat.spark.spark_java import find_spark_java
from tests.spark.lake_topics import DAY_MS, NOON_MS, Topics, emission, killed_ingest, make_topics
from tests.spark.requests_history import TOPOLOGY, history_of, requests

STATISTICS = Dataset.STATISTICS
_KILL_WITHIN_S = 120.0


@pytest.fixture
def topics(make_topic: Callable[..., str], bootstrap_servers: str) -> Topics:
    return make_topics(make_topic, bootstrap_servers)


@pytest.fixture
def lake(tmp_path: Path, topics: Topics) -> Lake:
    return Lake(str(tmp_path / "a `lake`"), topics.name)


def _ingest(
    spark: SparkSession, topics: Topics, lake: Lake, tables: Tables | None = Tables.DELTA
) -> Ingest:
    wanted = {STATISTICS: f"{topics.name}-{STATISTICS}", Dataset.LATE: f"{topics.name}-late"}
    said: list[str] = []
    return Ingest(spark, topics.bootstrap, lake, wanted, 1_000, say=said.append, tables=tables)


def _brought(job: Ingest) -> list[int]:
    return [found.records for found in job.take_what_is_there()]


def _offsets(spark: SparkSession, lake: Lake) -> Counter[int]:
    rows = spark.read.format("delta").load(lake.data(STATISTICS)).select("record_offset").collect()
    return Counter(row.record_offset for row in rows)


def test_each_record_is_there_once(spark: SparkSession, topics: Topics, lake: Lake) -> None:
    """What a lake was begun as it stays, without being asked; columns that an older version did not
    write are added, inside of figures too; a batch that was written and not noted comes no second
    time; a dataset without records is told of as ever.
    """
    topics.emit([emission(topics.name, "k", NOON_MS), b"no JSON"])
    assert lake.tables(spark) is None
    assert _brought(_ingest(spark, topics, lake)) == [2, 0]
    assert lake.tables(spark) is Tables.DELTA
    assert (lake.has(spark, STATISTICS), lake.has(spark, Dataset.LATE)) == (True, False)
    with pytest.raises(SlidestatError, match="late has no records"):
        lake.read(spark, Dataset.LATE)
    made = Path(lake.data(STATISTICS), "_delta_log", f"{0:020}.json").read_text()
    assert '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}' in made  # Anybody's.

    # As a version wrote it that knew nothing of provisional emissions and relative errors.
    figures = f.transform("figures", lambda figure: figure.dropFields("relative_error"))
    old = lake.read(spark, STATISTICS).withColumn("figures", figures).drop("provisional")
    overwriting = old.write.format("delta").mode("overwrite").option("overwriteSchema", True)
    overwriting.partitionBy("date").save(lake.data(STATISTICS))
    assert "provisional" not in lake.read(spark, STATISTICS).columns
    topics.emit([emission(topics.name, "k", NOON_MS + DAY_MS)])
    assert _brought(_ingest(spark, topics, lake, None)) == [1, 0]
    rows = lake.read(spark, STATISTICS).orderBy("record_offset").collect()
    assert [str(row.date) for row in rows] == ["2025-11-25", "2025-11-25", "2025-11-26"]
    assert [row.figures and row.figures[0].relative_error for row in rows] == [None, None, 0.2]
    assert rows[2].provisional is None

    # Killed between Delta's commit and Spark's note of it.
    for name in ("1", ".1.crc"):
        Path(lake.checkpoint(STATISTICS), "commits", name).unlink()
    topics.emit([emission(topics.name, "k", NOON_MS)])
    assert _brought(_ingest(spark, topics, lake)) == [1, 0]
    assert _offsets(spark, lake) == Counter(range(4))
    assert _brought(_ingest(spark, topics, lake)) == [0, 0]
    (figure,) = (
        read_statistics(spark, lake.root, lake.topology)
        .where("window_end < '2025-11-26'")
        .collect()
    )
    assert (figure.key, figure.estimate) == ("k", 5.0)


@pytest.mark.long
def test_batches_of_another_checkpoint_are_others(spark: SparkSession, tmp_path: Path) -> None:
    """Each checkpoint has a name of its own for its batches: those of a lake that was made anew
    are not taken for those of the same number before it.
    """
    rows = spark.createDataFrame([(1, NOON_MS)], "id int, ms long").select(
        "id", f.to_date(f.timestamp_millis("ms")).alias("date")
    )
    one, other = (DeltaTable(spark, str(tmp_path / "table"), name) for name in ("one", "other"))
    one.make(rows.schema)
    one.make(rows.schema)
    assert not one.has_batch(0)
    one.append(rows, 0)
    one.append(rows, 0)
    assert (one.has_batch(0), one.has_batch(1), other.has_batch(0)) == (True, False, False)
    other.append(rows, 0)
    assert one.read().count() == 2


@pytest.mark.long
def test_killed_in_the_middle_of_a_batch_it_brings_each_record_once(
    spark: SparkSession, topics: Topics, lake: Lake, tmp_path: Path
) -> None:
    """SIGKILL while a batch's files are written: what is in no commit is in no table, and the run
    after it ends with all records, none of them twice.
    """
    count = 6_000
    topics.emit([emission(topics.name, f"k{i % 50}", NOON_MS + i * 60_000) for i in range(count)])
    file = _declared(topics, tmp_path)
    with killed_ingest(topics, file, lake.root, "--tables", "delta") as (run, log):
        _await_half_a_batch(Path(lake.data(STATISTICS)), run, log)
    assert 0 < len(_offsets(spark, lake)) < count
    _ingest(spark, topics, lake, None).take_what_is_there()
    assert _offsets(spark, lake) == Counter(range(count))


def _await_half_a_batch(folder: Path, run: subprocess.Popen[bytes], log: Path) -> None:
    """Return while a batch has files that are in no commit, after one that has been written."""
    deadline = time.monotonic() + _KILL_WITHIN_S
    while True:
        assert run.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        files = {path.name for path in folder.glob("date=*/*.parquet")}
        commits = sorted((folder / "_delta_log").glob("*.json"))
        if len(commits) > 1 and not all(
            any(file in commit.read_text() for commit in commits) for file in files
        ):
            return
        time.sleep(0.002)


@pytest.mark.long
def test_compaction(spark: SparkSession, topics: Topics, lake: Lake) -> None:
    """Few files of each date, the same rows; ingests go on; one at a time has the lake."""
    job = _ingest(spark, topics, lake)
    for batch in range(3):
        topics.emit(
            [emission(topics.name, f"k{i}", NOON_MS + i % 2 * DAY_MS) for i in range(4)]
            if batch < 2
            else [emission(topics.name, "k", NOON_MS)]
        )
        job.take_what_is_there()
    compaction = Compaction(spark, lake)
    with locked(spark, lake, "ingest"), pytest.raises(SlidestatError, match="is writing to this"):
        compaction.run()
    codec = spark.conf.get("spark.sql.parquet.compression.codec")
    assert compaction.run() == [Compacted(STATISTICS, 2, 5, 2)]
    assert spark.conf.get("spark.sql.parquet.compression.codec") == codec
    assert len(lake.read(spark, STATISTICS).inputFiles()) == 2
    assert compaction.run() == []
    topics.emit([emission(topics.name, "k", NOON_MS)])
    assert _brought(job) == [1, 0]
    assert _offsets(spark, lake) == Counter(range(10))


def test_other_tables_are_refused(
    spark: SparkSession, topics: Topics, lake: Lake, tmp_path: Path
) -> None:
    """A lake goes on as it was begun, also one without records; a backfill writes Parquet."""
    files = Lake(str(tmp_path / "files"), topics.name)
    _ingest(spark, topics, files, None).take_what_is_there()
    with pytest.raises(SlidestatError, match="of an ingest with --tables parquet") as told:
        _ingest(spark, topics, files).take_what_is_there()
    assert "another --lake" in told.value.advice
    topics.emit([emission(topics.name, "k", NOON_MS)])
    _ingest(spark, topics, files, None).take_what_is_there()
    assert "application" not in LakeFiles(spark).read(
        f"{files.checkpoint(STATISTICS)}/slidestat.json"
    )
    with pytest.raises(SlidestatError, match="is a lake of Parquet tables already"):
        _ingest(spark, topics, files).take_what_is_there()

    _ingest(spark, topics, lake).take_what_is_there()
    with pytest.raises(SlidestatError, match="is a lake of Delta tables already") as told:
        _ingest(spark, topics, lake, Tables.PARQUET).take_what_is_there()
    assert "--tables" in told.value.advice
    assert _offsets(spark, lake) == Counter([0])
    history = history_of(spark, [requests(10, 1)])
    with pytest.raises(SlidestatError, match="a backfill writes Parquet"):
        fill_lake(TOPOLOGY, history, lake)

    shutil.rmtree(lake.checkpoint(STATISTICS))
    with pytest.raises(SlidestatError, match=r"their checkpoint .* is gone"):
        _ingest(spark, topics, lake).take_what_is_there()


@pytest.mark.long
@pytest.mark.usefixtures("jobs_in_one_session")
def test_an_audit_finds_every_promise_kept(
    topics: Topics, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the commands, each of them told nothing of what the lake is."""
    file = str(_declared(topics, tmp_path))
    driver = TopologyDriver(load_topology(file))
    events = [{"key": f"k{i % 3}", "time": NOON_MS + 1_000 * i} for i in range(600)]
    events.insert(300, {"key": "k", "time": NOON_MS})  # It is late.
    for event in events:
        driver.send(event)
    topics.event(*map(msgspec.json.encode, events))
    topics.emit(driver.emissions[:20])
    ingest(file, lake.root, tables=Tables.DELTA, bootstrap=topics.bootstrap)
    topics.emit(driver.emissions)  # At least once.
    topics.refuse("late", Reason.LATE, 300)
    ingest(file, lake.root, bootstrap=topics.bootstrap)
    compact(file, lake.root)
    audit(file, lake.root, bootstrap=topics.bootstrap)
    said = capsys.readouterr().out
    assert "statistics: 2 files of 1 dates are now 1" in said
    assert "+ 1 late + 0 dead" in said
    assert said.splitlines()[-1].endswith("emissions audited: every promise kept")
    report(file, lake.root, output=tmp_path / "report.html")


def _declared(topics: Topics, folder: Path) -> Path:
    file = folder / "topology.toml"
    file.write_text(
        f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "1m"\nevery = "1m"\n'
        '[[statistics]]\nkind = "count"\n'
    )
    return file


# Spark has begun without Delta Lake where it turns out that it is needed.
OF_A_LAKE_ELSEWHERE = """
import sys
from slidestat.errors import SlidestatError
from slidestat.spark.lake.session import session_of_lake
from slidestat.spark.session import spark_session
with spark_session("one", "local[1]") as spark:
    from slidestat.spark.lake.lake import Lake
    try:
        Lake(*sys.argv[1:]).read(spark, "statistics")
    except SlidestatError as error:
        print(error)
with session_of_lake("two", *sys.argv[1:], "local[1]") as (spark, lake):
    print(lake.read(spark, "statistics").count(), "rows")
"""
SUBMITTED = """
import sys
from slidestat.spark.lake.lake import Lake
from slidestat.spark.session import spark_session
with spark_session("submitted") as spark:
    print(Lake(*sys.argv[1:]).read(spark, "statistics").count(), "rows")
"""


@pytest.fixture
def in_another_process(
    spark: SparkSession, topics: Topics, lake: Lake, tmp_path: Path
) -> Callable[..., list[str]]:
    """Run a program on a lake of one record, by its URL."""
    topics.emit([emission(topics.name, "k", NOON_MS)])
    _ingest(spark, topics, lake).take_what_is_there()

    def run(program: str, *by: str) -> list[str]:
        file = tmp_path / "program.py"
        file.write_text(program)
        environment = {"JAVA_HOME": str(find_spark_java().executable.parents[1])}
        done = subprocess.run(
            [*by, str(file), f"file://{lake.root}", lake.topology],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.long
def test_a_session_without_delta_lake_is_told_what_to_start_with(
    in_another_process: Callable[..., list[str]],
) -> None:
    """By whoever reads; a job of ours starts Spark once more, with it."""
    told, rows = in_another_process(OF_A_LAKE_ELSEWHERE, sys.executable)
    assert "has Delta tables, and this Spark has no Delta Lake." in told
    package = release_line().delta_package
    assert f"--packages {package} --conf spark.sql.extensions=io." in told
    assert rows == "1 rows"


@pytest.mark.long
def test_submitted_with_its_jars_a_session_has_delta_lake(
    in_another_process: Callable[..., list[str]],
) -> None:
    """Without another setting."""
    jars = [*connector_jars(), *delta_jars()]
    submit = str(Path(pyspark.__path__[0], "bin", "spark-submit"))
    settings = ("--master", "local[1]", "--conf", "spark.ui.enabled=false")
    rows = in_another_process(SUBMITTED, submit, *settings, "--jars", ",".join(map(str, jars)))
    assert rows == ["1 rows"]
