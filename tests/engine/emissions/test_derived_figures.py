"""Figures that are computed from others: bounds that hold, and are as narrow as what is known."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.expressions.derived_figures import columns_of
from slidestat.declare.expressions.expression import sorts_of
from slidestat.declare.expressions.intervals import Numbers
from slidestat.declare.expressions.known_intervals import Facts, Known, KnownIntervals
from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, Node, Sort
from slidestat.declare.expressions.parsing import parsed
from slidestat.declare.statistics import Count, ItemCounts, Maximum, Quantiles, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.emission import Figure
from tests.engine.cases import laws
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of
from tests.engine.model import Record

# e is at most n, and m is any count; x and y may be anything.
EXPRESSIONS = (
    "e / n",
    "1 - e / n",
    "(n - e) / n",
    "e / (e + m)",
    "(n - e) / (n + m)",
    "n / e",
    "n - e",
    "2 * n - e - n",
    "(e / n) / (m / n)",
    "x - x",
    "x / x",
    "(2 * x + y) / (4 * x + 2 * y)",
    "(x - y) / y",
    "(x + y) / (x - y)",
    "x * y - y * x",
    "x / y - e / n",
    "1 / (n - e)",
    "-e * n / (n * m)",
    "coalesce(e / n, -2) * x",
    "x * 0.1 + 0.2",
    "e / 3 - n / 3",
)
COMPARED: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "=": eq,
    "<>": ne,
}
COUNTS = ("e", "n", "m")
KNOWN = Known(frozenset((name,) for name in COUNTS), frozenset({(("e",), ("n",))}))


def bounds_of(text: str, boxes: dict[str, tuple[float, float, float]]) -> Numbers:
    """The bounds of an expression over figures, by estimate, lower and upper."""
    node = parsed(text, "derived")
    paths = sorts_of(node, Sort.NUMBER, text, "derived", Sort.NUMBER)
    figures = {path: Numbers.of(np.array([boxes[path[0]]])) for path in paths}
    return KnownIntervals(1, figures, Facts(KNOWN)).numbers(node)


def contains(numbers: Numbers, value: Fraction | None) -> bool:
    if value is None:
        return bool(numbers.nulls[0])
    inside = Fraction(numbers.lowers[0]) <= value if np.isfinite(numbers.lowers[0]) else True
    if np.isfinite(numbers.uppers[0]):
        inside &= value <= Fraction(numbers.uppers[0])
    return bool(numbers.values[0]) and inside


@st.composite
def points(draw: st.DrawFn) -> tuple[dict[str, Fraction], dict[str, tuple[float, float, float]]]:
    """Exact figures with what is known of them, and bounds around each, often at one of them."""
    whole, number = st.integers(0, 6), st.floats(-4, 4, width=16)
    reach = st.one_of(st.just(0), st.integers(0, 3))
    e, m = draw(whole), draw(whole)
    exact_of: dict[str, float] = {"e": e, "n": e + draw(whole), "m": m}
    exact_of |= {"x": draw(number), "y": draw(number)}
    boxes = {}
    for name, value in exact_of.items():
        low, high = value - draw(reach), value + draw(reach)
        low = max(0, low) if name in COUNTS else low
        estimate = draw(st.sampled_from((low, high, value)))
        boxes[name] = (float(estimate), float(low), float(high))
    return {name: Fraction(value) for name, value in exact_of.items()}, boxes


def exact(node: Node, point: dict[str, Fraction]) -> Fraction | None:
    """An expression's value in fractions, with SQL's NULL."""
    match node:
        case Literal(value):
            return None if value is None else Fraction(value)
        case FieldValue((name,)):
            return point[name]
        case Call("coalesce", operands):
            return next((it for o in operands if (it := exact(o, point)) is not None), None)
        case Call(operator, operands):
            found = [exact(o, point) for o in operands]
            if None in found or (operator == "/" and not found[1]):
                return None
            plain = {
                "negate": lambda a: -a,
                "+": lambda a, b: a + b,
                "-": lambda a, b: a - b,
                "*": lambda a, b: a * b,
                "/": lambda a, b: a / b,
            }
            return plain[operator](*found)
    raise AssertionError(node)


@settings(laws, max_examples=250)
@given(points(), st.sampled_from(EXPRESSIONS))
def test_bounds_have_every_point_that_can_be(
    drawn: tuple[dict[str, Fraction], dict[str, tuple[float, float, float]]], text: str
) -> None:
    """At the bound too, with zeros in divisors, and NULL where there is none."""
    point, boxes = drawn
    right = exact(parsed(text, "derived"), point)
    found = bounds_of(text, boxes)
    assert contains(found, right), (found, right)


@settings(laws, max_examples=250)
@given(points(), st.tuples(*[st.sampled_from(EXPRESSIONS)] * 2), st.sampled_from(sorted(COMPARED)))
def test_comparisons_have_every_outcome_that_can_be(
    drawn: tuple[dict[str, Fraction], dict[str, tuple[float, float, float]]],
    sides: tuple[str, str],
    operator: str,
) -> None:
    """Whatever is known of the difference of both sides."""
    point, boxes = drawn
    one, other = (exact(parsed(side, "having"), point) for side in sides)
    node = parsed(f"({sides[0]}) {operator} ({sides[1]})", "having")
    figures = {(name,): Numbers.of(np.array([box])) for name, box in boxes.items()}
    found = KnownIntervals(1, figures, Facts(KNOWN)).truths(node)
    if one is None or other is None:
        assert found.may_be_null[0]
    elif COMPARED[operator](one, other):
        assert found.may_be_true[0]
    else:
        assert found.may_be_false[0]


@settings(laws, max_examples=80)
@given(
    st.lists(points(), min_size=1, max_size=4),
    st.sampled_from(("e / n", "(n - e) / n", "e / (e + m)", "(n - e) / (n + m)", "(n - m) / n")),
)
def test_counts_have_the_bounds_of_all_corners(
    drawn: list[tuple[dict[str, Fraction], dict[str, tuple[float, float, float]]]], text: str
) -> None:
    """To the bit: of counts two corners are known to be the outermost ones."""
    node = parsed(text, "derived")
    columns = {
        (name,): Numbers.of(np.array([boxes[name] for _, boxes in drawn])) for name in COUNTS
    }
    found = KnownIntervals(len(drawn), columns, Facts(KNOWN)).numbers(node)
    with patch.object(KnownIntervals, "_is_monotone", return_value=False):
        right = KnownIntervals(len(drawn), columns, Facts(KNOWN)).numbers(node)
    np.testing.assert_array_equal(columns_of(found), columns_of(right))
    np.testing.assert_array_equal(found.nulls, right.nulls)
    np.testing.assert_array_equal(found.values, right.values)


_BOUNDS = st.tuples(*[st.floats(1e-6, 1e18) | st.floats(1e-6, 10)] * 2).map(sorted)


@settings(laws, max_examples=120)
@given(
    _BOUNDS | st.just([0.0, 1.5]),
    _BOUNDS,
    st.sampled_from(("(x - y) / y", "x / (x + y)", "(2 * x - y) / (x + y)")),
)
def test_figures_that_are_not_negative_have_the_bounds_of_two_corners(
    one: list[float], other: list[float], text: str
) -> None:
    """At the least and the largest quotient of all corners, but for the rounding of three steps."""
    boxes = {"x": one, "y": other}
    figures = {
        (name,): Numbers.of(np.array([(low / 2 + high / 2, low, high)]))
        for name, (low, high) in boxes.items()
    }
    node = parsed(text, "derived")
    found = KnownIntervals(1, figures, Facts(Known(frozenset(), frozenset()))).numbers(node)
    points = [dict(zip("xy", map(Fraction, it), strict=True)) for it in product(one, other)]
    corners = [exact(node, it) for it in points]
    least, most = min(corners), max(corners)
    slack = Fraction(1, 2**48) * (max(abs(least), abs(most)) + 2)
    assert least - slack <= Fraction(float(found.lowers[0])) <= least
    assert most <= Fraction(float(found.uppers[0])) <= most + slack


@pytest.mark.parametrize(
    ("text", "is_possible"),
    [
        ("errors_5m > count_5m", False),
        ("not errors_5m <= count_5m", False),
        ("count_5m > count_1h", False),
        ("slow_errors_5m > errors_1h + 1", False),
        ("errors_5m / count_5m > 1", False),
        ("error_rate > 1", False),
        ("quantile_took_p50_5m > quantile_took_p99_5m", False),
        ("quantile_took_p99_5m > maximum_took_5m", False),
        ("count_5m <> count_5m", False),
        ("count_5m > 3 and (errors_1h > count_1h or count_5m < 2)", False),
        ("errors_5m >= count_5m", True),
        ("errors_1h > count_5m", True),
        ("count_1h > count_5m", True),
        ("quantile_took_p99_5m > quantile_took_p50_1h", True),
        ("errors_5m = count_5m and count_5m > 3", True),
    ],
)
def test_a_condition_that_no_events_can_meet_is_refused(text: str, is_possible: bool) -> None:
    """A part is not more than the whole, nor a quantile more than one of a higher rank."""
    for fields in ({"having": text}, {"alerts": (Alert(name="never", when=text),)}):
        if is_possible:
            watched(**fields)
            continue
        with pytest.raises(SlidestatError, match="which no figures make true"):
            watched(**fields)


@pytest.mark.parametrize(
    "text",
    ["e / n", "1 - e / n", "(n - e) / n", "e / (e + m)", "n - e", "2 * n - e - n", "x - x"],
)
def test_bounds_are_those_of_the_worst_points(text: str) -> None:
    """Of shares, rests and differences both are reached, but for a unit in the last place: over all
    whole figures in their bounds that can be.
    """
    node = parsed(text, "derived")
    for lows in product((2, 5, 9), (3, 7, 12), (1, 4)):
        reaches = (1, 4, 2)
        boxes = {
            name: (float(low), float(low), float(low + reach))
            for name, low, reach in zip(COUNTS, lows, reaches, strict=True)
        }
        ranges = [range(low, low + reach + 1) for low, reach in zip(lows, reaches, strict=True)]
        found = [
            right
            for e, n, m in product(*ranges)
            if e <= n
            and (right := exact(node, dict(zip("enmx", map(Fraction, (e, n, m, e)), strict=True))))
            is not None
        ]
        if not found:
            continue
        numbers = bounds_of(text, {**boxes, "x": boxes["e"]})
        for bound, worst in ((numbers.lowers[0], min(found)), (numbers.uppers[0], max(found))):
            assert abs(Fraction(bound) - worst) <= max(1, abs(worst)) * Fraction(3, 2**53)


def test_an_error_rate_is_as_wide_as_two_counts_make_it() -> None:
    """Of counts within 1 %, at most 2 % off to either side and a little, and never beyond 1."""
    declared = watched()
    for share in (1, 2, 10, 1_000):
        driver = TopologyDriver(declared)
        driver.send(*events(30_000, every=share))
        driver.close_windows()
        for emission in driver.emissions:
            count, errors = (_of(emission.figures, it) for it in ("count", "errors"))
            rate = _of(emission.figures, "error_rate")
            assert rate.derived
            if rate.estimate is None:
                assert count.estimate == 0
                continue
            assert errors.lower is not None
            assert rate.lower is not None
            assert rate.upper is not None
            assert 0 <= rate.lower <= rate.estimate <= rate.upper <= 1
            assert rate.upper <= rate.lower * (1.01 / 0.99) ** 2 * (1 + 1e-12)


def watched(**fields: object) -> Topology:
    return Topology(
        **{
            "name": "watched",
            "source": "watched",
            "span": "1h",
            "every": "1m",
            "windows": ("5m", "1h"),
            "statistics": (
                Count(),
                Count(name="errors", where="status >= 500"),
                Count(name="slow_errors", where="took > 1 and status >= 500"),
                Sum(field="took"),
                Quantiles(field="took", quantiles=(0.5, 0.99)),
                Maximum(field="took"),
            ),
            "derived": ("errors_5m / count_5m as error_rate",),
            **fields,
        }  # type: ignore[arg-type]
    )


START = 1_764_000_000_000


def events(count: int, every: int, *, status: int = 500) -> Iterator[dict[str, object]]:
    for i in range(count):
        yield {
            "key": "k",
            "time": START + i * 10,
            "took": float(i % 7),
            "status": 200 if i % every else status,
        }


def _of(figures: Sequence[Figure], name: str) -> Figure:
    return next(it for it in figures if it.statistic == name)


def test_what_is_known_of_figures_is_used() -> None:
    """Of conditions, one with more terms has fewer events; of windows, the shorter; ranks order
    values; and a share of nothing but itself is 1.
    """
    declared = watched(
        derived=(
            "slow_errors_5m / errors_1h as slow",
            "errors_5m / errors_5m as one",
            "count_5m - count_1h as past",
        ),
    )
    driver = TopologyDriver(declared)
    driver.send(*events(30_000, every=3))
    figures = driver.emissions[-1].figures
    slow, one, past = (_of(figures, name) for name in ("slow", "one", "past"))
    assert slow.upper is not None
    assert slow.upper <= 1
    assert (one.lower, one.estimate, one.upper) == (1, 1, 1)
    assert past.upper == 0


def asked(**question: object) -> list[tuple[str, int | None]]:
    """The figures of an answer, over the watched topology's windows or others."""
    return [(it.statistic, it.window_ms) for it in answered(**question)]


