"""Rows become event records: JSON that the schema reads, a Kafka key and a timestamp."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

from slidestat.errors import SlidestatError
from slidestat.options import TimeUnit
from slidestat.produce.cells import Cells, JsonCells, TypedCells, WrittenCells
from slidestat.produce.events import Columns, encode, raw_records
from slidestat.produce.readers import Rows
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH, Event

TIME_MS = 978_307_200_000
NASA = Path(__file__).parents[3] / "shared" / "data" / "nasa_http_19950801.tsv.gz"


def rows(keys: list[object], times: list[object], values: list[object]) -> Rows:
    columns = {"key": pa.array(keys), "time": pa.array(times), "value": pa.array(values)}
    return Rows(range(1, len(keys) + 1), typed(columns))


def typed(columns: dict[str, pa.Array]) -> dict[str, Cells]:
    return {name: TypedCells(column) for name, column in columns.items()}


def written(*cells: str) -> WrittenCells:
    """Cells of CSV."""
    return WrittenCells(pa.array(map(str.encode, cells), pa.binary()))


def test_records_follow_the_schema() -> None:
    """Each payload is an Event with the row's figures, whatever characters the key has."""
    keys = ["ATL", 'a"b', "a\\b", "line\nend", "tab\t\x00\x1f\x7f", "né🛩", "{}", "ATL"]
    values = [1.0, 0.1, -2.5, 1e300, 5e-324, 0.0, 123456789.25, 2.0**53]
    times = [TIME_MS + i for i in range(len(keys))]
    records = encode(rows(keys, times, values), Columns())
    found = [msgspec.json.decode(value, type=Event) for value in records.values]
    assert found == [Event(k, t, v) for k, t, v in zip(keys, times, values, strict=True)]
    assert records.keys == [key.encode() for key in keys]
    assert records.timestamps_ms == times
    assert (records.bad, records.first_bad) == (0, None)


def test_payload_is_compact() -> None:
    """Whole values are written without a fraction, and nothing is written twice."""
    records = encode(rows(["ATL"], [TIME_MS], [1587.0]), Columns())
    assert records.values == [b'{"key":"ATL","time":978307200000,"value":1587}']


@pytest.mark.parametrize(
    ("values", "negative"),
    [
        ([1.0, -1.0, -5e-324, -0.0, 0.0], 2),
        ([3, -2, 0], 1),
        ([], 0),
    ],
)
def test_values_below_zero_are_counted(values: list[object], negative: int) -> None:
    """A sum would refuse them: who sends them is told."""
    count = len(values)
    assert encode(rows(["a"] * count, [TIME_MS] * count, values), Columns()).negative == negative


def test_values_of_csv_below_zero_are_counted() -> None:
    """Texts that write numbers below 0 are, too."""
    columns = {"key": written(*"abcdef"), "time": written(*[str(TIME_MS)] * 6)}
    columns["value"] = written("-1", " -1e3 ", "-0", "-0.00", "+4", "x")
    records = encode(Rows(range(2, 8), columns), Columns())
    assert (records.negative, records.non_numbers) == (2, 1)
    assert str(records.first_non_number) == 'row 7: "x"'


@pytest.mark.parametrize(
    ("times", "zoneless"),
    [
        ([TIME_MS, None], 0),
        (["978307200000", "9.783072e11", "soon", ""], 0),
        (["2001-01-01T00:00:00Z", "2001-01-01 00:00:00+02", "2001-01-01T00:00:00-0500"], 0),
        (["2001-01-01T00:00:00Z", "2001-01-01 00:00", " 20010101T000000 ", "2001-01-01"], 3),
        ([datetime(2001, 1, 1), None], 1),
        ([datetime(2001, 1, 1, tzinfo=UTC)], 0),
        ([date(2001, 1, 1)], 1),
    ],
)
def test_times_without_a_zone_are_counted(times: list[object], zoneless: int) -> None:
    """They are taken for UTC: who sends them is told."""
    count = len(times)
    assert encode(rows(["a"] * count, times, [1.0] * count), Columns()).zoneless == zoneless


