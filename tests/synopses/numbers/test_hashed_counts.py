"""Counts of any items, hashed to counters: what always holds, and how often chance may miss."""

from itertools import pairwise

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    Bundle,
    HashedCountParameters,
    SynopsisError,
    item_counts,
    item_ids,
    run_hashed_counts_batch,
    union_hashed_counts,
)
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.past.past import past_totals
from tests.synopses.celled import ITEMS
from tests.synopses.chances import trials

SPAN = 1_000
WINDOWS = [1, 10, 200, SPAN]


def asked(
    parameters: HashedCountParameters, times: Integers, items: Integers, wanted: Integers
) -> tuple[bytes, Floats]:
    """The state of one key, and the counts of the items wanted over `WINDOWS` at its end."""
    question = [0, 1], [int(times[-1]) + 1], WINDOWS
    batch = Batch([0, len(times)], times, items, *question)
    found = run_hashed_counts_batch(parameters, [None], batch, wanted)
    return found.states[0], item_counts(parameters, found.counters)[:, 0]


def exact(times: Integers, items: Integers, wanted: Integers, end: int) -> Integers:
    inside = [items[times >= end - window] for window in WINDOWS]
    return np.array([[np.count_nonzero(of == item) for item in wanted] for of in inside])


def totals(times: Integers, end: int) -> Integers:
    return np.array([[np.count_nonzero(times >= end - window)] for window in WINDOWS])


@pytest.mark.parametrize("epsilon", [0.5, 0.02])
@pytest.mark.parametrize("kind", ITEMS)
def test_what_does_not_depend_on_chance(kind: str, epsilon: float) -> None:
    """Whatever the seed: no count is above its upper bound, nor more than epsilon of itself above
    its estimate; and bounds are in order.
    """
    rng = np.random.default_rng(len(kind))
    for seed in range(2):
        parameters = HashedCountParameters(epsilon, 0.5, SPAN, seed)
        items = ITEMS[kind](rng, 3_000).astype(np.int64)
        times = np.sort(rng.integers(0, 2 * SPAN, len(items)))
        wanted = np.append(np.unique(items)[:30], [5, -(2**63)])
        _, (estimates, lowers, uppers) = asked(parameters, times, items, wanted)
        counts = exact(times, items, wanted, int(times[-1]) + 1)
        assert (counts <= uppers).all()
        assert (counts - estimates <= epsilon * counts).all()
        assert ((lowers >= 0) & (lowers <= estimates) & (estimates <= uppers)).all()
        assert (lowers == np.floor(lowers)).all()


@pytest.mark.parametrize(("delta", "rows"), [(0.25, 1), (0.1, 2)])
def test_misses_are_as_rare_as_promised_in_the_worst_stream(delta: float, rows: int) -> None:
    """So many heavy items that one alone in a counter of each row is too much for an item that
    never came: nothing is likelier to miss. A chance of 1.5 delta would be seen, and so would rows
    that hash alike. The lower bound, which is then above 0, misses as often as the estimate.
    """
    never = np.array([77], np.int64)
    seeds, most = trials(delta)
    misses = far = 0
    for seed in range(seeds):
        parameters = HashedCountParameters(0.05, delta, SPAN, seed)
        assert parameters.rows == rows
        heavy = int(1 / parameters.noise - 1e-9)
        items = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, heavy).repeat(10)
        _, figures = asked(parameters, np.zeros(len(items), np.int64), items, never)
        estimate, lower, _ = figures[:, -1, 0]
        misses += lower > 0
        far += estimate > 0.05 * len(items)
    assert far <= misses <= most
    # The proof leaves little room, so the law has power.
    assert misses > 0.6 * delta * seeds


@pytest.mark.parametrize("kind", ["zipf", "hashes", "all different"])
def test_all_windows_and_items_keep_the_promise_as_often_as_is_promised(kind: str) -> None:
    """Over seeds, of each item and window alone: the shares of misses stay below delta."""
    delta, seeds = 0.25, 40
    rng = np.random.default_rng(9)
    items = ITEMS[kind](rng, 2_000).astype(np.int64)
    times = np.sort(rng.integers(0, 2 * SPAN, len(items)))
    end = int(times[-1]) + 1
    wanted = np.append(np.unique(items)[:40], 5)
    counts, events = exact(times, items, wanted, end), totals(times, end)
    misses = np.zeros(counts.shape, np.int64)
    for seed in range(seeds):
        parameters = HashedCountParameters(0.1, delta, SPAN, seed)
        _, (estimates, lowers, _) = asked(parameters, times, items, wanted)
        misses += (lowers > counts) | (np.abs(estimates - counts) > 0.1 * events)
    # Of 164 answers none is far above its share: 0.25 + 4.5 deviations.
    assert misses.max() <= (delta + 4.5 * (delta * (1 - delta) / seeds) ** 0.5) * seeds
    assert misses.mean() <= delta * seeds


def test_counts_of_few_events_are_exact() -> None:
    """While no other item's event fits into the noise: bounds are equal, and hold."""
    parameters = HashedCountParameters(0.01, 1e-6, SPAN)
    items = np.arange(90, dtype=np.int64) % 40
    _, (estimates, lowers, uppers) = asked(parameters, np.arange(90), items, np.arange(45))
    counts = exact(np.arange(90), items, np.arange(45), 90)
    assert (estimates == counts).all()
    assert (lowers == counts).all()
    assert (uppers == counts).all()


