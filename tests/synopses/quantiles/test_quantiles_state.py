"""The state of quantiles: no split shows, bytes round-trip, and space keeps to its bound."""

import zlib
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses import Batch, SynopsisError
from slidestat.synopses.blocks.quantile_layout import choose, fresh_weight
from slidestat.synopses.quantiles.quantiles import QuantileParameters, Quantiles, run_quantile_batch
from tests.synopses.plain_python import as_plain_python
from tests.synopses.streams import TIMES, VALUES


def fed(
    parameters: QuantileParameters,
    times: npt.ArrayLike,
    values: npt.ArrayLike,
    cuts: Iterable[int] = (),
) -> Quantiles:
    times, values = np.asarray(times, np.int64), np.asarray(values, np.float64)
    summary = Quantiles.create(parameters)
    ends = [0, *sorted(cuts), len(times)]
    for first, last in pairwise(ends):
        summary.insert(times[first:last], values[first:last])
    return summary


def test_groups_do_not_touch_each_other_and_queries_leave_no_trace() -> None:
    """A batch of many keys is what each would do alone."""
    rng = np.random.default_rng(3)
    parameters = QuantileParameters(0.3, 200)
    sizes = rng.integers(0, 300, 9)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([np.cumsum(rng.integers(0, 3, n)) for n in sizes]).astype(np.int64)
    values = rng.normal(0, 1, len(times))
    queries = np.sort(rng.integers(0, 700, (9, 4)), axis=1)
    batch = run_quantile_batch(
        parameters,
        [None] * 9,
        Batch(starts, times, values, np.arange(10) * 4, queries.ravel(), [50, 200]),
        [0.1, 0.9],
    )
    for g in range(9):
        mine = slice(starts[g], starts[g + 1])
        assert batch.states[g] == fed(parameters, times[mine], values[mine]).to_bytes()
        for q in range(4):
            now = int(queries[g, q])
            seen = times[mine] < now
            alone = fed(parameters, times[mine][seen], values[mine][seen])
            for k, span in enumerate((50, 200)):
                for j, quantile in enumerate((0.1, 0.9)):
                    figures = (batch.estimates, batch.lowers, batch.uppers, batch.rank_errors)
                    given_ = [part[4 * g + q, k, j] for part in figures]
                    assert np.array_equal(
                        given_, alone.query(span, quantile, now=now), equal_nan=True
                    )


def bound(parameters: QuantileParameters, events: int, total: int) -> int:
    """The space that quantile_layout.py states, and two extremes for each block cut by expiry."""
    levels, fineness, fresh = choose(parameters.epsilon)
    layers = range(3, max(3, events.bit_length()))
    waiting = sum(2 ** (layer - fresh_weight(layer, fresh)) for layer in layers)
    kept = len(layers) * (levels * 2 ** (fineness - 1) + 2 ** (levels - 1) + 1)
    return 2 ** (levels + 2) + 8 + waiting + kept + 4 * total.bit_length()


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
def test_space_keeps_to_the_bound(epsilon: float) -> None:
    """Windows of 10^2 to 10^6 events of a stream of 3 * 10^6: values stored, and bytes for them."""
    for span in (10**2, 10**4, 10**6):
        parameters = QuantileParameters(epsilon, span)
        summary = Quantiles.create(parameters)
        rng = np.random.default_rng(8)
        for start in range(0, 3 * span, span // 2):
            summary.insert(np.arange(start, start + span // 2), rng.normal(0, 1, span // 2))
            most = bound(parameters, span, start + span)
            assert summary.stored_entries() <= most
            assert len(summary.to_bytes()) <= 18 * most + 60


def test_what_cannot_be_taken_is_refused_by_name() -> None:
    """Times back or out of range, values without a rank, other parameters, other windows."""
    summary = fed(QuantileParameters(0.1, 100), [5, 5, 9], [1.0, -0.0, 2.0])
    before = summary.to_bytes()
    with pytest.raises(SynopsisError, match="time went back: 8 is earlier than 10"):
        summary.insert([10, 8], [1.0, 1.0])
    with pytest.raises(SynopsisError, match="out of range"):
        summary.insert([2**61], [1.0])
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(SynopsisError, match="has no rank: it must be finite"):
            summary.insert([10], [value])
    with pytest.raises(SynopsisError, match="a value is needed for each time: 2, not"):
        summary.insert([10, 11], [1.0])
    with pytest.raises(SynopsisError, match="time went back"):
        summary.advance(9)
    with pytest.raises(SynopsisError, match="a query at 9 is earlier than 10"):
        summary.query(10, 0.5, now=9)
    with pytest.raises(SynopsisError, match="must be from 1 to 100"):
        summary.query(101, 0.5)
    for quantile in (-0.1, 1.1, float("nan")):
        with pytest.raises(SynopsisError, match="a number from 0 to 1"):
            summary.query(10, quantile)
    for epsilon in (0.0, 0.0009, 0.6, float("nan")):
        with pytest.raises(SynopsisError, match=r"from 0.001 to 0.5"):
            QuantileParameters(epsilon, 10)
    for span in (0, 2**53 + 1, 1.5, True):
        with pytest.raises(SynopsisError, match="whole number from 1"):
            QuantileParameters(0.1, span)  # type: ignore[arg-type]
    other = QuantileParameters(0.1, 99)
    with pytest.raises(SynopsisError, match="another epsilon"):
        run_quantile_batch(other, [before], Batch([0, 0], [], [], [0, 0], [], []), [])
    assert summary.to_bytes() == before


def digest() -> int:
    rng = np.random.default_rng(9)
    seen = 0
    for name in ("uniform", "bursty", "all ties"):
        times, values = TIMES[name](rng, 500), VALUES["prices"](rng, 500)
        queries = times[60::90] + 1
        result = run_quantile_batch(
            QuantileParameters(0.5, 300),
            [None],
            Batch([0, 500], times, values, [0, len(queries)], queries, [1, 40, 300]),
            [0.1, 0.5, 1.0],
        )
        seen = zlib.crc32(result.states[0], seen)
        for part in (result.estimates, result.lowers, result.uppers, result.rank_errors):
            seen = zlib.crc32(part.tobytes(), seen)
    return seen


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states and answers to the last bit."""
    assert int(as_plain_python("tests.synopses.quantiles.test_quantiles_state")) == digest()
