"""Parquet files that Python's tasks read, beside what Spark reads of the same."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession

from slidestat.declare.statistics import Count, Distinct, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.errors import SlidestatError
from slidestat.spark.backfill.backfill import backfill
from slidestat.spark.backfill.history import Files, read_files
from slidestat.spark.backfill.reading import plain_parquet
from slidestat.spark.backfill.reading.file_places import file_ranks
from slidestat.spark.backfill.reading.named_columns import NamedColumns
from slidestat.spark.backfill.reading.partition_history import History
from slidestat.spark.backfill.reading.plain_parquet import FilePart, PlainParquet, files_here
from tests.spark.requests_history import NOON

TOPOLOGY = Topology(
    name="filled",
    source="requests",
    span="2m",
    windows=("20s", "2m"),
    every="20s",
    statistics=(
        Count(epsilon=0.05),
        Sum(decimals=2),
        Sum(field="bytes", decimals=0),
        Distinct(field="code"),
        TopItems(field="path", epsilon=0.1),
        TopItems(field="ok", epsilon=0.1),
    ),
)
FILES = 15
"""How many files there are at most: no two share a time."""
Change = Callable[[pa.Table], pa.Table]


def table_of(number: int, rows: int = 700) -> pa.Table:
    """A file's rows, not in order of time and with ties; no two files share a time."""
    chance = np.random.default_rng(number)
    times = NOON + FILES * chance.integers(0, 12_000, rows) + number
    return pa.table(
        {
            "key": pa.array(chance.choice(["a", "b", "ü" * 256], rows).tolist()),
            "time": pa.array(times),
            "value": pa.array(chance.choice([0.1, 2.5, 7.0], rows)),
            "bytes": pa.array(chance.integers(0, 2**31, rows), pa.int32()),
            "code": pa.array(chance.integers(-3, 300, rows), pa.int16()),
            "path": pa.array(chance.choice(["/", "/ü", "ü" * 256], rows).tolist()),
            "ok": pa.array(chance.choice([True, False], rows)),
        }
    )


def with_cell(name: str, cell: object) -> Change:
    """The change of one cell in the middle of a column."""

    def changed(table: pa.Table) -> pa.Table:
        cells = table[name].to_pylist()
        cells[350] = cell
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(cells, table.schema.field(name).type))

    return changed


def as_type(name: str, *kinds: pa.DataType) -> Change:
    """The same cells as another type, by way of those before it."""

    def changed(table: pa.Table) -> pa.Table:
        column = table[name]
        for kind in kinds:
            column = column.cast(kind, safe=False)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return changed


def with_numbers(name: str, kind: pa.DataType) -> Change:
    """The change of a column into numbers of a type."""

    def changed(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, table["code"].cast(kind, safe=False))

    return changed


def as_it_is(table: pa.Table) -> pa.Table:
    """No change."""
    return table


def write(folder: Path, changes: Sequence[Change]) -> None:
    """Write a file for each change."""
    folder.mkdir()
    for number, change in enumerate(changes):
        table = change(table_of(number))
        pq.write_table(table, folder / f"{number:02d}.parquet", row_group_size=200)