@pytest.mark.parametrize(
    ("key", "time", "value", "reason"),
    [
        (None, TIME_MS, 1.0, "key (the key) is missing"),
        ("", TIME_MS, 1.0, "key (the key) is empty"),
        ("é" * (MAX_KEY_LENGTH + 1), TIME_MS, 1.0, "key (the key) is longer than"),
        ("a", None, 1.0, "time (the time) is missing"),
        ("a", "soon", 1.0, "time (the time) is 'soon', which is not a time"),
        ("a", TIME_MS // 1000, 1.0, "which is 1970-01-12; events lie from 1980-01-01"),
        ("a", TIME_MS * 1000, 1.0, "which is no date"),
        ("a", EARLIEST_TIME_MS - 1, 1.0, "which is 1979-12-31"),
        ("a", LATEST_TIME_MS, 1.0, "which is 2100-01-01"),
        ("a", TIME_MS, float("inf"), "value (the value) is inf"),
        (float("nan"), TIME_MS, 1.0, "key (the key) is missing"),
        ([1], TIME_MS, 1.0, "key (the key) is [1], which is not one value"),
        (b"\xff", TIME_MS, 1.0, "key (the key) is b'\\xff', which is not UTF-8"),
        ("a", TIME_MS, b"\xff", "value (the value) is b'\\xff', which is not UTF-8"),
    ],
)
def test_rows_that_are_no_events(key: object, time: object, value: object, reason: str) -> None:
    """A bad row is left out and named by number, column and reason; the others are kept."""
    good = encode(rows(["a"] * 2, [TIME_MS] * 2, [1.0] * 2), Columns())
    assert good.bad == 0
    records = encode(rows([key], [time], [value]), Columns())
    assert (records.bad, len(records.values)) == (1, 0)
    assert records.first_bad is not None
    assert records.first_bad.row == 1
    assert re.search(re.escape(reason), records.first_bad.reason)


def test_events_without_a_value() -> None:
    """They count, as those of any producer that leaves a field out."""
    batch = rows(["a"] * 4, [TIME_MS] * 4, [1.0, None, float("nan"), -2.0])
    records = encode(batch, Columns())
    assert [json.loads(value).get("value") for value in records.values] == [1, None, None, -2]
    assert (records.bad, records.valueless, records.negative) == (0, 2, 1)


def test_good_rows_beside_bad_ones() -> None:
    """Bad rows do not shift the rest, and the first of them is the one told."""
    batch = rows(["a", None, "c", ""], [TIME_MS, 1, TIME_MS + 1, 2], [1, 2, 3, 4])
    records = encode(batch, Columns())
    assert [json.loads(value)["value"] for value in records.values] == [1, 3]
    assert records.keys == [b"a", b"c"]
    assert records.timestamps_ms == [TIME_MS, TIME_MS + 1]
    assert records.bad == 2
    assert records.first_bad is not None
    assert records.first_bad.row == 2


def test_limits_are_inside() -> None:
    """The longest key and the first and last millisecond are events."""
    longest = "é" * MAX_KEY_LENGTH
    batch = rows([longest, "a"], [EARLIEST_TIME_MS, LATEST_TIME_MS - 1], [1, 1])
    assert encode(batch, Columns()).bad == 0


def test_no_rows() -> None:
    """A batch without rows gives no records."""
    for empty in (TypedCells(pa.nulls(0)), written(), JsonCells(pa.array([], pa.binary()))):
        columns = Columns("k", "t", "v", more=("m",), texts=("s",))
        records = encode(Rows((), dict.fromkeys("ktvms", empty)), columns)
        assert (list(records.values), records.bad) == ([], 0)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([7, -7, None]), ["7", "-7", None]),
        (pa.array([1.5, 2.0, float("nan")]), ["1.5", "2", None]),
        (pa.array([12345678901.0, 2.0**62, -0.0]), ["12345678901", str(2**62), "0"]),
        (pa.array([12345678901.5, 1e-7, 1e22]), ["12345678901.5", "1e-7", str(10**22)]),
        (pa.array([2.0**63, 1e31]), [str(2**63), "1e+31"]),
        (pa.array([0, 2**63 - 1], pa.timestamp("us")), ["1970-01-01 00:00:00.000000", None]),
        (pa.array([2**63 - 1], pa.timestamp("us", "Asia/Tokyo")), [None]),
        (pa.array([1], pa.timestamp("ms", "Nowhere/Town")), ["1970-01-01 00:00:00.001000Z"]),
        (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), [None]),
        (pa.array([Decimal("7.00"), Decimal("0E-2")], pa.decimal128(9, 2)), ["7.00", "0.00"]),
        (pa.array([b"a", b"\xff"]), ["a", None]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["x", "", "007", "1.10"]), ["x", "", "007", "1.10"]),
        (pa.array([[1]]), [None]),
        (pa.nulls(2), [None, None]),
        (pa.array(['{"a":1}', "no"], pa.json_()), ['{"a":1}', "no"]),
        (
            pa.array([UUID(int=7).bytes], pa.uuid()),
            ["00000000-0000-0000-0000-000000000007"],
        ),
    ],
)
def test_keys_of_any_type(column: pa.Array, expected: list[str | None]) -> None:
    """A key of any single value is its text; nested ones have none."""
    assert TypedCells(column).text().to_pylist() == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (
            ("9223372036854775808", "9223372036854775808.0", "9.223372036854775808e18"),
            {"9223372036854775808"},
        ),
        (("1e22", "1E+22", f"1{'0' * 22}", f"1{'0' * 22}.00"), {f"1{'0' * 22}"}),
        (("0", "-0.0", "0e99999999999999999999", "-0.00E5"), {"0"}),
        (("1e31", "1.0E31"), {"1e+31"}),
        (("1e-99999999999999999999",), {"1e-99999999999999999999"}),
    ],
)
def test_one_number_is_one_key(cells: tuple[str, ...], expected: set[str]) -> None:
    """However JSON writes it, with whatever power."""
    found = JsonCells(pa.array([cell.encode() for cell in cells])).text().to_pylist()
    assert set(found) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63 - 1], pa.timestamp("us")),
        pa.array([2**63 - 1], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array([[2**63 - 1]], pa.list_(pa.timestamp("us"))),
    ],
    ids=lambda column: str(column.type),
)
def test_times_that_python_does_not_have_are_bad_rows(column: pa.Array) -> None:
    """As a key, a time, a value, and under their own name; the row beside them, which has none, is
    sent without it where it is neither key nor time.
    """
    plain = {"k": pa.array(["a"] * 2), "t": pa.array([TIME_MS] * 2), "v": pa.array([1, 2])}
    odd = pa.concat_arrays([column, pa.nulls(1, column.type)])
    for columns in (
        Columns("x", "t", "v"),
        Columns("k", "x", "v"),
        Columns("k", "t", "x"),
        Columns("k", "t", "v", more=("x",)),
    ):
        records = encode(Rows(range(1, 3), typed({**plain, "x": odd})), columns)
        assert len(records.values) == ("x" not in (columns.key, columns.time))
        assert re.search(r"^x( \(the .+\))? is .+", records.first_bad.reason)  # type: ignore[union-attr]


