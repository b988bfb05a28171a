"""Figures are written for people: what they are of, which window, how sure."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from slidestat import Sum, Topology, TopologyDriver
from slidestat.schemas.emission import Figure
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text import (
    Row,
    cells,
    iso_time,
    numbers_text,
    plain_detail,
    qualified,
    window_text,
)

END_MS = 978_328_800_000


_HALF = "the record has half of a character, such as \\ud83d alone: its text was cut there"


def test_details_of_letters_in_plain_words() -> None:
    """What a letter's header has in a library's words is said plainly, of each kind of refusal."""
    refused = {
        b'{"key":"k","time":"yesterday","value":1}': "time: 'yesterday' is no time in milliseconds",
        b'{"key":"k","time":1764006000000,"value":"x"}': "value is a text, not a number",
        b'{"key":"k","time":1764006000000,"value":"4"}': "value is a text, not a number, the text"
        " of a number, which cast(value as double) reads in a computed field",
        b'{"key":"k","value":1}': "time is missing",
        b'{"key":5.5,"time":1764006000000}': "key is a number, not a text or a whole number",
        b'{"key":"","time":1764006000000,"value":1}': "key is empty",
        b'{"key":"%s","time":1764006000000,"value":1}' % (b"x" * 257): "key has more than 256"
        " characters",
        b'{"key":"k","time":true}': "time is a truth value, not a text or a number",
        b'{"key":"k","time":1764006000,"value":1}': "time is before 1980, read as milliseconds",
        b'{"key":"k","time":9764006000000,"value":1}': "time is after 2099, read as milliseconds",
        b'{"key":"k","time":1764006000000,"value":-4}': "value is negative",
        b'{"key":"k","time":1764006000000,"value":1e400}': "value is beyond the largest double",
        b'{"key":"k","time":1764006000000,': "the record ends before its JSON is complete",
        b'{"key":"k","time":1764006000000,"note":"\\ud83d"}': _HALF,
        b'{"key":"k","time":1764006000000,"note":"\\ud83d","value":1}': _HALF,
        b'{"key":"\\ud83d","time":1764006000000}': _HALF,
        b'{"key":"\\ude00 of it","time":1764006000000}': _HALF,
        b'{"key":"k","time":1764006000000,"note":"\\ud83d': "the record ends before its JSON is"
        " complete",
        b'{"key":"k","time":1764006000000,"value":1}\n{"key":"k"}': "more follows behind the JSON"
        " of the record (byte 44): a record is one event, so have each sent alone",
        b"hello": "JSON is malformed: invalid character (byte 0)",
        b"[1]": "the record is a list, not an object: a record is one event, so have each of the"
        " array sent alone",
        b'{"key":"\xff","time":1764006000000,"value":1}': "the record is no UTF-8 (0xff)",
    }
    driver = TopologyDriver(
        Topology(name="t", source="s", span="1h", every="1m", statistics=(Sum(),))
    )
    for record in refused:
        driver.send_bytes(record)
    details = [plain_detail(letter.detail) for letter in driver.dead_letters]
    assert details == list(refused.values())
    assert plain_detail("request: Expected `object`, got `int`") == (
        "request is a whole number, not an object"
    )
    assert plain_detail("a: b: Object missing required field `c`") == (
        "a: b: Object missing required field `c`"
    )


@pytest.mark.parametrize(
    ("time_format", "early", "late", "unit"),
    [
        ("s", "315532799", "4102444800", "seconds"),
        ("ms", "315532799999", "4102444800000", "milliseconds"),
        ("us", "315532799999999", "4102444800000000", "microseconds"),
        ("ns", "315532799999999999", "4102444800000000000", "nanoseconds"),
    ],
)
def test_times_in_another_unit_in_plain_words(
    time_format: str, early: str, late: str, unit: str
) -> None:
    """In every unit, whether they are whole numbers or not."""
    driver = TopologyDriver(
        Topology(name="t", source="s", span="1h", every="1m", time_format=time_format)
    )
    times = (early, "3e2", late, f"{late}.5")
    for time in times:
        driver.send_bytes(b'{"key":"k","time":%s}' % time.encode())
    details = [plain_detail(letter.detail) for letter in driver.dead_letters]
    where = ("before 1980", "before 1980", "after 2099", "after 2099")
    assert details == [f"time is {it}, read as {unit}" for it in where]


def test_details_that_are_no_more_than_they_say() -> None:
    """A number of a sequence is no time, and what others write is theirs."""
    driver = TopologyDriver(
        Topology(name="t", source="s", span="10 events", every="5 events", time_format="sequence")
    )
    driver.send_bytes(b'{"key":"k","time":315532800000}')
    driver.send_bytes(b'{"key":"k","time":-1}')
    details = [plain_detail(letter.detail) for letter in driver.dead_letters]
    assert details == ["time is above 315532799999", "time is negative"]
    assert plain_detail("x: Expected `float` >= a lot") == "x: Expected `float` >= a lot"
    assert plain_detail("Number out of range") == "the record is beyond the largest double"


def test_cells() -> None:
    """The cells are the figure for people; half the bounds' width is the ± share."""
    figure = Figure("count", 1234567.5, 1222221.825, 1246913.175, window_ms=86_400_000)
    assert cells(Row("ATL", END_MS, figure)) == (
        "ATL",
        "count",
        "1d",
        "2001-01-01T06:00:00Z",
        "1,234,568",
        "1,222,221",
        "1,246,914",
        "1.00",
    )


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((0.7240940877, 0.7201017812, 0.7280813215), ("0.72409", "0.7201", "0.72809")),
        ((605.5, 600.0, 611.5), ("605.5", "600", "611.5")),
        ((1234.567891, 1201.123456, 1260.987654), ("1,234.6", "1,201.1", "1,261")),
        ((100000.0, 1000.0, 1e7), ("100,000", "1,000", "10,000,000")),
        ((0.7, 0.69, 0.71), ("0.7", "0.69", "0.71")),
        ((-0.0001, -0.5, 0.5), ("0", "-0.5", "0.5")),
        # Exact, without bounds, and beyond what is written out.
        ((1 / 3, 1 / 3, 1 / 3), ("0.3333333333",) * 3),
        ((None, None, None), ("-", "-", "-")),
        ((1.5, None, 2.0), ("1.5", "-", "2")),
        ((1e300, 0.0, 1e301), ("1e+300", "0", "1e+301")),
        ((1e-20, 0.0, 2e-20), ("1e-20", "0", "2e-20")),
        ((0.0, -1.7e308, 1.7e308), ("0", "-1.7e+308", "1.7e+308")),
    ],
)
def test_numbers(
    numbers: tuple[float | None, float | None, float | None], texts: tuple[str, str, str]
) -> None:
    """Three digits of half the bounds' width are shown, and no more."""
    assert numbers_text(*numbers) == texts