@pytest.fixture(autouse=True)
def _of_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file in some parts."""
    monkeypatch.setattr(plain_parquet, "_LEAST_BYTES", 1)
    monkeypatch.setattr(plain_parquet, "_MOST_BYTES", 12_000)
    monkeypatch.setattr(plain_parquet, "_OPEN_BYTES", 1)


def compare(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, folder: Path, unit: str = "ms"
) -> list[str]:
    """Assert that all comes to what it does when Spark reads every file; the files that Python
    reads.
    """
    files = Files(str(folder), time_unit=unit, partitions=2)
    read: list[str] = []
    pieces = PlainParquet.pieces

    def noted(
        self: PlainParquet, spark: SparkSession, ranks: Mapping[str, int], partitions: int
    ) -> DataFrame:
        assert len(plain_parquet._tasks(spark, ranks)) > len(ranks)
        read.extend(ranks)
        return pieces(self, spark, ranks, partitions)

    def written() -> list[str]:
        history = read_files(spark, TOPOLOGY, files)
        return sorted(map(repr, backfill(TOPOLOGY, history, 2).collect()))

    monkeypatch.setattr(PlainParquet, "pieces", noted)
    ours = written()
    monkeypatch.setattr(PlainParquet, "of", lambda *_: None)
    assert ours == written()
    assert ours
    return [Path(path).name for path in read]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(as_it_is, id="as it is"),
        pytest.param(as_type("time", pa.timestamp("ms"), pa.timestamp("us", "UTC")), id="moments"),
        pytest.param(as_type("time", pa.timestamp("ms")), id="moments of no zone"),
        pytest.param(as_type("key", pa.dictionary(pa.int32(), pa.string())), id="categories"),
        pytest.param(as_type("bytes", pa.float64()), id="whole doubles"),
        pytest.param(as_type("key", pa.large_string()), id="large texts"),
        pytest.param(with_numbers("key", pa.int64()), id="whole numbers for keys"),
    ],
)
def test_plain_files_are_read_in_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    """Of several row groups, in no order, with ties: the same records come of them."""
    write(tmp_path / "events", [change] * 3)
    assert len(compare(spark, monkeypatch, tmp_path / "events")) == 3


@pytest.mark.parametrize(
    ("unit", "per_ms"), [("s", 1 / 1_000), ("us", 1_000), ("ns", 1_000_000)], ids=["s", "us", "ns"]
)
def test_whole_times_of_any_unit(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unit: str,
    per_ms: float,
) -> None:
    """Finer ones fall to the millisecond before."""

    def change(table: pa.Table) -> pa.Table:
        times = table["time"].to_numpy()
        # No two files share a second, either.
        seconds = times // (FILES * 1_000) * FILES + times % FILES
        times = seconds if per_ms < 1 else times * int(per_ms) + int(per_ms) // 2
        return table.set_column(1, "time", pa.array(times))

    write(tmp_path / "events", [change] * 3)
    assert len(compare(spark, monkeypatch, tmp_path / "events", unit)) == 3


ODD = (
    with_cell("value", None),
    with_cell("value", float("nan")),
    with_cell("value", -1.0),
    with_cell("key", "ü" * 257),
    with_cell("key", None),
    with_cell("key", ""),
    with_cell("time", 2**62),
    with_cell("time", -(2**63)),
    with_cell("time", None),
    with_cell("path", None),
    with_cell("path", "ü" * 257),
    with_cell("ok", None),
)


def test_a_file_with_a_cell_that_is_not_plain_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others are not, one without rows among them; all comes to the same, with letters."""
    folder = tmp_path / "events"
    write(folder, [*ODD, lambda table: table.slice(0, 0), as_it_is, as_it_is])
    plain = compare(spark, monkeypatch, folder)
    assert plain == [f"{len(ODD) + i:02d}.parquet" for i in range(3)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(as_type("value", pa.float32()), id="floats"),
        pytest.param(as_type("bytes", pa.decimal128(12, 0)), id="decimals"),
        pytest.param(as_type("bytes", pa.uint32()), id="unsigned"),
        pytest.param(as_type("code", pa.float64()), id="fractions as items"),
        pytest.param(as_type("time", pa.timestamp("ms"), pa.date32()), id="days"),
        pytest.param(with_numbers("key", pa.float64()), id="fractions as keys"),
    ],
)
def test_columns_of_other_types_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, change: Change
) -> None:
    """It knows what they mean."""
    write(tmp_path / "events", [change])
    rows = spark.read.parquet(str(tmp_path / "events"))
    parquet = PlainParquet.of(TOPOLOGY, NamedColumns.of(TOPOLOGY, {}, "ms"), rows)
    assert parquet is not None
    assert parquet.plain_files(spark, {str(tmp_path / "events" / "00.parquet"): 0}) == {}


