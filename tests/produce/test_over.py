"""`slidestat.over`: the figures of a DataFrame are those of a worker that reads the same events."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time as clock, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any
from uuid import UUID

import duckdb
import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidestat.declare.statistics import (
    Count,
    Distinct,
    ItemCounts,
    Maximum,
    Mean,
    NetSum,
    Quantiles,
    Rate,
    Sum,
    TopItems,
)
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.frames import over
from slidestat.produce.files import event_file
from slidestat.produce.readers import Reader
from slidestat.schemas.emission import Emission, Figure
from slidestat.testing.driver import TopologyDriver

NOON = 1_764_072_000_000
FRAMES = 12
TOPOLOGY = Topology(
    name="filled",
    source="events",
    span="1h",
    every="5m",
    windows=("10m", "1h"),
    lateness="1m",
    where="kind != 'test'",
    statistics=(Count(), Mean(), Quantiles(), Distinct(field="code"), TopItems(field="code")),
)
ALL = (Count(), Rate(), NetSum(decimals=1), Maximum(), TopItems(field="kind"))
FIGURE = [field.name for field in msgspec.structs.fields(Figure)]


def rows_of(emissions: list[Emission]) -> list[tuple[Any, ...]]:
    return [
        (emission.key, emission.window_end_ms, *(getattr(figure, name) for name in FIGURE))
        for emission in emissions
        for figure in emission.figures
    ]


def found(table: pa.Table) -> list[tuple[Any, ...]]:
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    names = ("key", *FIGURE)
    key, *figures = (table[name].to_pylist() for name in names)
    return list(zip(key, ends, *figures, strict=True))


def events(seed: int) -> list[dict[str, Any]]:
    """Some rows in no order, with nights between them; a field may be null."""
    chance = Random(seed)
    time, made = NOON, []
    for row in range(chance.choice((1, 2, 17, 300))):
        time += chance.choice((0, 1, 1_000, 60_000, 3_600_000 * (chance.random() < 0.05)))
        made.append(
            {
                "key": chance.choice("abc"),
                "time": time,
                "value": float(chance.randrange(1, 1_000)),
                "code": chance.choice((None, row % 7)),
                "kind": chance.choice(("real", "real", "test")),
            }
        )
    return made


def test_figures_are_those_of_a_worker() -> None:
    """Of every key, window and tick, with all that is promised, whatever the order of rows."""
    for seed in range(FRAMES):
        made = events(seed)
        driver = TopologyDriver(TOPOLOGY)
        for event in made:
            driver.send({name: cell for name, cell in event.items() if cell is not None})
        driver.close_windows()
        assert not driver.dead_letters
        # Rows of one time keep their order: where it has no meaning, any order is tried.
        shuffled = made if seed % 2 else sorted(made, key=lambda it: (-it["time"] // 2, it["time"]))
        table = over(pa.Table.from_pylist(shuffled), TOPOLOGY)
        assert sorted(map(repr, found(table))) == sorted(map(repr, rows_of(driver.emissions)))


def test_a_computed_key_needs_no_column() -> None:
    """Nor does a computed value; a row whose key cannot be computed is warned of."""
    topology = replace(
        TOPOLOGY,
        computed=("kind || '/' || key as place", "value * 2 as double"),
        key_field="place",
        value_field="double",
        where="",
        statistics=(Count(), Maximum(epsilon=0)),
    )
    rows = [{"key": "a", "kind": kind, "time": NOON, "value": 1.5} for kind in ("x", "y", None)]
    with pytest.warns(UserWarning, match="1 of 3 rows .* place"):
        frame = over(pa.Table.from_pylist(rows), topology)
    driver = TopologyDriver(topology)
    driver.send(*rows)
    driver.close_windows()
    assert found(frame) == rows_of(driver.emissions)
    assert set(frame["key"].to_pylist()) == {"x/a", "y/a"}


def test_one_window_has_all_rows() -> None:
    """From the first time to the last: counts, sums and rates are those of a plain sum."""
    for seed in range(FRAMES):
        made = [event for event in events(seed) if event["key"] != "c"]
        table = over(pa.Table.from_pylist(made, pa.Table.from_pylist(events(3)).schema), ALL)
        times = [event["time"] for event in made] or [0]
        first, end = min(times), max(times) + 1
        for key in {event["key"] for event in made}:
            own = [event for event in made if event["key"] == key]
            exact = {
                "count": len(own),
                "rate": len(own) * 1_000 / (end - first),
                "net_sum": sum(event["value"] for event in own),
                "maximum": max(event["value"] for event in own),
            }
            for row in table.filter(pa.compute.equal(table["key"], key)).to_pylist():
                assert row["window_start"] == moment(first)
                assert row["window_end"] == moment(end)
                figure = exact.pop(row["statistic"], row["estimate"])
                rounding = 1e-9 * figure
                assert row["lower"] - rounding <= figure <= row["upper"] + rounding
            assert not exact
        assert set(table["key"].to_pylist()) == {event["key"] for event in made}


@pytest.mark.parametrize("years", [(1981, 2060), (1981, 2099)])
def test_rows_too_far_apart_for_one_window_are_refused(years: tuple[int, int]) -> None:
    """All of them count with windows of their own."""
    times = pa.array(
        [datetime(year, 6, 1, tzinfo=UTC) for year in years], pa.timestamp("ms", "UTC")
    )
    with pytest.raises(SlidestatError, match=r"The times of the rows are \d+ years apart"):
        over(one_key(times), [Count()])
    assert sum(over(one_key(times), [Count()], every="365d")["estimate"].to_pylist()) == 2


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def one_key(times: pa.Array, keys: Any = ("a", "a"), values: Any = (1, 2)) -> pa.Table:
    return pa.table({"key": pa.array(keys), "time": times, "value": pa.array(values)})


@pytest.mark.parametrize(
    "times",
    [
        pa.array([NOON, NOON + 60_000]),
        pa.array([NOON * 1_000_000, (NOON + 60_000) * 1_000_000], pa.timestamp("ns")),
        pa.array([NOON, NOON + 60_000], pa.timestamp("ms", "America/New_York")),
        pa.array([NOON * 1_000, (NOON + 60_000) * 1_000], pa.timestamp("us", "+05:45")),
        pa.array(["2025-11-25T13:00:00+01:00", "2025-11-25 12:01"]),
        pa.array([date(2025, 11, 25)] * 2),
    ],
    ids=str,
)
def test_times_are_instants(times: pa.Array) -> None:
    """Of every type, in every zone; without one in UTC."""
    table = over(one_key(times), [Sum(decimals=0)], every="1d")
    (row, _) = table.sort_by("window_end").to_pylist()
    assert (row["estimate"], row["window_end"]) == (3, datetime(2025, 11, 26, tzinfo=UTC))


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (pa.array([7, 2**60]), {"7", str(2**60)}),
        (pa.array([7.0, 12_345_678_901.0]), {"7", "12345678901"}),
        (pa.array(["x", "y"]).dictionary_encode(), {"x", "y"}),
        (pa.array(["x", "y"], pa.string_view()), {"x", "y"}),
        (
            pa.DictionaryArray.from_arrays(
                pa.array([1, 0], pa.uint32()), pa.array(["x", "y"], pa.string_view())
            ),
            {"x", "y"},
        ),
        (pa.array([Decimal("1.10"), Decimal("2.00")]), {"1.10", "2.00"}),
        (pa.RunEndEncodedArray.from_arrays([1, 2], ["x", "y"]), {"x", "y"}),
        (pa.array([2**64 - 1, 7], pa.uint64()), {"18446744073709551615", "7"}),
        *(
            (pa.array([clock(10, 30), clock(10, 30)], kind), {"10:30:00.000000"})
            for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
        ),
        *(
            (
                pa.array([NOON] * 2, pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone)),
                {f"2025-11-25 12:00:00.000000{sign}"},
            )
            for zone, sign in ((None, ""), ("Asia/Kolkata", "Z"), ("UTC", "Z"))
            for unit in ("s", "ms", "us", "ns")
        ),
    ],
)
def test_keys_are_texts(keys: pa.Array, texts: set[str]) -> None:
    """As they are produced: a number of a float column is a whole one, a category its text."""
    table = over(one_key(pa.array([NOON, NOON + 1]), keys), [Count()])
    assert set(table["key"].to_pylist()) == texts


@pytest.mark.filterwarnings("error")
def test_integers_that_are_floats_are_warned_of() -> None:
    """Where they may have been rounded: pandas makes them of integers where one is missing."""
    times = pa.array([NOON, NOON + 1])
    large = pa.array([2.0**63, None])
    with pytest.warns(UserWarning, match=r"key has numbers beyond 2\^53 in floats") as told:
        over(one_key(times, pa.array([2.0**63, 1.0])), [Count()])
    assert told[0].filename == __file__
    table = one_key(times).append_column("id", large)
    with pytest.warns(UserWarning, match="id has numbers beyond"):
        over(table, [Count(), Distinct(field="id")], every="5m")
    over(table, [Count(), Maximum(field="id")])
    over(one_key(times, pa.array([2.0**53 - 1, math.inf])).slice(0, 1), [Count()])


def test_windows_of_events() -> None:
    """Of the last ones of a key: they begin at no time."""
    table = over(one_key(pa.array([NOON, NOON + 1])), [Count()], every="5m", windows=["9 events"])
    row = table.to_pylist()[0]
    assert (row["estimate"], row["window_events"], row["window_start"]) == (2, 9, None)


@pytest.mark.filterwarnings("error")
def test_rows_that_are_no_events_are_warned_of() -> None:
    """With how many, where the first one is in the frame, and why."""
    times = pa.array([NOON + 5, None, NOON])
    with pytest.warns(UserWarning, match=r"1 of 3 rows .* at 1 \(from 0\): missing-field") as told:
        table = over(one_key(times, ["a", "b", "a"], [1, 2, 3]), [Count()])
    assert told[0].filename == __file__
    assert table["estimate"].to_pylist() == [2]
    with pytest.warns(UserWarning, match="'soon' is no time"):
        over(one_key(pa.array(["soon", "2025-11-25"])), [Count()])
    with pytest.warns(UserWarning, match="2 of 2 rows"):
        assert over(one_key(pa.array([1, 2])), [Count()]).num_rows == 0


def test_what_comes_back_is_of_the_same_kind() -> None:
    """Of pandas with its types, its index among the columns; else a table of Arrow."""
    relation = duckdb.sql("SELECT 'a' AS key, TIMESTAMP '2025-11-25 12:00:00' AS time, 5 AS value")
    assert found(over(relation, [Count()]))[0][:2] == ("a", NOON + 1)  # type: ignore[arg-type]  # a table
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime([NOON, None, NOON + 1], unit="ms")
    frame = pandas.DataFrame(
        {
            "key": pandas.Categorical(["a", "a", "b"]),
            "value": pandas.array([1, 2, None], dtype="Int64"),
            "time": times,
            "more": ["one", 2, None],  # A column that is not read may hold anything.
        }
    )
    with pytest.warns(UserWarning, match="2 of 3 rows"):
        of_index = over(frame.set_index("time"), [Sum(decimals=0)])
    assert isinstance(of_index, pandas.DataFrame)
    derived = type("Derived", (pandas.DataFrame,), {})(frame.set_index("time"))
    with pytest.warns(UserWarning, match="2 of 3 rows"):
        assert over(derived, [Sum(decimals=0)]).equals(of_index)
    assert of_index[["key", "estimate"]].to_dict("list") == {"key": ["a"], "estimate": [1.0]}
    assert str(of_index["window_end"].dtype.tz) == "UTC"
    with pytest.raises(SlidestatError, match="no column 'time'; it has 'key', 'value', 'more'"):
        over(frame.set_index("time").rename_axis(None), [Count()])
    with pytest.raises(SlidestatError, match="'more' has numbers and texts"):
        over(frame, [Count()], key="more")
    doubled = pandas.concat([frame, frame[["key"]]], axis=1)
    with pytest.raises(SlidestatError, match="Duplicate column names"):
        over(doubled, [Count()])


class Lazy:
    """A frame that has no rows yet."""


MONTHS = pa.array([pa.MonthDayNano([1, 2, 3])] * 2)


class Series:
    """One column of pandas."""

    __module__ = "pandas"


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([float("inf"), 1.0]), "item is inf, which is not a finite number"),
        (pa.array([b"\xff", b"a"]), r"item is b'\\xff', which is not UTF-8"),
        (pa.array([2**63 - 1, 1], pa.timestamp("us")), "item is .*beyond the years of a calendar"),
    ],
)
def test_a_cell_that_cannot_be_counted_is_named(column: pa.Array, told: str) -> None:
    """Not the JSON that there is none of."""
    frame = one_key(pa.array([NOON] * 2)).append_column("item", column)
    with pytest.warns(UserWarning, match=rf"1 of 2 rows .* at 0 \(from 0\): {told}"):
        over(frame, [TopItems(field="item")])


def test_a_time_that_no_calendar_has_is_named() -> None:
    frame = one_key(pa.array([2**62, NOON // 1_000], pa.timestamp("s")))
    with pytest.warns(UserWarning, match="time is .*, which is beyond the years of a calendar"):
        over(frame, [Count()])


def test_a_length_of_time_is_no_time() -> None:
    with pytest.warns(UserWarning, match="time is 0:00:05, a length of time"):
        over(one_key(pa.array([5, 6], pa.duration("s"))), [Count()])


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("(2::UHUGEINT ** 127 + 5)::UHUGEINT", "UHUGEINT"),
        ("123::BIGNUM", "BIGNUM"),
        ("'10:30:00+02'::TIMETZ", "TIME WITH TIME ZONE"),
        ("'101'::BIT", "BIT"),
        ("{'id': 5::UHUGEINT}", "UHUGEINT"),
    ],
)
def test_types_that_duckdb_hands_out_as_others_are_refused(key: str, told: str) -> None:
    """As a number below 0, a time without its offset, or bytes. In columns that are not read they
    do no harm.
    """
    relation = duckdb.sql(f"SELECT 'a' AS key, {NOON} AS time, 5 AS value, {key} AS other")
    assert over(relation, [Count()]).num_rows == 1
    named = duckdb.sql(f"SELECT 'BIT'::ENUM('a', 'BIT') AS key, {NOON} AS time, {{'BIT': 5}} AS s")
    assert over(named, [Sum(field="s.BIT")])["upper"].to_pylist() == [5]
    name = "other.id" if "id" in key else "other"
    with pytest.raises(SlidestatError, match=f"'other' has the type {told}, which DuckDB gives"):
        over(relation, [Count()], key=name)


DAY, MOMENT = date(2025, 11, 25), datetime(2025, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([DAY, MOMENT], "dates and moments"),
        ([MOMENT, NOON * 1_000], "moments and numbers"),
        ([timedelta(1), 7], "durations and numbers"),
        ([clock(10), 7], "numbers and times of day"),
        ([1.5, True], "numbers and truth values"),
        ([DAY, UUID(int=1)], "dates and other objects"),
    ],
)
def test_objects_of_several_sorts_are_refused(objects: list[Any], told: str) -> None:
    """Arrow would make all of one of them: a day of a moment, a moment of a number."""

    class Derived(pd.DataFrame):
        """A frame that another library has made of pandas'."""

        __module__ = "geopandas"

    lists = {"key": ["a"] * 2, "time": [NOON] * 2, "item": objects}
    frame = pd.DataFrame(lists | {"item": pd.Series(objects, dtype=object)})
    for made in (frame, Derived(frame), lists):
        for column in ("key", "time"):
            with pytest.raises(SlidestatError, match=f"'item' has {told}.*one type in each column"):
                over(made, [Count()], **{column: "item"})


