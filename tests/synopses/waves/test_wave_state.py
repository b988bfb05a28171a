"""The state of a wave: no split shows, none is larger than it may be, keys do not touch."""

from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.waves.parameters import WaveParameters
from slidestat.synopses.waves.waves import (
    CountWave,
    PositionWave,
    StoredWave,
    SumWave,
    run_wave_batch,
)

SPAN = 500
WAVES: list[type[StoredWave]] = [CountWave, SumWave, PositionWave]


def fed(
    wave: type[StoredWave],
    parameters: WaveParameters,
    times: Integers,
    values: Integers,
    cuts: list[int],
) -> StoredWave:
    """A wave of the kind, fed in slices that end at `cuts`, its bytes read back in between."""
    made = wave.create(parameters)
    ends = sorted({*cuts, len(times)})
    for start, end in zip([0, *ends], ends, strict=False):
        made._insert(times[start:end], values[start:end] if wave is SumWave else None)
        made = wave.from_bytes(made.to_bytes())
    return made


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2 * SPAN)),
        st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2**53)),
    ),
    max_size=80,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(EVENTS, st.lists(st.integers(0, 80), max_size=6), st.integers(1, 12))
def test_no_split_shows(events: list[tuple[int, int]], cuts: list[int], per_level: int) -> None:
    """Any events, any split, any error: the same bytes, which read back as the same wave."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    values = np.array([value for _, value in events], np.int64)
    cuts = [min(cut, len(events)) for cut in cuts]
    parameters = WaveParameters(1 / (2 * per_level - 1), SPAN)
    for wave in WAVES:
        whole = fed(wave, parameters, times, values, [])
        assert fed(wave, parameters, times, values, cuts).to_bytes() == whole.to_bytes()
        again = wave.from_bytes(whole.to_bytes())
        assert again.to_bytes() == whole.to_bytes()
        assert (again.now, again.items(), again.totals()) == (
            whole.now,
            whole.items(),
            whole.totals(),
        )
        assert again.parameters == parameters
        again.check()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from(WAVES))
def test_groups_of_a_batch_do_not_touch_each_other(
    seed: int, groups: int, wave: type[StoredWave]
) -> None:
    """A batch of many keys is what each would do alone; queries and advances are each key's own."""
    rng = np.random.default_rng(seed)
    parameters = WaveParameters(0.2, SPAN)
    sizes = rng.integers(0, 40, groups)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([np.cumsum(rng.integers(0, 30, n)) for n in sizes]).astype(np.int64)
    values = rng.integers(0, 50, len(times))
    asked = rng.integers(0, 5, groups)
    query_starts = np.concatenate([[0], np.cumsum(asked)])
    queries = np.concatenate([np.sort(rng.integers(0, 1500, n)) for n in asked]).astype(np.int64)
    asks = [1, 40, SPAN]
    to = np.full(groups, 2_000)
    batch = run_wave_batch(
        wave.kind,
        parameters,
        [None] * groups,
        Batch(starts, times, values if wave is SumWave else None, query_starts, queries, asks, to),
    )
    for g in range(groups):
        mine = slice(starts[g], starts[g + 1])
        alone = fed(wave, parameters, times[mine], values[mine], [])
        alone.advance(2_000)
        assert batch.states[g] == alone.to_bytes()
        for q in range(query_starts[g], query_starts[g + 1]):
            seen = times[mine] < queries[q]
            before = fed(wave, parameters, times[mine][seen], values[mine][seen], [])
            for k, ask in enumerate(asks):
                figures = batch.estimates[q, k], batch.lowers[q, k], batch.uppers[q, k]
                assert figures == before.query(ask, int(queries[q]))


@pytest.mark.parametrize("wave", WAVES)
def test_expired_items_are_dropped_by_time_alone(wave: type[StoredWave]) -> None:
    """Advancing drops what is older than the span, and no more; going on after it is the same."""
    parameters = WaveParameters(0.1, SPAN)
    times, values = np.arange(0, 1000, 10), np.arange(1, 101)
    made = fed(wave, parameters, times, values, [])
    before = made.items()
    made.advance(1200)
    assert made.items() == [item for item in before if item.time >= 700]
    made.advance(990 + SPAN)
    assert made.items() == before[-1:]
    made.advance(990 + SPAN + 1)
    assert made.items() == []
    made.check()
    assert wave.from_bytes(made.to_bytes()).totals() == (made.totals()[0],) * 2
    made._insert(np.array([2000]), np.array([3]) if wave is SumWave else None)
    more = np.append(times, 2000), np.append(values, 3)
    assert made.to_bytes() == fed(wave, parameters, *more, []).to_bytes()


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01])
def test_items_are_no_more_than_the_headers_say(epsilon: float) -> None:
    """c (J + 1) + 1 items, J = ceil(log2(N' / c)), for windows of up to a million, however old."""
    for span in [10, 10**3, 10**4, 10**6]:
        parameters = WaveParameters(epsilon, span)
        c = parameters.per_level
        waves = [wave.create(parameters) for wave in WAVES]
        for start in range(0, 2 * 10**6, 499_979):
            times = np.arange(start, start + 499_979)
            values = times % 11
            for made, units in zip(waves, (span, 11 * span, span), strict=True):
                made._insert(times, values if isinstance(made, SumWave) else None)
                levels = max(0, ceil(log2(units / c)))
                extra = 2 if isinstance(made, PositionWave) else 1
                assert len(made.items()) <= c * (levels + 1) + extra


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize(("events", "most"), [(1, 32), (5, 62)])
def test_a_small_key_is_small(wave: type[StoredWave], events: int, most: int) -> None:
    """What a key stores follows its events, not the bound."""
    day = 86_400_000
    times = 1_700_000_000_000 + np.arange(events) * 60_000
    made = fed(wave, WaveParameters(0.001, day), times, np.full(events, 9_999), [])
    assert len(made.to_bytes()) <= most
