"""Frames of window functions: what a call costs, and that its answer is that of the frame alone."""

from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.errors import SlidestatError
from slidestat.spark.sql import aggregates
from slidestat.spark.sql.frames import Column, FrameSynopsis
from slidestat.synopses.core.arrays import Integers

MINUTE = 60


def _column(rows: int, seed: int = 5) -> tuple[pd.Series, pd.Series]:
    chance = np.random.default_rng(seed)
    v = pd.Series((chance.random(rows) < 0.4).astype(np.int64))
    t = pd.Series(np.cumsum(chance.integers(0, 4, rows)))
    return v, t


def _of(number: float, rows: int = 1) -> pd.Series:
    return pd.Series(np.full(rows, number))


@settings(deadline=None, max_examples=60)
@given(
    moves=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=40),
    k=st.sampled_from([1, 2, 10]),
    seed=st.integers(0, 9),
)
def test_count_of_every_frame_is_off_by_one_kth_at_most(
    moves: list[tuple[int, int]], k: int, seed: int
) -> None:
    """However frames move, forth or back, overlapping or not, |count - exact| <= exact / k."""
    v, t = _column(2_000, seed)
    count = aggregates.basic_count()
    start = end = 0
    for by_start, by_end in moves:
        end = (end + by_end) % len(v) + 1
        start = min(end - 1, (start + by_start) % len(v))
        frame = slice(start, end)
        got = count(v.iloc[frame], t.iloc[frame], _of(k, end - start))
        exact = int(v.iloc[frame].sum())
        assert got is not None
        assert abs(got - exact) <= exact / k


@pytest.mark.parametrize("rows", [1, 300, None], ids=["last row", "300 rows", "all before"])
def test_frames_that_follow_each_other_are_fed_once(rows: int | None) -> None:
    """The rows fed over all frames of a column are at most 1 1/4 of its rows, also where every
    frame begins at the column's start.
    """
    values, times = np.ones(20_000), np.arange(20_000)

    def run(_s: bytes | None, _r: Integers, _v: Column, _now: int, n: int) -> tuple[bytes, int]:
        return b"state", n

    synopsis = FrameSynopsis(run)
    for end in range(1, len(values) + 1):
        start = 0 if rows is None else max(0, end - rows)
        assert synopsis.answer(values[start:end], times[start:end]) == end - start
    assert synopsis.rows_fed <= 1.25 * len(values)


def test_another_column_at_the_same_place_is_not_taken_for_the_first() -> None:
    """Frames of columns made one after another are answered each by its own rows."""
    count = aggregates.basic_count()
    for ones in range(50):
        v = pd.Series(np.concatenate((np.ones(ones), np.zeros(100 - ones))))
        assert count(v, pd.Series(np.arange(100)), _of(1_000, 100)) == ones


def test_two_calls_that_differ_in_k_do_not_mix() -> None:
    """One function asked with two k in turn keeps a synopsis for each."""
    v, t = pd.Series(np.ones(5_000)), pd.Series(np.arange(5_000))
    count = aggregates.basic_count()
    for end in range(1_000, 5_001, 100):
        for k in (1, 100):
            got = count(v.iloc[:end], t.iloc[:end], _of(k, end))
            assert got is not None
            assert abs(got - end) <= end / k


def test_an_interval_keeps_the_rows_within_it_of_the_newest() -> None:
    """With an interval, both ends count, and rows need not come in order of time."""
    v, t = pd.Series([1, 1, 1, 1, 1]), pd.Series([100, 40, 39, 90, 100])
    assert aggregates.basic_count()(v, t, _of(1_000, 5), pd.Series([60] * 5)) == 4


def test_nulls_do_not_count() -> None:
    """Rows without a value are left out by each function, as by SQL's own."""
    t = pd.Series(np.arange(4))
    v = pd.Series([1.0, np.nan, 1.0, np.nan])
    assert aggregates.basic_count()(v, t, _of(10, 4)) == 2
    assert aggregates.basic_sum()(v * 2.5, t, _of(10, 4)) == pytest.approx(5, rel=1 / 10)
    assert aggregates.basic_distinct()(v, t, _of(10, 4)) == 1
    assert aggregates.basic_quantile()(v * np.nan, t, _of(10, 4), _of(0.5, 4)) is None
    top = aggregates.basic_top()(pd.Series(["a", None, "b", "a"]), t, _of(10, 4))
    assert top is not None
    assert [(item["item"], item["estimate"]) for item in top] == [("a", 2.0), ("b", 1.0)]


