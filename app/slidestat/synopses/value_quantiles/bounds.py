"""The knowledge of a window: how many events are in each bin and below; quantiles and ranks follow.

Let the window have m events, N(<= i) of them in the bins up to i. Cells (bands.py) give L <= N <= U
for the bins up to i and for those from i on, and an exponential histogram of all events gives m;
sums of bounds are bounds. The bins that may have the p-quantile are some in a row: `lower` is the
lower edge of the first, `upper` the upper edge of the last. The estimate is in the last bin with
M(>= i) > (1 - p) M_m for p >= 1/2, M being the middles of L and U; for p < 1/2 the same from below.
The estimate of a rank is the mean of the middles at the two edges of its bin, on the side that has
less by it. Why the bounds and both errors hold: docs/proofs.md.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import TIME_MAX
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.exponential_histogram.codec import COUNT, PER_LEVEL
from slidestat.synopses.exponential_histogram.kernel import oldest_since
from slidestat.synopses.value_quantiles.bands import (
    END,
    ID,
    LAST,
    ONE_TIME,
    SHIFT,
    START,
    TIME,
    WIDTH,
)
from slidestat.synopses.value_quantiles.codec import BANDS
from slidestat.synopses.value_quantiles.mapping import NOT_FINITE

_EVENTS, _IN_PART, _OLDEST = 0, 1, 2
TOLD = 3
"""The numbers that are known of a band and a window from the question before."""


@borrowing_kernel
def _in_band(
    cells: Integers,
    first: int,
    last: int,
    start: int,
    before: tuple[int, int],
    lows: Integers,
    highs: Integers,
) -> None:
    """Fill lows and highs, int64[WIDTH], with bounds on the events from time `start` on up to each
    bin of a band, whose cells are first..last - 1; `before` are those of the bands below it.

    Cost: O(its cells in the window).
    """
    cell = last - 1
    # Events up to each bin: in registers, not in memory.
    a = b = c = d = e = f = g = h = 0
    while cell >= first and cells[cell, TIME] >= start:
        a += cells[cell, 0]
        b += cells[cell, 1]
        c += cells[cell, 2]
        d += cells[cell, 3]
        e += cells[cell, 4]
        f += cells[cell, 5]
        g += cells[cell, 6]
        h += cells[cell, 7]
        cell -= 1
    found = (a, b, c, d, e, f, g, h)
    cut = min(cell + 1, last - 1)
    in_part = 0 if h == 0 or cells[cut, ONE_TIME] == 1 else 1
    for i in range(WIDTH):
        lows[i] = before[0] + found[i] - in_part * cells[cut, i]
        highs[i] = before[1] + found[i]


@borrowing_kernel
def bins_at(
    head: Integers,
    state: Integers,
    runs: Integers,
    table: Integers,
    cells: Integers,
    now: int,
    spans: Integers,
    upto: Integers,
    totals: Integers,
) -> None:
    """Fill upto, int64[2, spans, 8 bands], with bounds on the events up to each bin, lows and
    highs, and totals, int64[2, spans], with those on all events.

    Cost: O(spans * cells).
    """
    none = runs[0, :0]
    for k in range(len(spans)):
        start = now - spans[k]
        newer, size = oldest_since(state, head[PER_LEVEL], runs, 0, COUNT, none, none, 0, 0, start)
        totals[0, k], totals[1, k] = newer + min(size, 1), newer + size
        low = high = 0
        for band in range(state[BANDS]):
            at, stop = WIDTH * band, WIDTH * (band + 1)
            first, last = table[START, band], table[END, band]
            own_lows, own_highs = upto[0, k, at:stop], upto[1, k, at:stop]
            _in_band(cells, first, last, start, (low, high), own_lows, own_highs)
            low, high = own_lows[WIDTH - 1], own_highs[WIDTH - 1]


@borrowing_kernel
def _tell(
    table: Integers, cells: Integers, band: int, now: int, spans: Integers, told: Integers
) -> None:
    """Fill told[:, :, band], as `bands_at` has them."""
    first, cell, events = table[START, band], table[END, band] - 1, 0
    for k in range(len(spans)):
        start = now - spans[k]
        while cell >= first and cells[cell, TIME] >= start:
            events += cells[cell, LAST]
            cell -= 1
        told[_EVENTS, k, band] = events
        told[_IN_PART, k, band] = 0
        told[_OLDEST, k, band] = TIME_MAX
        if events > 0:
            told[_OLDEST, k, band] = cells[cell + 1, TIME]
            if cells[cell + 1, ONE_TIME] == 0:
                told[_IN_PART, k, band] = cells[cell + 1, LAST]


@borrowing_kernel
def bands_at(
    bands: int,
    table: Integers,
    cells: Integers,
    now: int,
    spans: Integers,
    told: Integers,
    changed: Integers,
    upto: Integers,
) -> None:
    """Fill upto, int64[2, spans, bands], with bounds on the events up to each band, lows and highs.

    `spans` rise. `told`, int64[TOLD, spans, bands], is what was found at the question before, at a
    `now` that was not later: of each band the events in the window, those of the cell that the
    window may cut, and its time. `changed`, int64[bands], says which bands have other cells since
    then; none has afterwards. Cost: O(spans * bands), and the cells of the bands that have changed
    or of which a cell has left a window.
    """
    for band in range(bands):
        is_other = changed[band] != 0
        for k in range(len(spans)):
            is_other |= told[_OLDEST, k, band] < now - spans[k]
        if is_other:
            _tell(table, cells, band, now, spans, told)
            changed[band] = 0
    for k in range(len(spans)):
        low = high = 0
        for band in range(bands):
            high += told[_EVENTS, k, band]
            low += told[_EVENTS, k, band] - told[_IN_PART, k, band]
            upto[0, k, band] = low
            upto[1, k, band] = high


# Places in a row are bins or bands; their lows and highs are bounds on the events up to each one,
# and `alls` are the bounds on all events. A quantile's condition on a place holds for all places
# behind it as well, or for none: so the bands may be searched first, and then the bins of one of
# them.


@borrowing_kernel
def _first_of(lows: Integers, highs: Integers, alls: tuple[int, int], least: int, part: int) -> int:
    """Return the first place that may have the part/PARTS quantile; the last one if none may."""
    first, stop = 0, len(lows) - 1
    while first < stop:
        i = (first + stop) >> 1
        events = max(highs[i] + alls[0] - lows[i], least)
        if highs[i] >= 1 and highs[i] * PARTS >= part * events:
            stop = i
        else:
            first = i + 1
    return first


@borrowing_kernel
def _is_behind(low: int, high: int, alls: tuple[int, int], most: int, part: int) -> bool:
    """Return whether the part/PARTS quantile may be behind a place that has these bounds."""
    return low == 0 or low * PARTS < part * min(low + alls[1] - high, most)


@borrowing_kernel
def _last_of(lows: Integers, highs: Integers, alls: tuple[int, int], most: int, part: int) -> int:
    """Return the last place that may have the part/PARTS quantile; the first one if none may."""
    last, stop = 0, len(lows) - 1
    while last < stop:
        i = (last + stop + 1) >> 1
        if _is_behind(lows[i - 1], highs[i - 1], alls, most, part):
            last = i
        else:
            stop = i - 1
    return last


@borrowing_kernel
def _middle_of(
    lows: Integers, highs: Integers, alls: tuple[int, int], twice: int, part: int
) -> int:
    """Return the place of the estimate of the part/PARTS quantile, of twice / 2 events."""
    found, stop = 0, len(lows) - 1
    while found < stop:
        if 2 * part >= PARTS:
            i = (found + stop + 1) >> 1
            from_it = alls[0] + alls[1] - lows[i - 1] - highs[i - 1]
            if from_it * PARTS > (PARTS - part) * twice:
                found = i
            else:
                stop = i - 1
        else:
            i = (found + stop) >> 1
            up_to_it = lows[i] + highs[i]
            if up_to_it > 0 and up_to_it * PARTS >= part * twice:
                stop = i
            else:
                found = i + 1
    return found


@borrowing_kernel
def _with_event(highs: Integers, place: int) -> int:
    """Return the last place up to `place` that may have an event; the first one if none may."""
    while place > 0 and highs[place] == highs[place - 1]:
        place -= 1
    return place


@borrowing_kernel
def _hold(
    table: Integers,
    cells: Integers,
    start: int,
    lows: Integers,
    highs: Integers,
    held: int,
    band: int,
    row: Integers,
) -> int:
    """Fill row, int64[2, WIDTH], with bounds on the events up to each bin of a band, if another one
    is held there; return the band.
    """
    if held != band:
        before = (lows[band - 1], highs[band - 1]) if band > 0 else (0, 0)
        first, last = table[START, band], table[END, band]
        _in_band(cells, first, last, start, before, row[0], row[1])
    return band


@borrowing_kernel
def _find_by_bands(
    table: Integers,
    cells: Integers,
    start: int,
    lows: Integers,
    highs: Integers,
    least: int,
    most: int,
    part: int,
    held: int,
    row: Integers,
) -> tuple[int, int, int, int]:
    """Return the bins of (estimate, lower, upper) of the part/PARTS quantile, and the band that row
    holds then. Cost: O(log bands), and the cells of four bands at most.
    """
    alls = lows[len(lows) - 1], highs[len(highs) - 1]
    if alls[0] == alls[1] and least == alls[0] and most == alls[0]:
        # No cell is cut: of events as many as these, one has this rank.
        rank = max(1, (part * most + PARTS - 1) // PARTS)
        band = at = 0
        for i in range(len(highs)):
            band += int(highs[i] < rank)
        held = _hold(table, cells, start, lows, highs, held, band, row)
        for i in range(WIDTH):
            at += int(row[1, i] < rank)
        place = (table[ID, band] << SHIFT) + at
        return place, place, place, held
    band = _first_of(lows, highs, alls, least, part)
    held = _hold(table, cells, start, lows, highs, held, band, row)
    at = _first_of(row[0], row[1], alls, least, part)
    first = WIDTH * band + at
    found = last = first
    if _is_behind(row[0, at], row[1, at], alls, most, part):
        band = _last_of(lows, highs, alls, most, part)
        held = _hold(table, cells, start, lows, highs, held, band, row)
        at = _with_event(row[1], _last_of(row[0], row[1], alls, most, part))
        if at == 0 and band > 0 and row[1, 0] == highs[band - 1]:
            band = _with_event(highs, band - 1)
            held = _hold(table, cells, start, lows, highs, held, band, row)
            at = _with_event(row[1], WIDTH - 1)
        last = max(first, WIDTH * band + at)
        band = _middle_of(lows, highs, alls, least + most, part)
        held = _hold(table, cells, start, lows, highs, held, band, row)
        at = _middle_of(row[0], row[1], alls, least + most, part)
        found = min(max(WIDTH * band + at, first), last)
    return _bin_of(table, found), _bin_of(table, first), _bin_of(table, last), held


@borrowing_kernel
def _bin_of(table: Integers, place: int) -> int:
    """Return the number of the bin at a place in the row of all bins of these bands."""
    return int((table[ID, place >> SHIFT] << SHIFT) + (place & (WIDTH - 1)))


@borrowing_kernel
def _fill(
    ranks: Floats,
    row: int,
    numbers: tuple[int, int],
    others: tuple[int, int],
    events: tuple[float, float, float],
) -> None:
    """Fill rows `row` and `row` + 2 from bounds on a number, on what is left, and on all events.

    ranks[row, 0] is the number's estimate. Each share is one division of whole numbers below 2^53,
    so that rounding leaves bounds where they are, next to the exact share, rounded alike.
    """
    ranks[row, 1], ranks[row, 2] = numbers
    ranks[row, 0] = min(max(ranks[row, 0], ranks[row, 1]), ranks[row, 2])
    lower = upper = 0.0
    if numbers[0] > 0:
        lower = numbers[0] / min(numbers[0] + others[1], events[2])
    if numbers[1] > 0:
        upper = min(1.0, numbers[1] / max(numbers[1] + others[0], events[1]))
    ranks[row + 2, 0] = min(max(ranks[row, 0] / events[0], lower), upper)
    ranks[row + 2, 1], ranks[row + 2, 2] = lower, upper


@borrowing_kernel
def _find_rank(
    up_to_a: tuple[int, int],
    up_to_b: tuple[int, int],
    alls: tuple[int, int],
    least: int,
    most: int,
    ranks: Floats,
) -> None:
    """Fill ranks[4, 3] with (estimate, lower, upper) of how many events are at most a value, how
    many are more, and the shares of both.

    It is at least all events of the bins of which `up_to_a` are bounds, and less than all that are
    not in those of `up_to_b`; least, most: bounds on all events, others than `alls`. Cost: O(1).
    """
    low_a, high_a = up_to_a
    low_b, high_b = up_to_b
    more_low, more_high = alls[0] - low_b, alls[1] - high_a
    up_to = (max(low_a, least - more_high), min(high_b, most - more_low))
    more = (max(more_low, least - high_b), min(more_high, most - low_a))
    events = ((least + most) / 2.0, float(least), float(most))
    found = (low_a + high_a + low_b + high_b) / 4.0
    left = (alls[0] + alls[1]) / 2.0 - found
    ranks[0, 0] = found if found <= left else events[0] - left
    ranks[1, 0] = events[0] - found if found <= left else left
    _fill(ranks, 0, up_to, more, events)
    _fill(ranks, 1, more, up_to, events)


@borrowing_kernel
def _below_bin(
    table: Integers,
    cells: Integers,
    start: int,
    lows: Integers,
    highs: Integers,
    held: int,
    place: int,
    row: Integers,
) -> tuple[int, int, int]:
    """Return bounds on the events of the bins below one, and the band that row holds then."""
    band = 0
    while band < len(lows) and table[ID, band] < place >> SHIFT:
        band += 1
    at = place & (WIDTH - 1)
    if at == 0 or band == len(lows) or table[ID, band] != place >> SHIFT:
        low, high = (lows[band - 1], highs[band - 1]) if band > 0 else (0, 0)
    else:
        held = _hold(table, cells, start, lows, highs, held, band, row)
        low, high = row[0, at - 1], row[1, at - 1]
    return low, high, held


@borrowing_kernel
def answer_by_bands(
    table: Integers,
    cells: Integers,
    start: int,
    lows: Integers,
    highs: Integers,
    least: int,
    most: int,
    parts: Integers,
    cuts: Integers,
    row: Integers,
    bins: Integers,
    ranks: Floats,
) -> None:
    """Answer the window from `start` on: fill bins[3, parts] and ranks[4, 3, cuts], each with
    (estimate, lower, upper).

    lows, highs: bounds on the events up to each band, of which only those that an answer lies in
    are looked at bin by bin; least, most: on all. bins, NOT_FINITE where there is no event, and
    cuts, int64[2, ...], between which a value cuts, are numbers of bins. Without events numbers are
    0 and shares NaN.
    """
    bands = len(lows)
    if bands == 0 or min(most, highs[bands - 1]) == 0:
        bins[:] = NOT_FINITE
        ranks[:2] = 0.0
        ranks[2:] = np.nan
        return
    sure, possible = max(least, lows[bands - 1]), min(most, highs[bands - 1])
    held = -1
    for j in range(len(parts)):
        found, first, last, held = _find_by_bands(
            table, cells, start, lows, highs, sure, possible, parts[j], held, row
        )
        bins[0, j], bins[1, j], bins[2, j] = found, first, last
    alls = lows[len(lows) - 1], highs[len(highs) - 1]
    for j in range(cuts.shape[1]):
        low_a, high_a, held = _below_bin(table, cells, start, lows, highs, held, cuts[0, j], row)
        low_b, high_b, held = _below_bin(table, cells, start, lows, highs, held, cuts[1, j], row)
        _find_rank((low_a, high_a), (low_b, high_b), alls, sure, possible, ranks[:, :, j])
