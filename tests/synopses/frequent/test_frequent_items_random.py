"""Frequent items by random sampling: no lower bound is ever too high, and upper ones fail rarely.

Seeds are fixed, as many as chances.py says. How samples lie is held to a significance of 10^-6: a
promise that is kept fails one such test in a million.
"""

from collections import Counter
from itertools import cycle

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    RandomFrequentItems,
    RandomFrequentParameters,
    SynopsisError,
    run_random_frequent_batch,
)
from slidestat.synopses.blocks.blocks import LIVE_LIMIT
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.frequent.sticky import (
    NOW,
    ROWS,
    SIZE,
    STATE_SIZE,
    TOTAL,
    _chosen,
    encode,
    encoded_limit,
    level_needed,
    level_of,
    window_of,
)
from tests.synopses.chances import trials
from tests.synopses.frequent.test_frequent_items_error import STREAMS
from tests.synopses.numbers.test_sample_chance import SIGNIFICANCE, chance
from tests.synopses.streams import TIMES


def failed(
    parameters: RandomFrequentParameters,
    share: float,
    times: Integers,
    items: Integers,
    queries: Integers,
    spans: list[int],
) -> Integers:
    """For each query and span, 1 if some item has more than is said; the rest is checked."""
    result = run_random_frequent_batch(
        parameters,
        [None],
        Batch([0, len(times)], times, items, [0, len(queries)], queries, spans),
        share,
    )
    out = np.zeros((len(queries), len(spans)), np.int64)
    for i, query in enumerate(queries.tolist()):
        for k, span in enumerate(spans):
            first, last = np.searchsorted(times, [query - span, query])
            events = int(last - first)
            exact = Counter(items[first:last].tolist())
            at, to = result.ends[i * len(spans) + k : i * len(spans) + k + 2].tolist()
            unlisted = int(result.unlisted[i, k])
            assert result.events_low[i, k] <= events <= result.events_high[i, k]
            assert unlisted <= parameters.epsilon * events
            listed = result.items[at:to].tolist()
            assert listed == sorted(set(listed))
            columns = (listed, result.lowers[at:to].tolist(), result.uppers[at:to].tolist())
            for item, lower, upper in zip(*columns, strict=True):
                assert lower <= exact[item]
                assert upper - lower <= unlisted
                out[i, k] |= exact.pop(item) > upper
            if share == 0:
                out[i, k] |= any(count > unlisted for count in exact.values())
            else:
                out[i, k] |= any(
                    count > unlisted and count >= share * events for count in exact.values()
                )
            if events <= parameters.reach // 2:
                assert out[i, k] == 0
    return out


@pytest.mark.parametrize("delta", [0.5, 0.2])
@pytest.mark.parametrize("name", ["zipf", "rotating", "in runs", "in turn", "one"])
def test_failures_keep_to_delta(name: str, delta: float) -> None:
    """Of many seeds, no oftener than delta for any window: fixed size and n-of-N."""
    size, (seeds, most) = 3_000, trials(delta)
    times, items = np.arange(size), STREAMS[name](np.random.default_rng(1), size)
    spans = [70, 500, 1_900, 2_000]
    seen = np.zeros((1, len(spans)), np.int64)
    for seed in range(seeds):
        parameters = RandomFrequentParameters(0.3, 2_000, delta, seed)
        seen += failed(parameters, 0, times, items, np.array([size]), spans)
    assert seen.max() <= most


