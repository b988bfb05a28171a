"""Quantiles by value for all keys of a batch in one call: states and events in, answers out.

`ValueQuantiles` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, follows, parts_of, reals, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive, with_columns, with_room
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.exponential_histogram.codec import COUNT, NOW, PER_LEVEL, RUNS, SPAN, TOTAL
from slidestat.synopses.exponential_histogram.kernel import (
    fill,
    newer_than_all,
    oldest_since,
    put_edges,
    room_for_runs,
)
from slidestat.synopses.value_quantiles.bands import (
    COLUMNS,
    ID,
    ROWS,
    SHIFT,
    WIDTH,
    take_in,
    with_cells,
    with_place,
)
from slidestat.synopses.value_quantiles.bounds import TOLD, answer_by_bands, bands_at
from slidestat.synopses.value_quantiles.codec import (
    BANDS,
    EPSILON,
    MAX_EVENTS,
    STATE_SIZE,
    USED,
    VALUE_QUANTILES,
    expire,
    read,
    room_for,
    write,
)
from slidestat.synopses.value_quantiles.mapping import (
    NOT_FINITE,
    TOO_LARGE,
    Mapping,
    bin_of,
    mapping_of,
    most_bins,
    outlines,
)
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters

_FEW = 16
"""Up to so many events are sorted by insertion."""
_CHUNK = 1 << 14
"""Events are taken in this many at a time: their columns stay near the processor."""


@borrowing_kernel
def _by_band(
    times: Integers,
    bins: Integers,
    first: int,
    last: int,
    place: Integers,
    own_times: Integers,
    own_bins: Integers,
) -> None:
    """Fill own_times and own_bins with those of the events first..last - 1 by band, of one band in
    their order; `place` is room for a number for each band that events are in, and one more.

    Cost: O(events + bands between the lowest and the highest).
    """
    size = last - first
    if size <= _FEW:
        for event in range(first, last):
            at = event - first
            while at > 0 and own_bins[at - 1] >> SHIFT > bins[event] >> SHIFT:
                own_times[at] = own_times[at - 1]
                own_bins[at] = own_bins[at - 1]
                at -= 1
            own_times[at] = times[event]
            own_bins[at] = bins[event]
        return
    lowest = highest = bins[first]
    for event in range(first, last):
        lowest = min(lowest, bins[event])
        highest = max(highest, bins[event])
    lowest >>= SHIFT
    bands = (highest >> SHIFT) - lowest + 1
    place[: bands + 1] = 0
    for event in range(first, last):
        place[(bins[event] >> SHIFT) - lowest + 1] += 1
    for i in range(bands):
        place[i + 1] += place[i]
    for event in range(first, last):
        band = (bins[event] >> SHIFT) - lowest
        own_times[place[band]] = times[event]
        own_bins[place[band]] = bins[event]
        place[band] += 1


@borrowing_kernel
def _add_band(state: Integers, table: Integers, at: int, band: int) -> None:
    """Put a new, empty band at place `at` of the table, which has room for it."""
    for row in range(ROWS):
        for i in range(state[BANDS], at, -1):
            table[row, i] = table[row, i - 1]
        table[row, at] = 0
    table[ID, at] = band
    state[BANDS] += 1


@borrowing_kernel
def _absorb(
    head: Integers,
    state: Integers,
    table: Integers,
    cells: Integers,
    own_times: Integers,
    own_bins: Integers,
    at: int,
    added: int,
    allowed: Integers,
    changed: Integers,
) -> int:
    """Take the events at..added - 1, which are sorted by band, into cells, as long as there is room
    for them; return the first event that was not taken in. The table has room for new bands. Bands
    that are others then, or at other places, are `changed`.
    """
    place = 0
    while at < added:
        band = own_bins[at] >> SHIFT
        stop = at + 1
        while stop < added and own_bins[stop] >> SHIFT == band:
            stop += 1
        while place < state[BANDS] and table[ID, place] < band:
            place += 1
        if place == state[BANDS] or table[ID, place] > band:
            _add_band(state, table, place, band)
            changed[place : state[BANDS]] = 1
        changed[place] = 1
        while True:
            at = take_in(
                cells,
                table,
                place,
                head[SPAN],
                head[EPSILON],
                PARTS,
                own_times,
                own_bins,
                at,
                stop,
                allowed,
            )
            if at == stop:
                break
            used = with_place(cells, table, place, state[USED])
            if used < 0:
                return at
            state[USED] = used
    return at


@borrowing_kernel
def _ask(
    head: Integers,
    state: Integers,
    runs: Integers,
    times: Integers,
    first: int,
    last: int,
    table: Integers,
    cells: Integers,
    now: int,
    spans: Integers,
    parts: Integers,
    cuts: Integers,
    all_found: Integers,
    all_ranks: Floats,
    query: int,
    told: Integers,
    changed: Integers,
    upto: Integers,
    row: Integers,
) -> None:
    """Answer a query for all windows at `now`: all_found[3, query, spans, parts] are bins,
    NOT_FINITE for none. The total and its runs lack the events first..last - 1. told, changed and
    upto are as `bands_at` has them, or longer.
    """
    found, ranks = all_found[:, query], all_ranks[:, :, query]
    bands_at(state[BANDS], table, cells, now, spans, told, changed, upto)
    for k in range(len(spans)):
        start = now - spans[k]
        lows, highs = upto[0, k, : state[BANDS]], upto[1, k, : state[BANDS]]
        newer, size = oldest_since(
            *(state, head[PER_LEVEL], runs, last - first, COUNT, times, times[:0], first, last),
            start,
        )
        answer_by_bands(
            *(table, cells, start, lows, highs, newer + min(size, 1), newer + size, parts, cuts),
            *(row, found[:, k], ranks[:, :, k]),
        )


@kernel
def run(
    head: Integers,
    edges: Integers,
    slots: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Integers,
    parts: Integers,
    asked: Integers,
    found: Integers,
    ranks: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes.

    values: the 64 bits of each value. spans rise. found: int64[3, queries, spans, parts], ranks:
    float64[4, 3, queries, spans, asked].
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    state = np.empty(STATE_SIZE, np.int64)
    stored_runs = np.empty((2, 64), np.int64)
    both = np.empty((2, 2, 64), np.int64)
    table = np.empty((ROWS, 16), np.int64)
    cells = np.empty((64, COLUMNS), np.int64)
    words = np.empty(64, np.uint32)
    allowed = np.empty(WIDTH, np.int64)
    told = np.empty((TOLD, len(spans), 16), np.int64)
    changed = np.empty(16, np.int64)
    upto = np.empty((2, len(spans), 16), np.int64)
    row = np.empty((2, WIDTH), np.int64)
    bins = np.empty(len(times), np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    lowest = highest = 0
    for event in range(len(times)):
        bins[event] = bin_of(values[event], edges, slots)
        if bins[event] >= NOT_FINITE:
            group = 0
            while starts[group + 1] <= event:
                group += 1
            is_large = bins[event] == TOO_LARGE
            error_code = error_codes.VALUE_TOO_LARGE if is_large else error_codes.NOT_FINITE
            return error_code, group, event, 0, out, ends
        lowest, highest = min(lowest, bins[event]), max(highest, bins[event])
    bands = (highest >> SHIFT) - (lowest >> SHIFT) + 1
    place = np.empty(bands + 1, np.int64)
    own_times = np.empty(min(len(times), _CHUNK), np.int64)
    own_bins = np.empty(len(own_times), np.int64)
    for group in range(groups):
        state[:] = 0
        state[NOW] = TIME_MIN
        side = 0
        if offsets[group] < offsets[group + 1]:
            error_code, a, b, stored_runs, table, cells = read(
                arena, offsets[group], offsets[group + 1], head, state, stored_runs, table, cells
            )
            if error_code != error_codes.OK:
                return error_code, group, a, b, out, ends
        error_code, a, b, after = follows(columns, group, state[NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        events = starts[group + 1] - event
        room = room_for_runs(state[TOTAL], head[PER_LEVEL], state[RUNS], events)
        if room > both.shape[2]:
            both = np.empty((2, 2, 2 * room), np.int64)
        fill(both, stored_runs, state[RUNS])
        room = state[BANDS] + min(bands, events)
        if room > table.shape[1]:
            table = with_columns(table, state[BANDS], room - state[BANDS])
        if room > len(changed):
            told = np.empty((TOLD, len(spans), 2 * room), np.int64)
            changed = np.empty(2 * room, np.int64)
            upto = np.empty((2, len(spans), 2 * room), np.int64)
        changed[: state[BANDS]] = 1
        # The total is as it was before the events from this one on: of a query's window one of its
        # buckets is asked for.
        counted = event
        most = MAX_EVENTS - newer_than_all(state, head[PER_LEVEL], both[side])
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            first, cut = event, cuts[group + query]
            is_last = query == query_starts[group + 1]
            while event < cut:
                stop = min(cut, event + _CHUNK)
                _by_band(times, bins, event, stop, place, own_times, own_bins)
                added, taken = stop - event, 0
                while True:
                    taken = _absorb(
                        *(head, state, table, cells, own_times, own_bins, taken, added, allowed),
                        changed,
                    )
                    if taken == added:
                        break
                    cells = with_cells(cells, table, state[BANDS])
                event = stop
            if cut > first:
                state[NOW] = times[cut - 1] + 1
            if counted < event and (is_last or event - counted >= most):
                if not put_edges(
                    *(head, state, both, side, event - counted, times, times[:0]),
                    *(counted, event, MAX_EVENTS),
                ):
                    return error_codes.TOO_MANY_EVENTS, group, 0, 0, out, ends
                side, counted = 1 - side, event
                most = MAX_EVENTS - newer_than_all(state, head[PER_LEVEL], both[side])
            if is_last:
                break
            _ask(
                *(head, state, both[side], times, counted, event, table, cells),
                *(query_times[query], spans, parts, asked, found, ranks, query),
                *(told, changed, upto, row),
            )
        state[NOW] = after
        expire(head, state, both[side], table, cells)
        room = room_for(state, table)
        if room > 4 * len(words) - 16:
            words = np.empty((room >> 1) + 16, np.uint32)
        if len(out) - end < room:
            out = with_room(out, end, room)
        end = write(out, end, head, state, both[side], table, cells, words)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends


@dataclass(frozen=True)
class ValueQuantileBatch:
    """The result of a batch: the new state of each group, and an answer for each query.

    estimates, lowers and uppers are float64[queries, spans, quantiles], NaN for a window without
    events. ranks is float64[4, 3, queries, spans, values], (estimate, lower, upper) of how many of
    the window's events are at most each value asked about, how many are more, and the shares of
    both; shares are NaN for a window without events.
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats
    ranks: Floats