def test_objects_of_one_sort_may_be_of_several_types() -> None:
    objects = {"number": [7, 1.5, None], "moment": [MOMENT, pd.Timestamp(MOMENT), pd.NaT]}
    columns = {name: pd.Series(some, dtype=object) for name, some in objects.items()}
    frame = pd.DataFrame({"key": "a", **columns})
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        found = over(frame, [TopItems(field="number")], time="moment")
    assert sorted(found["item"]) == ["1.5", "7"]


def test_addresses_of_objects_in_polars_are_no_items() -> None:
    class DataFrame:
        """A frame of Polars, as far as it is looked at."""

        __module__ = "polars"
        schema = MappingProxyType({"key": "String", "item": "Object"})

    class Derived(DataFrame):
        """A frame that another library has made of it."""

        __module__ = "another"

    for made in (DataFrame(), Derived()):
        with pytest.raises(SlidestatError, match="'item' has Python objects"):
            over(made, [TopItems(field="item")])


def test_columns_of_polars_that_are_not_read_may_hold_anything() -> None:
    polars = pytest.importorskip("polars")
    wide = polars.Series([2**100, 1], dtype=polars.Int128)
    frame = polars.DataFrame({"key": ["a", "a"], "time": [NOON, NOON], "item": wide})
    assert over(frame, [Count()])["estimate"].to_list() == [2.0]
    with pytest.raises(SlidestatError, match="more than 64 bits as texts"):
        over(frame, [TopItems(field="item")])


