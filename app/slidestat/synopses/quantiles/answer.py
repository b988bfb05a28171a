"""A quantile of a window, from the blocks that cover it: an estimate, and bounds that hold.

Source: Arasu and Manku 2004, lemma 4.2, restated for intervals. quantile_layout.py gives
low(x) <= F(x) - t <= high(x), F(x) being the number of the window's events <= x and t the rank that
is asked for, whatever events straddle the window's start. lower is the first stored value with
high >= 0, upper the first one with low >= 0, the estimate the first one with low + high >= 0: its
ranks are at most epsilon m off. Why, and what random thinning changes: docs/proofs.md.

So each figure is the first stored key at which one of them reaches the rank asked for. It is found
by bisection of the blocks' sorted runs, which are not merged: a window costs what it takes to copy
its keys, not to sort them.

A run is a block's keys, or the tail's, which is the last run. facts[:, r] are how many events each
key of run r stands for, how much of the width ends at its maximum, that, and its minimum; its keys
are keys[starts[r] : starts[r + 1]].
"""

from math import sqrt

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks import memory
from slidestat.synopses.blocks.blocks import BASE, bit_length, left_tail, trailing_zeros
from slidestat.synopses.blocks.columns import doubles
from slidestat.synopses.blocks.feeding import find_start, window_room
from slidestat.synopses.blocks.memory import Blocks
from slidestat.synopses.blocks.one_window import oldest_of, phase_of
from slidestat.synopses.blocks.quantile_layout import (
    fresh_weight,
    fresh_width,
    kept_weight,
    kept_width,
)
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.keyed import first_from
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.quantiles.random_layout import fresh_spread, kept_spread, likely

WEIGHT, WIDTH, MAXIMUM, MINIMUM = 0, 1, 2, 3

_LOWER, _UPPER, _ESTIMATE = 0, 1, 2


@borrowing_kernel
def _sums(starts: Integers, facts: Integers, places: Integers, key: int) -> tuple[int, int]:
    """Return (low, high) at a key, without the shifts of the events that straddle the start;
    `places` are where larger keys begin in each run.
    """
    count = left = 0
    for r in range(len(places)):
        count += facts[WEIGHT, r] * (places[r] - starts[r])
        if facts[MAXIMUM, r] > key:
            left += facts[WIDTH, r]
    return max(count - left, 0), count


@borrowing_kernel
def _shifts(key: int, straddling: Integers, ranks: tuple[int, int]) -> tuple[int, int]:
    """Return what is added to low and to high at a key; `straddling` is (events, least, most)."""
    fewest, most_asked = ranks
    if straddling[0] == 0:
        return -fewest, -fewest
    low = -fewest if key >= straddling[2] else -most_asked
    high = straddling[0] - most_asked if key >= straddling[1] else -fewest
    return low, high


@borrowing_kernel
def _holds(
    which: int, sums: tuple[int, int], key: int, straddling: Integers, ranks: tuple[int, int]
) -> bool:
    """Return whether a key is at or beyond the figure `which`."""
    low_shift, high_shift = _shifts(key, straddling, ranks)
    low, high = sums[0] + low_shift, sums[1] + high_shift
    if which == _LOWER:
        return high >= 0
    if which == _UPPER:
        return low >= 0
    return low + high >= 0


@borrowing_kernel
def _pivot(begins: Integers, ends: Integers) -> int:
    """Return where the middle of the longest run is that may have the answer; -1 for none."""
    longest = 0
    place = -1
    for r in range(len(begins)):
        if ends[r] - begins[r] > longest:
            longest = ends[r] - begins[r]
            place = (begins[r] + ends[r]) >> 1
    return place


@borrowing_kernel
def _other(facts: Integers, straddling: Integers, beyond: int, until: int) -> int:
    """Return a stored key between the two that is in no run, or `until` for none."""
    for r in range(facts.shape[1]):
        if facts[WIDTH, r] > 0 and beyond < facts[MAXIMUM, r] < until:
            return int(facts[MAXIMUM, r])
    if straddling[0] > 0:
        for i in range(1, 3):
            if beyond < straddling[i] < until:
                return int(straddling[i])
    return until


