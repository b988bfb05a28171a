"""`slidestat spark stream` as it is typed."""

import lzma
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from slidestat import TopologyDriver, load_topology
from slidestat.cli.main import main
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.errors import SlidestatError
from slidestat.options import StreamSource
from slidestat.produce.file_records import FileRecords
from slidestat.repartition.keyed_records import KeyReader
from slidestat.spark import read_statistics
from slidestat.spark.backfill import file_tasks
from slidestat.spark.backfill.file_tasks import file_urls, files_here
from slidestat.spark.kafka import TopicState
from slidestat.spark.lake.compaction import Compaction
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import replace_batch
from slidestat.spark.lake.lake import STREAM, Dataset, Lake
from slidestat.spark.streaming import job
from slidestat.spark.streaming.job import Origin, StreamIntoLake, origin
from slidestat.spark.streaming.operator import PROVIDER
from tests.spark.backfill.test_history_of_files import (
    TOPOLOGY as FILLED,
    csv_files,
    json_files,
    parquet_files,
)
from tests.spark.requests_history import NOON

TOPOLOGY = """
source = "events"
span = "2m"
every = "10s"
windows = ["20s", "2m"]

[[statistics]]
kind = "count"

[[alerts]]
name = "busy"
when = "count > 10"
window = "20s"
"""