def head_of(parameters: ValueQuantileParameters) -> Integers:
    """Return `parameters` as kernels take them."""
    of_all = COUNT, parameters.span, parameters.total_buckets_per_level, 0
    return np.array([*of_all, parameters.bins_per_octave, parameters.epsilon_parts], np.int64)


def cuts_of(values: npt.ArrayLike, mapping: Mapping) -> Integers:
    """Return the two bins at which each of `values` cuts, int64[2, values]: items in bins below the
    first are at most the value, those in bins from the second on are more. SynopsisError for NaN.
    """
    array = np.atleast_1d(reals("values", values))
    if array.ndim != 1 or np.isnan(array).any():
        raise SynopsisError(f"a rank is asked for of a number, not {values!r}")
    beyond = most_bins(len(mapping.edges) - 1) + 1
    cuts = np.empty((2, len(array)), np.int64)
    nexts = np.nextafter(array, np.inf)
    for j, numbers in enumerate(zip(array.tolist(), nexts.tolist(), strict=True)):
        place, after = (
            int(bin_of(bits, *mapping)) for bits in np.array(numbers).view(np.int64).tolist()
        )
        if abs(place) >= NOT_FINITE:
            cuts[:, j] = beyond if numbers[0] > 0 else -beyond
        else:
            cuts[:, j] = place + (after != place), place + 1
    return cuts


