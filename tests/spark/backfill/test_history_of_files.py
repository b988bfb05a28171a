"""Files of each format, backfilled: all is what a worker writes of the records that were produced.

What the records of a file are is the law of tests/produce/test_file_records.py.
"""

import gzip
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from slidestat import TopologyDriver
from slidestat.declare.statistics import Count, Distinct, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.errors import SlidestatError
from slidestat.produce.file_records import FileRecords
from slidestat.produce.files import files_of
from slidestat.spark.backfill import file_tasks
from slidestat.spark.backfill.backfill import backfill
from slidestat.spark.backfill.file_tasks import file_urls, files_here
from slidestat.spark.backfill.history import Files, read_files
from tests.spark.requests_history import NOON

TOPOLOGY = Topology(
    name="filled",
    source="events",
    span="2m",
    every="20s",
    statistics=(Count(), Sum(decimals=1), Distinct(field="user.id"), TopItems(field="store")),
)
EVENTS = 600


def events(odd: object) -> list[dict[str, object]]:
    """Events in order of time, with ties; one of them cannot be counted."""
    keys = ("007", "1.10", "1.1", "10:30", "é, ü")
    found: list[dict[str, object]] = [
        {"key": keys[row % 5], "time": NOON + row // 3 * 700, "value": row % 7, "id": row % 50}
        for row in range(EVENTS)
    ]
    found[100]["value"] = odd
    return found


def csv_files(folder: Path) -> None:
    """Columns in other orders, a name that is a path, quotes in one file, none in another."""
    for name, names, quote in (
        ("b", ("id", "time", "key", "value"), '"'),
        ("a", ("value", "more", "key", "id", "time"), '"'),
        ("c", ("key", "value", "time"), ""),
    ):
        rows = events("n/a")[{"a": 0, "b": 1, "c": 2}[name] :: 3]
        if not quote:
            rows = [row for row in rows if "," not in str(row["key"])]
        header = ",".join("user.id" if name == "id" else name for name in names)
        lines = [",".join(f"{quote}{row.get(name, 7)}{quote}" for name in names) for row in rows]
        (folder / "store=01").mkdir(exist_ok=True)
        (folder / "store=01" / f"{name}.csv").write_text("\n".join([header, *lines]), "utf-8")


def json_files(folder: Path) -> None:
    """Lines of objects in objects, one of them cut short; one file is compressed."""
    lines = [
        msgspec.json.encode(
            {**row, "user": {"id": row["id"]}, "store": "01" if row["id"] == 1 else 1}
        )
        for row in events("n/a")
    ]
    lines[50] = lines[50][:30]
    (folder / "a.json").write_bytes(b"\n".join(lines[1::2]))
    (folder / "b.json").write_bytes(gzip.compress(b"\r\n".join(lines[::2])))


def parquet_files(folder: Path) -> None:
    """Numbers of other types, a column that one file lacks, nanoseconds, structs, row groups."""
    for number, (whole, time) in enumerate(
        ((pa.int32(), "ns"), (pa.float64(), "us"), (pa.uint8(), "ms"))
    ):
        rows = events(float("inf") if pa.types.is_floating(whole) else None)[number::3]
        counts = [row["time"] for row in rows]
        columns = {
            "time": pa.array(counts, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp(time)),
            "key": pa.array([str(row["key"]) for row in rows]),
            "value": pa.array([row["value"] for row in rows], whole),
            "user": pa.array([{"id": row["id"]} for row in rows], pa.struct([("id", whole)])),
        }
        if number == 0:
            del columns["user"]
        target = folder / f"store=0{number}"
        target.mkdir()
        pq.write_table(pa.table(columns), target / "x.parquet", row_group_size=20)


MAKERS: dict[str, Callable[[Path], None]] = {
    "csv": csv_files,
    "json": json_files,
    "parquet": parquet_files,
}


def written(rows: Sequence[Row], topic: str) -> list[bytes]:
    return [bytes(row.value) for row in rows if row.topic == topic]


@pytest.mark.parametrize(
    ("format", "elsewhere"),
    [("csv", False), ("json", False), ("parquet", False), ("csv", True)],
    ids=["csv", "json", "parquet", "elsewhere"],
)
def test_files_are_filled_in_as_they_are_produced(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    elsewhere: bool,
) -> None:
    """Emissions and letters, byte for byte, in order: files of several schemas, in shares; or, of
    another file system, as wholes.
    """
    (tmp_path / "files").mkdir()
    MAKERS[format](tmp_path / "files")
    (tmp_path / "files" / "_SUCCESS").touch()
    (tmp_path / "files" / f"empty.{format}").touch()
    files = Files(str(tmp_path / "files"), format)

    driver = TopologyDriver(TOPOLOGY)
    reader = FileRecords.of(TOPOLOGY, {}, "ms")
    parts = files_here(file_urls(spark, files.path), format)
    assert len(parts) in (2, 3)
    batches = [batch for part in parts for batch in reader.read(part)]
    table = pa.Table.from_batches(batches).append_column("row", [range(sum(map(len, batches)))])
    order = [("timestamp", "ascending", "at_start"), ("row", "ascending", "at_start")]
    for row in table.sort_by(order).to_pylist():
        time = -1 if row["timestamp"] is None else row["timestamp"]
        driver.send_bytes(row["value"], key=row["key"], partition=0, timestamp=time)

    monkeypatch.setattr(file_tasks, "_LEAST_BYTES", 1)
    monkeypatch.setattr(file_tasks, "_MOST_BYTES", 4_000)
    monkeypatch.setattr(file_tasks, "_OPEN_BYTES", 1)
    if elsewhere:
        monkeypatch.setattr(file_tasks, "_HERE", "nowhere:")
    rows = backfill(TOPOLOGY, read_files(spark, TOPOLOGY, files)).collect()
    emissions = written(rows, TOPOLOGY.output_topic)
    assert emissions == list(map(JsonCodec().encode, driver.emissions))
    assert len(emissions) > 20
    letters = [one.value for one in driver.dead_letters]
    assert written(rows, TOPOLOGY.dead_letter_topic) == letters
    assert any(b"n/a" in (letter or b"") or b"inf" in (letter or b"") for letter in letters)


def test_what_cannot_be_read_is_named_with_its_file(spark: SparkSession, tmp_path: Path) -> None:
    """By the driver, or by the task that finds it."""
    row = b'{"key": "a", "time": 1764072000000, "value": 1, "store": 1, "user": {"id": 1}}\n'
    for name, content, told in (
        ("x.json.lz4", row, "x.json.lz4 is compressed in a way that is not read: .lz4"),
        ("x.json.gz", gzip.compress(row * 99)[:-20], "x.json.gz cannot be read"),
        ("x.json", b"[" + row + b"]", "x.json has one JSON array"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.json").write_bytes(row)
        (folder / name).write_bytes(content)
        with pytest.raises(Exception, match=told):
            backfill(TOPOLOGY, read_files(spark, TOPOLOGY, Files(str(folder), "json"))).collect()
    folder = tmp_path / "quotes"
    folder.mkdir()
    (folder / "x.csv").write_text('key,time,value,store,user.id\na,1,"2,3,4\n' + "a,1,2,3,4\n" * 9)
    with pytest.raises(
        Exception, match=r"x\.csv cannot be read: the quote .* line 2 is never closed"
    ):
        backfill(TOPOLOGY, read_files(spark, TOPOLOGY, Files(str(folder), "csv"))).collect()
    (tmp_path / "none").mkdir()
    gone = tmp_path / "gone.json"
    (part,) = files_here({f"file:{gone}": 0}, "json")
    with pytest.raises(SlidestatError, match=r"gone\.json cannot be read: .*No such file"):
        list(FileRecords.of(TOPOLOGY, {}, "ms").read(part))
    (folder / "_delta_log").mkdir()
    with pytest.raises(SlidestatError, match="quotes is a Delta table"):
        files_here({f"file:{folder}/x.csv": 0}, "csv")
    with pytest.raises(SlidestatError, match="has no files"):
        read_files(spark, TOPOLOGY, Files(str(tmp_path / "none"), "json"))
    counted = replace(
        TOPOLOGY, time_format="sequence", span="9 events", windows=(), every="3 events"
    )
    with pytest.raises(SlidestatError, match="numbers of a sequence for event times"):
        read_files(spark, counted, Files(str(tmp_path)))


def test_ties_are_in_the_order_of_paths(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever file is the larger one, and was there first; small ones share a task."""
    for name, rows in (("b", 600), ("a", 30), ("%c #ü, d", 300)):
        sink = io.BytesIO()
        columns = {
            "time": pa.array([NOON] * rows),
            "key": pa.array(["k"] * rows),
            "store": pa.array([f"{name}{row}" for row in range(rows)]),
            "value": pa.array([1.0] * rows),
            "user": pa.array([{"id": 1}] * rows),
        }
        pq.write_table(pa.table(columns), sink, row_group_size=100)
        (tmp_path / f"{name}.parquet").write_bytes(sink.getvalue())
    history = read_files(spark, TOPOLOGY, Files(str(tmp_path)))
    found = [
        msgspec.json.decode(value or b"")["store"]
        for _, batch in history.read(history.rows.toArrow().to_batches())
        for value in batch.values
    ]
    written = (("%c #ü, d", 300), ("a", 30), ("b", 600))
    assert found == [f"{name}{row}" for name, rows in written for row in range(rows)]


def test_files_below_a_folder_are_those_that_there_are(spark: SparkSession, tmp_path: Path) -> None:
    """Also behind links, but not again behind one that leads back up, of which Spark takes forty
    rounds. From a pipe nothing ever comes. What Spark passes over is told.
    """
    root, old = tmp_path / "events", tmp_path / "old"
    for folder in (root, old):
        folder.mkdir()
        (folder / "a.json").write_text("{}")
    (root / "old").symlink_to(old)
    (old / "up").symlink_to(root)
    os.mkfifo(root / "b.json")
    (root / "c.json").touch()
    found = files_here(file_urls(spark, str(root)), "json")
    assert [part.file.path for part in found] == [root / "a.json", root / "old" / "a.json"]
    assert [part.file.name for part in found] == [file.name for file in files_of([str(root)])]
    listed = [
        f"file:{it}" for it in (root / "a.json", old / "up" / "old" / "a.json", root / "b.json")
    ]
    batch = pa.record_batch([listed, pa.nulls(3, pa.binary())], ["path", "content"])
    records = FileRecords.of(TOPOLOGY, {}, "ms")
    assert sum(map(len, file_tasks.read_listed(records, "json", f"file:{root}", [batch]))) == 1
    up = root / "old" / "up"
    found = files_here(file_urls(spark, str(up)), "json")
    assert [part.file.path for part in found] == [up / "a.json", up / "old" / "a.json"]
    (root / "d.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SlidestatError, match=r"Spark does not see the file '.*/d\.json'"):
        read_files(spark, TOPOLOGY, Files(str(root), "json"))
    (root / "d.json").unlink()
    (root / "d\udcff.json").write_text("{}")
    with pytest.raises(SlidestatError, match=r"Spark does not see the file '.*/d\\udcff\.json'"):
        read_files(spark, TOPOLOGY, Files(str(root), "json"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.json").touch()
    with pytest.raises(SlidestatError, match="empty has no files that have rows"):
        read_files(spark, TOPOLOGY, Files(str(tmp_path / "empty"), "json"))


def test_a_path_that_is_there_is_no_pattern_and_hidden_names_match_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    """To Spark `a[1]` is a1, and a pattern that fits has what was not committed. It also reads a
    summary of Parquet in a folder as a file of rows.
    """
    names = ("a[1]/x.json", "a1/x.json", "{b},/y.json", "b/y.json", "c*/z.json", "cc/z.json")
    hidden = ("_temporary/0/x.json", ".d/x.json", "b/_metadata", "b/x.json._COPYING_")
    for name in (*names, *hidden):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    folders = (name.partition("/")[0] for name in names)
    paths = [*names, *folders, *hidden[:2], "", "*", "*/*", "[ab]*/", "_temporary/*"]
    for path in paths:
        given = str(tmp_path / path)
        found = [part.file.name for part in files_here(file_urls(spark, given), "json")]
        assert sorted(found) == sorted(file.name for file in files_of([given])), path
        assert found
