"""Event times of every kind of column come to the same milliseconds."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.engine.decoding.times import NOT_A_TIME, event_times, remark_on_rounded
from slidestat.options import TimeUnit
from slidestat.produce.cells import count_zoneless, epoch_ms

MS = TimeUnit.MILLISECONDS
NEW_YEAR_2001_MS = 978_307_200_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2001-01-01", NEW_YEAR_2001_MS),
        ("20010101T000000Z", NEW_YEAR_2001_MS),
        ("2001-01-01 00:01", NEW_YEAR_2001_MS + 60_000),
        ("2001-01-01T00:00:00Z", NEW_YEAR_2001_MS),
        ("2001-01-01T00:00:00z", NEW_YEAR_2001_MS),
        ("2001-01-01T02:00:00+02:00", NEW_YEAR_2001_MS),
        ("2001-01-01T02:00:00+0200", NEW_YEAR_2001_MS),
        ("2000-12-31T18:30:00-05:30", NEW_YEAR_2001_MS),
        ("2001-01-01T00:00:00.5", NEW_YEAR_2001_MS + 500),
        ("2001-01-01T00:00:00.001999Z", NEW_YEAR_2001_MS + 1),
        ("2001-01-01T00:00:00.0019994999Z", NEW_YEAR_2001_MS + 1),
        ("2001-01-01T00:00:00.0019995Z", NEW_YEAR_2001_MS + 1),
        ("2001-01-01T00:00:00.001999999", NEW_YEAR_2001_MS + 1),
        ("2001-01-01T01:00:00,9999999+01:00", NEW_YEAR_2001_MS + 999),
        ("  2001-01-01  ", NEW_YEAR_2001_MS),
        ("\xa02001-01-01\u202f", NEW_YEAR_2001_MS),
        ("\xa0978307200000\u2009", NEW_YEAR_2001_MS),
        ("\x1f978307200000", None),
        ("\ufeff2001-01-01", None),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("-0.6", -1),
        ("1900-02-28", -2_203_977_600_000),
        ("2000-02-29T12:00:00Z", 951_825_600_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2016-12-31T23:59:60.25Z", 1_483_228_800_250),
        ("978307200000", NEW_YEAR_2001_MS),
        ("+978307200000", NEW_YEAR_2001_MS),
        ("++978307200000", None),
        ("-1", -1),
        ("978307200000.6", NEW_YEAR_2001_MS),
        ("9.7830720e11", NEW_YEAR_2001_MS),
        ("1.7640712345E+12", 1_764_071_234_500),
        (" +176407123456.7E1 ", 1_764_071_234_567),
        ("0001.764071e+12", None),
        (".001764072E15", None),
        ("1.76407E+12", None),
        ("1.76407e12", None),
        ("1.764E12", 1_764_000_000_000),
        ("1900-02-29", None),
        ("2001-13-01", None),
        ("2001-01-01T25:00:00Z", None),
        ("yesterday", None),
        ("0x10", None),
        ("nan", None),
        ("", None),
        ("\u0661\u0662", None),
        ("9" * 400, None),
    ],
)
def test_text(text: str, expected_ms: int | None) -> None:
    """A text means the same alone, among its like, and among texts of other kinds."""
    company = ["2001-01-01", "2001-01-01T00:00:00Z", "5", None, "nonsense"]
    for column in ([text], [text, text], [*company, text], [text, *company]):
        found = epoch_ms(pa.array(column), MS).to_pylist()
        assert {f for f, c in zip(found, column, strict=True) if c == text} == {expected_ms}


@pytest.mark.parametrize(
    ("unit", "value", "expected_ms"),
    [
        (TimeUnit.SECONDS, 978_307_200, NEW_YEAR_2001_MS),
        (TimeUnit.SECONDS, -1, -1_000),
        (TimeUnit.SECONDS, 2**62, None),
        (TimeUnit.MILLISECONDS, NEW_YEAR_2001_MS, NEW_YEAR_2001_MS),
        (TimeUnit.MICROSECONDS, NEW_YEAR_2001_MS * 1_000 + 999, NEW_YEAR_2001_MS),
        (TimeUnit.MICROSECONDS, -1, -1),
        (TimeUnit.NANOSECONDS, -1_000_000, -1),
        (TimeUnit.NANOSECONDS, -1_000_001, -2),
    ],
)
def test_integers(unit: TimeUnit, value: int, expected_ms: int | None) -> None:
    """Integers count the unit that was told, and fall to the millisecond before."""
    for kind in (pa.int64(), pa.string()):
        column = pa.array([value, None], pa.int64()).cast(kind)
        assert epoch_ms(column, unit).to_pylist() == [expected_ms, None]


def test_unsigned_integers() -> None:
    """Unsigned integers are read, and one beyond all dates is none."""
    column = pa.array([NEW_YEAR_2001_MS, 2**64 - 1], pa.uint64())
    assert epoch_ms(column, MS).to_pylist() == [NEW_YEAR_2001_MS, None]


def test_floats() -> None:
    """Floating-point numbers fall to the millisecond before; NaN and infinity are no times."""
    column = pa.array([978_307_200.1239, float("nan"), float("inf"), None, 1e300, -1e300])
    expected = [NEW_YEAR_2001_MS + 123, None, None, None, None, None]
    assert epoch_ms(column, TimeUnit.SECONDS).to_pylist() == expected
    whole = pa.array([(NEW_YEAR_2001_MS + 1) * 1e6 - 128])
    assert epoch_ms(whole, TimeUnit.NANOSECONDS).to_pylist() == [NEW_YEAR_2001_MS]


# Of a log's own kind: seconds with six digits, which are no doubles.
SECONDS = [f"1331901{second:03}.{(second * 7_919 + 999) % 1_000_000:06}" for second in range(997)]


@pytest.mark.parametrize(
    ("unit", "time_format", "numbers"),
    [
        (TimeUnit.SECONDS, "s", [float(text) for text in SECONDS]),
        (TimeUnit.SECONDS, "s", [float(text[:-3]) for text in SECONDS]),
        (TimeUnit.MICROSECONDS, "us", [int(text.replace(".", "")) for text in SECONDS]),
        (TimeUnit.NANOSECONDS, "ns", [int(text.replace(".", "")) * 1_000 + 7 for text in SECONDS]),
    ],
)
def test_numbers_are_the_milliseconds_that_a_worker_makes_of_them(
    unit: TimeUnit, time_format: str, numbers: list[float]
) -> None:
    """Half of the events of a log with microseconds were once a millisecond later when they came
    through `produce`: the same rule now holds on both ways.
    """
    of_worker = event_times(numbers, TIME_FORMATS[time_format]).tolist()
    assert event_times(list(map(repr, numbers)), TIME_FORMATS[time_format]).tolist() == of_worker
    assert epoch_ms(pa.array(numbers), unit).to_pylist() == of_worker
    assert epoch_ms(pa.array(list(map(repr, numbers))), unit).to_pylist() == of_worker
    whole = [int(text.replace(".", "")) // 1_000 for text in SECONDS]
    assert of_worker == whole


@pytest.mark.parametrize("digits", [3, 6, 7, 9])
def test_texts_are_the_milliseconds_that_a_worker_makes_of_them(digits: int) -> None:
    """ISO 8601, to the digit that is beyond what either keeps."""
    fractions = [f"{(i * 499_999 + 9_995) * 10**6 % 10**9:09}"[:digits] for i in range(500)]
    fractions += ["0019995", "0019994", "9999999", "999999499"] if digits > 6 else []
    texts = [f"2001-01-01T00:00:00.{fraction}Z" for fraction in fractions]
    of_worker = event_times(texts, TIME_FORMATS["iso8601"]).tolist()
    assert epoch_ms(pa.array(texts), MS).to_pylist() == of_worker
    assert [epoch_ms(pa.array([text]), MS)[0].as_py() for text in texts] == of_worker
    moments = [NEW_YEAR_2001_MS * 10**6 + int(f"{fraction:0<9}") for fraction in fractions]
    assert epoch_ms(pa.array(moments, pa.timestamp("ns")), MS).to_pylist() == of_worker


def _any_of(*parts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(parts)


_TEXTS = st.builds(
    "".join,
    st.tuples(
        _any_of("", "", "", " ", "\t", "\xa0", "\u2009 ", "\x1f"),
        _any_of("2020-09-13", "20200913", "2020-W37-7", "2020-0913", "2020-02-30", "20-09-13"),
        _any_of("T", "T", " ", "t", "", "  ", "x"),
        _any_of("12", "1226", "12:26", "12:26:40", "122640", "24:00:00", "23:59:60", "12:26:61"),
        _any_of("", "", ".", ".5", ",25", ".0009995", ".00099949999", ".123456789", ".1234567891"),
        _any_of("", "Z", "z", "+00:00", "+0530", "-05", "+05:75", "+24:00", " +01:00", "+01:00:30"),
        _any_of("", "", "", " ", "\n", "\u3000", "!", "\ufeff"),
    ),
).filter(lambda text: not text.strip().replace(".", "", 1).isdigit())


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.lists(_TEXTS, min_size=1, max_size=20))
def test_both_ways_take_the_same_texts(texts: list[str]) -> None:
    """What `produce` takes a worker takes, to the millisecond; where zones are needed, those that
    have one; each text means the same alone and among others.
    """
    sent = epoch_ms(pa.array(texts), MS).to_pylist()
    in_utc, zoned = (event_times(texts, TIME_FORMATS[f]) for f in ("iso8601-utc", "iso8601"))
    assert [None if ms == NOT_A_TIME else ms for ms in in_utc.tolist()] == sent
    for text, ms, with_zone in zip(texts, sent, zoned.tolist(), strict=True):
        assert with_zone == (NOT_A_TIME if ms is None or count_zoneless(pa.array([text])) else ms)
        assert epoch_ms(pa.array([text]), MS)[0].as_py() == ms


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps(unit: str, zone: str | None) -> None:
    """A timestamp knows its unit and its zone; without a zone it is UTC."""
    moment = datetime(1960, 2, 29, 12, 30, tzinfo=UTC)
    expected_ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    column = pa.array([moment, None], pa.timestamp(unit, zone))
    assert epoch_ms(column, TimeUnit.SECONDS).to_pylist() == [expected_ms, None]


def test_timestamps_fall_to_the_millisecond_before() -> None:
    """Microseconds before 1970 round down as those after it do."""
    column = pa.array([-1, -1_000, -1_001, 1_999], pa.timestamp("us"))
    assert epoch_ms(column, MS).to_pylist() == [-1, -1, -2, 1]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates(kind: pa.DataType) -> None:
    """A date is its midnight in UTC."""
    column = pa.array([date(2001, 1, 1), date(1969, 12, 31), None], kind)
    assert epoch_ms(column, MS).to_pylist() == [NEW_YEAR_2001_MS, -86_400_000, None]


@pytest.mark.parametrize("scale", [-8, -6, -3, 0, 3])
def test_decimals_have_all_their_digits(scale: int) -> None:
    """Also those of a negative scale, which Arrow writes with a power: 9.784E+11."""
    column = pa.array([Decimal(978_400_000_000)], pa.decimal128(18, scale))
    assert epoch_ms(column, MS).to_pylist() == [978_400_000_000]


@pytest.mark.parametrize("column", [pa.array([True]), pa.nulls(1), pa.array([[1]])])
def test_other_columns_hold_no_times(column: pa.Array) -> None:
    """Booleans, nulls and lists are no times."""
    assert epoch_ms(column, MS).to_pylist() == [None]


@pytest.mark.parametrize(
    ("text", "is_rounded"),
    [("1.76407E+12", True), (" 1.76407e+18", True), ("1e300", False), ("-1E+999", False)],
)
def test_what_is_no_time_in_any_unit_has_lost_no_digits(text: str, *, is_rounded: bool) -> None:
    """It is too large, as a cell of doubles may be, too."""
    assert ("lost its last digits" in remark_on_rounded(text)) is is_rounded


def test_text_agrees_with_the_standard_library() -> None:
    """Offsets of every quarter of an hour, read at once, are those of datetime."""
    zones = [timezone(timedelta(minutes=m)) for m in range(-14 * 60, 14 * 60 + 1, 15)]
    moments = [datetime(2012, 6, 30, 23, 59, 59, 123_000, tzinfo=zone) for zone in zones]
    column = pa.array([moment.isoformat() for moment in moments])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [(moment - epoch) // timedelta(milliseconds=1) for moment in moments]
    assert epoch_ms(column, MS).to_pylist() == expected