@pytest.mark.parametrize("digits", [300, 309, 4_300, 4_301, 20_000])
def test_a_whole_number_of_json_has_all_of_its_digits(digits: int) -> None:
    """As value and in a further column; a key of so many is too long, a time is none."""
    number = b"9" * digits
    columns: dict[str, Cells] = {
        name: JsonCells(pa.array([cell], pa.binary()))
        for name, cell in (
            ("key", b'"a"'),
            ("time", b"978307200000"),
            ("value", b"1"),
            ("more", b"1"),
        )
    }
    for name, said in (("value", ""), ("more", ""), ("key", "longer than"), ("time", "not a time")):
        cells = JsonCells(pa.array([number], pa.binary()))
        records = encode(Rows([1], columns | {name: cells}), Columns(value="value", more=("more",)))
        if said:
            assert said in str(records.first_bad)
        else:
            assert b'"%b":%b' % (name.encode(), number) in records.values[0]


def test_a_long_value_that_is_no_number_is_told_in_short() -> None:
    columns: dict[str, Cells] = {
        "key": written("a"),
        "time": written(str(TIME_MS)),
        "value": written("9" * 10_000),
    }
    records = encode(Rows([2], columns), Columns())
    assert len(str(records.first_non_number)) < 100
    assert len(records.values[0]) > 10_000


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (TypedCells(pa.array([2**63 - 1, None])), [str(2**63 - 1), None]),
        (TypedCells(pa.array(["1.50", "3"]).cast(pa.decimal128(5, 2))), ["1.50", "3.00"]),
        (TypedCells(pa.array([Decimal("1e-10")], pa.decimal128(20, 10))), ["0.0000000001"]),
        (
            TypedCells(pa.array([1e10, 0.1, 9e15, -0.0])),
            ["10000000000", "0.1", f"{9 * 10**15}", "0"],
        ),
        (TypedCells(pa.array([True])), ["true"]),
        (TypedCells(pa.array(["12", "x"])), ['"12"', '"x"']),
        (
            written("9007199254740993", "1.5", "1.10", "1e3"),
            ["9007199254740993", "1.5", "1.10", "1e3"],
        ),
        (written(" 12 ", "+5", "-.5", ".5", "1."), ["12", "5", "-0.5", "0.5", "1"]),
        (written("007", "00.5", "-01"), ['"007"', '"00.5"', '"-01"']),
        (written("1,5", "0x10", "1_0", "--1", "."), ['"1,5"', '"0x10"', '"1_0"', '"--1"', '"."']),
        (written("1e999", "Infinity", "NaN"), ['"1e999"', '"Infinity"', '"NaN"']),
        (written("9" * 30, "9" * 400), ["9" * 30, f'"{"9" * 400}"']),
    ],
)
def test_values_of_any_type(cells: Cells, expected: list[str | None]) -> None:
    """A value is a number where its cell is one, with all of its digits, or writes one."""
    found = cells.number().to_pylist()
    assert found == expected
    for text in found:
        assert text is None or json.loads(text) is not None


