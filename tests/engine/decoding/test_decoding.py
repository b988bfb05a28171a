"""Events are read column by column; every other record is refused with its reason."""

import json
from collections.abc import Iterator
from math import isnan
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.statistics import Count, Distinct, Maximum, Mean, Sum, TopItems
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.decoding.scan_reader import ScanReader
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from tests.engine.cases import CLOCKS, laws

MEGABYTE = 2**20
TIME = 1_600_000_000_000


@pytest.fixture(autouse=True, scope="module", params=["kernels", "msgspec"])
def _reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """All that is tested here holds for both readers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScanReader, "FEWEST", 0 if request.param == "kernels" else 2**62)
        yield


def decoder(*, decimals: int | None = 3, key: str = "key", value: str = "value") -> EventDecoder:
    """The decoder of a topology with a sum, or of one that only counts."""
    statistics = [Count()] if decimals is None else [Count(), Sum(decimals=decimals)]
    return EventDecoder(
        Topology(
            tombstones="dead-letter",
            name="t",
            source="s",
            span="1h",
            every="1m",
            statistics=statistics,
            key_field=key,
            value_field=value,
        )
    )


def event(key: str = '"a"', time: str = str(TIME), value: str = "1") -> bytes:
    """An event's JSON, its fields given as JSON."""
    return f'{{"key": {key}, "time": {time}, "value": {value}}}'.encode()


BAD: dict[str, tuple[Reason, bytes | None]] = {
    "no value": (Reason.NULL_RECORD, None),
    "empty": (Reason.NOT_JSON, b""),
    "blank": (Reason.NOT_JSON, b" \n"),
    "a word": (Reason.NOT_JSON, b"hello"),
    "binary": (Reason.NOT_JSON, bytes(range(256))),
    "cut short": (Reason.NOT_JSON, event()[:-1]),
    "two events": (Reason.NOT_JSON, event() + event()),
    "a byte order mark": (Reason.NOT_JSON, b"\xef\xbb\xbf" + event()),
    "UTF-16": (Reason.NOT_JSON, event().decode().encode("utf-16")),
    "NaN": (Reason.NOT_JSON, event(value="NaN")),
    "Infinity": (Reason.NOT_JSON, event(value="Infinity")),
    "invalid UTF-8 in the key": (Reason.NOT_JSON, event().replace(b'"a"', b'"\xff"')),
    "a raw surrogate": (Reason.NOT_JSON, event().replace(b'"a"', b'"\xed\xa0\x80"')),
    "a lone high surrogate": (Reason.NOT_JSON, event(key='"\\ud83d"')),
    "a lone low surrogate": (Reason.NOT_JSON, event(key='"\\ude00"')),
    "a megabyte of letters": (Reason.NOT_JSON, b"y" * MEGABYTE),
    "nested too deep": (
        Reason.NOT_JSON,
        event()[:-1] + b', "x": ' + b"[" * 300_000 + b"]" * 300_000 + b"}",
    ),
    "opened and never closed": (Reason.NOT_JSON, b'{"x":' * 200_000),
    "null": (Reason.WRONG_TYPE, b"null"),
    "an array": (Reason.WRONG_TYPE, b"[1, 2, 3]"),
    "an array of events": (Reason.WRONG_TYPE, b"[" + event() + b"]"),
    "a megabyte of brackets": (Reason.WRONG_TYPE, b"[" * MEGABYTE),
    "a string": (Reason.WRONG_TYPE, b'"event"'),
    "a number": (Reason.WRONG_TYPE, b"17"),
    "a truth": (Reason.WRONG_TYPE, b"true"),
    "key a fraction": (Reason.WRONG_TYPE, event(key="5.5")),
    "key a truth": (Reason.WRONG_TYPE, event(key="true")),
    "key of 257 digits": (Reason.BAD_KEY, event(key="1" * 257)),
    "key of 400 digits": (Reason.BAD_KEY, event(key="1" * 400)),
    "key null": (Reason.WRONG_TYPE, event(key="null")),
    "key an object": (Reason.WRONG_TYPE, event(key="{}")),
    "time a date": (Reason.BAD_TIME, event(time='"2020-09-13"')),
    "time null": (Reason.WRONG_TYPE, event(time="null")),
    "value an object": (Reason.WRONG_TYPE, event(value="{}")),
    "value a string": (Reason.WRONG_TYPE, event(value='"1"')),
    "value a truth": (Reason.WRONG_TYPE, event(value="true")),
    "a wrong type before the right one": (Reason.WRONG_TYPE, b'{"key": [], ' + event()[1:]),
    "nothing in it": (Reason.MISSING_FIELD, b"{}"),
    "no key": (Reason.MISSING_FIELD, b'{"time": 1600000000000, "value": 1}'),
    "no time": (Reason.MISSING_FIELD, b'{"key": "a", "value": 1}'),
    "key empty": (Reason.BAD_KEY, event(key='""')),
    "key too long": (Reason.BAD_KEY, event(key=json.dumps("x" * 257))),
    "a megabyte of key": (Reason.BAD_KEY, event(key=json.dumps("x" * MEGABYTE))),
    "year 1": (Reason.BAD_TIME, event(time="-62135596800000")),
    "year 1970": (Reason.BAD_TIME, event(time="0")),
    "a millisecond before 1980": (Reason.BAD_TIME, event(time="315532799999")),
    "year 2100": (Reason.BAD_TIME, event(time="4102444800000")),
    "year 9999": (Reason.BAD_TIME, event(time="253370764800000")),
    "seconds": (Reason.BAD_TIME, event(time="1600000000")),
    "microseconds": (Reason.BAD_TIME, event(time="1600000000000000")),
    "nanoseconds": (Reason.BAD_TIME, event(time="1600000000000000000")),
    "time of 65 bits": (Reason.BAD_TIME, event(time=str(2**64))),
    "time of 400 digits": (Reason.BAD_TIME, event(time="1" * 400)),
    "negative time of 400 digits": (Reason.BAD_TIME, event(time="-" + "1" * 400)),
    "negative": (Reason.NEGATIVE_VALUE, event(value="-1")),
    "hardly negative": (Reason.NEGATIVE_VALUE, event(value="-1e-300")),
    "above 2^44 units": (Reason.VALUE_TOO_LARGE, event(value="17592186044.001")),
    "of 30 digits": (Reason.VALUE_TOO_LARGE, event(value="1" * 30)),
    "of 400 digits": (Reason.VALUE_TOO_LARGE, event(value="1" * 400)),
    "beyond all doubles": (Reason.VALUE_TOO_LARGE, event(value="1e999")),
}