def answered(**question: object) -> list[Figure]:
    declared = watched(
        derived=("errors_5m / count_5m as error_rate", "error_rate * 100 as percent")
    )
    processor = PartitionProcessor(declared, SOURCE, PARTITION, MemoryStore())
    rows = [
        Record(place, b"k", msgspec.json.encode(event), START)
        for place, event in enumerate(events(1_000, every=4))
    ]
    processor.process(batch_of(rows))
    answer = LiveQuery(declared, **question).answer(processor.view(), "k")  # type: ignore[arg-type]
    assert answer is not None
    return answer.figures


def test_answers_have_derived_figures_whatever_is_asked() -> None:
    """Over the windows of the topology, or alone; not beside ranks and items, which are all that is
    answered then.
    """
    both = [("error_rate", None), ("percent", None)]
    assert asked()[-2:] == both
    assert asked(windows=["10m"])[-2:] == both
    assert asked(statistics=["percent"]) == both[1:]
    assert asked(windows=["10m"], statistics=["count", "error_rate"]) == [
        ("count", 600_000),
        ("error_rate", None),
    ]
    assert asked(statistics=["errors"]) == [("errors", 300_000), ("errors", 3_600_000)]
    whole, other = answered(), answered(windows=["10m"])
    assert whole[-2:] == other[-2:]


