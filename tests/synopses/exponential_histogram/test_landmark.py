"""Landmark totals: exact, whatever the batches, for any number of events; bytes that come back."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import Batch, SynopsisError
from slidestat.synopses.core.envelope import sealed, varint
from slidestat.synopses.exponential_histogram.landmark import (
    LANDMARK,
    LandmarkBatch,
    LandmarkParameters,
    run_landmark_batch,
)
from tests.oracles import decimal
from tests.synopses.hostile import DAMAGES, damaged

PRICES = st.integers(0, 2**40).map(lambda cents: cents / 100)
ANY = st.floats(0, 1e9)
PARAMETERS = LandmarkParameters(decimals=2)


def run(
    state: bytes | None, values: list[float], queries: list[int], first: int = 0
) -> LandmarkBatch:
    """Events at first, first + 1, ... and queries at these times, of one key."""
    times = range(first, first + len(values))
    return run_landmark_batch(
        PARAMETERS,
        [state],
        Batch([0, len(values)], list(times), values, [0, len(queries)], queries),
    )


@settings(deadline=None, derandomize=True)
@given(st.lists(PRICES, max_size=60), st.lists(st.integers(0, 60), max_size=5).map(sorted))
def test_decimals_are_counted_and_summed_exactly(values: list[float], queries: list[int]) -> None:
    """The estimate is the double nearest to the exact sum; the bounds are the next ones to it."""
    result = run(None, values, queries)
    for i, query in enumerate(queries):
        exact = sum(map(decimal, values[:query]), Fraction())
        assert result.counts[i] == min(query, len(values))
        assert result.sums.estimates[i] == float(exact)
        assert result.sums.lowers[i] <= exact <= result.sums.uppers[i]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.one_of(PRICES, ANY), max_size=60))
def test_any_doubles_are_summed_within_the_promise(values: list[float]) -> None:
    """A hundredth in all, however many parts of hundredths there are."""
    result = run(None, values, [len(values)])
    exact = sum(map(decimal, values), Fraction())
    assert result.sums.lowers[0] <= exact <= result.sums.uppers[0]
    allowed = exact * Fraction(2.0**-47) + Fraction((1 + 2.0**-19) / 100)
    assert abs(Fraction(float(result.sums.estimates[0])) - exact) <= allowed


@settings(deadline=None, derandomize=True)
@given(st.lists(st.one_of(PRICES, ANY), max_size=40), st.data())
def test_batches_never_show(values: list[float], data: st.DataObject) -> None:
    """Any split ends in the same bytes, of at most 46."""
    whole = run(None, values, []).states[0]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(values)))) | {0, len(values)})
    state = None
    for first, last in pairwise(cuts):
        state = run(state, values[first:last], [], first).states[0]
    assert state is None or state == whole
    assert len(whole) <= 46


def test_totals_beyond_the_largest_integers_keep_their_bound() -> None:
    """A hundred thousand times the largest value: 2^69 units."""
    largest, times = 2.0**53 / 128, 100_000
    result = run(None, [largest] * times, [times])
    exact = decimal(largest) * times
    assert result.counts[0] == times
    assert result.sums.lowers[0] <= exact <= result.sums.uppers[0]
    assert abs(Fraction(float(result.sums.estimates[0])) - exact) <= exact * Fraction(2.0**-47)


def test_many_keys_are_one_call() -> None:
    """Each key has its own events, queries and state."""
    result = run_landmark_batch(
        PARAMETERS,
        [None, None, None],
        Batch([0, 2, 2, 3], [5, 9, 7], [1, 2, 4], [0, 2, 3, 3], [6, 10, 8]),
    )
    assert result.counts.tolist() == [1, 2, 0]
    assert result.sums.estimates.tolist() == [1, 3, 0]
    assert result.states[0] != result.states[2]


def test_what_is_no_state_is_refused() -> None:
    """Every prefix, every other byte at every place, other parameters: one clear error."""
    state = run(None, [1.5, 1 / 3], []).states[0]
    others = [state[:end] for end in range(1, len(state))] + [state + b"\0"]
    others += [
        state[:at] + bytes([state[at] ^ flip]) + state[at + 1 :]
        for at in range(len(state))
        for flip in range(1, 256)
    ]
    for bad in others:
        with pytest.raises(SynopsisError):
            run(bad, [], [])
    with pytest.raises(SynopsisError, match="number of decimals"):
        run_landmark_batch(LandmarkParameters(3), [state], Batch([0, 0], [], [], [0, 0], []))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("values", [[1.5, 1 / 3, 2.25e9], [], [1.5], [1e-9]])
def test_hostile_bytes_are_refused_or_are_totals_that_work(
    values: list[float], damage: str
) -> None:
    """With right checksums: refused by what is inside, or read, written as it was, and fed."""
    for changed in damaged(run(None, values, []).states[0], damage, 600):
        try:
            result = run(changed, [], [0])
        except SynopsisError:
            continue
        assert result.states[0] == changed, "the decoder took what the encoder does not write"
        sums = result.sums
        assert sums.lowers[0] <= sums.estimates[0] <= sums.uppers[0]
        assert run(changed, [2.5], [5]).counts[0] == result.counts[0] + 1


def test_parts_of_units_need_a_value_that_left_them() -> None:
    """No encoder writes carried parts without their mark, nor units of no events."""
    for numbers in ((1, 0, 5, 7, 0), (0, 0, 0, 7, 1), (0, 0, 0, 0, 1), (0, 0, 5, 0, 0)):
        body = bytes([2]) + b"".join(map(varint, numbers))
        with pytest.raises(SynopsisError, match="damaged"):
            run(sealed(LANDMARK, body), [], [])
    assert run(sealed(LANDMARK, bytes([2]) + bytes([1, 0, 5, 7, 1])), [], [5]).counts[0] == 1


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 2.0**60])
def test_what_cannot_be_summed_is_refused(value: float) -> None:
    """Nothing is taken in."""
    with pytest.raises(SynopsisError, match="cannot be summed"):
        run(None, [1.0, value], [])


def test_times_and_queries_do_not_go_back() -> None:
    """A query that does would be answered by what came before it in the batch."""
    with pytest.raises(SynopsisError, match="query at 5 is earlier than 10"):
        run_landmark_batch(PARAMETERS, [None], Batch([0, 2], [1, 6], [1, 1], [0, 2], [10, 5]))
    with pytest.raises(SynopsisError, match="time went back: 5 is earlier than 6"):
        run_landmark_batch(PARAMETERS, [None], Batch([0, 2], [6, 5], [1, 1], [0, 0], []))


def test_a_state_at_its_limits_is_refused() -> None:
    """Crafted bytes whose next event would overflow."""
    for count, high in ((2**61, 0), (1, 2**61)):
        body = bytes([2]) + b"".join(varint(n) for n in (count, high, 2**60 - 1, 0, 0))
        with pytest.raises(SynopsisError, match="damaged"):
            run(sealed(LANDMARK, body), [1.0], [5])


@pytest.mark.parametrize("decimals", [-1, 10, 1.5, True])
def test_bad_decimals_are_refused(decimals: int) -> None:
    """Only a whole number from 0 to 9 will do."""
    with pytest.raises(SynopsisError, match="decimals"):
        LandmarkParameters(decimals)
