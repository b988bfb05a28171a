"""The promise of frequent items: bounds hold for each item, none is missed, at every moment.

It is that of both ways to keep them: in blocks (`FrequentItems`) and in pairs (`PairedItems`).
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.frequent.frequent_items import (
    FrequentBatch,
    FrequentItems,
    run_frequent_batch,
)
from slidestat.synopses.frequent_pairs.layout import PairedParameters
from slidestat.synopses.frequent_pairs.paired_items import PairedItems, run_paired_items_batch
from tests.synopses.streams import TIMES

Parameters = FrequentParameters | PairedParameters
KINDS: dict[str, type[Parameters]] = {"in blocks": FrequentParameters, "in pairs": PairedParameters}
EACH = pytest.mark.parametrize("made_with", KINDS.values(), ids=KINDS)


def _rotating(rng: np.random.Generator, size: int) -> Integers:
    # A new favourite every 500 events, half of them; the rest is noise.
    return np.where(
        rng.random(size) < 0.5, -1 - np.arange(size) // 500, rng.integers(0, 10**6, size)
    )


STREAMS: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.2, size), 10**9),
    "few": lambda rng, size: rng.integers(-3, 3, size),
    "one": lambda rng, size: np.full(size, -(2**63)),  # noqa: ARG005
    "all different": lambda rng, size: np.arange(size) * 2**40,  # noqa: ARG005
    "in turn": lambda rng, size: np.arange(size) % 23,  # noqa: ARG005
    "in runs": lambda rng, size: np.arange(size) // 64 % 40,  # noqa: ARG005
    "rotating": _rotating,
    # Each block of 128 has one item often, another one in each.
    "one for each block": lambda rng, size: np.where(
        rng.random(size) < 0.3, 10**6 + np.arange(size) // 128, rng.integers(0, 4, size)
    ),
    # As many in turn as wait in a room of pairs at an epsilon of 0.2, or one more: all are dropped.
    "as many as wait": lambda rng, size: np.arange(size) % 5,  # noqa: ARG005
    "one more than wait": lambda rng, size: np.arange(size) % 6,  # noqa: ARG005
    # Rooms fill with single ones, and then nothing comes but what has them dropped.
    "phases": lambda rng, size: np.where(  # noqa: ARG005
        np.arange(size) // 211 % 3 == 0,
        np.arange(size),
        -(np.arange(size) % np.where(np.arange(size) // 211 % 3 == 1, 6, 2)),
    ),
    "twice each": lambda rng, size: np.arange(size) // 2,  # noqa: ARG005
    "hashes": lambda rng, size: rng.integers(-(2**63), 2**63, 300)[
        np.minimum(rng.zipf(1.3, size), 300) - 1
    ],
}


def check(
    result: FrequentBatch,
    parameters: Parameters,
    share: float,
    times: Integers,
    items: Integers,
    queries: Integers,
    spans: list[int],
) -> None:
    """Compare all of each list, and all that is not on it, with a recount."""
    for i, query in enumerate(queries.tolist()):
        for k, span in enumerate(spans):
            first, last = np.searchsorted(times, [query - span, query])
            events = int(last - first)
            exact = Counter(items[first:last].tolist())
            at, to = result.ends[i * len(spans) + k : i * len(spans) + k + 2].tolist()
            unlisted = int(result.unlisted[i, k])
            assert result.events_low[i, k] <= events <= result.events_high[i, k]
            assert unlisted == 0 or unlisted < parameters.relative_width * events
            listed = result.items[at:to].tolist()
            assert listed == sorted(set(listed))
            columns = (listed, result.lowers[at:to].tolist(), result.uppers[at:to].tolist())
            for item, lower, upper in zip(*columns, strict=True):
                assert lower <= exact[item] <= upper
                assert upper == lower or upper - lower < parameters.relative_width * events
                assert exact[item] > (share - 2 * parameters.relative_width) * events or events == 0
                del exact[item]
            for count in exact.values():
                assert count <= unlisted or count < share * events


def answers(
    parameters: Parameters,
    share: float,
    times: Integers,
    items: Integers,
    queries: Integers,
    spans: list[int],
) -> FrequentBatch:
    batch = Batch([0, len(times)], times, items, [0, len(queries)], queries, spans)
    if isinstance(parameters, PairedParameters):
        return run_paired_items_batch(parameters, [None], batch, share)
    return run_frequent_batch(parameters, [None], batch, share)


def created(parameters: Parameters) -> FrequentItems | PairedItems:
    """A summary of one key that has seen nothing."""
    if isinstance(parameters, PairedParameters):
        return PairedItems.create(parameters)
    return FrequentItems.create(parameters)


@EACH
@pytest.mark.parametrize("time_name", TIMES)
def test_bounds_hold_and_none_is_missed(made_with: type[Parameters], time_name: str) -> None:
    """Every named stream of items at these times, four errors, long and short spans: no slack."""
    rng = np.random.default_rng(11)
    for item_name in STREAMS:
        size = 3_000
        times, items = TIMES[time_name](rng, size), STREAMS[item_name](rng, size)
        for epsilon, span in ((0.5, 40), (0.5, 10**6), (0.2, 700), (0.05, 2_000)):
            parameters = made_with(epsilon, span)
            queries = np.unique(np.append(times[36::293] + 1, times[-1] + span // 2))
            spans = sorted({1, span // 5 + 1, span - 1, span})
            for share in (0, epsilon):
                result = answers(parameters, share, times, items, queries, spans)
                check(result, parameters, share, times, items, queries, spans)


@EACH
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("size", [1, 33, 4_096, 10_000])
def test_fixed_size_windows(made_with: type[Parameters], epsilon: float, size: int) -> None:
    """The last N events, N being all that is kept: events by number, their numbers as times."""
    rng = np.random.default_rng(12)
    times = np.arange(3 * size + 50)
    parameters = made_with(epsilon, size)
    queries = np.unique(np.linspace(1, len(times), 20).astype(np.int64))
    for name in ("zipf", "rotating"):
        items = STREAMS[name](rng, len(times))
        result = answers(parameters, epsilon, times, items, queries, [size])
        check(result, parameters, epsilon, times, items, queries, [size])


@EACH
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
def test_n_of_n_windows(made_with: type[Parameters], epsilon: float) -> None:
    """The last n events, for any n <= N, of one state: every length near the edges."""
    rng = np.random.default_rng(12)
    times = np.arange(20_000)
    spans = sorted({1, 2, 3, 31, 32, 33, 500, 4_095, 4_096, 4_097, 9_999, 10_000})
    parameters = made_with(epsilon, 10_000)
    queries = np.array([1, 10, 100, 4_096, 4_100, 9_001, 16_384, 16_385, 19_999, 20_000])
    for name in ("zipf", "rotating", "all different"):
        items = STREAMS[name](rng, 20_000)
        result = answers(parameters, epsilon, times, items, queries, spans)
        check(result, parameters, epsilon, times, items, queries, spans)


@EACH
@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_variable_size_windows(made_with: type[Parameters], epsilon: float) -> None:
    """A window that an adversary lets grow by an event, or lose its oldest, at each step."""
    rng = np.random.default_rng(13)
    items = STREAMS["rotating"](rng, 4_000)
    parameters = made_with(epsilon, 4_000)
    summary = created(parameters)
    first = last = 0
    for step in range(160):
        grow = int(rng.integers(0, 60)) if step % 40 < 25 else 0
        summary.insert(np.arange(last, last + grow), items[last : last + grow])
        last += grow
        first = min(last, first + int(rng.integers(0, 30 if step % 40 < 25 else 120)))
        if first < last:
            exact = Counter(items[first:last].tolist())
            listed = summary.frequent(last - first, epsilon, now=last)
            for known in listed:
                assert known.lower <= exact[known.item] <= known.upper
                assert known.upper - known.lower <= parameters.relative_width * (last - first)
            often = {item for item, count in exact.items() if count >= epsilon * (last - first)}
            assert often <= {known.item for known in listed}


@EACH
@pytest.mark.parametrize("epsilon", [0.5, 0.25])
def test_every_moment_and_every_window(made_with: type[Parameters], epsilon: float) -> None:
    """Event by event, all windows of a small span: where blocks end and phases change as well."""
    size = 420
    times = np.arange(size)
    items = times * times % 53 // 4
    parameters = made_with(epsilon, 300)
    spans = list(range(1, 301, 7))
    queries = np.arange(1, size + 200, 3)
    result = answers(parameters, 0, times, items, queries, spans)
    check(result, parameters, 0, times, items, queries, spans)


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 400)),
        st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
    ),
    max_size=300,
)


@EACH
@settings(derandomize=True, deadline=None, max_examples=150)
@given(EVENTS, st.sampled_from([0.5, 0.3, 0.1]), st.lists(st.integers(1, 500), max_size=4))
def test_any_events(
    made_with: type[Parameters], events: list[tuple[int, int]], epsilon: float, spans: list[int]
) -> None:
    """Whatever the events are."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    items = np.array([item for _, item in events], np.int64)
    parameters = made_with(epsilon, 500)
    spans = [*spans, 500]
    queries = np.unique(np.concatenate([times[::17] + 1, times[-1:] + 100]))
    result = answers(parameters, 0, times, items, queries, spans)
    check(result, parameters, 0, times, items, queries, spans)