def test_a_frame_without_rows_has_no_answer() -> None:
    """Counts and sums of nothing are 0, a quantile of nothing is NULL, a list is empty."""
    none = pd.Series([], dtype=np.float64)
    assert aggregates.basic_count()(none, none, none) == 0
    assert aggregates.basic_distinct()(none, none, none) == 0
    assert aggregates.basic_sum()(none, none, none) == 0
    assert aggregates.basic_quantile()(none, none, none, none) is None
    assert aggregates.basic_top()(none, none, none) == []


T = pd.Series([1, 2])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: aggregates.basic_count()(pd.Series([1, 7]), T, _of(2, 2)), "neither 0 nor 1"),
        (lambda: aggregates.basic_count()(pd.Series(["a", "b"]), T, _of(2, 2)), "no number"),
        (lambda: aggregates.basic_sum()(pd.Series(["1", "2"]), T, _of(2, 2)), "no number"),
        (lambda: aggregates.basic_sum()(pd.Series([1, -7]), T, _of(2, 2)), "negative"),
        (lambda: aggregates.basic_sum()(pd.Series([1, 2**54]), T, _of(2, 2)), "above 9.007"),
        (lambda: aggregates.basic_quantile()(T / 0, T, _of(2, 2), _of(0.5, 2)), "infinite"),
        (lambda: aggregates.basic_count()(T - 1, T, _of(0, 2)), "k is 0"),
        (lambda: aggregates.basic_count()(T - 1, T, pd.Series([2, 3])), "differs from row to row"),
        (lambda: aggregates.basic_count()(T - 1, T, _of(2, 2), T), "interval differs from row"),
        (lambda: aggregates.basic_quantile()(T, T, _of(2, 2), _of(1.5, 2)), "from 0 to 1"),
        (lambda: aggregates.basic_quantile()(T, T, _of(2, 2)), "3 arguments"),
        (
            lambda: aggregates.basic_count()(T - 1, T.where(T > 1), _of(2, 2)),
            "NULL in some rows",
        ),
        (
            lambda: aggregates.basic_count()(
                T - 1, T, _of(2, 2), pd.Series(pd.to_timedelta([1, 1]))
            ),
            "the interval",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(call, told: str) -> None:  # type: ignore[no-untyped-def]
    """Arguments that make no sense end in one error of ours, which says what to give."""
    with pytest.raises(SlidestatError, match=told) as caught:
        call()
    assert caught.value.advice


@pytest.mark.parametrize("values", [[2**53 + 1], [Decimal(2**53 + 1)], [7, 2**53 + 1]], ids=str)
def test_no_sum_takes_a_number_that_it_would_round(values: list[int | Decimal]) -> None:
    times = pd.Series(range(len(values)))
    total, k = aggregates.basic_sum(), _of(10**6, len(values))
    with pytest.raises(SlidestatError, match="9007199254740993 is above 9007199254740992"):
        total.bounds(pd.Series(values), times, k)
    largest = total.bounds(pd.Series([2**53]), times[:1], k[:1])
    assert largest is not None
    assert largest["lower"] <= 2**53 <= largest["upper"]


@pytest.mark.parametrize("places", [9, 10, 12, 18, 30])
def test_places_that_a_sum_does_not_keep_are_between_its_bounds(places: int) -> None:
    """Of decimals with more than nine places: the exact sum lies between them all the same."""
    chance = Random(places)
    for rows in (1, 2, 50, 400):
        values = [
            Decimal(chance.randrange(10 ** chance.randrange(1, places + 4))).scaleb(-places)
            for _ in range(rows)
        ]
        for k in (2, 100):
            column = pd.Series(values)
            found = aggregates.basic_sum().bounds(column, pd.Series(range(rows)), _of(k, rows))
            assert found is not None
            exact = sum(map(Fraction, values))
            assert Fraction(found["lower"]) <= exact <= Fraction(found["upper"])