def test_figures_of_now_and_of_before_miss_each_on_their_own() -> None:
    """Whoever reads a figure that holds with a chance twice, of two windows, has both chances
    against it: in a derived figure, in a ranking by it, and in an alert.
    """
    now, before = "item_counts_took_1_5m", "ago(item_counts_took_1_5m, '10m')"
    conditions = {
        "now": f"{now} >= 0",
        "before": f"{before} >= 0",
        "both": f"{now} >= {before}",
        "three": f"{now} >= {before} - ago({now}, '20m')",
        "more": "more <= 100000",
    }
    declared = watched(
        statistics=(Count(), ItemCounts(field="took", items=("1",), delta=0.03)),
        derived=(
            f"{now} / count_5m as share",
            f"{before} / count_5m as past_share",
            f"{now} - {before} as more",
            "share - ago(share, '10m') as grown",
        ),
        alerts=[Alert(name=it, when=f"{when} and count_5m > 0") for it, when in conditions.items()],
    )
    driver = TopologyDriver(declared)
    driver.send(*events(30_000, every=1))
    chances = {it.statistic: it.confidence for it in driver.emissions[-1].figures if it.derived}
    assert chances == {"share": 0.97, "past_share": 0.97, "more": 0.94, "grown": 0.94}
    assert driver.ranking("more").places[0].figure.confidence == 0.94
    told = {it.alert: it.confidence for it in driver.alerts}
    assert told == {"now": 0.97, "before": 0.97, "both": 0.94, "three": 0.91, "more": 0.94}