def test_what_pandas_has_and_files_lack_is_told(tmp_path: Path) -> None:
    """Periods, which are counts of no unit in a file, and whole numbers beyond 64 bits."""
    months = pd.DataFrame({"key": pd.period_range("2025-10", periods=2, freq="M"), "time": NOON})
    with pytest.raises(SlidestatError, match=r"type pandas\.period, which is not read"):
        over(months, [Count()])
    pq.write_table(pa.Table.from_pandas(months), tmp_path / "a.parquet")
    with pytest.raises(SlidestatError, match=r"type pandas\.period, which is not read"):
        list(Reader(event_file(tmp_path / "a.parquet")).batches(["key", "time"]))
    large = pd.DataFrame({"key": [2**64, 1], "time": NOON})
    with pytest.raises(SlidestatError, match=r"too large.*more than 64 bits as texts"):
        over(large, [Count()])


def twice(table: pa.Table, name: str) -> pa.Table:
    """Return a table with a struct that has the key in two fields of one name."""
    key = table["key"].combine_chunks()
    return table.append_column(name, pa.StructArray.from_arrays([key, key], ["key", "key"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: over(t, [Count()], key="user"),
            "no column 'user'; it has 'key', 'time', 'v",
        ),
        (lambda t: over(t, [Sum(field="bytes", decimals=0)]), "no column 'bytes'"),
        (lambda t: over(t, [Count()], windows=["1h"]), "nothing says when they end"),
        (lambda t: over(t, [Count()], unit="min"), "unit is 'min'"),
        (lambda t: over(t, TOPOLOGY, key="key2"), "declares its fields"),
        (lambda t: over(t, replace(TOPOLOGY, source_format="avro")), "reads JSON alone"),
        (lambda t: over(t, replace(TOPOLOGY, publish=("a",))), "a referee has their figures"),
        (lambda t: over(t, [Count()], every="5m", windows=["1h", "9 events"]), "windows"),
        (lambda _: over(Lazy(), [Count()]), "The frame cannot be read"),
        (lambda t: over(t, []), "statistic"),
        *(
            (
                lambda _, column=column: over(one_key(pa.array([NOON] * 2), column), [Count()]),
                f"'key' is a column of the type {kind}, which is not read",
            )
            for column, kind in (
                (MONTHS, "month_day_nano_interval"),
                (pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\0"}] * 2), "variant"),
                (pa.array([{"a": [it]} for it in MONTHS.to_pylist()]), "struct<a: list<.*"),
                (pa.DictionaryArray.from_arrays([0, 1], MONTHS), "dictionary<.*"),
                (pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]), "s.*"),
            )
        ),
        (lambda t: over(t, [Count(), ItemCounts()]), "item_counts has no items"),
        (
            lambda t: over(t, replace(TOPOLOGY, statistics=(ItemCounts(),), derived=())),
            "has no figures but those of items",
        ),
        (lambda t: over(t, Count()), "no topology and no list of statistics"),
        (lambda t: over(t, [Count()], value=0), "value is 0, which is no name"),
        (lambda t: over(t, [Count()], every="5m", windows="10m"), "windows is '10m'"),
        (lambda t: over(t, [Count()], every="30"), "every is '30', which is not a duration"),
        (lambda _: over(Series(), [Count()]), "a Series has no columns"),
        (
            lambda _: over(pd.DataFrame({"key": ["\ud83d"], "time": NOON}), [Count()]),
            r"a text has half of a character, '\\ud83d'\.",
        ),
        (lambda _: over(pd.DataFrame(), [Count()]), "none was found"),
        (lambda _: over([{"key": 1}], [Count()]), r"RecordBatch\. Give"),
        (lambda t: over(t.append_column("key", t["key"]), [Count()]), "several columns 'key'"),
        (lambda t: over(twice(t, "in"), [Count()], key="in.key"), r"several columns 'in\.key'"),
    ],
)
def test_what_cannot_be_is_told(call: Callable[[pa.Table], object], message: str) -> None:
    """With what to do."""
    with pytest.raises(SlidestatError, match=message) as told:
        call(one_key(pa.array([NOON, NOON])))
    assert told.value.advice
    assert str(told.value).encode()  # As a terminal needs it.


def test_a_column_with_a_slip_is_told() -> None:
    """With the one that may be meant."""
    frame = pd.DataFrame({"path": ["a"], "at": [1]})
    with pytest.raises(SlidestatError, match="no column 'pth'") as told:
        over(frame, [Count()], key="pth", time="at")
    assert told.value.advice.startswith("Did you mean 'path'?")