MORE = {
    "number": pa.array([1.5, None, 3.0, float("nan")]),
    "whole": pa.array([2**63 - 1, 0, -1, None]),
    "text": pa.array(['a"b', "", None, "né\n"]),
    "truth": pa.array([True, False, None, True]),
    "when": pa.array([0, 1, None, 2], pa.timestamp("ms")),
    "codes": pa.array(["x", "y", "x", None]).dictionary_encode(),
    "list": pa.array([[1], [], None, [2, 3]]),
    "object": pa.array([{"b": 1}, {"b": 2}, None, {"b": 3}]),
    "nothing": pa.nulls(4),
    "bytes": pa.array([b"a", b"b", b"c", None]),
    'q"%d,': pa.array([1, 2, 3, 4]),
}


def test_more_columns_under_their_names() -> None:
    """Each column of any type is a field of its name; a missing value is a missing field."""
    columns = {"k": pa.array(list("abcd")), "t": pa.array([TIME_MS + i for i in range(4)]), **MORE}
    records = encode(Rows(range(1, 5), typed(columns)), Columns("k", "t", more=tuple(MORE)))
    events = [json.loads(value) for value in records.values]
    assert records.bad == 0
    assert [list(event)[:2] for event in events] == [["key", "time"]] * 4
    assert events[0] == {
        "key": "a",
        "time": TIME_MS,
        "number": 1.5,
        "whole": 2**63 - 1,
        "text": 'a"b',
        "truth": True,
        "when": "1970-01-01 00:00:00.000000",
        "codes": "x",
        "list": [1],
        "object": {"b": 1},
        "bytes": "a",
        'q"%d,': 1,
    }
    assert events[2] == {
        **{"key": "c", "time": TIME_MS + 2, "number": 3, "whole": -1},
        **{"codes": "x", "bytes": "c", 'q"%d,': 3},
    }
    assert "number" not in events[1]
    assert events[1]["text"] == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-0.50", -0.5),
        ("1e3", 1000.0),
        ("007", "007"),
        ("+1", "+1"),
        ("1_0", "1_0"),
        ("1.", "1."),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("9" * 40, int("9" * 40)),
        ("9" * 400, "9" * 400),
        ("\u0661", "\u0661"),
        (" 1", " 1"),
        ("true", "true"),
    ],
)
def test_text_that_writes_a_number(text: str, value: object) -> None:
    """It is sent as that number, if JSON would write it so and a double can hold it."""
    (found,) = written(text).json().to_pylist()
    assert json.loads(found) == value
    assert msgspec.json.decode(found, type=str | int | float) == value
    (quoted,) = written(text).quoted().to_pylist()
    assert json.loads(quoted) == text


