"""Meijer's article of 2013: its figure 3, event by event, and where its rounding goes too far."""

from math import ceil
from typing import NamedTuple

import numpy as np
import pytest

from slidestat.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from tests.oracles import Cascade


class Row(NamedTuple):
    """Of figure 3: buckets are (timestamp, count), newest to oldest, after merging."""

    timestamp: int
    event: int
    buckets: list[tuple[int, int]]
    total: int
    query: int
    exact: int
    error: float


FIGURE_3 = [
    Row(1, 0, [], 0, 0, 0, 0),
    Row(2, 1, [(2, 1)], 1, 1, 1, 0),
    Row(3, 1, [(3, 1), (2, 1)], 2, 2, 2, 0),
    Row(4, 0, [(3, 1), (2, 1)], 2, 2, 2, 0),
    Row(5, 1, [(5, 1), (3, 2)], 3, 2, 3, 1 / 3),
    Row(6, 1, [(6, 1), (5, 1), (3, 2)], 4, 3, 4, 1 / 4),
    Row(7, 1, [(7, 1), (6, 2), (3, 2)], 5, 4, 5, 1 / 5),
    Row(8, 1, [(8, 1), (7, 1), (6, 2), (3, 2)], 6, 5, 6, 1 / 6),
    Row(9, 1, [(9, 1), (8, 2), (6, 4)], 7, 5, 6, 1 / 6),
    Row(10, 0, [(9, 1), (8, 2), (6, 4)], 7, 5, 5, 0),
    Row(11, 0, [(9, 1), (8, 2), (6, 4)], 7, 5, 5, 0),
    Row(12, 0, [(9, 1), (8, 2), (6, 4)], 7, 5, 4, 1 / 4),
    Row(13, 0, [(9, 1), (8, 2)], 3, 2, 3, 1 / 3),
]


def test_figure_3() -> None:
    """n = 7, epsilon = 0.5: buckets, total, answer and error of each row; upper is the total."""
    count = ApproximateCount.create(ApproximateCountParameters(n=7, epsilon=0.5))
    events = [row.event for row in FIGURE_3]
    for row in FIGURE_3:
        count.insert([row.event])
        count.check()
        assert count.now == row.timestamp
        # the article numbers events from 1
        assert [(place + 1, size) for size, place in count.buckets()][::-1] == row.buckets
        estimate, lower, upper = count.query()
        assert (upper, estimate) == (row.total, row.query)
        assert sum(events[max(0, row.timestamp - 7) : row.timestamp]) == row.exact
        assert lower <= row.exact <= upper
        assert abs(estimate - row.exact) == pytest.approx(row.error * row.exact)


def test_figure_3_at_once() -> None:
    """All events in one batch leave the same bytes as one by one."""
    parameters = ApproximateCountParameters(n=7, epsilon=0.5)
    whole, parts = ApproximateCount.create(parameters), ApproximateCount.create(parameters)
    whole.insert([row.event for row in FIGURE_3])
    for row in FIGURE_3:
        parts.insert(row.event)
    assert whole.to_bytes() == parts.to_bytes()


@pytest.mark.parametrize("epsilon", [1.0, 0.7, 0.5, 0.4, 1 / 3, 0.3, 0.25, 0.22, 0.2])
def test_down_to_a_fifth_the_buckets_are_those_of_the_article(epsilon: float) -> None:
    """k = ceil(1 / epsilon), and at most ceil(k / 2) + 1 buckets of one size."""
    per_level = ceil(ceil(1 / epsilon) / 2)
    assert ApproximateCountParameters(9, epsilon).buckets_per_level == per_level


def test_seven_are_not_six() -> None:
    """With epsilon = 0.1 the article merges from k/2 + 2 = 7 buckets on: 6 for seven, 14% off."""
    article = Cascade(per_level=5)
    for time in range(7):
        article.insert(time)
    sizes = [size for size, _ in article.buckets()]
    assert sizes == [2, 1, 1, 1, 1, 1]
    assert -(-(2 * sum(sizes) - sizes[0]) // 2) == 6
    count = ApproximateCount.create(ApproximateCountParameters(n=100, epsilon=0.1))
    count.insert(np.ones(7, bool))
    assert count.query().estimate == 7