GOOD: dict[str, tuple[str, int, float, bytes]] = {
    "plain": ("a", TIME, 1.0, event()),
    "white space": ("a", TIME, 1.0, b" \n" + event() + b"\t"),
    "other fields": ("a", TIME, 1.0, event()[:-1] + b', "x": {"y": [null, 1e999]}}'),
    "a megabyte of another field": (
        "a",
        TIME,
        1.0,
        event()[:-1] + b',"x":"%b"}' % (b"y" * MEGABYTE),
    ),
    "a field twice": ("b", TIME, 1.0, event()[:-1] + b', "key": "b"}'),
    "escapes": ("\0\n\U0001f600", TIME, 1.0, event(key='"\\u0000\\n\\ud83d\\ude00"')),
    "the longest key": ("é" * 256, TIME, 1.0, event(key=json.dumps("é" * 256))),
    "key a whole number": ("7", TIME, 1.0, event(key="7")),
    "key a negative number": ("-7", TIME, 1.0, event(key="-7")),
    "key the largest number": (str(2**63 - 1), TIME, 1.0, event(key=str(2**63 - 1))),
    "the earliest time": ("a", 315_532_800_000, 1.0, event(time="315532800000")),
    "the latest time": ("a", 4_102_444_799_999, 1.0, event(time="4102444799999")),
    "nothing": ("a", TIME, 0.0, event(value="0")),
    "minus nothing": ("a", TIME, 0.0, event(value="-0.0")),
    "the largest value": ("a", TIME, 17_592_186_044.0, event(value="17592186044")),
    "the smallest value": ("a", TIME, 5e-324, event(value="5e-324")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_refused_with_its_reason(name: str) -> None:
    """Its row and its reason are told, the good ones around it are read, and the detail is short
    and names the field that is wrong.
    """
    reason, record = BAD[name]
    columns = decoder().decode([event(), record, event()])
    assert columns.rows.tolist() == [0, 2]
    (refusal,) = columns.refusals
    assert (refusal.row, refusal.reason) == (1, reason)
    assert 0 < len(refusal.detail) < 200
    fields = {
        Reason.BAD_KEY: "key",
        Reason.BAD_TIME: "time",
        Reason.NEGATIVE_VALUE: "value",
        Reason.VALUE_TOO_LARGE: "value",
    }
    assert refusal.detail.startswith(fields.get(reason, ""))


@pytest.mark.parametrize("name", GOOD)
def test_a_good_record_is_read(name: str) -> None:
    """At the edges of what is allowed too; of a field that stands twice, the last one counts."""
    key, time, value, record = GOOD[name]
    columns = decoder().decode([record])
    assert columns.refusals == []
    assert columns.rows.tolist() == [0]
    assert (columns.keys.to_pylist(), columns.times.tolist()) == ([key], [time])
    assert columns.numbers[0].tolist() == [value]


def test_numbers_and_texts_are_one_sort_of_key() -> None:
    """7 and "7" are one key, in a batch that has both."""
    columns = decoder().decode([event(key="7"), event(key='"7"'), event(key='"a"')])
    assert columns.keys.to_pylist() == ["7", "7", "a"]


LACKING = {
    "null": '{"value": null, "item": "x", "in": {"n": 1}}',
    "not there": '{"item": "x", "in": {"n": 1}}',
    "an item": '{"value": 1, "in": {"n": 1}}',
    "an object around it": '{"value": 1, "item": "x"}',
    "null around it": '{"value": 1, "item": "x", "in": null}',
    "an empty object around it": '{"value": 1, "item": "x", "in": {}}',
}


@pytest.mark.parametrize("name", LACKING)
def test_what_a_statistic_reads_may_be_lacked(name: str) -> None:
    """NaN, or None for an item; among events that have it, all are read."""
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="1m",
        statistics=[Count(), Sum(), TopItems(field="item"), Maximum(field="in.n")],
        key_field="kafka:key",
        time_field="kafka:timestamp",
    )
    whole = b'{"value": 1, "item": "x", "in": {"n": 1}}'
    lacking = LACKING[name].encode()
    columns = EventDecoder(topology).decode([whole, lacking, whole], [b"k"] * 3, [TIME] * 3)
    fields = msgspec.json.decode(lacking)
    assert columns.refusals == []
    value, n = fields.get("value"), (fields.get("in") or {}).get("n")
    expected = [[1.0, value, 1.0], [1.0, n, 1.0]]
    assert [[None if isnan(x) else x for x in c.tolist()] for c in columns.numbers] == expected
    assert [c.to_pylist() for c in columns.items] == [["x", fields.get("item"), "x"]]


def test_a_key_that_is_an_item_as_well_may_not_be_lacked() -> None:
    """What a statistic reads may be, but not the key: it was counted as one called None."""
    topology = Topology(
        name="t", source="s", span="1h", every="1m", statistics=[Distinct(field="key"), Sum()]
    )
    records = [b'{"time": 1600000000000, "value": 1}', event(key="null"), event()]
    columns = EventDecoder(topology).decode(records)
    assert columns.keys.to_pylist() == ["a"]
    reasons = [refusal.reason for refusal in columns.refusals]
    assert reasons == [Reason.MISSING_FIELD, Reason.WRONG_TYPE]


def test_what_no_statistic_can_take_in_is_a_dead_letter() -> None:
    """Of two statistics, each of which lacks its field; what has one of them is read."""
    topology = Topology(
        name="t", source="s", span="1h", every="1m", statistics=[Sum(), Distinct(field="user")]
    )
    records = [
        b'{"key": "a", "time": %d%b}' % (TIME, rest)
        for rest in (b"", b', "value": 1', b', "user": "u"', b', "user": null')
    ]
    columns = EventDecoder(topology).decode(records)
    assert columns.rows.tolist() == [1, 2]
    assert [(r.row, r.reason, r.detail) for r in columns.refusals] == [
        (row, Reason.MISSING_FIELD, "Object missing required field `value`, `user`")
        for row in (0, 3)
    ]


def in_format(time_format: str, *times: str) -> EventColumns:
    """Events with these times, each as JSON, read in a format."""
    topology = Topology(
        name="t", source="s", span="1h", every="1m", statistics=[Count()], time_format=time_format
    )
    return EventDecoder(topology).decode([event(time=time) for time in times])


@pytest.mark.parametrize("time_format", CLOCKS)
def test_a_millisecond_is_read_as_it_was_written(time_format: str) -> None:
    """From the first to the last that an event may have, and all of a second today."""
    written = TIME_FORMATS[time_format].written
    milliseconds = [
        EARLIEST_TIME_MS,
        EARLIEST_TIME_MS + 1,
        *range(TIME, TIME + 1_000),
        LATEST_TIME_MS - 1,
    ]
    columns = in_format(time_format, *(json.dumps(written(ms)) for ms in milliseconds))
    assert columns.times.tolist() == milliseconds


@pytest.mark.parametrize(
    ("time_format", "time", "ms"),
    [
        ("s", "1600000000", 1_600_000_000_000),
        ("s", '"1600000000.1239"', 1_600_000_000_123),
        ("ms", '"1600000000123"', 1_600_000_000_123),
        ("ms", '" +1.6000000e12 "', 1_600_000_000_000),
        ("ms", "1.6e12", 1_600_000_000_000),
        ("ms", "1600000000123.0", 1_600_000_000_123),
        ("ms", "1600000000123.999", 1_600_000_000_123),
        ("us", '"1600000000123999.9"', 1_600_000_000_124),
        ("ns", '"1600000000123999999"', 1_600_000_000_123),
        ("s", "1600000000.123", 1_600_000_000_123),
        ("s", "1600000000.123999", 1_600_000_000_123),
        ("s", "1.6e9", 1_600_000_000_000),
        ("s", '"1.6E9"', 1_600_000_000_000),  # As Java and Spark write this double.
        ("us", "1600000000123999", 1_600_000_000_123),
        ("ns", "1600000000123999999", 1_600_000_000_123),
        ("iso8601", '"2020-09-13T12:26:40Z"', 1_600_000_000_000),
        ("iso8601", '"2020-09-13 12:26:40.123999+00:00"', 1_600_000_000_123),
        ("iso8601", '"2020-09-13T17:56:40.5+05:30"', 1_600_000_000_500),
        ("iso8601", '"2020-09-13t12:26:40.123456789z"', 1_600_000_000_123),
        ("iso8601", '"2020-09-13T12:26Z"', 1_599_999_960_000),
        ("iso8601", '"2020-09-13T12:26:40+0000"', 1_600_000_000_000),
        ("iso8601", '"20200913T122640Z"', 1_600_000_000_000),
        ("iso8601", '"2020-09-13T12:26:40,250Z"', 1_600_000_000_250),
        ("iso8601", '"2020-09-13T12:25:60Z"', 1_599_999_960_000),
        ("iso8601", '"2020-09-13 12:26:40 +00"', 1_600_000_000_000),
        ("iso8601-utc", '"2020-09-13 12:26:40.123999"', 1_600_000_000_123),
        ("iso8601-utc", '"2020-09-13"', 1_599_955_200_000),
        ("iso8601-utc", '"2020-09-13T17:56:40.5+05:30"', 1_600_000_000_500),
    ],
)
def test_a_moment_has_the_same_millisecond_in_every_format(
    time_format: str, time: str, ms: int
) -> None:
    """What is beyond milliseconds is left off."""
    assert in_format(time_format, time).times.tolist() == [ms]


def test_a_text_of_a_time_that_has_lost_digits_is_no_time() -> None:
    """Excel leaves six digits of thirteen: of all times of three hours the same text."""
    columns = in_format("ms", '"1.76407E+12"', '"1.7640712E12"', '"1764070000000"')
    assert columns.times.tolist() == [1_764_071_200_000, 1_764_070_000_000]
    [refusal] = columns.refusals
    assert refusal.reason is Reason.BAD_TIME
    assert refusal.detail.startswith("time: '1.76407E+12' is no time in milliseconds, and has lost")


@pytest.mark.parametrize("time_format", CLOCKS)
@pytest.mark.parametrize("other", CLOCKS)
def test_no_format_is_taken_for_another(time_format: str, other: str) -> None:
    """The first and the last time of each format are none in any other."""
    times = [
        json.dumps(TIME_FORMATS[other].written(ms)) for ms in (EARLIEST_TIME_MS, LATEST_TIME_MS - 1)
    ]
    columns = in_format(time_format, *times)
    # With a zone is one of the ways to write times that may have none.
    is_same = other == time_format or (time_format, other) == ("iso8601-utc", "iso8601")
    assert len(columns.times) == (2 if is_same else 0)
    assert {refusal.reason for refusal in columns.refusals} <= {Reason.BAD_TIME, Reason.WRONG_TYPE}


@pytest.mark.parametrize(
    ("time_format", "time"),
    [
        ("s", "315532799.999"),
        ("s", "4102444800"),
        ("s", "4102444799.9999996"),
        ("s", "1e308"),
        ("us", "4102444800000000"),
        ("ns", "4102444800000000000"),
        ("ns", "9223372036854775808"),
        ("iso8601", '"1979-12-31T23:59:59.999Z"'),
        ("iso8601", '"2100-01-01T00:00:00Z"'),
        ("iso8601", '"0001-01-01T00:00:00+14:00"'),
        ("iso8601", '"9999-12-31T23:59:59-14:00"'),
        ("iso8601", '"2020-09-13T12:26:40"'),
        ("iso8601", '"2020-09-13"'),
        ("iso8601", '"2020-02-30T12:26:40Z"'),
        ("iso8601-utc", '"1979-12-31T23:59:59.999"'),
        ("iso8601-utc", '"0001-01-01T00:00:00"'),
        ("iso8601-utc", '"9999-12-31T23:59:59"'),
        ("iso8601", '"noon"'),
        ("iso8601", '"2020-09-13T12:26:40+05:75"'),
        ("iso8601", '"2020-09-13T24:00:00Z"'),
        ("ms", '"1600000000"'),
        ("ms", '"2020-09-13T12:26:40Z"'),
        ("ns", '"9223372036854775808"'),
        ("s", '"nan"'),
        ("iso8601", '""'),
    ],
)
def test_what_is_no_time_is_refused_in_every_format(time_format: str, time: str) -> None:
    """Out of range, without a time zone, or no date: a dead letter that names the field."""
    columns = in_format(time_format, time)
    (refusal,) = columns.refusals
    assert refusal.reason is Reason.BAD_TIME
    assert refusal.detail.startswith("time: ")
    assert len(columns.times) == 0


def test_an_array_of_events_is_named() -> None:
    (refusal,) = decoder().decode([b" [" + event() + b"]"]).refusals
    assert refusal.reason is Reason.WRONG_TYPE
    assert refusal.detail.endswith("a record is one event, so have each of the array sent alone")


def test_key_and_time_of_the_record_itself() -> None:
    """As UTF-8 text and in milliseconds; a record that has none is refused, and so is its JSON when
    it is none.
    """
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="1m",
        statistics=[Sum()],
        key_field="kafka:key",
        time_field="kafka:timestamp",
    )
    good = b'{"value": 1, "key": null, "time": null}'
    rows: list[tuple[bytes | None, int, bytes | None]] = [
        (b"a", TIME, good),
        (None, TIME, good),
        (b"", TIME, good),
        ("é".encode() * 256, TIME + 1, good),
        ("é".encode() * 257, TIME, good),
        (b"\xff", TIME, good),
        (b"a", -1, good),
        (b"a", TIME, b"{"),
        (b"a", TIME, None),
        (None, -1, good),
        (b"a", TIME + 2, good),
    ]
    keys, timestamps, values = zip(*rows, strict=True)
    columns = EventDecoder(topology).decode(values, keys, timestamps)
    assert columns.rows.tolist() == [0, 3, 10]
    assert columns.keys.to_pylist() == ["a", "é" * 256, "a"]
    assert columns.times.tolist() == [TIME, TIME + 1, TIME + 2]
    assert [(refusal.row, refusal.reason.value) for refusal in columns.refusals] == [
        (1, "bad-key"),
        (2, "bad-key"),
        (4, "bad-key"),
        (5, "bad-key"),
        (6, "bad-time"),
        (7, "not-json"),
        (9, "bad-key"),
    ]
    assert columns.passed_over.tolist() == [8]


