"""A quantile of a window, from the blocks that cover it: an estimate, and bounds that hold.

Source: Arasu and Manku 2004, lemma 4.2, restated for intervals. Let the window have c events in
known blocks and u more, of which only 0 <= u <= U and their extremes are known, and let the rank
asked for be t(u) = max(1, ceil(p (c + u))). For each x, let F(x) be the number of the window's
events <= x. quantile_layout.py gives low(x) <= F(x) - t <= high(x), for all u that are possible:

- of the u events, none is <= x below their minimum, and all are from their maximum on; u - t(u)
  never falls and -t(u) never rises with u, so that the ends 0 and U are enough;
- low and high never fall with x, and change only at stored values.

lower is the first stored value with high >= 0: for a smaller x, F(x) < t, so the quantile is not
there. upper is the first one with low >= 0: F(upper) >= t. The estimate is the first one with
low + high >= 0.
Its rank error: let the width high - low be at most w everywhere. Then F(estimate) - t >= -w / 2;
and below the estimate, low + high <= -1, so F - t <= high <= (w - 1) / 2: the estimate's own first
rank is at most t + (w + 1) / 2. So the ranks of the estimate come within (w + 1) / 2 of t, which is
at most epsilon m by quantile_layout.py. The same way, lower and upper are at most w off.
"""

import numpy as np

from app.synopses.compile import kernel
from app.synopses.levels.blocks import BASE, bit_length, oldest_kept, phase, trailing_zeros
from app.synopses.levels.quantile_kernel import (
    DEAD,
    FINENESS,
    FRESH,
    LEVELS,
    TAIL,
    TOTAL,
    Blocks,
    Floats,
    Integers,
    kept_values,
    waiting_values,
)
from app.synopses.levels.quantile_layout import fresh_weight, fresh_width, kept_weight, kept_width

PARTS = 1_000_000
"""A quantile is asked for in whole millionths."""


@kernel
def find_start(
    head: Integers, state: Integers, times: Integers, blocks: Blocks, begin: int, start: int
) -> tuple[int, int]:
    """Return (first known event from time `start` on, the last known one before it).

    `begin` is where the tail begins. Cost: O(blocks).
    """
    total = state[TOTAL]
    tail = state[TAIL]
    after = total
    before = state[DEAD]
    low = begin
    high = total
    while low < high:
        middle = (low + high) >> 1
        if times[middle - tail] >= start:
            high = middle
        else:
            low = middle + 1
    after = min(after, low)
    if low > begin:
        before = max(before, low - 1)
    ring = (1 << (head[LEVELS] - 1)) - 1
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > state[DEAD]:
            if blocks[4][layer] < start:
                before = max(before, (complete << layer) - 1)
            if (complete - 1) << layer > state[DEAD]:
                if blocks[3][layer] >= start:
                    after = min(after, (complete - 1) << layer)
                else:
                    before = max(before, (complete - 1) << layer)
        oldest = oldest_kept(total, layer, state[DEAD], head[LEVELS])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            event = block << layer
            if event <= state[DEAD]:
                break
            if blocks[0][layer, (block >> 1) & ring] >= start:
                after = min(after, event)
            else:
                before = max(before, event)
                break
    return int(after), int(before)


@kernel
def _extremes(
    head: Integers, state: Integers, blocks: Blocks, since: int, until: int
) -> tuple[float, float]:
    """Return (minimum, maximum) of the smallest known blocks around the events since..until - 1."""
    total = state[TOTAL]
    least = -np.inf
    most = np.inf
    ring = (1 << (head[LEVELS] - 1)) - 1
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        block = since >> layer
        if block != (until - 1) >> layer:
            continue
        if block & 1 == 0:
            if block == complete - 1:
                least = max(least, blocks[5][layer])
                most = min(most, blocks[6][layer])
        elif oldest_kept(total, layer, state[DEAD], head[LEVELS]) <= block < complete:
            least = max(least, blocks[1][layer, (block >> 1) & ring])
            most = min(most, blocks[2][layer, (block >> 1) & ring])
    return least, most


@kernel
def _add(values: Floats, maximum: float, weight: int, width: int, steps: Floats, at: int) -> int:
    """Append a block's values and maximum as (value, events, width that ends there) to `steps`."""
    for value in values:
        steps[0, at] = value
        steps[1, at] = weight
        steps[2, at] = 0
        at += 1
    if width > 0:
        steps[0, at] = maximum
        steps[1, at] = 0
        steps[2, at] = width
        at += 1
    return at


