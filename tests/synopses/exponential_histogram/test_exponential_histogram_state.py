"""The state is a function of the events alone: of no batch boundary, no query, no old bucket."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import (
    Batch,
    CountParameters,
    ExponentialHistogram,
    Parameters,
    SumParameters,
    SynopsisError,
    run_batch,
)
from tests.oracles import Cascade, canonical_buckets, live
from tests.synopses.streams import TIMES

SPAN = 500


def fed(
    parameters: Parameters,
    times: Sequence[int],
    values: Sequence[float] | None = None,
    cuts: Sequence[int] = (),
) -> ExponentialHistogram:
    histogram = ExponentialHistogram.create(parameters)
    edges = [0, *sorted(cuts), len(times)]
    for start, end in pairwise(edges):
        histogram.insert(times[start:end], None if values is None else values[start:end])
    return histogram


@pytest.mark.parametrize("per_level", [1, 2, 5, 10])
@pytest.mark.parametrize("name", TIMES)
def test_buckets_are_those_of_the_cascading_algorithm(name: str, per_level: int) -> None:
    """Searching for the edges of the total gives what the paper's merging gives, at each step."""
    parameters = CountParameters(0.5 / per_level, SPAN)
    times = TIMES[name](np.random.default_rng(3), 700).tolist()
    cascade = Cascade(per_level)
    histogram = ExponentialHistogram.create(parameters)
    for time in times:
        cascade.insert(time)
        histogram.insert(time)
        assert histogram.buckets() == live(cascade.buckets(), time + 1 - SPAN)
        histogram.check()


@pytest.mark.parametrize("per_level", [1, 2, 5, 50])
def test_buckets_of_sums_are_those_of_the_canonical_form(per_level: int) -> None:
    """A value of v units takes v positions, all with its time: the paper's SUM."""
    parameters = SumParameters(0.5 / per_level, SPAN, decimals=0)
    rng = np.random.default_rng(4)
    times = TIMES["uniform"](rng, 400).tolist()
    values = np.where(rng.random(400) < 0.1, 0, np.minimum(rng.zipf(1.3, 400), 10**15)).tolist()
    histogram = ExponentialHistogram.create(parameters)
    for i, (time, value) in enumerate(zip(times, values, strict=True), start=1):
        histogram.insert(time, value)
        expected = canonical_buckets(times[:i], values[:i], per_level)
        assert histogram.buckets() == live(expected, time + 1 - SPAN)
        histogram.check()


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2 * SPAN)),
        st.one_of(
            st.just(0.0),
            st.integers(0, 2**53 // 1000).map(float),
            st.floats(0, 1e12),
            st.decimals(0, 10**6, places=3).map(float),
        ),
    ),
    max_size=80,
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(EVENTS, st.lists(st.integers(0, 80), max_size=6), st.integers(1, 30))
def test_no_split_shows(events: list[tuple[int, float]], cuts: list[int], per_level: int) -> None:
    """Any events, any split, any error: the same bytes, which read back as the same histogram."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    values = np.array([value for _, value in events], np.float64)
    cuts = [min(cut, len(events)) for cut in cuts]
    for parameters, what in (
        (CountParameters(0.5 / per_level, SPAN), None),
        (SumParameters(0.5 / per_level, SPAN), values),
    ):
        whole = fed(parameters, times, what)
        assert fed(parameters, times, what, cuts).to_bytes() == whole.to_bytes()
        again = ExponentialHistogram.from_bytes(whole.to_bytes())
        assert again.to_bytes() == whole.to_bytes()
        assert again.now == whole.now
        assert again.buckets() == whole.buckets()
        again.check()


@settings(derandomize=True, deadline=None, max_examples=200)
@given(EVENTS, st.integers(1, 30))
def test_a_question_amid_a_batch_is_that_of_the_state_then(
    events: list[tuple[int, float]], per_level: int
) -> None:
    """A batch keeps its events until its end: its answers do not show it, whatever the window."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    values = np.array([value for _, value in events], np.float64)
    moments = np.unique(times + 1)
    spans = [1, 7, SPAN // 2, SPAN]
    for parameters, what in (
        (CountParameters(0.5 / per_level, SPAN), None),
        (SumParameters(0.5 / per_level, SPAN), values),
    ):
        # Of another half of the events the state is known before, so that both are asked.
        half = len(times) // 2
        known = fed(parameters, times[:half], None if what is None else what[:half])
        late = np.searchsorted(moments, times[half - 1], "right") if half else 0
        asked = moments[late:]
        rest = None if what is None else what[half:]
        batch = Batch([0, len(times) - half], times[half:], rest, [0, len(asked)], asked, spans)
        result = run_batch(parameters, [known.to_bytes()], batch)
        for row, moment in enumerate(asked.tolist()):
            then = fed(
                parameters,
                times[times < moment],
                values[times < moment] if what is not None else None,
            )
            for column, span in enumerate(spans):
                figures = (result.estimates, result.lowers, result.uppers)
                found = tuple(float(figure[row, column]) for figure in figures)
                assert found == tuple(then.query(span, moment))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_groups_of_a_batch_do_not_touch_each_other(seed: int, groups: int) -> None:
    """A batch of many keys is what each would do alone, and queries leave no trace."""
    rng = np.random.default_rng(seed)
    parameters = SumParameters(0.1, SPAN, 2)
    sizes = rng.integers(0, 40, groups)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([np.cumsum(rng.integers(0, 30, n)) for n in sizes]).astype(np.int64)
    values = np.round(rng.uniform(0, 50, len(times)), 2)
    asked = rng.integers(0, 6, groups)
    query_starts = np.concatenate([[0], np.cumsum(asked)])
    queries = np.concatenate([np.sort(rng.integers(0, 1500, n)) for n in asked]).astype(np.int64)
    spans = [1, 40, SPAN]
    batch = run_batch(
        parameters, [None] * groups, Batch(starts, times, values, query_starts, queries, spans)
    )
    for g in range(groups):
        mine = slice(starts[g], starts[g + 1])
        assert batch.states[g] == fed(parameters, times[mine], values[mine]).to_bytes()
        for q in range(query_starts[g], query_starts[g + 1]):
            seen = times[mine] < queries[q]
            alone = fed(parameters, times[mine][seen], values[mine][seen])
            for k, span in enumerate(spans):
                figures = batch.estimates[q, k], batch.lowers[q, k], batch.uppers[q, k]
                assert figures == alone.query(span, now=int(queries[q]))


def test_expired_buckets_are_dropped_by_time_alone() -> None:
    """Advancing drops what is older than the span, and no more; going on after it is the same."""
    histogram = fed(CountParameters(0.1, SPAN), range(0, 1000, 10))
    before = histogram.buckets()
    histogram.advance(1200)
    assert histogram.buckets() == live(before, 1200 - SPAN)
    histogram.advance(990 + SPAN)
    assert histogram.buckets() == [before[-1]]
    histogram.advance(990 + SPAN + 1)
    assert histogram.buckets() == []
    histogram.check()
    histogram.insert([2000])
    assert (
        histogram.to_bytes()
        == fed(CountParameters(0.1, SPAN), [*range(0, 1000, 10), 2000]).to_bytes()
    )


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01, 0.001])
def test_live_buckets_are_no_more_than_the_theorem_says(epsilon: float) -> None:
    """(k/2 + 1)(log2(2 N'/k + 1) + 1) buckets, k/2 = l, for N' up to ten million, however old."""
    for span in [10**3, 10**4, 10**5, 10**6, 10**7]:
        parameters = CountParameters(epsilon, span)
        per_level = parameters.buckets_per_level
        bound = (per_level + 1) * (np.log2(span / per_level + 1) + 1)
        histogram = ExponentialHistogram.create(parameters)
        for start in range(0, 10**7, 10**6):
            histogram.insert(np.arange(start, start + 10**6))
            assert len(histogram.buckets()) <= bound
    histogram.check()