def test_a_field_may_be_called_as_what_kafka_keeps() -> None:
    """Written as a list, it is a field."""
    declared: Any = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    topology = Topology(**declared, statistics=[Count()], key_field=["kafka:key"])
    columns = EventDecoder(topology).decode([b'{"kafka:key": "a", "time": %d}' % TIME])
    assert columns.keys.to_pylist() == ["a"]


def test_an_empty_batch_has_empty_columns() -> None:
    """No records, no rows, no refusals; the columns keep their types."""
    columns = decoder().decode([])
    assert (columns.keys.to_pylist(), columns.refusals) == ([], [])
    assert [c.dtype.str[1:] for c in (columns.rows, columns.times, columns.numbers[0])] == [
        "i8",
        "i8",
        "f8",
    ]
    assert len(columns.rows) == len(columns.times) == len(columns.numbers[0]) == 0


@pytest.mark.parametrize("decimals", range(10))
def test_the_largest_value_follows_from_the_decimals(decimals: int) -> None:
    """2^44 units of the last place, and not two whole ones more (one more may be no double)."""
    largest = 2**44 // 10**decimals
    columns = decoder(decimals=decimals).decode(
        [event(value=str(largest)), event(value=str(largest + 2))]
    )
    assert columns.numbers[0].tolist() == [largest]
    assert [refusal.reason for refusal in columns.refusals] == [Reason.VALUE_TOO_LARGE]