def test_batches_and_questions_do_not_show_in_the_bytes() -> None:
    """However events are split, whatever is asked; another seed is another state."""
    rng = np.random.default_rng(2)
    parameters = HashedCountParameters(0.1, 0.01, SPAN, 7)
    items = rng.zipf(1.3, 3_000).astype(np.int64)
    times = np.sort(rng.integers(0, 3 * SPAN, len(items)))
    whole, _ = asked(parameters, times, items, np.arange(9))
    state = None
    for start, end in pairwise([0, 0, 1, 500, 501, 2_999, 3_000]):
        batch = Batch([0, end - start], times[start:end], items[start:end])
        none = np.arange(0)
        (state,) = run_hashed_counts_batch(parameters, [state], batch, none).states
    assert state == whole
    other = HashedCountParameters(0.1, 0.01, SPAN, 8)
    assert asked(other, times, items, np.arange(9))[0] != whole


def test_bytes_do_not_grow_with_the_items() -> None:
    """As many counters as there are, each of at most as many buckets as the theorem has."""
    parameters = HashedCountParameters(0.2, 0.1, 10**7)
    state, sizes = None, []
    for start in range(0, 400_000, 20_000):
        at = np.arange(start, start + 20_000)
        batch = Batch([0, len(at)], at, at * 7_919)
        (state,) = run_hashed_counts_batch(parameters, [state], batch, np.arange(0)).states
        sizes.append(len(state))
    cells = parameters.rows * parameters.width
    buckets = 4 * (np.log2(4e5 / parameters.width) + 1)
    assert sizes[-1] <= 60 + cells * (4 + 4 * buckets)
    assert sizes[-1] < 2 * sizes[0]


def test_the_union_of_parties_and_the_past_keep_the_bounds() -> None:
    """Counters add up over parties, and are differences of windows: chance is taken once."""
    rng = np.random.default_rng(4)
    parameters = HashedCountParameters(0.1, 1e-6, SPAN, 3)
    parts, all_times, all_items = {}, [], []
    wanted = np.arange(12, dtype=np.int64)
    for party in "abc":
        items = rng.zipf(1.5, 2_000).astype(np.int64) % 500
        times = np.sort(rng.integers(0, 2 * SPAN, len(items)))
        times[-1] = 2 * SPAN - 1
        parts[party], _ = asked(parameters, times, items, wanted)
        all_times.append(times)
        all_items.append(items)
    times, items = np.concatenate(all_times), np.concatenate(all_items)
    bundles = [Bundle.of(parts), Bundle.of({"b": parts["b"]})]
    asking = [2 * SPAN] * 2, WINDOWS, wanted
    counters = union_hashed_counts(parameters, bundles, *asking)
    estimates, lowers, uppers = item_counts(parameters, counters)[:, 0]
    counts, events = exact(times, items, wanted, 2 * SPAN), totals(times, 2 * SPAN)
    assert ((lowers <= counts) & (counts <= uppers)).all()
    assert (np.abs(estimates - counts) <= 0.1 * events).all()
    alone = item_counts(parameters, counters)[:, 1]
    of_b = asked(parameters, all_times[1], all_items[1], wanted)[1]
    assert (alone == of_b).all()
    past = past_totals(counters[:, :, [3, 1]])
    _, lowers, uppers = item_counts(parameters, past)[:, 0, 0]
    at = (times >= SPAN) & (times < 2 * SPAN - 10)
    before = np.array([np.count_nonzero(items[at] == item) for item in wanted])
    assert ((lowers <= before) & (before <= uppers)).all()
    assert union_hashed_counts(parameters, bundles, *asking[:2], np.arange(0)).shape == (3, 2, 4, 1)


def test_bad_parameters_and_states_are_refused() -> None:
    """Errors and chances out of range, and states of other parameters."""
    for bad in ((0.0009, 0.1, 9), (0.6, 0.1, 9), (0.1, 0, 9), (0.1, 0.6, 9), (0.1, 0.1, 0)):
        with pytest.raises(SynopsisError, match="must be"):
            HashedCountParameters(*bad)
    with pytest.raises(SynopsisError, match="seed"):
        HashedCountParameters(0.1, 0.1, 9, -1)
    ones = np.ones((2, 3), np.int64)
    state, _ = asked(HashedCountParameters(0.1, 0.1, SPAN), *ones, item_ids(["a"]))
    nothing = Batch([0, 0], [], [])
    with pytest.raises(SynopsisError, match="other parameters"):
        run_hashed_counts_batch(
            HashedCountParameters(0.05, 0.1, SPAN), [state], nothing, np.arange(0)
        )


def test_counters_of_items_never_change() -> None:
    """States that were written by an earlier version count the same items."""
    parameters = HashedCountParameters(0.05, 0.01, SPAN, 7)
    assert (parameters.rows, parameters.width) == (5, 53)
    assert parameters.counters(item_ids(["/checkout", "", "é"], 7)).T.tolist() == [
        [10, 85, 109, 176, 217],
        [50, 57, 155, 169, 214],
        [7, 94, 158, 184, 249],
    ]