def test_conditions_know_what_may_be_null() -> None:
    """A rate without events is NULL: it neither fires nor is it certain to be anything but NULL."""
    declared = watched(
        alerts=(
            Alert(name="failing", when="error_rate >= 0", certain=True),
            Alert(name="unknown", when="error_rate is null", certain=True),
        ),
        emit="always",
    )
    driver = TopologyDriver(declared)
    driver.send(*events(10, every=2))
    driver.close_windows()
    told = [(it.alert, str(it.state), it.window_end_ms - START) for it in driver.alerts]
    minute = 60_000
    assert told[:4] == [
        ("failing", "firing", told[0][2]),
        ("failing", "resolved", told[0][2] + 5 * minute),
        ("unknown", "firing", told[0][2] + 5 * minute),
        ("unknown", "resolved", told[-1][2]),
    ]


def test_a_count_that_was_added_later_is_not_at_least_an_older_one() -> None:
    """Its share is beyond 1 until its window is whole, and says from when on it is counted."""
    errors = Count(name="errors", where="status >= 500")
    before = watched(statistics=(errors,), derived=())
    driver = TopologyDriver(before)
    driver.send(*events(5_000, every=1))
    driver.change_statistics(
        replace(before, statistics=(errors, Count()), derived=("errors_5m / count_5m as rate",))
    )
    later = (
        {**event, "time": START + 50_000 + 10 * i} for i, event in enumerate(events(40_000, 1))
    )
    driver.send(*later)
    rates = [_of(it.figures, "rate") for it in driver.emissions]
    partial, whole = rates[0], rates[-1]
    assert partial.lower is not None
    assert partial.lower > 1
    assert partial.counted_from_ms is not None
    assert whole.counted_from_ms is None
    assert whole.lower is not None
    assert whole.lower <= 1