@EACH
def test_a_list_is_most_frequent_first_and_single_items_can_be_asked_for(
    made_with: type[Parameters],
) -> None:
    """`frequent` names all with the share, `query` bounds any item, seen or not."""
    rng = np.random.default_rng(4)
    size = 30_000
    items = np.minimum(rng.zipf(1.3, size), 10**6)
    summary = created(made_with(0.01, size))
    summary.insert(np.arange(size), items)
    for n in (100, 5_000, size):
        exact = Counter(items[-n:].tolist())
        listed = summary.frequent(n, 0.02)
        assert {item for item, count in exact.items() if count >= 0.02 * n} <= {
            known.item for known in listed
        }
        assert [known.estimate for known in listed] == sorted(
            (known.estimate for known in listed), reverse=True
        )
        for known in listed:
            assert known[1:] == summary.query(n, known.item)
            assert abs(known.estimate - exact[known.item]) <= 0.005 * n
        for item in (1, 2, 77, -5, 2**63 - 1):
            answer = summary.query(n, item)
            assert answer.lower <= exact[item] <= answer.upper
            assert abs(answer.estimate - exact[item]) <= 0.005 * n


DATA = Path(__file__).parents[4] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"


@EACH
@pytest.mark.skipif(not FLIGHTS.exists(), reason="the folder of real events is not there")
@pytest.mark.parametrize("epsilon", [0.1, 0.005])
def test_flights_keep_the_promise(made_with: type[Parameters], epsilon: float) -> None:
    """Origins of a million flights, hours to weeks."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "origin"]).slice(0, 1_000_000)
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    items = table["origin"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    day = 86_400_000
    spans = [3_600_000, day, 7 * day]
    queries = np.linspace(times[0] + 1, times[-1] + 2 * day, 12).astype(np.int64)
    parameters = made_with(epsilon, 7 * day)
    for share in (0, epsilon):
        result = answers(parameters, share, times, items, queries, spans)
        check(result, parameters, share, times, items, queries, spans)
