"""Aggregates of rows in parts: merged summaries keep what one aggregate of all rows promises."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slidestat.errors import SlidestatError
from slidestat.spark.sql import aggregates
from slidestat.synopses import merge_summaries, read_summary
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.merge.items import MOST_ITEMS
from slidestat.synopses.merge.quantiles import MOST_VALUES

ROWS = 30_000
PARTS = [1, 2, 7, 256]
DISTRIBUTIONS = ["uniform", "pareto", "lognormal", "few"]


def _values(distribution: str) -> Any:
    chance = np.random.default_rng(11)
    match distribution:
        case "uniform":
            return chance.random(ROWS) * 1_000
        case "pareto":
            return chance.pareto(1.2, ROWS) + 1
        case "lognormal":
            return chance.lognormal(3, 2, ROWS)
    return chance.integers(0, 5, ROWS).astype(np.float64)


def _merged(aggregate: Any, values: Any, k: float, parts: int) -> Any:
    """The summary of all values, dealt out as by a hash; one part of NULLs alone is among them."""
    column = pd.Series(values)
    places = np.random.default_rng(parts).integers(0, parts, len(column))
    found = [
        aggregate.summary(part := column[places == place], _of(k, len(part)))
        for place in range(parts)
    ]
    found.append(aggregate.summary(pd.Series([None, None]), _of(k, 2)))
    return read_summary(merge_summaries([one for one in found if one is not None]))


def _of(k: float, rows: int) -> pd.Series:
    return pd.Series(np.full(rows, k))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_totals_are_off_by_one_kth_at_most(distribution: str, parts: int) -> None:
    """However many parts there are: the relative error of a sum is that of its parts."""
    values = _values(distribution)
    for k in (2, 100):
        bits = (values > np.median(values)).astype(np.int64)
        decimals = np.round(values, 6)
        total = sum(Fraction(repr(value)) for value in decimals.tolist())
        for aggregate, column, exact in (
            (aggregates.basic_count(), bits, Fraction(int(bits.sum()))),
            (aggregates.basic_sum(), decimals, total),
        ):
            found = _merged(aggregate, column, k, parts).answer()
            assert found.lower <= exact <= found.upper
            assert abs(Fraction(found.estimate) - exact) <= exact / k


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_quantiles_keep_their_errors(distribution: str, parts: int) -> None:
    """By value both errors of one sketch; by rank 1/k of the rows, and what one compression takes
    off where there are more values than a summary has.
    """
    values = np.sort(_values(distribution))
    k, m = 50, len(values)
    by_value = _merged(aggregates.basic_quantile(), values, k, parts)
    by_rank = _merged(aggregates.basic_rank_quantile(), values, k, parts)
    off = m / k + m / (MOST_VALUES - 4) + 1
    for p in (0.01, 0.5, 0.9, 0.99):
        rank = max(1, -(-m * round(p * 1_000) // 1_000))
        found = by_value.quantile(p)
        assert found.lower <= values[rank - 1] <= found.upper
        share = aggregates.QUANTILE_EPSILON * min(p, 1 - p)
        first, last = int((p - share) * m), min(m, int((p + share) * m) + 1)
        nearest = min(max(found.estimate, values[max(0, first - 1)]), values[last - 1])
        assert abs(found.estimate - nearest) <= nearest / k
        ranked = by_rank.quantile(p)
        assert ranked.lower <= values[rank - 1] <= ranked.upper
        below = int(np.searchsorted(values, ranked.estimate, "left"))
        upto = int(np.searchsorted(values, ranked.estimate, "right"))
        assert below - off < rank <= upto + off


@pytest.mark.parametrize("parts", PARTS)
def test_items_keep_their_errors(parts: int) -> None:
    """Each item's bounds hold and are less than (1/k + 1/2,049) of the rows apart, none with that
    share is missing, also of more items than a summary lists; distinct items are within 1/k.
    """
    chance = np.random.default_rng(3)
    numbers = (chance.pareto(0.7, ROWS - 3_000) * 3).astype(np.int64).tolist()
    items = [f"i{number}" for number in [*numbers, *range(-3_000, 0)]]
    counts, k = Counter(items), 20
    assert len(counts) > MOST_ITEMS
    most_apart = ROWS * (1 / k + 1 / (MOST_ITEMS + 1))
    found = {one.text: one for one in _merged(aggregates.basic_top(), items, k, parts).items()}
    for text, one in found.items():
        assert one.lower <= counts[text] <= one.upper
        assert one.upper - one.lower < most_apart
    assert {item for item, n in counts.items() if n > most_apart} <= found.keys()
    distinct = _merged(aggregates.basic_distinct(), items, 10, parts).answer()
    assert abs(distinct.estimate - len(counts)) <= len(counts) / 10
    assert distinct.lower <= len(counts) <= distinct.upper


def test_parts_of_nulls_alone_change_nothing() -> None:
    """They count nothing; a sum's, of which nobody knows the decimals, have no summary."""
    none = pd.Series([None, None])
    assert aggregates.basic_sum().summary(none, _of(2, 2)) is None
    assert aggregates.basic_sum().summary(none[:0], _of(2, 0)) is None
    count = aggregates.basic_count().summary(none, _of(2, 2))
    assert count is not None
    assert read_summary(count).answer() == (0, 0, 0, 0)  # type: ignore[union-attr]
    prices = [Decimal("1.2500"), Decimal("2.0000"), None]
    total = _merged(aggregates.basic_sum(), prices, 100, 2).answer()
    assert total.lower <= 3.25 <= total.upper
    assert abs(total.estimate - 3.25) <= 3.25 / 100


def test_what_cannot_be_merged_or_counted_says_so() -> None:
    """Distinct items with different errors keep different things; others are refused by their own
    words, as where a group is whole.
    """
    items, rows = pd.Series(["a", "b"]), 2
    parts = [aggregates.basic_distinct().summary(items, _of(k, rows)) for k in (10, 20)]
    with pytest.raises(SynopsisError, match="if they are of the same"):
        merge_summaries([part for part in parts if part is not None])
    with pytest.raises(SlidestatError, match="neither 0 nor 1"):
        aggregates.basic_count().summary(pd.Series([7]), _of(2, 1))
    with pytest.raises(SlidestatError, match="k is 0"):
        aggregates.basic_quantile().summary(pd.Series([7.0]), _of(0, 1))
    with pytest.raises(SlidestatError, match=r"relative_error must be.*another k"):
        aggregates.basic_quantile().summary(pd.Series([7.0]), _of(1, 1))