@kernel
def _room(head: Integers, state: Integers, after: int) -> int:
    """Return how many steps `collect` may need."""
    total = state[TOTAL]
    room = 4 + (1 << BASE)
    for layer in range(BASE, bit_length(total - after)):
        room += 2 + 2 * (1 << (layer - fresh_weight(layer, head[FRESH])))
    return int(room)


@kernel
def collect(
    head: Integers,
    state: Integers,
    times: Integers,
    values: Floats,
    blocks: Blocks,
    begin: int,
    start: int,
) -> tuple[Floats, int, int, float, float]:
    """Return the steps of a window that starts at time `start`, in the order of their values.

    Returns (steps, c, U, least, most): steps[0] the values, steps[1] how many events each stands
    for, steps[2] how much of the width ends at it; U more events may be in the window, their values
    from least to most. Cost: O(steps * log steps).
    """
    total = state[TOTAL]
    after, before = find_start(head, state, times, blocks, begin, start)
    straddling = after - 1 - before
    least = np.inf
    most = np.inf
    if straddling > 0:
        least, most = _extremes(head, state, blocks, before + 1, after)
    if after >= begin:
        steps = np.empty((3, total - after + 2), np.float64)
        at = _add(values[after - state[TAIL] : total - state[TAIL]], 0.0, 1, 0, steps, 0)
    else:
        steps = np.empty((3, _room(head, state, after)), np.float64)
        at = 0
        event = after
        ring = (1 << (head[LEVELS] - 1)) - 1
        while event > 0:
            layer = trailing_zeros(event)
            if layer < BASE or event + (1 << layer) > total:
                break
            block = event >> layer
            g = phase((total >> layer) - block)
            weight = kept_weight(layer, g, head[FINENESS], head[FRESH])
            width = kept_width(layer, g, head[FINENESS], head[FRESH])
            mine = kept_values(head, blocks, layer, block, g)
            maximum = blocks[2][layer, (block >> 1) & ring]
            at = _add(mine, maximum, 1 << weight, width, steps, at)
            event += 1 << layer
        for layer in range(bit_length(total) - 1, BASE - 1, -1):
            complete = total >> layer
            if complete & 1 == 1 and (complete - 1) << layer >= event:
                weight = fresh_weight(layer, head[FRESH])
                width = fresh_width(layer, head[FRESH])
                mine = waiting_values(head, blocks, layer)
                at = _add(mine, blocks[6][layer], 1 << weight, width, steps, at)
        event = total >> BASE << BASE
        at = _add(values[event - state[TAIL] : total - state[TAIL]], 0.0, 1, 0, steps, at)
    if straddling > 0:
        for extreme in (least, most):
            steps[0, at] = extreme
            steps[1, at] = 0
            steps[2, at] = 0
            at += 1
    steps = steps[:, :at]
    order = np.argsort(steps[0])
    ordered = np.empty((3, at), np.float64)
    for i in range(at):
        for k in range(3):
            ordered[k, i] = steps[k, order[i]]
    return ordered, int(total - after), int(straddling), least, most


@kernel
def rank_of(part: int, events: int) -> int:
    """Return max(1, ceil(part * events / PARTS)), without rounding."""
    return int(max(1, (part * events + PARTS - 1) // PARTS))


@kernel
def answer(
    steps: Floats, covered: int, straddling: int, least: float, most: float, part: int
) -> tuple[float, float, float, float]:
    """Return (estimate, lower, upper, rank error) of the part/PARTS quantile; NaN for no events.

    The rank error is what is certain of this window: no rank of the estimate is farther from the
    one asked for. Cost: O(steps).
    """
    estimate = lower = upper = error = np.nan
    if covered + straddling == 0:
        return estimate, lower, upper, error
    width = int(np.sum(steps[2]))
    fewest = rank_of(part, covered)
    most_asked = rank_of(part, covered + straddling)
    count = 0
    high_before = -1
    i = 0
    while i < steps.shape[1]:
        value = steps[0, i]
        while i < steps.shape[1] and steps[0, i] == value:
            count += int(steps[1, i])
            width -= int(steps[2, i])
            i += 1
        high = count + (straddling - most_asked if value >= least else -fewest)
        low = max(count - width, 0) + (-fewest if value >= most else -most_asked)
        if np.isnan(lower) and high >= 0:
            lower = value
        if np.isnan(estimate) and low + high >= 0:
            estimate = value
            error = float(max(0, -low, high_before + 1))
        if low >= 0:
            upper = value
            break
        high_before = high
    return estimate, lower, upper, error
