"""Synopses of one window of a fixed number of events: the promise at its bound, the space that the
paper states, and how states of windows of any length go on as theirs.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses import (
    Batch,
    FixedFrequentParameters,
    FixedQuantileParameters,
    FixedRandomFrequentParameters,
    FixedRandomQuantileParameters,
    FrequentItems,
    FrequentParameters,
    QuantileParameters,
    Quantiles,
    RandomFrequentItems,
    RandomFrequentParameters,
    RandomQuantileParameters,
    RandomQuantiles,
    SynopsisError,
    run_frequent_batch,
    run_quantile_batch,
)
from slidestat.synopses.blocks import frequent_layout, quantile_layout
from slidestat.synopses.blocks.summary import for_one_window
from tests.synopses.chances import trials
from tests.synopses.frequent import test_frequent_items_error as items
from tests.synopses.frequent.test_frequent_items_random import failed
from tests.synopses.hostile import DAMAGES, damaged
from tests.synopses.leveled import fed
from tests.synopses.quantiles import test_quantiles_error as values
from tests.synopses.quantiles.test_quantiles_random import asked, failures

SEED, DELTA = 2**40 + 1, 0.2


@dataclass(frozen=True)
class Kind:
    """A synopsis, made for one window or for any from (epsilon, span), and its payload."""

    summary: Any
    one: Callable[[float, int], Any]
    any: Callable[[float, int], Any]
    is_items: bool

    def draw(self, rng: np.random.Generator, size: int) -> npt.NDArray[Any]:
        """Values or items of the synopsis' sort."""
        if self.is_items:
            return np.minimum(rng.zipf(1.2, size), 10**6)
        return np.round(rng.uniform(0, 100, size), 2)


KINDS = {
    "quantiles": Kind(Quantiles, FixedQuantileParameters, QuantileParameters, False),
    "items": Kind(FrequentItems, FixedFrequentParameters, FrequentParameters, True),
    "random quantiles": Kind(
        RandomQuantiles,
        lambda epsilon, span: FixedRandomQuantileParameters(epsilon, span, DELTA, SEED),
        lambda epsilon, span: RandomQuantileParameters(epsilon, span, DELTA, SEED),
        False,
    ),
    "random items": Kind(
        RandomFrequentItems,
        lambda epsilon, span: FixedRandomFrequentParameters(epsilon, span, DELTA, SEED),
        lambda epsilon, span: RandomFrequentParameters(epsilon, span, DELTA, SEED),
        True,
    ),
}
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
ERRORS = ((0.5, 40), (0.5, 64), (0.2, 700), (0.1, 1_024), (0.05, 2_000), (0.02, 2_999))


@pytest.mark.parametrize("name", values.STREAMS)
def test_ranks_keep_the_promise_while_the_window_fills_and_after(name: str) -> None:
    """Every named stream, spans that are powers of two and others: bounds and ranks, no slack."""
    size = 6_100
    times, payload = np.arange(size), values.STREAMS[name](np.random.default_rng(1), size)
    queries = np.unique(np.append(np.arange(1, size, 151), 2 ** np.arange(13)))
    for epsilon, span in ERRORS:
        parameters = FixedQuantileParameters(epsilon, span)
        result = values.answers(parameters, times, payload, queries, [span])
        values.check(result, parameters.rank_error, times, payload, queries, [span])


@pytest.mark.parametrize("name", items.STREAMS)
def test_counts_keep_the_promise_while_the_window_fills_and_after(name: str) -> None:
    """The same of frequent items: none is missed, and bounds hold for each."""
    size = 6_100
    times, payload = np.arange(size), items.STREAMS[name](np.random.default_rng(1), size)
    queries = np.unique(np.append(np.arange(1, size, 307), 2 ** np.arange(13)))
    for epsilon, span in ERRORS:
        parameters = FixedFrequentParameters(epsilon, span)
        for share in (0, epsilon):
            result = items.answers(parameters, share, times, payload, queries, [span])
            items.check(result, parameters, share, times, payload, queries, [span])


def test_at_every_moment() -> None:
    """Event by event over small spans: where blocks end, and where all grow coarser."""
    size = 330
    times = np.arange(size)
    payload = (times * 7_919 % 1_009).astype(np.float64)
    queries = np.arange(1, size + 1)
    for epsilon in (0.5, 0.25):
        for span in (33, 64, 100, 128, 129, 255):
            parameters = FixedQuantileParameters(epsilon, span)
            result = values.answers(parameters, times, payload, queries, [span])
            values.check(result, parameters.rank_error, times, payload, queries, [span])