@pytest.mark.parametrize("name", ["key", "code"])
def test_a_column_of_two_types_means_what_it_does_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Which makes fractions of the whole numbers of one file, as the other has fractions."""
    kinds = [pa.float64(), pa.int32()]
    write(tmp_path / "events", [with_numbers(name, kind) for kind in kinds])
    assert compare(spark, monkeypatch, tmp_path / "events") == []


def test_columns_in_the_names_of_folders_are_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So are files whose paths are patterns to Spark; a space is none."""
    found = {}
    for name in ("plain folder", "day=1", "odd [x]"):
        (tmp_path / name).mkdir()
        pq.write_table(table_of(1), tmp_path / name / "events.parquet")
        escaped = str(tmp_path / name).replace("[", r"\[").replace("]", r"\]")
        found[name] = files_here(file_ranks(spark.read.parquet(escaped)))
    assert found["plain folder"] == {str(tmp_path / "plain folder" / "events.parquet"): 0}
    assert found["day=1"] == found["odd [x]"] == {}


@pytest.mark.parametrize(
    ("format", "odd"),
    [
        *[("parquet", odd) for odd in ("", "a", "b", "%c #ü", "a %c #ü")],
        *[(other, "") for other in ("csv", "json")],
    ],
)
def test_ties_are_in_the_order_of_paths(
    spark: SparkSession, tmp_path: Path, format: str, odd: str
) -> None:
    """Whichever file is the larger one, and was there first, and whether or not it has a cell that
    Spark reads.
    """
    written = (("b", 600), ("a", 30), ("%c #ü", 300))
    for name, rows in written:
        same = {
            "time": pa.array([NOON] * rows),
            "key": pa.array(["k"] * rows),
            "path": pa.array([f"{name}{row}" for row in range(rows)]),
            "value": pa.array([None if name in odd else 1.0, *[1.0] * (rows - 1)]),
        }
        table = table_of(0, rows)
        for column, cells in same.items():
            table = table.set_column(table.schema.get_field_index(column), column, cells)
        file = tmp_path / f"{name}.{format}"
        match format:
            case "parquet":
                pq.write_table(table, file, row_group_size=100)
            case "csv":
                csv.write_csv(table, file)
            case _:
                file.write_bytes(b"\n".join(map(msgspec.json.encode, table.to_pylist())))
    history = read_files(spark, TOPOLOGY, Files(str(tmp_path), format))
    wanted = [f"{name}{i}" for name, rows in sorted(written) for i in range(rows)]
    assert paths_of(history) == wanted


