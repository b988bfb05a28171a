"""Many counters in one state: a cell for each id, an exponential histogram of counts in each.

Source: Datar et al. 2002, section 6 (6.1, hash tables; 6.3, histograms): in the place of each
counter is an exponential histogram. Each is in l-canonical form (canonical.py), with the bound of
`CountParameters` for each cell, and so for any sum of cells.

A cell whose newest event has expired is gone, and begins again from nothing at its next event. So
its total is the number of its events since two of them in a row were `span` or more apart: a
function of its events' times, wherever batches end.

In memory, cells rise by id. Column c of a table: its id, its total, and where its runs of edges
end; they start where those of the cell before end. As in exponential_histogram/codec.py, runs[0, i]
is the time of a run, and runs[1, i] how many edges of its cell are in it and in the newer ones.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.exponential_histogram import units
from slidestat.synopses.exponential_histogram.canonical import (
    LIVE_LIMIT,
    bucket_at,
    bucket_count,
    rebased,
)
from slidestat.synopses.exponential_histogram.codec import (
    COUNT,
    RUNS as OLD_RUNS,
    STATE_SIZE as OLD_SIZE,
    TOTAL as OLD_TOTAL,
    runs_since,
)
from slidestat.synopses.exponential_histogram.kernel import extend

# Places in the array of what a state was made with; cells have ids 0..BINS - 1, or any for 0 BINS.
KIND, SPAN, PER_LEVEL, BINS, CAPACITY = 0, 1, 2, 3, 4
HEAD_SIZE = 5

# Places in the array of a state's numbers.
NOW, CELLS = 0, 1
STATE_SIZE = 2

# Rows of a table.
ID, TOTAL, END = 0, 1, 2
ROWS = 3

TOO_MANY_CELLS = 60
"""The error_code of more live cells than the capacity."""

_FEW = 16
"""Up to so many events are sorted by insertion."""


@kernel
def _sorted_by_id(ids: Integers, first: int, last: int, bins: int) -> Integers:
    """Return the events first..last - 1 by id, those of one id in their order.

    Cost: O(events + bins), or O(events * log) where any id may be.
    """
    size = last - first
    order = np.empty(size, np.int64)
    if size <= _FEW:
        for i in range(size):
            at = i
            while at > 0 and ids[order[at - 1]] > ids[first + i]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = first + i
    elif bins > 0:
        place = np.zeros(bins + 1, np.int64)
        for event in range(first, last):
            place[ids[event] + 1] += 1
        for i in range(bins):
            place[i + 1] += place[i]
        for event in range(first, last):
            order[place[ids[event]]] = event
            place[ids[event]] += 1
    else:
        order[:] = np.argsort(ids[first:last], kind="mergesort")
        order += first
    return order


@kernel
def _is_crowded(
    head: Integers,
    state: Integers,
    table: Integers,
    runs: Integers,
    ids: Integers,
    times: Integers,
    order: Integers,
) -> bool:
    """Return whether at any of the events more cells than the capacity were alive.

    A cell is alive from its event until an event of another cell comes `span` or more after the
    cell's own last one. Cost: O((cells + events) log).
    """
    span = head[SPAN]
    most = state[CELLS] + len(order)
    births = np.empty(most, np.int64)
    deaths = np.empty(most, np.int64)
    lives = 0
    for c in range(state[CELLS]):
        newest = runs[0, table[END, c - 1] if c > 0 else 0]
        births[lives] = newest
        deaths[lives] = newest + span
        lives += 1
    cell = 0
    life = -1
    for i in range(len(order)):
        item = ids[order[i]]
        time = times[order[i]]
        if i == 0 or ids[order[i - 1]] != item:
            while cell < state[CELLS] and table[ID, cell] < item:
                cell += 1
            life = cell if cell < state[CELLS] and table[ID, cell] == item else -1
        if life < 0 or time >= deaths[life]:
            births[lives] = time
            life = lives
            lives += 1
        deaths[life] = time + span
    births = np.sort(births[:lives])
    deaths = np.sort(deaths[:lives])
    died = 0
    for born in range(lives):
        while deaths[died] <= births[born]:
            died += 1
        if born + 1 - died > head[CAPACITY]:
            return True
    return False


@kernel
def absorb(
    head: Integers,
    state: Integers,
    table: Integers,
    runs: Integers,
    ids: Integers,
    times: Integers,
    first: int,
    last: int,
) -> tuple[int, Integers, Integers]:
    """Take in the events first..last - 1, whose times and ids have been checked.

    Returns (error, the table, the runs). Cost: O(runs + edges of the cells touched + events), and
    that of sorting the events.
    """
    if first == last:
        return error_codes.OK, table, runs
    span = head[SPAN]
    order = _sorted_by_id(ids, first, last, head[BINS])
    cells = state[CELLS]
    distinct = 0
    for i in range(len(order)):
        if i == 0 or ids[order[i]] != ids[order[i - 1]]:
            distinct += 1
    if cells + distinct > head[CAPACITY] and _is_crowded(
        head, state, table, runs, ids, times, order
    ):
        return TOO_MANY_CELLS, table, runs
    oldest = times[last - 1] + 1 - span
    live_runs = table[END, cells - 1] if cells > 0 else 0
    new_table = np.empty((ROWS, cells + distinct), np.int64)
    new_runs = np.empty((2, live_runs + last - first), np.int64)
    mine = np.empty(last - first, np.int64)
    histogram = np.zeros(OLD_SIZE, np.int64)
    ends = np.empty(0, np.int64)
    cell = 0
    event = 0
    made = 0
    at = 0
    while cell < cells or event < len(order):
        start = table[END, cell - 1] if cell > 0 else 0
        if event == len(order) or (cell < cells and table[ID, cell] < ids[order[event]]):
            if runs[0, start] >= oldest:
                for i in range(start, table[END, cell]):
                    new_runs[0, at] = runs[0, i]
                    new_runs[1, at] = runs[1, i]
                    at += 1
                new_table[ID, made] = table[ID, cell]
                new_table[TOTAL, made] = table[TOTAL, cell]
                new_table[END, made] = at
                made += 1
            cell += 1
            continue
        item = ids[order[event]]
        stop = start
        total = 0
        count = 0
        if cell < cells and table[ID, cell] == item:
            stop = table[END, cell]
            total = table[TOTAL, cell]
            cell += 1
        while event < len(order) and ids[order[event]] == item:
            time = times[order[event]]
            before = mine[count - 1] if count > 0 else runs[0, start] if stop > start else time
            if time - before >= span:
                stop = start
                total = 0
                count = 0
            mine[count] = time
            count += 1
            event += 1
        histogram[OLD_TOTAL] = total
        histogram[OLD_RUNS] = stop - start
        room = min(bucket_count(total + count, head[PER_LEVEL]), stop - start + count)
        found = extend(
            histogram,
            head[PER_LEVEL],
            runs[:, start:stop],
            new_runs[:, at : at + room],
            count,
            COUNT,
            mine,
            ends,
            0,
            count,
            oldest,
        )
        total += count
        if found == 0:
            continue
        at += found
        if bucket_at(total, head[PER_LEVEL], new_runs[1, at - 1] - 1)[0] >= LIVE_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, table, runs
        new_table[ID, made] = item
        new_table[TOTAL, made] = rebased(total)
        new_table[END, made] = at
        made += 1
    state[CELLS] = made
    return error_codes.OK, new_table, new_runs


@borrowing_kernel
def expire(head: Integers, state: Integers, table: Integers, runs: Integers) -> None:
    """Drop the runs, and the cells, that are in no window from now on. Cost: O(runs)."""
    oldest = state[NOW] - head[SPAN]
    kept = 0
    at = 0
    start = 0
    for cell in range(state[CELLS]):
        stop = table[END, cell]
        before = at
        while start < stop and runs[0, start] >= oldest:
            runs[0, at] = runs[0, start]
            runs[1, at] = runs[1, start]
            at += 1
            start += 1
        start = stop
        if at > before:
            table[ID, kept] = table[ID, cell]
            table[TOTAL, kept] = table[TOTAL, cell]
            table[END, kept] = at
            kept += 1
    state[CELLS] = kept


@borrowing_kernel
def count(
    head: Integers, table: Integers, runs: Integers, cell: int, start: int
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of events from `start` on: O(log runs + log total)."""
    begin = table[END, cell - 1] if cell > 0 else 0
    low = runs_since(runs, begin, table[END, cell], start)
    if low == begin:
        return 0.0, 0.0, 0.0
    newer, size = bucket_at(table[TOTAL, cell], head[PER_LEVEL], runs[1, low - 1] - 1)
    return units.bounds(newer, size, 1, False)