@pytest.mark.parametrize(("events", "most"), [(1, 30), (5, 45)])
def test_a_small_key_is_small(events: int, most: int) -> None:
    """What a key stores follows its events, not the bound, and not the size of their values."""
    day = 86_400_000
    times = 1_700_000_000_000 + np.arange(events) * 60_000
    assert len(fed(CountParameters(0.001, day), times).to_bytes()) <= most
    values = np.full(events, 9_999.99)
    assert len(fed(SumParameters(0.1, day), times, values).to_bytes()) <= most + 4 * events + 4


@pytest.mark.parametrize("change", ["insert", "advance"])
def test_two_threads_at_once_lose_nothing_in_silence(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that comes second is told that its events are not in it; what is in it is whole."""
    shared = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=100))
    moved = ExponentialHistogram._moved

    def meanwhile(self: ExponentialHistogram, *arguments: Any) -> bytes:
        monkeypatch.setattr(ExponentialHistogram, "_moved", moved)
        after = moved(self, *arguments)
        self.insert([1, 2])  # what another thread does
        return after

    monkeypatch.setattr(ExponentialHistogram, "_moved", meanwhile)
    with pytest.raises(SynopsisError, match="two threads changed one synopsis"):
        shared.insert([5]) if change == "insert" else shared.advance(9)
    assert shared.now == 3
    assert shared.query(100).estimate == 2


def test_parameters_of_other_types_are_refused_plainly() -> None:
    """A number of numpy is told from one that is not whole; a text is no error of Python's."""
    with pytest.raises(SynopsisError, match=r"as Python's int, not np.int64\(10\)"):
        CountParameters(epsilon=0.1, span=cast(int, np.int64(10)))
    with pytest.raises(SynopsisError, match="epsilon must be from"):
        CountParameters(epsilon=cast(float, "0.1"), span=10)
    with pytest.raises(SynopsisError, match=r"not int64 of the shape \(1, 2\)"):
        ExponentialHistogram.create(CountParameters(epsilon=0.1, span=10)).insert([[1, 2]])
