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
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, follows, parts_of, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive, with_room
from slidestat.synopses.exponential_histogram.canonical import bucket_at, bucket_count, rebased
from slidestat.synopses.exponential_histogram.codec import (
    COUNT,
    RUNS as OLD_RUNS,
    STATE_SIZE as OLD_SIZE,
    TOTAL as OLD_TOTAL,
)
from slidestat.synopses.exponential_histogram.kernel import extend
from slidestat.synopses.value_quantiles.bands import COLUMNS, ID, ROWS, SHIFT, WIDTH, take_in
from slidestat.synopses.value_quantiles.bounds import PARTS, answer, bins_at, total_at
from slidestat.synopses.value_quantiles.codec import (
    BANDS,
    EPSILON,
    MAX_EVENTS,
    NOW,
    PER_LEVEL,
    RUNS,
    SPAN,
    STATE_SIZE,
    TOTAL,
    USED,
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
"""So many are taken in at once: their columns stay near the processor."""


@kernel
def _by_band(times: Integers, bins: Integers, first: int, last: int) -> tuple[Integers, Integers]:
    """Return times and bins of the events first..last - 1 by band, of one band in their order.

    Cost: O(events + bands between the lowest and the highest).
    """
    size = last - first
    own_times = np.empty(size, np.int64)
    own_bins = np.empty(size, np.int64)
    if size <= _FEW:
        for event in range(first, last):
            at = event - first
            while at > 0 and own_bins[at - 1] >> SHIFT > bins[event] >> SHIFT:
                own_times[at] = own_times[at - 1]
                own_bins[at] = own_bins[at - 1]
                at -= 1
            own_times[at] = times[event]
            own_bins[at] = bins[event]
        return own_times, own_bins
    lowest = highest = bins[first]
    for event in range(first, last):
        lowest = min(lowest, bins[event])
        highest = max(highest, bins[event])
    lowest >>= SHIFT
    place = np.zeros((highest >> SHIFT) - lowest + 2, np.int64)
    for event in range(first, last):
        place[(bins[event] >> SHIFT) - lowest + 1] += 1
    for i in range(len(place) - 1):
        place[i + 1] += place[i]
    for event in range(first, last):
        band = (bins[event] >> SHIFT) - lowest
        own_times[place[band]] = times[event]
        own_bins[place[band]] = bins[event]
        place[band] += 1
    return own_times, own_bins


@kernel
def _with_band(state: Integers, table: Integers, at: int, band: int) -> Integers:
    """Return the table with a new, empty band at place `at`."""
    bands = state[BANDS]
    if bands == table.shape[1]:
        longer = np.empty((ROWS, 2 * bands + 8), np.int64)
        longer[:, :bands] = table[:, :bands]
        table = longer
    for row in range(ROWS):
        for i in range(bands, at, -1):
            table[row, i] = table[row, i - 1]
        table[row, at] = 0
    table[ID, at] = band
    state[BANDS] = bands + 1
    return table


@kernel
def _absorb(
    head: Integers,
    state: Integers,
    runs: Integers,
    table: Integers,
    cells: Integers,
    times: Integers,
    bins: Integers,
    first: int,
    last: int,
    allowed: Integers,
) -> tuple[int, Integers, Integers, Integers]:
    """Take in the events first..last - 1, whose times and bins have been checked.

    Returns (error, the runs, the table, the cells). Cost: O(events + bands + runs).
    """
    histogram = np.zeros(OLD_SIZE, np.int64)
    histogram[OLD_TOTAL] = state[TOTAL]
    histogram[OLD_RUNS] = state[RUNS]
    added = last - first
    total = state[TOTAL] + added
    room = min(bucket_count(total, head[PER_LEVEL]), state[RUNS] + added)
    new_runs = np.empty((2, 2 * room), np.int64)
    oldest = times[last - 1] + 1 - head[SPAN]
    none = times[:0]
    state[RUNS] = extend(
        histogram, head[PER_LEVEL], runs, new_runs, added, COUNT, times, none, first, last, oldest
    )
    edges = new_runs[1, state[RUNS] - 1]
    if bucket_at(total, head[PER_LEVEL], edges - 1)[0] >= MAX_EVENTS:
        return error_codes.TOO_MANY_EVENTS, new_runs, table, cells
    state[TOTAL] = rebased(total)
    own_times, own_bins = _by_band(times, bins, first, last)
    at = 0
    place = 0
    used = state[USED]
    while at < added:
        band = own_bins[at] >> SHIFT
        stop = at + 1
        while stop < added and own_bins[stop] >> SHIFT == band:
            stop += 1
        while place < state[BANDS] and table[ID, place] < band:
            place += 1
        if place == state[BANDS] or table[ID, place] > band:
            table = _with_band(state, table, place, band)
        cells, used = take_in(
            cells,
            used,
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
        at = stop
    state[USED] = used
    return error_codes.OK, new_runs, table, cells


@borrowing_kernel
def _places(state: Integers, table: Integers, cuts: Integers, places: Integers) -> None:
    """Fill places with where each of the bins `cuts`, rising or not, would stand in a row of all
    bins of all bands: how many are below it."""
    for row in range(2):
        for j in range(cuts.shape[1]):
            band = cuts[row, j] >> SHIFT
            at = 0
            while at < state[BANDS] and table[ID, at] < band:
                at += 1
            within = at < state[BANDS] and table[ID, at] == band
            places[row, j] = WIDTH * at + (cuts[row, j] & (WIDTH - 1) if within else 0)


@kernel
def _ask(
    head: Integers,
    state: Integers,
    runs: Integers,
    table: Integers,
    cells: Integers,
    now: int,
    spans: Integers,
    parts: Integers,
    cuts: Integers,
    found: Integers,
    ranks: Floats,
) -> None:
    """Answer for all windows at `now`: found[3, spans, parts] are bins, NOT_FINITE for none."""
    lows = np.empty((len(spans), WIDTH * state[BANDS]), np.int64)
    highs = np.empty((len(spans), WIDTH * state[BANDS]), np.int64)
    bins_at(state, table, cells, now, spans, lows, highs)
    at = np.empty(cuts.shape, np.int64)
    _places(state, table, cuts, at)
    for k in range(len(spans)):
        least, most = total_at(head, state, runs, now - spans[k])
        answer(lows[k], highs[k], least, most, parts, at, found[:, k], ranks[:, :, k])
        for i in range(3):
            for j in range(len(parts)):
                place = found[i, k, j]
                found[i, k, j] = NOT_FINITE
                if place >= 0:
                    band = table[ID, place >> SHIFT]
                    found[i, k, j] = (band << SHIFT) + (place & (WIDTH - 1))


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
    """Run each group's events and queries; `run_value_quantile_batch` describes the arrays.

    values: the 64 bits of each value. spans rise. found: int64[3, queries, spans, parts], ranks:
    float64[4, 3, queries, spans, asked]. Returns (error, group, its two numbers, new arena, its
    offsets).
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    state = np.empty(STATE_SIZE, np.int64)
    runs = np.empty((2, 64), np.int64)
    table = np.empty((ROWS, 16), np.int64)
    cells = np.empty((64, COLUMNS), np.int64)
    words = np.empty(64, np.uint32)
    allowed = np.empty(WIDTH, np.int64)
    bins = np.empty(len(times), np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for event in range(len(times)):
        bins[event] = bin_of(values[event], edges, slots)
        if bins[event] >= NOT_FINITE:
            group = 0
            while starts[group + 1] <= event:
                group += 1
            is_large = bins[event] == TOO_LARGE
            error_code = error_codes.VALUE_TOO_LARGE if is_large else error_codes.NOT_FINITE
            return error_code, group, event, 0, out, ends
    for group in range(groups):
        state[:] = 0
        state[NOW] = TIME_MIN
        if offsets[group] < offsets[group + 1]:
            error_code, a, b, runs, table, cells = read(
                arena, offsets[group], offsets[group + 1], head, state, runs, table, cells
            )
            if error_code != error_codes.OK:
                return error_code, group, a, b, out, ends
        error_code, a, b, after = follows(columns, group, state[NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            first, cut = event, cuts[group + query]
            while event < cut:
                stop = min(cut, event + _CHUNK)
                error_code, runs, table, cells = _absorb(
                    head, state, runs, table, cells, times, bins, event, stop, allowed
                )
                if error_code != error_codes.OK:
                    return error_code, group, 0, 0, out, ends
                event = stop
            if cut > first:
                state[NOW] = times[cut - 1] + 1
            if query == query_starts[group + 1]:
                break
            _ask(
                head,
                state,
                runs,
                table,
                cells,
                query_times[query],
                spans,
                parts,
                asked,
                found[:, query],
                ranks[:, :, query],
            )
        state[NOW] = after
        expire(head, state, runs, table, cells)
        room = room_for(state, table)
        if room > 4 * len(words) - 16:
            words = np.empty((room >> 1) + 16, np.uint32)
        out = with_room(out, end, room)
        end = write(out, end, head, state, runs, table, cells, words)
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
    head = [
        parameters.span,
        parameters.bins_per_octave,
        parameters.epsilon_parts,
        parameters.total_buckets_per_level,
    ]
    return np.array(head, np.int64)


def cuts_of(values: npt.ArrayLike, mapping: Mapping) -> Integers:
    """Return the two bins at which each of `values` cuts, int64[2, values]: items in bins below the
    first are at most the value, those in bins from the second on are more. SynopsisError for NaN.
    """
    array = np.atleast_1d(np.asarray(values, np.float64))
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

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for values that are not finite
    or too large, and (WindowTooLargeError) for windows of more than 2^40 events. Cost: O(bytes in +
    events + bytes out), and of a query O(cells) for all windows and quantiles.
    """
    mapping = mapping_of(parameters.bins_per_octave)
    columns, values = batch.within(parameters.span), batch.doubles()
    parts, asked = parts_of(quantiles), cuts_of(ranked, mapping)
    order = np.argsort(columns.spans, kind="stable")
    found = np.empty((3, *batch.shape, len(parts)), np.int64)
    ranks = np.empty((4, 3, *batch.shape, asked.shape[1]), np.float64)
    out, ends = drive(
        run,
        (head_of(parameters), *mapping),
        states,
        columns._replace(spans=columns.spans[order]),
        *(values.view(np.int64), parts, asked, found, ranks),
        values=values,
    )
    back = np.argsort(order, kind="stable")
    figures = figures_of(found[:, :, back], mapping)
    return ValueQuantileBatch(
        split(out, ends), figures[0], figures[1], figures[2], ranks[:, :, :, back]
    )


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