def test_what_no_statistic_reads_may_be_anything() -> None:
    """A count needs no value: it may be wrong, or not there."""
    records = [event(value="-1"), event(value='"1"'), b'{"key": "a", "time": 1600000000000}']
    columns = decoder(decimals=None).decode(records)
    assert (columns.keys.to_pylist(), columns.numbers) == (["a"] * 3, ())
    assert columns.refusals == []


def test_fields_of_nested_objects_are_read() -> None:
    """A path leads to each; what is missing or wrong on the way is named."""
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="1m",
        statistics=[Sum(field="request.bytes"), Mean(field="request.took.ms"), Mean()],
        key_field="user.id",
        time_field="at",
    )
    good = {
        "user": {"id": "u"},
        "at": TIME,
        "request": {"bytes": 5, "took": {"ms": -1.5, "s": 0}},
        "value": 2,
    }
    records = [good, {**good, "request": 7}, {**good, "user": {}}]
    columns = EventDecoder(topology).decode([json.dumps(record).encode() for record in records])
    assert columns.keys.to_pylist() == ["u"]
    assert [column.tolist() for column in columns.numbers] == [[5.0], [-1.5], [2.0]]
    assert [(refusal.reason, refusal.detail) for refusal in columns.refusals] == [
        (Reason.WRONG_TYPE, "request: Expected `object`, got `int`"),
        (Reason.MISSING_FIELD, "user: Object missing required field `id`"),
    ]