@given(
    st.floats(-1e14, 1e14),
    st.floats(0, 1).flatmap(lambda scale: st.floats(0, 10.0 ** (scale * 30 - 15))),
)
def test_shown_bounds_hold(lower: float, width: float) -> None:
    """Bounds as they are shown are no narrower than they are, and at most a hundredth wider."""
    upper = lower + width
    _, low, high = (Decimal(text.replace(",", "")) for text in numbers_text(lower, lower, upper))
    shown, true = high - low, Decimal(repr(upper)) - Decimal(repr(lower))
    if "." in repr(lower) and width > 0 and upper > lower and true > Decimal("1e-9"):
        assert low <= Decimal(repr(lower))
        assert high >= Decimal(repr(upper))
        assert shown <= true * Decimal("1.02") + 2


@pytest.mark.parametrize(
    ("estimate", "lower", "upper", "percent"),
    [
        (0.0, 0.0, 0.0, "0.00"),
        (0.0, 0.0, 1.0, "-"),
        (-200.0, -202.0, -198.0, "1.00"),
        (1e308, -1.7e308, 1.7e308, "170.00"),
        (5e-324, 0.0, 1e300, "inf"),
        (None, None, None, "-"),
        (1.0, None, 2.0, "-"),
        (1.0, 0.5, None, "-"),
    ],
)
def test_share(
    estimate: float | None, lower: float | None, upper: float | None, percent: str
) -> None:
    """The ± share is of the estimate's size, and "-" where there is none."""
    *_, found = cells(Row("ATL", END_MS, Figure("mean", estimate, lower, upper)))
    assert found == percent