@pytest.mark.parametrize("odd", ["", "c", "adg"])
def test_small_files_share_a_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """Those whose paths follow each other: so ties are in the order of paths, here too."""
    shared: list[str] = []
    tasks_of = plain_parquet._tasks

    def noted(spark: SparkSession, ranks: Mapping[str, int]) -> list[list[FilePart]]:
        tasks = tasks_of(spark, ranks)
        shared[:] = ["".join(Path(part.path).stem for part in parts) for parts in tasks]
        return tasks

    monkeypatch.setattr(plain_parquet, "_MOST_BYTES", 100_000)
    monkeypatch.setattr(plain_parquet, "_LEAST_BYTES", 100_000)
    monkeypatch.setattr(plain_parquet, "_tasks", noted)
    for name in "dbagfec":
        table = pa.table(
            {
                "key": ["k"] * 3,
                "time": pa.array([NOON + 1, NOON, NOON + 1]),
                "value": pa.array([1.0, None if name in odd else 1.0, 1.0]),
                "bytes": pa.array([1] * 3, pa.int32()),
                "code": pa.array([1] * 3, pa.int16()),
                "path": [f"{name}{row}" for row in range(3)],
                "ok": [True] * 3,
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    history = read_files(spark, TOPOLOGY, Files(str(tmp_path)))
    assert paths_of(history) == [
        f"{name}{row}" for rows in ((1,), (0, 2)) for name in "abcdefg" for row in rows
    ]
    assert shared == {"": ["abcdefg"], "c": ["ab", "defg"], "adg": ["bc", "ef"]}[odd]


def paths_of(history: History) -> list[str]:
    """The items of `path`, as they come to the engine."""
    place = [column.path for column in TOPOLOGY.columns.items].index(("path",))
    found: list[str] = []
    for _, batch in history.read(history.rows.toArrow().to_batches(), EventDecoder(TOPOLOGY)):
        assert batch.events is not None
        found += batch.events.items[place].to_pylist()
    return found


def test_a_name_in_two_cases_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """To it they are one, and it says so."""
    table = table_of(0)
    write(tmp_path / "events", [as_it_is])
    pq.write_table(table.append_column("VALUE", table["value"]), tmp_path / "events" / "99.parquet")
    rows = spark.read.parquet(str(tmp_path / "events" / "00.parquet"))
    parquet = PlainParquet.of(TOPOLOGY, NamedColumns.of(TOPOLOGY, {}, "ms"), rows)
    assert parquet is not None
    files = {str(tmp_path / "events" / f"{number}.parquet"): 0 for number in ("00", "99")}
    assert list(parquet.plain_files(spark, files)) == [str(tmp_path / "events" / "00.parquet")]


def _bytes_that_are_no_text(table: pa.Table) -> pa.Table:
    cells = [*[b"/"] * 350, b"/\xff\xfe", *[b"/"] * (len(table) - 351)]
    texts = pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells, pa.binary()).buffers())
    return table.set_column(table.schema.get_field_index("path"), "path", texts)


def test_bytes_that_are_no_text(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted as Spark's JSON has them: nothing ends."""
    write(tmp_path / "events", [_bytes_that_are_no_text, as_it_is])
    assert compare(spark, monkeypatch, tmp_path / "events") == ["01.parquet"]


@pytest.mark.parametrize(
    ("unit", "cells"),
    [
        ("us", pa.array([NOON * 1_000, -(2**63)])),
        ("ns", pa.array([NOON * 1_000_000, -(2**63)])),
        ("ns", pa.array([NOON * 1e6, float("nan"), 1e300, -1e300, -(2.0**63)])),
        ("s", pa.array([Decimal(NOON) / 1_000, Decimal(10**33)], pa.decimal128(38, 4))),
        ("ms", pa.array([Decimal(NOON), Decimal(10**37)], pa.decimal128(38, 0))),
        ("ms", pa.array([NOON // 86_400_000, 2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())),
    ],
    ids=["us", "ns", "doubles", "decimals", "large decimals", "days"],
)
def test_times_that_nothing_can_count_are_refused(
    spark: SparkSession, tmp_path: Path, unit: str, cells: pa.Array
) -> None:
    """Each by a dead letter: a cell ends no job."""
    table = table_of(0, len(cells))
    table = table.set_column(table.schema.get_field_index("time"), "time", cells)
    pq.write_table(table, tmp_path / "events.parquet")
    history = read_files(spark, TOPOLOGY, Files(str(tmp_path), time_unit=unit))
    topics = Counter(row.topic for row in backfill(TOPOLOGY, history).collect())
    assert topics == {TOPOLOGY.dead_letter_topic: len(cells) - 1}


def test_a_sequence_and_names_with_backticks(spark: SparkSession, tmp_path: Path) -> None:
    """The one is refused in words, the others are names as any."""
    names = ["the `value`" if name == "value" else name for name in table_of(0).column_names]
    pq.write_table(table_of(0).rename_columns(names), tmp_path / "events.parquet")
    files = Files(str(tmp_path), columns={"value": "the `value`"})
    assert backfill(TOPOLOGY, read_files(spark, TOPOLOGY, files)).count() > 1
    counted = replace(
        TOPOLOGY, time_format="sequence", span="9 events", windows=(), every="3 events"
    )
    with pytest.raises(SlidestatError, match="numbers of a sequence for event times"):
        read_files(spark, counted, files)