def typed(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> int | str | None:
    """Type a command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["slidestat", "spark", "stream", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def events_of(count: int) -> list[dict[str, Any]]:
    """Return events in order of time."""
    random = Random(4)
    return [
        {"key": random.choice("abc"), "time": NOON + 700 * at, "value": 1} for at in range(count)
    ]


@pytest.fixture
def started(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    jobs_in_one_session: None,  # noqa: ARG001
) -> Iterator[Callable[..., tuple[int | str | None, list[str], str]]]:
    """The command in a folder with a topology: its exit code, its lines, and what it says to
    standard error.
    """
    monkeypatch.chdir(tmp_path)
    Path("counted.toml").write_text(f'name = "counted"{TOPOLOGY}', "utf-8")
    tasks = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def start(*words: str) -> tuple[int | str | None, list[str], str]:
        code = typed(monkeypatch, ["counted.toml", "--lake", str(tmp_path / "lake"), *words])
        written = capsys.readouterr()
        return code, sorted(written.out.splitlines()), written.err

    yield start
    spark.conf.set("spark.sql.shuffle.partitions", tasks)
    spark.conf.unset(PROVIDER)


def lines_of(driver: TopologyDriver, *, alerts: int, emissions: int, dead: int = 0) -> list[str]:
    """Return what the command says of the records of a worker from so many on."""
    return [
        f"alerts: {len(driver.alerts) - alerts:,} records",
        f"dead-letters: {dead} records",
        "late: 0 records",
        f"statistics: {len(driver.emissions) - emissions:,} records",
    ]


def require_figures_of(driver: TopologyDriver, spark: SparkSession, lake: str) -> None:
    """Require that a lake has what a worker has written."""
    alerts = Lake(lake, "counted").read(spark, Dataset.ALERTS).collect()
    assert driver.alerts
    assert {(it.event_key, it.window_end_ms, it.state) for it in alerts} == {
        (it.key, it.window_end_ms, it.state) for it in driver.alerts
    }
    figures = {
        (row.key, int(row.window_end.timestamp() * 1000), row.window_ms, row.estimate)
        for row in read_statistics(spark, lake, "counted").collect()
    }
    assert figures == {
        (it.key, it.window_end_ms, figure.window_ms, figure.estimate)
        for it in driver.emissions
        for figure in it.figures
    }


def test_lines_of_json_become_a_lake(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    """With the figures of a worker that reads them in order of time; another source is refused."""
    events = events_of(500)
    Path("events").mkdir()
    Path("others").mkdir()
    lines = [msgspec.json.encode(it).decode() for it in Random(5).sample(events, len(events))]
    # Files that begin with a byte order mark were joined.
    lines[::50] = [f"\ufeff{line}" for line in lines[::50]]
    Path("events/1.json").write_text("\n".join([*lines, "", "\ufeff", "no JSON"]), "utf-8")
    code, said, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    assert code == 0, error
    assert said == lines_of(driver, alerts=0, emissions=0, dead=1)
    require_figures_of(driver, spark, str(tmp_path / "lake"))
    code, _, error = started("--from", "json", "--path", str(tmp_path / "others"))
    assert code == 2
    assert "is the checkpoint of a stream from json" in error


def odd_lines(folder: Path) -> None:
    """Write lines of JSON as Spark would not take them: a return is a space, as are others alone in
    a line, and the name of a folder is a field.
    """
    json_files(folder)
    (folder / "store=007").mkdir()
    events = [{"key": "é", "time": NOON + at, "value": 1, "user": {"id": at}} for at in range(9)]
    lines = [msgspec.json.encode(it).replace(b',"value', b',\r"value') for it in events]
    lines[0] = lines[0].replace(b"\r", b"")  # It would look like an object over several lines.
    (folder / "store=007" / "x.json.xz").write_bytes(lzma.compress(b"\r\n\t\n\r\n".join(lines)))
    (folder / "empty.json").touch()


def odd_tables(folder: Path) -> None:
    """Write files of several schemas, and types that Spark does not read: times of day of
    milliseconds, integers without a sign, nanoseconds.
    """
    parquet_files(folder)
    (folder / "_SUCCESS").touch()
    (folder / "store=1.10").mkdir()
    times = pa.array([NOON + at for at in range(9)]).cast(pa.timestamp("ms"))
    columns = {
        "user": pa.array([{"id": clock(10, at)} for at in range(9)]).cast(
            pa.struct([("id", pa.time32("ms"))])
        ),
        "key": pa.array([2**64 - 1] * 9, pa.uint64()),
        "time": times.cast(pa.timestamp("ns", "Asia/Kolkata")),
        "value": pa.array([Decimal("1.5")] * 9, pa.decimal256(50, 3)),
    }
    pq.write_table(pa.table(columns), folder / "store=1.10" / "ü %41 x.parquet")


# The same reader opens a file here and takes it from memory: of text one format shows that.
@pytest.mark.parametrize(
    ("source", "make", "elsewhere"),
    [
        ("json", odd_lines, True),
        ("csv", csv_files, False),
        ("parquet", odd_tables, False),
        ("parquet", odd_tables, True),
    ],
    ids=["json-elsewhere", "csv-here", "parquet-here", "parquet-elsewhere"],
)
def test_files_are_streamed_as_they_are_backfilled(
    started: Callable[..., Any],  # noqa: ARG001
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    source: str,
    make: Callable[[Path], None],
    elsewhere: bool,
) -> None:
    """Emissions and letters, byte for byte: by the same reader, in one batch of one partition."""
    path = tmp_path / "files"
    path.mkdir()
    make(path)
    reader, driver = FileRecords.of(FILLED, {}, "ms"), TopologyDriver(FILLED)
    parts = files_here(file_urls(spark, str(path)), source)
    found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    stamps = [-1 if row["timestamp"] is None else row["timestamp"] for row in found]
    columns = [[row[name] for row in found] for name in ("value", "key")]
    _, times = KeyReader(FILLED).read(columns[0], columns[1], stamps)
    # Those whose time cannot be read come by their timestamps.
    places = [max(both) for both in zip(times.tolist(), stamps, strict=True)]
    for _, key, value, stamp in sorted(zip(places, columns[1], columns[0], stamps, strict=True)):
        driver.send_bytes(value, key=key, partition=0, timestamp=stamp)
    if elsewhere:
        monkeypatch.setattr(file_tasks, "_HERE", "nowhere:")
    rows = origin(spark, FILLED, StreamSource(source), str(path), "")
    lake = Lake(str(tmp_path / "lake"), FILLED.name)
    StreamIntoLake(spark, FILLED, rows, lake, partitions=1).run()

    def values(dataset: Dataset) -> list[bytes]:
        return sorted(bytes(it.value) for it in lake.read(spark, dataset).collect())

    assert values(Dataset.STATISTICS) == sorted(map(JsonCodec().encode, driver.emissions))
    letters = [one.value or b"" for one in driver.dead_letters]
    assert letters
    assert values(Dataset.DEAD_LETTERS) == sorted(letters)


@pytest.mark.long
def test_a_python_process_that_comes_too_late_ends_no_stream(
    started: Callable[..., Any],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Spark waits ten seconds for each that a query starts: the query goes on where it ended."""
    events = events_of(100)
    Path("events").mkdir()
    Path("events/1.json").write_bytes(msgspec.json.Encoder().encode_lines(events))
    late = tmp_path / "late"
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *daemon*) ;; *) mkdir {late} 2>/dev/null && sleep 12 ;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    code, said, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    assert code == 0, error
    assert late.exists()
    assert said == lines_of(driver, alerts=0, emissions=0)