@borrowing_kernel
def _first(
    which: int,
    keys: Integers,
    starts: Integers,
    facts: Integers,
    straddling: Integers,
    ranks: tuple[int, int],
    beyond: int,
    until: int,
    begins: Integers,
    ends: Integers,
    places: Integers,
) -> int:
    """Return the first stored key at which a figure holds, after `beyond` and at most `until`.

    begins and ends are where in each run the keys between the two are. In the end, begins are
    where those from the found one on begin, and places where larger ones do.
    """
    while True:
        place = _pivot(begins, ends)
        middle = keys[place] if place >= 0 else _other(facts, straddling, beyond, until)
        if place < 0 and middle == until:
            break
        for r in range(len(begins)):
            places[r] = first_from(keys, begins[r], ends[r], middle + 1)
        if _holds(which, _sums(starts, facts, places, middle), middle, straddling, ranks):
            until = middle
            for r in range(len(begins)):
                ends[r] = first_from(keys, begins[r], places[r], middle)
        else:
            beyond = middle
            for r in range(len(begins)):
                begins[r] = places[r]
    for r in range(len(begins)):
        places[r] = first_from(keys, begins[r], starts[r + 1], until + 1)
    return until


@kernel
def search(
    keys: Integers, starts: Integers, facts: Integers, straddling: Integers, ranks: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return (estimate, lower, upper) as keys, and the estimate's rank error.

    `straddling` is (events, least, most): so many events, their keys from least to most, may be in
    the window besides those of the runs. ranks: the rank asked for without them, and with them. The
    window has an event. Cost: O(runs * log(keys)^2).
    """
    runs = facts.shape[1]
    least = 0x7FF << 52
    most = -least - 1
    if straddling[0] > 0:
        least, most = straddling[1], straddling[2]
    for r in range(runs):
        if starts[r] < starts[r + 1]:
            least = min(least, keys[starts[r]])
            most = max(most, keys[starts[r + 1] - 1])
        if facts[WIDTH, r] > 0:
            least = min(least, facts[MAXIMUM, r])
            most = max(most, facts[MAXIMUM, r])
    begins, ends = starts[:-1].copy(), starts[1:].copy()
    places = np.empty(runs, np.int64)
    lower = _first(
        *(_LOWER, keys, starts, facts, straddling, ranks), *(least - 1, most, begins, ends, places)
    )
    before = begins.copy()
    ends[:] = starts[1:]
    upper = _first(
        *(_UPPER, keys, starts, facts, straddling, ranks), *(lower - 1, most, begins, ends, places)
    )
    sums = _sums(starts, facts, places, upper)
    if not _holds(_ESTIMATE, sums, upper, straddling, ranks):
        return upper, lower, upper, (straddling[0] + 1) // 2
    ends[:] = places
    estimate = _first(
        *(_ESTIMATE, keys, starts, facts, straddling, ranks),
        *(lower - 1, upper, before, ends, places),
    )
    low = _sums(starts, facts, places, estimate)[0] + _shifts(estimate, straddling, ranks)[0]
    # The figures of the number before are those of the stored key before.
    high = _sums(starts, facts, before, estimate - 1)[1]
    high += _shifts(estimate - 1, straddling, ranks)[1]
    return estimate, lower, upper, max(0, -low, high + 1)


_HIGHEST = 0x7FF << 52
_LOWEST = -_HIGHEST - 1
"""The keys of the infinities, where nothing is known."""


@kernel
def _extremes(
    head: Integers, state: Integers, blocks: Blocks, since: int, until: int
) -> tuple[int, int]:
    """Return (minimum, maximum) of the smallest known blocks around the events since..until - 1."""
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    least = _LOWEST
    most = _HIGHEST
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        block = since >> layer
        if block != (until - 1) >> layer:
            continue
        oldest = oldest_of(head, left, layer, state[memory.DEAD])
        if block & 1 == 0:
            if block == complete - 1:
                least = max(least, memory.waiting_facts(head, blocks, layer)[memory.LOW])
                most = min(most, memory.waiting_facts(head, blocks, layer)[memory.HIGH])
        elif oldest <= block < complete:
            facts = memory.kept_facts(head, blocks, layer, block)
            least = max(least, facts[memory.LOW])
            most = min(most, facts[memory.HIGH])
    return least, most


@borrowing_kernel
def rank_of(part: int, events: int) -> int:
    """Return max(1, ceil(part * events / PARTS)), without rounding."""
    return int(max(1, (part * events + PARTS - 1) // PARTS))


@kernel
def _likely_answer(
    keys: Integers, figures: Floats, covered: int, straddling: Integers, part: int, factor: float
) -> tuple[float, float, float, float]:
    """Return (estimate, lower, upper, rank error) of the part/PARTS quantile, of random thinning.

    factor: s^2 / V, above 0. Cost: O(steps).
    """
    ranks = rank_of(part, covered), rank_of(part, covered + straddling[0])
    left = float(np.sum(figures[1]))
    most_s = int(sqrt(left * factor))
    lower = estimate = -1
    count = 0
    i = 0
    while True:
        key = keys[i]
        while i < len(keys) and keys[i] == key:
            count += int(figures[0, i])
            left -= figures[1, i]
            i += 1
        if i == len(keys):
            left = 0.0  # but for rounding
        s = int(sqrt(max(left, 0.0) * factor))
        low = max(count - s, 0)
        high = min(count + s, covered)
        middle = max(count - most_s, 0) + min(count + most_s, covered)
        low_shift, high_shift = _shifts(key, straddling, ranks)
        if lower < 0 and high + high_shift >= 0:
            lower = i - 1
        if estimate < 0 and lower >= 0 and middle + low_shift + high_shift >= 0:
            estimate = i - 1
        if low + low_shift >= 0:
            break
    if estimate < 0:
        estimate = i - 1
    found = doubles(keys[np.array([estimate, lower, i - 1])])
    return found[0], found[1], found[2], float((2 * most_s + straddling[0] + 1) // 2)


@borrowing_kernel
def _add_run(
    rows: Integers, of_block: Integers, keys: Integers, starts: Integers, facts: Integers, run: int
) -> None:
    """Append a block's values as a run, whose weight and width are in `facts`."""
    begin = starts[run]
    for i in range(of_block[memory.LISTED]):
        keys[begin + i] = rows[0, i]
    facts[MAXIMUM, run], facts[MINIMUM, run] = of_block[memory.HIGH], of_block[memory.LOW]
    starts[run + 1] = begin + of_block[memory.LISTED]


@kernel
def find_window(
    head: Integers, state: Integers, times: Integers, blocks: Blocks, start: int
) -> tuple[int, int, Integers]:
    """Return of a window that starts at time `start` the first event that is surely in it, how many
    such events there are, and `straddling`, as `search` has it.
    """
    after, before = find_start(head, state, times, blocks, start)
    straddling = np.array([after - 1 - before, 0, 0])
    if straddling[0] > 0:
        straddling[1], straddling[2] = _extremes(head, state, blocks, before + 1, after)
    return after, int(state[memory.TOTAL] - after), straddling


@kernel
def window_runs(
    head: Integers, state: Integers, payload: Integers, blocks: Blocks, after: int
) -> tuple[Integers, Integers, Integers, Floats]:
    """Return the runs of a window from event `after` on: (keys, starts, facts), as the header has
    them; and for random thinning V of each. Then the tail is in no order.
    """
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    fineness, fresh = head[memory.FINENESS], head[memory.FRESH]
    is_random = head[memory.KIND] == memory.RANDOM_QUANTILES
    most = 2 * bit_length(left) + 1
    keys = np.empty(window_room(head, state, after) + 2 * most + 2, np.int64)
    starts = np.zeros(most + 1, np.int64)
    facts = np.zeros((4, most), np.int64)
    spreads = np.zeros(most if is_random else 0, np.float64)
    run = 0
    event = after
    while 0 < event < left:
        layer = trailing_zeros(event)
        if layer < BASE or event + (1 << layer) > left:
            break
        block = event >> layer
        g = phase_of(head, left, layer, block)
        facts[WEIGHT, run] = 1 << kept_weight(layer, g, fineness, fresh)
        if is_random:
            spreads[run] = kept_spread(layer, g, fineness, fresh)
        else:
            facts[WIDTH, run] = kept_width(layer, g, fineness, fresh)
        rows = memory.kept_rows(head, blocks, layer, block, g)
        _add_run(rows, memory.kept_facts(head, blocks, layer, block), keys, starts, facts, run)
        run += 1
        event += 1 << layer
    for layer in range(bit_length(left) - 1 if after < left else 0, BASE - 1, -1):
        complete = left >> layer
        if complete & 1 == 1 and (complete - 1) << layer >= event:
            facts[WEIGHT, run] = 1 << fresh_weight(layer, fresh)
            if is_random:
                spreads[run] = fresh_spread(layer, fresh)
            else:
                facts[WIDTH, run] = fresh_width(layer, fresh)
            rows = memory.waiting_rows(head, blocks, layer)
            _add_run(rows, memory.waiting_facts(head, blocks, layer), keys, starts, facts, run)
            run += 1
    since = max(after, left)
    newest = payload[since - state[memory.TAIL] : state[memory.TOTAL] - state[memory.TAIL]]
    facts[WEIGHT, run] = 1
    starts[run + 1] = starts[run] + len(newest)
    keys[starts[run] : starts[run + 1]] = newest if is_random else np.sort(newest)
    return keys, starts[: run + 2], facts[:, : run + 1], spreads


@kernel
def steps_of(
    keys: Integers,
    starts: Integers,
    facts: Integers,
    widths: Floats,
    straddling: Integers,
    has_minima: bool,
) -> tuple[Integers, Floats]:
    """Return the steps of runs, by rising key: (keys, figures). figures[0] is how many events each
    key stands for, figures[1] how much of `widths` ends at it; minima stand for none. `keys` has
    room for those, and for maxima. Cost: O(steps * log steps).
    """
    runs = facts.shape[1]
    at = starts[runs]
    figures = np.zeros((2, at + 2 * runs + 2), np.float64)
    for run in range(runs):
        figures[0, starts[run] : starts[run + 1]] = facts[WEIGHT, run]
        if widths[run] > 0:
            keys[at] = facts[MAXIMUM, run]
            figures[1, at] = widths[run]
            at += 1
        if has_minima and run < runs - 1:
            keys[at] = facts[MINIMUM, run]
            at += 1
    if straddling[0] > 0:
        keys[at : at + 2] = straddling[1:]
        at += 2
    # Equal keys keep their order: machine code must give what plain Python gives.
    order = np.argsort(keys[:at], kind="mergesort")
    ordered = np.empty((2, at), np.float64)
    for i in range(at):
        for k in range(2):
            ordered[k, i] = figures[k, order[i]]
    return keys[order], ordered


@kernel
def answer_quantiles(
    head: Integers,
    shares: Floats,
    state: Integers,
    times: Integers,
    payload: Integers,
    blocks: Blocks,
    start: int,
    parts: Integers,
    answers: Floats,
) -> None:
    """Fill answers[0..3] with (estimate, lower, upper, rank error) of the quantiles `parts`.

    They are of the window that starts at time `start`; NaN if it has no events. The rank error is
    what is certain of this window (but for a chance of delta, of random thinning): no rank of the
    estimate is farther from the one asked for. Cost: O(steps * log steps).
    """
    after, covered, straddling = find_window(head, state, times, blocks, start)
    if covered + straddling[0] == 0:
        answers[:] = np.nan
        return
    keys, starts, facts, spreads = window_runs(head, state, payload, blocks, after)
    if head[memory.KIND] == memory.RANDOM_QUANTILES:
        factor = likely(shares[1])
        steps, figures = steps_of(keys, starts, facts, spreads, straddling, True)
        for j in range(len(parts)):
            found = _likely_answer(steps, figures, covered, straddling, parts[j], factor)
            for k in range(4):
                answers[k, j] = found[k]
        return
    for j in range(len(parts)):
        ranks = rank_of(parts[j], covered), rank_of(parts[j], covered + straddling[0])
        estimate, lower, upper, error = search(keys, starts, facts, straddling, ranks)
        answers[:3, j] = doubles(np.array([estimate, lower, upper]))
        answers[3, j] = error