def run_value_quantile_batch(
    parameters: ValueQuantileParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    quantiles: npt.ArrayLike = (),
    ranked: npt.ArrayLike = (),
) -> ValueQuantileBatch:
    """Feed and ask many summaries of values at once, one a group (key).

    The values are float64, of a magnitude below 2^50. quantiles: numbers from 0 to 1, taken to the
    millionth. ranked: values whose rank is asked for.

    Raises SynopsisError also for values that are not finite or too large, and (WindowTooLargeError)
    for windows of more than 2^40 events. Cost: O(bytes in + events + bytes out), and of a query
    O(cells) for all windows and quantiles.
    """
    mapping = mapping_of(parameters.bins_per_octave)
    columns, values = batch.within(parameters.span), batch.doubles()
    parts, asked = parts_of(quantiles), cuts_of(ranked, mapping)
    order = np.argsort(columns.spans, kind="stable")
    found = np.empty((3, *batch.shape, len(parts)), np.int64)
    ranks = np.empty((4, 3, *batch.shape, asked.shape[1]), np.float64)
    columns = columns._replace(spans=columns.spans[order])
    given = (head_of(parameters), *mapping), states, columns, values.view(np.int64), parts, asked
    out, ends = drive(run, *given, found, ranks, kinds=(VALUE_QUANTILES,), values=values)
    back = np.argsort(order, kind="stable")
    estimates, lowers, uppers = figures_of(found[:, :, back], mapping)
    return ValueQuantileBatch(split(out, ends), estimates, lowers, uppers, ranks[:, :, :, back])


def figures_of(found: Integers, mapping: Mapping) -> Floats:
    """Return float64[3, ...], estimates, lowers and uppers, of the bins found for each."""
    per_octave = len(mapping.edges) - 1
    most = most_bins(per_octave)
    places = np.where(found == NOT_FINITE, most + 1, found) + most
    figures = np.empty(found.shape, np.float64)
    for row, outlined in enumerate(_outlined(per_octave)):
        outlined.take(places[row], out=figures[row])
    return figures


@cache
def _outlined(bins_per_octave: int) -> Floats:
    """Return middles, lower and upper edges of all bins, the lowest first, and NaN behind them."""
    most = most_bins(bins_per_octave)
    outlined = outlines(np.arange(-most, most + 1), mapping_of(bins_per_octave))
    return np.pad(np.stack(outlined), ((0, 0), (0, 1)), constant_values=np.nan)