def test_a_batch_that_is_broken_off_is_counted_once(
    started: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Some of its records were written: they are written again, and said once."""
    events = events_of(100)
    Path("events").mkdir()
    lines = [msgspec.json.encode(it).decode() for it in events]
    Path("events/1.json").write_text("\n".join([*lines, "no JSON"]), "utf-8")
    folders: list[str] = []

    def replace(records: DataFrame, batch: int, folder: str) -> None:
        folders.append(folder)
        if len(folders) == 2:
            raise RuntimeError("Python worker failed to connect back")
        replace_batch(records, batch, folder)

    monkeypatch.setattr(job, "replace_batch", replace)
    code, said, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    assert code == 0, error
    assert folders[0] == folders[2]
    assert said == lines_of(driver, alerts=0, emissions=0, dead=1)


@pytest.mark.long
def test_compaction_leaves_what_a_stream_may_write_again(
    spark: SparkSession,
    started: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A batch that was written, and not noted so, replaces what there is under its number; and what
    a killed compaction has set aside is there again before a stream writes beside it.
    """
    events = events_of(120)
    Path("events").mkdir()
    monkeypatch.setattr(job, "_BYTES_PER_BATCH", 1)

    def run(numbers: range) -> None:
        for number in numbers:
            lines = msgspec.json.Encoder().encode_lines(events[30 * number : 30 * number + 30])
            Path(f"events/{number}.json").write_bytes(lines)
            os.utime(f"events/{number}.json", (number, number))
        code, _, error = started("--from", "json", "--path", f"{tmp_path}/events/")
        assert code == 0, error

    lake = Lake(str(tmp_path / "lake"), "counted")
    compaction = Compaction(spark, lake)
    run(range(3))
    for name in ("2", ".2.crc"):
        Path(lake.checkpoint(STREAM), "commits", name).unlink()
    assert Dataset.STATISTICS not in [it.dataset for it in compaction.run()]
    run(range(0))
    assert Dataset.STATISTICS in [it.dataset for it in compaction.run()]

    (date,) = Path(lake.data(Dataset.STATISTICS)).glob("date=*")
    aside = Path(lake.compaction, "old", Dataset.STATISTICS)
    aside.mkdir(parents=True)
    date.rename(aside / date.name)
    half = Path(lake.data(Dataset.STATISTICS), ".spark-staging-1")
    half.mkdir()
    run(range(3, 4))
    assert not half.exists()
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    require_figures_of(driver, spark, str(tmp_path / "lake"))
    rows = lake.read(spark, Dataset.STATISTICS)
    assert rows.count() == len(driver.emissions)


def test_a_topic_that_is_not_as_it_was_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """One that has lost what was not read, and one of more partitions, where keys lie in others."""
    lake = Lake(str(tmp_path), "counted")
    for folder, text in (("commits", "{}"), ("offsets", 'v1\n{}\n{"events":{"0":5,"1":5}}')):
        Path(lake.checkpoint(STREAM), folder).mkdir(parents=True)
        Path(lake.checkpoint(STREAM), folder, "0").write_text(text, "utf-8")
    topology = replace(FILLED, source="events")
    for first, said in (
        ({0: 5, 1: 8}, r"events no longer has partition 1 offsets 5 to 7: .*before they were read"),
        ({0: 0, 1: 0, 2: 0}, "events had 2 partitions, and has 3 now"),
    ):
        topic = TopicState("events", "1", first, dict.fromkeys(first, 9))
        rows = Origin(spark.readStream.format("rate").load(), "kafka", topic)
        with pytest.raises(SlidestatError, match=said) as caught:
            StreamIntoLake(spark, topology, rows, lake)._require_topic(LakeFiles(spark))
        assert "Give another --lake" in caught.value.advice


@pytest.mark.long
def test_nothing_is_left_of_a_batch_that_comes_again_by_another_declaration(
    started: Callable[..., Any],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It had alerts, and has none: those that were written of it are gone."""
    Path("events").mkdir()
    Path("events/1.json").write_bytes(msgspec.json.Encoder().encode_lines(events_of(100)))
    folders: list[str] = []

    def replace(records: DataFrame, batch: int, folder: str) -> None:
        replace_batch(records, batch, folder)
        folders.append(folder)
        if len(folders) == 2:
            raise RuntimeError("the disk is full")

    lake = Lake(str(tmp_path / "lake"), "counted")
    with monkeypatch.context() as patch:
        patch.setattr(job, "replace_batch", replace)
        assert started("--from", "json", "--path", f"{tmp_path}/events/")[0] == 2
    assert lake.data(Dataset.ALERTS) in folders
    assert list(Path(lake.data(Dataset.ALERTS)).rglob("*.parquet"))
    Path("counted.toml").write_text(f'name = "counted"{TOPOLOGY.partition("[[alerts]]")[0]}')
    code, said, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    assert code == 0, error
    assert not list(Path(lake.data(Dataset.ALERTS)).rglob("*.parquet"))
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events_of(100))
    assert lake.read(spark, Dataset.STATISTICS).count() == len(driver.emissions)
    assert f"statistics: {len(driver.emissions):,} records" in said


@pytest.mark.long
def test_starts_are_counted_in_a_row(
    started: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """A stream that lives long has time for many: each is said, and a batch that ends begins the
    count anew; too many without one end it.
    """
    events = events_of(60)
    Path("events").mkdir()
    for number in range(2):
        lines = msgspec.json.Encoder().encode_lines(events[30 * number : 30 * number + 30])
        Path(f"events/{number}.json").write_bytes(lines)
        os.utime(f"events/{number}.json", (number, number))
    batches: list[int] = []

    def replace(records: DataFrame, batch: int, folder: str) -> None:
        batches.append(batch)
        if batches.count(batch) == 1:
            raise RuntimeError("Python worker failed to connect back")
        replace_batch(records, batch, folder)

    monkeypatch.setattr(job, "replace_batch", replace)
    monkeypatch.setattr(job, "_BYTES_PER_BATCH", 1)
    monkeypatch.setattr(job, "_STARTS", 2)
    code, said, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    assert code == 0, error
    assert said == lines_of(driver, alerts=0, emissions=0)
    assert set(batches) == {0, 1}
    assert caplog.text.count("start 2 of at most 2 without a batch") == 2
    Path("events/2.json").write_bytes(msgspec.json.Encoder().encode_lines(events[30:]))
    monkeypatch.setattr(job, "replace_batch", lambda *_: 1 / 0)
    monkeypatch.setattr(job, "_TOO_LATE", "ZeroDivisionError")
    code, _, error = started("--from", "json", "--path", f"{tmp_path}/events/")
    assert code == 2
    assert "The stream of counted failed" in error
    assert caplog.text.count("start 2 of at most 2 without a batch") == 3


@pytest.mark.long
@pytest.mark.parametrize("source", ["parquet", "delta"])
def test_tables_become_a_lake(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path, source: str
) -> None:
    """With the figures of a worker, in two runs by two names of one path; also of a file that is
    copied with a time of long before. A table whose rows were deleted meanwhile is refused, and one
    that was made again.
    """
    events, driver = events_of(600), TopologyDriver(load_topology("counted.toml"), 4)
    alerts = emissions = 0
    path = tmp_path / "rows"
    for part, name in ((slice(0, 400), f"{path}/"), (slice(400, 600), f"file://{path}")):
        table = pa.Table.from_pylist(events[part])
        table = table.set_column(1, "time", table["time"].cast(pa.timestamp("ms", "UTC")))
        if source == "parquet":
            path.mkdir(exist_ok=True)
            file = path / f"{part.start}.parquet"
            pq.write_table(table, file)
            copied = time.time() - part.start / 10 * 86_400
            os.utime(file, (copied, copied))
        else:
            rows = spark.createDataFrame(table.to_pandas())
            rows.coalesce(1).write.format("delta").mode("append").save(str(path))
        code, said, error = started("--from", source, "--path", name)
        driver.send(*events[part])
        assert code == 0, error
        assert said == lines_of(driver, alerts=alerts, emissions=emissions)
        alerts, emissions = len(driver.alerts), len(driver.emissions)
    require_figures_of(driver, spark, str(tmp_path / "lake"))
    if source == "delta":
        spark.sql(f"DELETE FROM delta.`{path}` WHERE key = 'a'")  # noqa: S608
        for _ in range(2):
            code, _, error = started("--from", source, "--path", str(path))
            assert code == 2
            assert "were changed or deleted, and a stream reads those that are appended" in error
            shutil.rmtree(path)
            rows.write.format("delta").save(str(path))


@pytest.mark.long
def test_a_table_with_a_past_is_what_it_holds_when_it_is_first_read(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    """Restored, with deletion vectors, with names of columns that its files do not have."""
    events, driver = events_of(300), TopologyDriver(load_topology("counted.toml"), 4)
    path, schema = tmp_path / "rows", "key string, time bigint, number int"
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} ({schema}) USING delta TBLPROPERTIES"
        " ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    rows = spark.createDataFrame([tuple(it.values()) for it in events], schema).coalesce(1)
    for _ in range(2):
        rows.write.format("delta").mode("append").save(str(path))
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    spark.sql(f"DELETE FROM {table} WHERE key = 'a'")  # noqa: S608
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN number TO value")
    assert [*path.glob("**/deletion_vector*")]
    driver.send(*(it for it in events if it["key"] != "a"))
    code, said, error = started("--from", "delta", "--path", str(path))
    assert code == 0, error
    assert said == lines_of(driver, alerts=0, emissions=0)


@pytest.mark.long
@pytest.mark.parametrize("cleaned", ["files", "log"])
def test_rows_that_are_gone_before_they_are_read_are_told(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path, cleaned: str
) -> None:
    """By VACUUM once OPTIMIZE has written them anew, or with commits older than a checkpoint."""
    events, path, schema = events_of(60), tmp_path / "rows", "key string, time bigint"
    table = f"delta.`{path}`"
    rows = spark.createDataFrame([(it["key"], it["time"]) for it in events], schema)
    rows.coalesce(1).write.format("delta").save(str(path))
    assert started("--from", "delta", "--path", str(path))[0] == 0
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for _ in range(3):
        rows.coalesce(1).write.format("delta").mode("append").save(str(path))
    if cleaned == "files":
        spark.sql(f"OPTIMIZE {table}")
        check = "spark.databricks.delta.retentionDurationCheck.enabled"
        spark.conf.set(check, "false")
        try:
            spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
        finally:
            spark.conf.unset(check)
    else:
        log = path / "_delta_log"
        last = max(log.glob("*.checkpoint.parquet")).name[:20]
        for commit in log.glob("*.json"):
            if commit.name[:20] < last:
                commit.unlink()
                log.joinpath(f".{commit.name}.crc").unlink(missing_ok=True)
    for _ in range(2):
        code, _, error = started("--from", "delta", "--path", str(path))
        assert code == 2
        assert "were cleaned away before they were read" in error
        assert "Give another --lake" in error


@pytest.mark.long
def test_columns_may_come_and_not_change(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    """A table with one more column is read on; one of whose columns has another type is refused, as
    often as the command is run.
    """
    events, path = events_of(60), tmp_path / "rows"
    schema = "key string, time bigint, value int"
    rows = spark.createDataFrame([tuple(it.values()) for it in events], schema).coalesce(1)
    rows.write.format("delta").save(str(path))
    for changes in (
        ["ADD COLUMNS (more int)"],
        [
            "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER COLUMN more TYPE bigint",
        ],
    ):
        code, _, error = started("--from", "delta", "--path", str(path))
        assert code == 0, error
        for change in changes:
            spark.sql(f"ALTER TABLE delta.`{path}` {change}")
    for _ in range(2):
        code, _, error = started("--from", "delta", "--path", str(path))
        assert code == 2
        assert "were renamed, dropped or given other types" in error
        assert "Give another --lake" in error


def test_what_cannot_be_read_is_refused(
    started: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    """Before a query starts, with what to type instead."""
    spark.range(1).write.format("delta").save(str(tmp_path / "table"))
    files = tmp_path / "files"
    files.mkdir()
    for log in ("iceberg/metadata/v1.metadata.json", "hudi/.hoodie/hoodie.properties"):
        (tmp_path / log).parent.mkdir(parents=True)
        (tmp_path / log).write_text("")
    (tmp_path / "at" / "times" / "10:30").mkdir(parents=True)
    (tmp_path / "streamed" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "streamed" / "day=1").mkdir()
    for words, said in (
        *(
            (("--from", "parquet", "--path", f"{tmp_path}/{kind}/data"), f"{kind} is {what}")
            for kind, what in (("iceberg", "an Iceberg table"), ("hudi", "a Hudi table"))
        ),
        *(
            (("--from", "json", "--path", f"{tmp_path}/{part}"), "Give the folder as a whole")
            for part in ("streamed/day=1", "stream*")
        ),
        # Spark reads it by its log, which has no file.
        (("--from", "parquet", "--path", f"{tmp_path}/streamed"), "streamed cannot be read"),
        (("--path", str(files)), "Give --from delta, parquet, csv or json"),
        (("--from", "json"), "Give --path"),
        (("--from", "delta", "--path", str(files)), f"There is no Delta table at {files}."),
        (
            ("--from", "json", "--path", f"{tmp_path}/at/times/10:30"),
            "Give another path: to Hadoop's file",
        ),
        (("--from", "json", "--path", "10:30/x"), "Give another path: to Hadoop's file"),
        *(
            (("--from", "parquet", "--path", f"{tmp_path}/{part}"), "Give --from delta, with")
            for part in ("table", "table/id=1", "t*", "*/part*")
        ),
        (("--from", "parquet", "--path", str(files)), "files cannot be read"),
        (("--from", "json", "--path", f"{tmp_path}/nowhere"), "nowhere cannot be read"),
    ):
        code, _, error = started(*words)
        assert code == 2
        assert said in error
    assert not Path("lake", "counted").exists()
    rows = spark.readStream.schema("key string, time bigint, value int").json(str(files))
    placed = Origin(rows, "kafka", TopicState("events", "1", {0: 0, 1: 0}, {0: 0, 1: 0}))
    lake = Lake(str(tmp_path / "lake"), "counted")
    stream = StreamIntoLake(spark, load_topology("counted.toml"), placed, lake, partitions=3)
    with pytest.raises(SlidestatError, match="has partitions of its own: 2"):
        stream.run()