def test_shorter_windows_and_missing_numbers_are_off_by_no_more_events() -> None:
    """Of n < N events, and where numbers have no event: bounds hold, and ranks are off by at most
    epsilon min(N, events so far).
    """
    rng = np.random.default_rng(3)
    for chance in (1.0, 0.7, 0.05):
        times = np.flatnonzero(rng.random(int(5_000 / chance)) < chance)
        payload = rng.normal(0, 1, len(times))
        parameters = FixedQuantileParameters(0.1, 1_000)
        spans = [1, 10, 333, 999, 1_000]
        queries = times[60::97] + 1
        result = values.answers(parameters, times, payload, queries, spans)
        for i, query in enumerate(queries.tolist()):
            seen = min(int(np.searchsorted(times, query)), 1_000)
            for k, span in enumerate(spans):
                first, last = np.searchsorted(times, [query - span, query])
                window = np.sort(payload[first:last])
                for j, p in enumerate(values.QUANTILES):
                    estimate, lower, upper, error = (
                        part[i, k, j]
                        for part in (
                            *(result.estimates, result.lowers),
                            *(result.uppers, result.rank_errors),
                        )
                    )
                    if first == last:
                        assert not lower <= upper or error <= parameters.rank_error * seen
                        continue
                    rank = max(1, -(-round(p * 10**6) * len(window) // 10**6))
                    assert lower <= window[rank - 1] <= upper
                    off = values.off(window, estimate, rank)
                    assert off <= error <= parameters.rank_error * seen


@pytest.mark.parametrize("name", ["normal", "sorted", "organ pipe", "zoom in"])
def test_random_quantiles_fail_no_oftener_than_delta(name: str) -> None:
    """Of many seeds, for each quantile, while the window fills and after."""
    seeds, most = trials(DELTA)
    for size in (900, 3_000):
        times, payload = np.arange(size), values.STREAMS[name](np.random.default_rng(1), size)
        seen = np.zeros(len(values.QUANTILES), np.int64)
        for seed in range(seeds):
            parameters = FixedRandomQuantileParameters(0.1, 1_000, DELTA, seed)
            result = asked(parameters, times, payload, [1_000])
            seen += failures(result, parameters.rank_error, times, payload, [1_000])
        assert seen.max() <= most


@pytest.mark.parametrize("name", ["zipf", "rotating", "in runs", "all different"])
def test_random_counts_fail_no_oftener_than_delta(name: str) -> None:
    """Of many seeds: lowers hold always, and uppers of a window but for delta."""
    seeds, most = trials(DELTA)
    size = 2_500
    times, payload = np.arange(size), items.STREAMS[name](np.random.default_rng(1), size)
    queries = np.array([400, 1_100, size])
    seen = np.zeros(len(queries), np.int64)
    for seed in range(seeds):
        parameters = FixedRandomFrequentParameters(0.2, 1_000, DELTA, seed)
        seen += failed(parameters, 0, times, payload, queries, [1_000])[:, 0]
    assert seen.max() <= most


@EACH
def test_batch_boundaries_never_show(kind: Kind) -> None:
    """Event by event, in pieces or all at once, with and without missing numbers: the same bytes,
    sound, and read as they were written.
    """
    rng = np.random.default_rng(5)
    for span, chance in ((40, 0.0), (100, 0.02), (128, 0.05), (300, 0.0), (300, 0.3)):
        gaps = np.where(rng.random(700) < chance, rng.integers(2, span, 700), 1)
        times, payload = np.cumsum(gaps), kind.draw(rng, 700)
        parameters = kind.one(0.5, span)
        singly = kind.summary.create(parameters)
        for end in range(1, 701):
            singly.insert(times[end - 1 : end], payload[end - 1 : end])
            if end % 7 and end & (end - 1):
                continue
            whole = fed(kind.summary.create(parameters), times[:end], payload[:end])
            pieces = rng.integers(0, end, 3).tolist()
            parts = fed(kind.summary.create(parameters), times[:end], payload[:end], pieces)
            assert singly.to_bytes() == whole.to_bytes() == parts.to_bytes()
            again = kind.summary.from_bytes(whole.to_bytes())
            assert (again.to_bytes(), again.parameters) == (whole.to_bytes(), parameters)
        advanced = fed(kind.summary.create(parameters), times, payload)
        advanced.advance(int(times[-1]) + span + 1)
        assert advanced.stored_entries() == 0


@pytest.mark.parametrize("span", [40, 100, 300])
@pytest.mark.parametrize("name", ["quantiles", "items", "random quantiles"])
def test_answers_do_not_depend_on_where_batches_ended(name: str, span: int) -> None:
    """Questions between events of one batch are answered as questions to what was stored."""
    kind, rng = KINDS[name], np.random.default_rng(6)
    parameters, count = kind.one(0.5, span), 700
    times = np.cumsum(np.where(rng.random(count) < 0.02, rng.integers(2, span, count), 1))
    payload = kind.draw(rng, count)
    asked_at = np.unique(rng.integers(1, count, 60))

    def answers(
        state: bytes | None, first: int, last: int, ends: npt.NDArray[np.int64]
    ) -> tuple[bytes, list[bytes]]:
        batch = Batch(
            *([0, last - first], times[first:last], payload[first:last]),
            *([0, len(ends)], times[ends - 1] + 1, [span, span // 2]),
        )
        if kind.is_items:
            listed = run_frequent_batch(parameters, [state], batch, 0.0)
            columns = (listed.items, listed.lowers, listed.uppers)
            cuts = listed.ends[2:-1:2]
            parts = [np.split(column, cuts) for column in columns]
            found = [b"".join(p.tobytes() for p in it) for it in zip(*parts, strict=True)]
            return listed.states[0], found[: len(ends)]
        ranks = run_quantile_batch(parameters, [state], batch, [0, 0.25, 0.5, 0.99, 1])
        columns = np.stack([ranks.estimates, ranks.lowers, ranks.uppers, ranks.rank_errors], 1)
        return ranks.states[0], [row.tobytes() for row in columns]

    whole_state, whole = answers(None, 0, count, asked_at)
    for _ in range(10):
        cuts = np.unique([0, count, *rng.integers(1, count, 5), *rng.choice(asked_at, 5)])
        state, found = None, []
        for first, last in itertools.pairwise(cuts.tolist()):
            ends = asked_at[(asked_at > first) & (asked_at <= last)]
            state, more = answers(state, first, last, ends)
            found += more
        assert state == whole_state
        assert found == whole


@EACH
def test_an_event_with_no_number_of_its_own_is_refused(kind: Kind) -> None:
    """A window would have more events than are kept: within a batch, and from one to the next."""
    for numbers in ([5, 5], [5, 4]):
        with pytest.raises(SynopsisError):
            fed(kind.summary.create(kind.one(0.1, 100)), numbers, [1, 1])
        with pytest.raises(SynopsisError):
            fed(kind.summary.create(kind.one(0.1, 100)), numbers, [1, 1], [1])
    with pytest.raises(SynopsisError, match="number of its own"):
        fed(kind.summary.create(kind.one(0.1, 100)), [5, 5], [1, 1], [1])


@EACH
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bytes_are_refused_or_sound(damage: str, kind: Kind) -> None:
    """Whatever is inside, with a checksum made right: refused, or a state that goes on."""
    rng = np.random.default_rng(4)
    whole = fed(kind.summary.create(kind.one(0.5, 300)), np.arange(900), kind.draw(rng, 900))
    for data in damaged(whole.to_bytes(), damage, 60):
        try:
            again = kind.summary.from_bytes(data)
        except SynopsisError:
            continue
        assert again.to_bytes() == data
        if again.now < 2**40:
            more = again.now + np.arange(400)
            fed(again, more, kind.draw(rng, 400)).check()


def test_states_of_any_window_go_on_as_those_of_one() -> None:
    """To the byte what the events themselves would have made, at any moment of their lives."""
    rng = np.random.default_rng(6)
    for name in ("quantiles", "items"):
        kind = KINDS[name]
        for epsilon, span in ERRORS:
            payload = kind.draw(rng, 2 * span + 300)
            times = np.arange(1, len(payload) + 1)
            before = kind.summary.create(kind.any(epsilon, span))
            after = kind.summary.create(kind.one(epsilon, span))
            ends = [*np.arange(0, len(times), 97), *(2 ** np.arange(3, 12)), len(times)]
            ends = sorted(end for end in ends if end <= len(times))
            for start, end in zip([0, *ends], ends, strict=False):
                for summary in (before, after):
                    summary.insert(times[start:end], payload[start:end])
                again = for_one_window(kind.one(epsilon, span), before.to_bytes())
                assert again == after.to_bytes()


def test_a_batch_takes_states_of_any_window() -> None:
    """A key that has one goes on beside a key that has one of one window, and a new one."""
    rng = np.random.default_rng(7)
    times, payload = np.arange(3_000), np.round(rng.normal(0, 1, 3_000), 3)
    parameters, before = FixedQuantileParameters(0.1, 1_000), QuantileParameters(0.1, 1_000)
    old = fed(Quantiles.create(before), times[:2_000], payload[:2_000]).to_bytes()
    new = fed(Quantiles.create(parameters), times[:2_000], payload[:2_000]).to_bytes()
    more = Batch(
        [0, 1_000, 2_000, 2_000],
        np.tile(times[2_000:], 2),
        np.tile(payload[2_000:], 2),
        [0, 1, 2, 3],
        [3_000] * 3,
        [1_000],
    )
    result = run_quantile_batch(parameters, [old, new, None], more, [0.5])
    assert result.states[0] == result.states[1]
    assert result.estimates[0] == result.estimates[1]
    assert np.isnan(result.estimates[2, 0, 0])
    with pytest.raises(SynopsisError, match="kind 31"):
        run_quantile_batch(before, [new], Batch([0, 0], [], [], [0, 0], [], []), [])
    other = fed(Quantiles.create(QuantileParameters(0.2, 1_000)), times, payload).to_bytes()
    with pytest.raises(SynopsisError, match="another epsilon"):
        for_one_window(parameters, other)
    tied = fed(Quantiles.create(before), times // 2, payload).to_bytes()
    with pytest.raises(SynopsisError, match="number of its own"):
        for_one_window(parameters, tied)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("name", ["quantiles", "items"])
def test_space_is_that_of_the_theorem(name: str, epsilon: float) -> None:
    """As one_window.py states it, for windows of 10^2 to 10^6 events: the kept blocks of `levels`
    layers, whatever the window's length; and always less than for windows of any length.
    """
    kind = KINDS[name]
    layout = quantile_layout if name == "quantiles" else frequent_layout
    levels, fineness, fresh = layout.choose(epsilon)
    rng = np.random.default_rng(8)
    for span in (10**2, 10**4, 10**6):
        payload = kind.draw(rng, 2 * span + span // 3)
        one = kind.summary.create(kind.one(epsilon, span))
        any_window = kind.summary.create(kind.any(epsilon, span))
        layers = range(3, max(4, (2 * span).bit_length()))
        kept = levels * (2**fineness + 2 ** min(fineness, layers[-1]))
        waiting = sum(
            2 ** (layer - quantile_layout.fresh_weight(layer, fresh))
            if name == "quantiles"
            else 2 ** min(layer, fresh)
            for layer in layers
        )
        extremes = 2 ** (levels + 1) + 4 * len(layers)
        step = span // 3
        for start in range(0, len(payload), step):
            for summary in (one, any_window):
                part = slice(start, start + step)
                summary.insert(np.arange(len(payload))[part], payload[part])
            tail = 2 ** (levels + 2) + 8
            assert one.stored_entries() <= tail + kept + waiting + extremes
            assert one.stored_entries() <= any_window.stored_entries()


def test_random_counts_take_one_level_of_samples() -> None:
    """Theorem 5.1: at most A + 2 samples, however long the window is."""
    rng = np.random.default_rng(9)
    for epsilon, span in ((0.5, 1_000), (0.1, 30_000), (0.1, 300_000)):
        parameters = FixedRandomFrequentParameters(epsilon, span, DELTA, SEED)
        summary = RandomFrequentItems.create(parameters)
        payload = np.minimum(rng.zipf(1.2, 2 * span), 10**6)
        for start in range(0, 2 * span, span // 4):
            part = slice(start, start + span // 4)
            summary.insert(np.arange(2 * span)[part], payload[part])
            assert summary.stored_entries() <= parameters.reach + 2
            summary.check()