def test_a_value_beside_more_columns() -> None:
    """It comes along when it is named; alone, "value" is taken."""
    columns = {
        name: pa.array(column)
        for name, column in zip("ktvx", (["a"], [TIME_MS], [1], [2]), strict=True)
    }
    rows = Rows([1], typed(columns))
    both = encode(rows, Columns("k", "t", "v", more=("x",)))
    assert json.loads(both.values[0]) == {"key": "a", "time": TIME_MS, "value": 1, "x": 2}
    more = encode(rows, Columns("k", "t", more=("v", "x")))
    assert json.loads(more.values[0]) == {"key": "a", "time": TIME_MS, "v": 1, "x": 2}
    assert Columns().names == ("key", "time", "value")
    with pytest.raises(SlidestatError, match="two fields 'value'"):
        Columns(value="v", more=("value",))
    with pytest.raises(SlidestatError, match="two fields 'x'"):
        Columns(more=("x", "x"))


def test_bad_rows_beside_more_columns() -> None:
    """A row that is no event takes none of its neighbours' values with it."""
    columns: dict[str, Cells] = {
        "key": written("a", "", "c"),
        "time": TypedCells(pa.array([TIME_MS] * 3)),
        "x": written("1", "2", "3"),
    }
    records = encode(Rows([1, 2, 3], columns), Columns(more=("x",)))
    assert [json.loads(value)["x"] for value in records.values] == [1, 3]
    assert records.bad == 1


def test_raw_records() -> None:
    """Raw lines are untouched; the key is taken where a topology would, and nothing is refused."""
    keyed = {
        b'{"k":"a"}': b"a",
        b"not json": None,
        b'{"k":5}': b"5",
        b'{"k":%b}' % (b"5" * 5_000): None,
        b'{"k":""}': None,
        b'{"k":null}': None,
        b'{"x":1}': None,
        b"\xff": None,
        b"[" * 100_000: None,
        b"": None,
    }
    records = raw_records(list(keyed), "k")
    assert records.values == list(keyed)
    assert records.keys == list(keyed.values())
    assert records.bad == 0


def test_the_key_of_a_raw_record_may_lie_in_an_object() -> None:
    """By its path, as a topology has it."""
    lines = [b'{"user":{"id":"a"},"user.id":"b"}', b'{"user":3}', b'{"user":{"id":7}}']
    assert raw_records(lines, "user.id").keys == [b"a", None, b"7"]
    assert raw_records(lines, "user.id").unkeyed == 1


def test_the_key_of_a_raw_record_may_have_a_dot_in_its_name() -> None:
    """Written as the reference has it; no other text is taken for a list, or ends in a trace."""
    lines = [b'{"id.orig_h":"a","id":{"orig_h":"b"}}', b'{"[id":"c"}', b'{"[1]":"d"}']
    assert raw_records(lines, '["id.orig_h"]').keys == [b"a", None, None]
    assert raw_records(lines, '["id", "orig_h"]').keys == [b"b", None, None]
    assert raw_records(lines, "[id").keys == [None, b"c", None]
    assert raw_records(lines, "[1]").keys == [None, None, b"d"]
    for no_path in ('a"b', "a\\b", "a\tb", '["a', "[]", '[""]', ""):
        with pytest.raises(SlidestatError, match=r"^--key is ") as raised:
            raw_records(lines, no_path)
        assert raised.value.advice


@pytest.mark.skipif(not NASA.exists(), reason=f"no {NASA.name} beside the project")
def test_a_day_of_a_web_server() -> None:
    """All 30,969 requests of the log are events, its URLs and hosts as they are."""
    from slidestat.produce.files import event_file
    from slidestat.produce.readers import Reader

    columns = Columns("host", "time", "bytes", TimeUnit.SECONDS)
    encoded = [encode(b, columns) for b in Reader(event_file(NASA)).batches(columns.names)]
    events = [msgspec.json.decode(v, type=Event) for r in encoded for v in r.values]
    assert len(events) == 30_969
    assert sum(records.bad for records in encoded) == 0
    assert events[0] == Event("pppa006.compuserve.com", 807_256_800_000, 1713.0)