@pytest.mark.parametrize("restarts", [(), (12, 21)])
def test_a_figure_of_the_past_of_an_added_count_is_whole_once_that_is(
    restarts: Sequence[int],
) -> None:
    """Its mark goes at the first tick whose window of before begins behind the count's start, also
    if nothing else changes at that tick, and wherever a worker begins anew.
    """
    before = watched(statistics=(Count(),), derived=(), emit="always", windows=("5m",))
    added = Count(name="errors", where="status >= 500")
    driver = TopologyDriver(before)
    driver.send(*events(5_000, every=1))
    derived = ("count_5m - ago(errors_5m, '10m') as more", "errors_5m / count_5m as rate")
    driver.change_statistics(replace(before, statistics=(Count(), added), derived=derived))
    place = len(driver.emissions)
    for minute in range(1, 30):
        start = START + 60_000 * minute
        driver.send(*({**event, "time": start + 600 * i} for i, event in enumerate(events(99, 1))))
        driver.commit()
        if minute in restarts:
            driver.restart()
    start = _of(driver.emissions[place].figures, "more").counted_from_ms
    assert start is not None
    for emission in driver.emissions[place:]:
        for name, minutes in (("errors", 5), ("rate", 5), ("more", 15)):
            is_whole = emission.window_end_ms - 60_000 * minutes >= start
            assert _of(emission.figures, name).counted_from_ms == (None if is_whole else start)