def test_a_name_with_a_dot_is_given_as_a_list() -> None:
    """As a text it would be a path."""
    topology = Topology(
        name="t", source="s", span="1h", every="1m", statistics=[Sum(field=["http.bytes"])]
    )
    record = {"key": "a", "time": TIME, "http.bytes": 7, "http": {"bytes": 8}}
    columns = EventDecoder(topology).decode([json.dumps(record).encode()])
    assert columns.numbers[0].tolist() == [7]


@pytest.mark.parametrize("name", ["a`b", "größe", "two words", "$", "key >= value"])
def test_fields_may_have_any_name(name: str) -> None:
    """The reason is found, and the field is named, whatever it is called."""
    record = {"key": "", "time": TIME, name: 1}
    bad_key = decoder(value=name).decode([json.dumps(record).encode()])
    assert bad_key.refusals[0].reason is Reason.BAD_KEY
    record = {"key": "a", "time": TIME, name: -1}
    negative = decoder(value=name).decode([json.dumps(record).encode()])
    assert negative.refusals[0].reason is Reason.NEGATIVE_VALUE
    assert negative.refusals[0].detail.startswith(f"{name}: ")


FRAGMENTS = st.sampled_from(
    b'{ } [ ] "key" "time" "value" : , " \\u d800 1600000000000 -1 1e5 null true \xff "a"'.split()
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["key", "time", "x"]), inner),
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.text() | JSON,
        "time": st.integers(315_532_800_000, 4_102_444_799_999) | JSON,
        "value": st.floats() | st.integers() | JSON,
        "more": JSON,
    },
)
RECORDS = st.one_of(
    st.none(),
    st.binary(),
    st.lists(FRAGMENTS, max_size=30).map(b"".join),
    EVENTS.map(lambda fields: json.dumps(fields).encode("utf-8", "replace")),
)


@settings(laws, max_examples=40)
@given(st.lists(RECORDS, max_size=20))
def test_any_bytes_are_read_or_refused(records: list[bytes | None]) -> None:
    """Nothing raises; rows and refusals are a partition of the batch; what was read is in range."""
    columns = decoder().decode(records)
    refused = [refusal.row for refusal in columns.refusals]
    assert sorted(columns.rows.tolist() + refused) == list(range(len(records)))
    assert columns.rows.tolist() == sorted(columns.rows.tolist())
    assert refused == sorted(refused)
    for key, time, value in zip(
        columns.keys.to_pylist(), columns.times, columns.numbers[0], strict=True
    ):
        assert 1 <= len(key) <= 256
        assert key.encode().decode() == key
        assert 315_532_800_000 <= time < 4_102_444_800_000
        assert isnan(value) or 0 <= value <= 9_007_199_254_740
    for refusal in columns.refusals:
        refusal.detail.encode()
