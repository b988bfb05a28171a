"""The state of frequent items: no split shows, bytes round-trip, and space keeps to its bound."""

import zlib
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses import Batch, SynopsisError
from slidestat.synopses.blocks.frequent_layout import choose
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.frequent.frequent_items import (
    FrequentItems,
    run_frequent_batch,
)
from tests.synopses.plain_python import as_plain_python
from tests.synopses.streams import TIMES


def fed(
    parameters: FrequentParameters,
    times: npt.ArrayLike,
    items: npt.ArrayLike,
    cuts: Iterable[int] = (),
) -> FrequentItems:
    times, items = np.asarray(times, np.int64), np.asarray(items, np.int64)
    summary = FrequentItems.create(parameters)
    ends = [0, *sorted(cuts), len(times)]
    for first, last in pairwise(ends):
        summary.insert(times[first:last], items[first:last])
    return summary


def test_groups_do_not_touch_each_other_and_queries_leave_no_trace() -> None:
    """A batch of many keys is what each would do alone."""
    rng = np.random.default_rng(3)
    parameters = FrequentParameters(0.3, 200)
    sizes = rng.integers(0, 300, 9)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([np.cumsum(rng.integers(0, 3, n)) for n in sizes]).astype(np.int64)
    items = rng.integers(0, 9, len(times))
    queries = np.sort(rng.integers(0, 700, (9, 4)), axis=1)
    batch = run_frequent_batch(
        parameters,
        [None] * 9,
        Batch(starts, times, items, np.arange(10) * 4, queries.ravel(), [50, 200]),
        0.3,
    )
    for g in range(9):
        mine = slice(starts[g], starts[g + 1])
        assert batch.states[g] == fed(parameters, times[mine], items[mine]).to_bytes()
        for q in range(4):
            now = int(queries[g, q])
            seen = times[mine] < now
            alone = fed(parameters, times[mine][seen], items[mine][seen])
            for k, span in enumerate((50, 200)):
                at, to = batch.ends[8 * g + 2 * q + k : 8 * g + 2 * q + k + 2]
                columns = (batch.items[at:to], batch.lowers[at:to], batch.uppers[at:to])
                expected = sorted(alone.frequent(span, 0.3, now=now))
                assert list(zip(*(c.tolist() for c in columns), strict=True)) == [
                    (known.item, known.lower, known.upper) for known in expected
                ]


def bound(parameters: FrequentParameters, events: int) -> int:
    """The space that frequent_layout.py states."""
    levels, fineness, fresh = choose(parameters.epsilon)
    layers = max(0, events.bit_length() - 3)
    return 2 ** (levels + 2) + 8 + layers * (levels * 2 ** (fineness - 1) + 2**fresh)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
def test_space_keeps_to_the_bound(epsilon: float) -> None:
    """Windows of 10^2 to 10^6 events of a stream three times as long, mostly of new items."""
    for span in (10**2, 10**4, 10**6):
        parameters = FrequentParameters(epsilon, span)
        summary = FrequentItems.create(parameters)
        rng = np.random.default_rng(8)
        for start in range(0, 3 * span, span // 2):
            summary.insert(np.arange(start, start + span // 2), rng.integers(0, 10**9, span // 2))
            most = bound(parameters, span)
            assert summary.stored_entries() <= most
            assert (
                len(summary.to_bytes())
                <= 18 * most + 18 * 2 ** choose(epsilon)[0] * span.bit_length() + 60
            )


def test_what_cannot_be_taken_is_refused_by_name() -> None:
    """Times back or out of range, items that are no numbers, other parameters, other windows."""
    summary = fed(FrequentParameters(0.1, 100), [5, 5, 9], [1, 0, 2])
    before = summary.to_bytes()
    with pytest.raises(SynopsisError, match="time went back: 8 is earlier than 10"):
        summary.insert([10, 8], [1, 1])
    with pytest.raises(SynopsisError, match="out of range"):
        summary.insert([2**61], [1])
    for item in (1.0, True, "page", 2**63):
        with pytest.raises(SynopsisError, match="items must be one row of 64-bit whole numbers"):
            summary.insert([10], [item])
    with pytest.raises(SynopsisError, match="an item is needed for each time: 2, not"):
        summary.insert([10, 11], [1])
    with pytest.raises(SynopsisError, match="time went back"):
        summary.advance(9)
    with pytest.raises(SynopsisError, match="a query at 9 is earlier than 10"):
        summary.query(10, 5, now=9)
    with pytest.raises(SynopsisError, match="must be from 1 to 100"):
        summary.query(101, 5)
    for share in (-0.1, 0.09, 1.1, float("nan")):
        with pytest.raises(SynopsisError, match=r"a share must be from epsilon, 0\.1, to 1"):
            summary.frequent(10, share)
    for epsilon in (0.0, 0.0009, 0.6, float("nan")):
        with pytest.raises(SynopsisError, match=r"from 0.001 to 0.5"):
            FrequentParameters(epsilon, 10)
    for span in (0, 2**53 + 1, 1.5, True):
        with pytest.raises(SynopsisError, match="whole number from 1"):
            FrequentParameters(0.1, span)  # type: ignore[arg-type]
    other = FrequentParameters(0.1, 99)
    with pytest.raises(SynopsisError, match="another epsilon"):
        run_frequent_batch(other, [before], Batch([0, 0], [], [], [0, 0], [], []), 0)
    assert summary.to_bytes() == before


def digest() -> int:
    rng = np.random.default_rng(9)
    seen = 0
    for name in ("uniform", "bursty", "all ties"):
        times, items = TIMES[name](rng, 500), np.minimum(rng.zipf(1.2, 500), 10**6)
        queries = times[60::90] + 1
        result = run_frequent_batch(
            FrequentParameters(0.5, 300),
            [None],
            Batch([0, 500], times, items, [0, len(queries)], queries, [1, 40, 300]),
            0.0,
        )
        seen = zlib.crc32(result.states[0], seen)
        for part in (result.items, result.lowers, result.uppers, result.unlisted):
            seen = zlib.crc32(part.tobytes(), seen)
    return seen


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states and answers to the last bit."""
    assert int(as_plain_python("tests.synopses.frequent.test_frequent_items_state")) == digest()