@pytest.mark.parametrize("time_name", TIMES)
def test_failures_keep_to_delta_by_time(time_name: str) -> None:
    """Variable-size windows: whatever the times, each of several windows, shares and moments; each
    seed has another stream.
    """
    delta, size = 0.5, 1_200
    seeds, most = trials(delta)
    rng = np.random.default_rng(2)
    for epsilon, span in ((0.5, 10**6), (0.3, 700)):
        spans = [span // 5 + 1, span]
        for share in (0, epsilon):
            seen = np.zeros((2, len(spans)), np.int64)
            for seed, name in zip(range(seeds), cycle(STREAMS), strict=False):
                times, items = TIMES[time_name](rng, size), STREAMS[name](rng, size)
                parameters = RandomFrequentParameters(epsilon, span, delta, seed)
                queries = np.array([times[size // 2] + 1, times[-1] + span // 2])
                seen += failed(parameters, share, times, items, queries, spans)
            assert seen.max() <= most


def test_one_event_of_each_group_is_chosen_and_each_as_often() -> None:
    """In each group of 2^r events one has level r or more; over the seeds, all as often."""
    seeds = 2_000
    for level in (1, 3, 5, 6):
        seen = np.zeros(2**level, np.int64)
        for seed in range(seeds):
            start = 2**level * (seed % 7)
            levels = [level_of(seed, start + i, level) for i in range(2**level)]
            assert levels.count(level) == 1
            seen[levels.index(level)] += 1
        for count in seen.tolist():
            assert chance(seeds, 2.0**-level, count) > SIGNIFICANCE


def test_a_sample_is_kept_for_reach_times_its_group() -> None:
    """The state has just the events whose level is needed, and each count is since its event."""
    parameters = RandomFrequentParameters(0.5, 10**6, 0.5, 3)
    rng = np.random.default_rng(5)
    items = rng.integers(0, 6, 900)
    summary = RandomFrequentItems.create(parameters)
    for end in range(30, 901, 30):
        summary.insert(np.arange(end - 30, end), items[end - 30 : end])
        kept = [
            event
            for event in range(end)
            if level_of(3, event, level_needed(end - event, parameters.reach))
            == level_needed(end - event, parameters.reach)
        ]
        assert summary.stored_entries() == len(kept)
        summary.check()
        for item in range(6):
            since = next((event for event in kept if items[event] == item), end)
            expected = int(np.sum(items[since:end] == item))
            assert summary.query(10**6, item).lower == expected


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
def test_space_keeps_to_the_bound(epsilon: float) -> None:
    """Windows of 10^2 to 10^6 events of a stream three times as long, of new items."""
    for span in (10**2, 10**4, 10**6):
        parameters = RandomFrequentParameters(epsilon, span, 0.01, 9)
        summary = RandomFrequentItems.create(parameters)
        levels = level_needed(span, parameters.reach)
        most = levels * (parameters.reach + 4) // 2 + parameters.reach + 2
        for start in range(0, 3 * span, span // 2):
            summary.insert(np.arange(start, start + span // 2), np.arange(start, start + span // 2))
            assert summary.stored_entries() <= most
            assert len(summary.to_bytes()) <= 20 * most + 60


def test_few_events_are_counted_exactly() -> None:
    """Up to `reach` events nothing is left to chance."""
    parameters = RandomFrequentParameters(0.1, 10**6, 0.1, 11)
    items = np.random.default_rng(6).integers(0, 30, parameters.reach)
    summary = RandomFrequentItems.create(parameters)
    summary.insert(np.arange(len(items)), items)
    for item, count in Counter(items.tolist()).items():
        assert summary.query(10**6, item) == (count, count, count)


def test_parameters_are_checked() -> None:
    """A chance of failure and a seed that can be kept to; states of another seed are refused."""
    for delta in (0.0, 0.51, float("nan")):
        with pytest.raises(SynopsisError, match="delta must be from"):
            RandomFrequentParameters(0.1, 10, delta, 1)
    for seed in (-1, 2**63, 1.5, True):
        with pytest.raises(SynopsisError, match="seed must be a whole number"):
            RandomFrequentParameters(0.1, 10, 0.1, seed)  # type: ignore[arg-type]
    state = RandomFrequentItems.create(RandomFrequentParameters(0.1, 10, 0.1, 1)).to_bytes()
    other = RandomFrequentParameters(0.1, 10, 0.1, 2)
    with pytest.raises(SynopsisError, match="another epsilon"):
        run_random_frequent_batch(other, [state], Batch([0, 0], [], [], [0, 0], [], []), 0)


def _with_room_for(parameters: RandomFrequentParameters, room: int) -> bytes:
    """A state of one sample, whose span may have 2^40 - room events."""
    head = parameters.head
    state, samples = np.empty(STATE_SIZE, np.int64), np.empty((ROWS, 1), np.int64)
    state[NOW], state[SIZE] = 101, 1
    level = level_needed(LIVE_LIMIT, parameters.reach) + 1
    samples[:, 0] = (_chosen(parameters.seed, level, (1 << 43) >> level), 100, 7, 1)
    total = (1 << 43) + LIVE_LIMIT
    for _ in range(50):
        state[TOTAL] = total
        off = window_of(head, state, samples, 101 - parameters.span)[2] - (LIVE_LIMIT - room)
        if off == 0:
            break
        total -= off
    assert off == 0
    out = np.empty(encoded_limit(1), np.uint8)
    return out[: encode(out, 0, head, parameters.shares, state, samples)].tobytes()


def test_a_window_that_may_have_more_than_2_to_the_40_events_is_refused() -> None:
    """Taken up to the very limit, refused beyond, in bytes as well; and no share overflows."""
    parameters = RandomFrequentParameters(0.1, 100, 0.01, 5)
    full = _with_room_for(parameters, 3)
    none = [0, 0]
    asked = ([0, 1], [102], [100])
    found = run_random_frequent_batch(
        parameters, [full], Batch([0, 3], [101] * 3, [7, 8, 9], *asked), 0.5
    )
    assert found.events_high.tolist() == [[1 << 40]]
    assert 2 * found.unlisted[0, 0] < found.events_low[0, 0]
    assert found.items.tolist() == []  # a millionth more than fits, and some would be taken for it
    with pytest.raises(WindowTooLargeError, match=r"2\^40"):
        run_random_frequent_batch(
            parameters, [full], Batch([0, 4], [101] * 4, [7] * 4, none, [], []), 0
        )
    too_full = _with_room_for(parameters, -1)
    with pytest.raises(SynopsisError, match="damaged"):
        run_random_frequent_batch(parameters, [too_full], Batch(none, [], [], none, [], []), 0)
    again = run_random_frequent_batch(
        parameters, [full], Batch([0, 9], [500] * 9, [7] * 9, [0, 1], [501], [100]), 0
    )
    assert again.lowers.tolist() == [9]