def test_what_does_not_exist() -> None:
    """The mean of no events has neither an estimate nor bounds."""
    assert cells(Row("ATL", END_MS, Figure("mean", None, None, None)))[4:] == ("-",) * 4


def test_a_derived_figure_has_no_window_of_its_own() -> None:
    """It has those of its parts, which its name says; a total has all of the stream."""
    for derived, window in ((True, "-"), (False, "all")):
        figure = Figure("error_rate", 0.5, 0.4, 0.6, derived=derived)
        assert cells(Row("ATL", END_MS, figure))[2] == window


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure("quantile", 1, 1, 1, quantile=0.99), "quantile 0.99"),
        (Figure("quantile", 1, 1, 1, quantile=1.0), "quantile 1"),
        (Figure("top", 1, 1, 1, item="/index.html"), 'top "/index.html"'),
        (Figure("top", 1, 1, 1, item=""), 'top ""'),
        (Figure("histogram", 1, 1, 1, at_least=10.0, below=20.0), "histogram [10, 20)"),
        (Figure("histogram", 1, 1, 1, at_least=-0.5, below=0.1), "histogram [-0.5, 0.1)"),
        (Figure("histogram", 1, 1, 1, below=10.0), "histogram (-∞, 10)"),
        (Figure("histogram", 1, 1, 1, at_least=20.0), "histogram [20, ∞)"),
        (Figure("above", 1, 1, 1, at_least=5.0), "above 5"),
        (Figure("above", 1, 1, 1, at_least=12345678901.0), "above 12345678901"),
        (Figure("slow", 1, 1, 1, at_least=5.0), "slow [5, ∞)"),
    ],
)
def test_qualifiers(figure: Figure, text: str) -> None:
    """What tells a figure from others of its statistic stands with the statistic's name."""
    assert qualified(figure) == text


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure("count", 1, 1, 1, window_ms=300_000), "5m"),
        (Figure("count", 1, 1, 1, window_events=1_000), "1,000 events"),
        (Figure("count", 1, 1, 1), "all"),
        (Figure("error_rate", 0.5, 0.4, 0.6, derived=True), ""),
    ],
)
def test_windows(figure: Figure, text: str) -> None:
    """A window is a duration, a number of events, or all there were; a derived figure has none."""
    assert window_text(figure) == text


def test_texts_of_others_do_not_move_the_cursor() -> None:
    """Keys, names and items are anybody's text: control characters are escaped."""
    key, statistic, *_ = cells(
        Row("\x1b[2J", END_MS, Figure("to\rp", 1, 1, 1, item="\x9b2J\u202e"))
    )
    assert key == r"\x1b[2J"
    assert statistic == r'to\rp "\x9b2J\u202e"'


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "0"),
        (EARLIEST_TIME_MS - 1, "315,532,799,999"),
        (EARLIEST_TIME_MS, "1980-01-01T00:00:00Z"),
        (END_MS + 5, "2001-01-01T06:00:00.005Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**62, str(2**62)),
    ],
)
def test_iso_time(time_ms: int, text: str) -> None:
    """A window's end is ISO 8601 in UTC, its number in a sequence, or its number where no date is
    that far.
    """
    assert iso_time(time_ms) == text


def test_a_figure_of_a_statistic_that_was_added_says_since_when() -> None:
    """Beside the other remarks."""
    figure = Figure("mean", 1, 1, 1, window_ms=60_000, counted_from_ms=EARLIEST_TIME_MS)
    row = Row("k", END_MS, figure, provisional=True)
    assert row.marks == "provisional, counted since 1980-01-01T00:00:00Z"
    assert Row("k", END_MS, Figure("mean", 1, 1, 1)).marks == ""
