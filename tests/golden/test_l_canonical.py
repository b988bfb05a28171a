"""The paper's own examples, and l-canonical forms worked by hand."""

import pytest

from slidestat.synopses import CountParameters, ExponentialHistogram
from tests.oracles import l_canonical

# (l, total, bucket sizes from oldest to newest)
WORKED = [
    (1, 0, []),
    (1, 1, [1]),
    (1, 2, [1, 1]),
    (1, 3, [2, 1]),
    (1, 4, [2, 1, 1]),
    (1, 5, [2, 2, 1]),
    (1, 6, [2, 2, 1, 1]),
    (1, 7, [4, 2, 1]),
    (1, 8, [4, 2, 1, 1]),
    (1, 10, [4, 2, 2, 1, 1]),
    (1, 15, [8, 4, 2, 1]),
    (2, 2, [1, 1]),
    (2, 3, [1, 1, 1]),
    (2, 4, [2, 1, 1]),
    (2, 5, [2, 1, 1, 1]),
    (2, 6, [2, 2, 1, 1]),
    (2, 8, [2, 2, 2, 1, 1]),
    (2, 9, [2, 2, 2, 1, 1, 1]),
    (2, 10, [4, 2, 2, 1, 1]),
    (2, 14, [4, 4, 2, 2, 1, 1]),
    (5, 6, [1] * 6),
    (5, 7, [2, 1, 1, 1, 1, 1]),
]

# Section 2.1's example, from a total of 76. Its sizes have one or two buckets of each size but the
# last, and merge when there are three: that is k/2 = 1, though the text there says k/2 = 2.
EXAMPLE = {
    76: [32, 16, 8, 8, 4, 4, 2, 1, 1],
    77: [32, 16, 8, 8, 4, 4, 2, 2, 1],
    79: [32, 16, 16, 8, 4, 2, 1],
}


def histogram_of(per_level: int, total: int) -> ExponentialHistogram:
    histogram = ExponentialHistogram.create(CountParameters(0.5 / per_level, 1_000))
    histogram.insert(range(total))
    return histogram


@pytest.mark.parametrize(("per_level", "total", "sizes"), WORKED)
def test_worked_forms(per_level: int, total: int, sizes: list[int]) -> None:
    """The sizes are the l-canonical form of the total, and each edge is a bucket's newest unit."""
    buckets = histogram_of(per_level, total).buckets()
    assert [size for size, _ in buckets] == sizes
    assert [time for _, time in buckets] == [sum(sizes[: i + 1]) - 1 for i in range(len(sizes))]


def test_the_example_of_the_paper() -> None:
    """One unit more, and two more: the merging cascades up to the buckets of size 8."""
    histogram = histogram_of(1, 0)
    for total in range(1, 80):
        histogram.insert(total)
        if total in EXAMPLE:
            assert [size for size, _ in histogram.buckets()] == EXAMPLE[total]


def test_the_example_goes_on_when_old_buckets_have_expired() -> None:
    """Sizes are those of all units ever seen, so expiry at the old end moves nothing at the new."""
    histogram = ExponentialHistogram.create(CountParameters(0.5, 40))
    histogram.insert(range(76))
    assert [size for size, _ in histogram.buckets()] == EXAMPLE[76][1:]
    histogram.insert([76])
    assert [size for size, _ in histogram.buckets()] == EXAMPLE[77][1:]
    histogram.insert([77, 78])
    assert [size for size, _ in histogram.buckets()] == EXAMPLE[79][1:]


@pytest.mark.parametrize("per_level", [1, 2, 3, 5, 50])
def test_every_total_to_2000_is_the_procedure_of_the_paper(per_level: int) -> None:
    """Section 4's procedure l-Canonical, level by level."""
    for total in range(0, 1_000, 7):
        sizes = [size for size, _ in histogram_of(per_level, total).buckets()]
        form = l_canonical(total, per_level)
        assert [sizes.count(1 << level) for level in range(len(form))] == form


def test_a_merged_bucket_has_the_time_of_its_newest_unit() -> None:
    """Section 2.1 gives it "the timestamp of the older bucket", against section 2's own "the
    timestamp of the most recent 1". With k/2 = 1, units at 1, 2 and 3 are buckets of 2 and 1. In
    the window of 2 and 3, the bucket of 1 and 2 would have expired with the older time, though it
    has an active unit: 1 - 1/2 for exactly 2 is off by 75 %, and 1/k is 50 %.
    """
    histogram = ExponentialHistogram.create(CountParameters(0.5, 1_000))
    histogram.insert([1, 2, 3])
    assert histogram.buckets() == [(2, 2), (1, 3)]
    figure = histogram.query(2, now=4)
    assert figure.lower <= 2 <= figure.upper
    assert abs(figure.estimate - 2) <= 0.5 * 2
    older = [(2, 1), (1, 3)]
    active = [size for size, time in older if time >= 2]
    assert abs(sum(active) - active[0] / 2 - 2) > 0.5 * 2
