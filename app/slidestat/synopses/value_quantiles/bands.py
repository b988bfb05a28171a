"""Bands: eight neighbouring bins that share their times, and when two of their cells may be one.

Datar, Gionis, Indyk, Motwani 2002, section 6.3 puts an exponential histogram in each bin. Most of
its bytes are times, and neighbouring bins keep much the same ones. Here a band of bins keeps one
list of cells. A cell is a stretch of the band's events in a row, with the time of its newest and
how many it has of each bin. A window's start cuts at most one cell of a band: all newer ones are
inside, all older ones outside, and of that one nothing more is known than that its newest event is
inside.

Rule: two neighbouring cells may become one if, for each bin i of the band, they have together at
most 2 epsilon times as many events in the bins from i on as all newer cells have there, and the
same for the bins up to i. An event alone is a cell; so are events of one time, whatever the rule
says, as no window cuts them.

When: a band counts its events. After each 64th one, cells are joined from new to old, each with as
many older ones as the rule lets it; down to the depth of 4 d events if the count is a multiple of d
= 64, 128, 256, ..., and to the end if it is one of 65,536. So a cell with x newer events has been
looked at within the last x / 2 or 64 of them. All of it depends on the band's events and their
times alone, never on where a batch ends: what has expired by an event's time is left out before its
joining, and what a state drops between has expired by then.

Why that is enough, and takes the space of one or two of the eight bins alone: docs/proofs.md.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Integers

WIDTH = 8
"""Bins of a band."""

SHIFT = 3
"""A bin's band is its number shifted by this."""

# Columns of a cell: how many events in the bins up to each one, the time, whether it has just one.
LAST, TIME, ONE_TIME = WIDTH - 1, WIDTH, WIDTH + 1
COLUMNS = WIDTH + 2

# Rows of a table of bands, by rising id: a band's cells are START..END - 1, from old to new, in the
# place BASE..ROOM - 1 that is its own. COUNTED is its number of events, modulo COUNTS.
ID, COUNTED, BASE, START, END, ROOM = 0, 1, 2, 3, 4, 5
ROWS = 6

COUNTS = 1 << 16
_EVERY = 64
_DEPTH = 4


@borrowing_kernel
def may_be_one(cells: Integers, newer: int, older: int, allowed: Integers, parts: int) -> bool:
    """Return whether two cells may be one.

    `allowed` has 2 epsilon times the events of the cells newer than both, up to each bin, in units
    of 1 / `parts`. Cost: O(1); without branches, which nothing foretells.
    """
    over_all = (cells[newer, LAST] + cells[older, LAST]) * parts - allowed[LAST]
    wrong = int(over_all > 0)
    for i in range(WIDTH):
        over = (cells[newer, i] + cells[older, i]) * parts - allowed[i]
        wrong |= int(over > 0) | int(over < over_all)
    return wrong == 0


@borrowing_kernel
def _join(
    cells: Integers, start: int, end: int, epsilon: int, parts: int, depth: int, allowed: Integers
) -> int:
    """Join the cells start..end - 1 from new to old, down to `depth` events; return the new end.

    `allowed` is room for WIDTH numbers.
    """
    allowed[:] = 0
    events = 0
    written = end
    newer = end - 1
    while True:
        older = newer - 1
        while older >= start and may_be_one(cells, newer, older, allowed, parts):
            for i in range(WIDTH):
                cells[newer, i] += cells[older, i]
            cells[newer, ONE_TIME] = 0
            older -= 1
        written -= 1
        if written != newer:
            for i in range(COLUMNS):
                cells[written, i] = cells[newer, i]
        for i in range(WIDTH):
            allowed[i] += 2 * epsilon * cells[written, i]
        events += cells[written, LAST]
        if older < start or events > depth:
            break
        newer = older
    at = older + 1
    if at == written:
        return end
    for cell in range(written, end):
        for i in range(COLUMNS):
            cells[at, i] = cells[cell, i]
        at += 1
    return at


@borrowing_kernel
def with_place(cells: Integers, table: Integers, band: int, used: int) -> int:
    """Make room for one more cell of a band; return how many are in use, -1 for too few."""
    size = table[END, band] - table[START, band]
    base = table[BASE, band]
    if table[ROOM, band] - base < 2 * size + 2:
        base = used
        used += 2 * size + 2 * _EVERY
        if used > len(cells):
            return -1
        table[ROOM, band] = used
    for i in range(size):
        for k in range(COLUMNS):
            cells[base + i, k] = cells[table[START, band] + i, k]
    table[BASE, band] = base
    table[START, band] = base
    table[END, band] = base + size
    return used


@kernel
def with_cells(cells: Integers, table: Integers, bands: int) -> Integers:
    """Return the cells of so many bands in a longer array, in which any band has its place."""
    most = 0
    for band in range(bands):
        most = max(most, table[END, band] - table[START, band])
    longer = np.empty((2 * (len(cells) + 2 * most + 2 * _EVERY), COLUMNS), np.int64)
    longer[: len(cells)] = cells
    return longer


@borrowing_kernel
def take_in(
    cells: Integers,
    table: Integers,
    band: int,
    span: int,
    epsilon: int,
    parts: int,
    times: Integers,
    bins: Integers,
    first: int,
    last: int,
    allowed: Integers,
) -> int:
    """Take in the events first..last - 1, all of one band, as long as it has room for one more
    cell; `allowed` is room for WIDTH numbers.

    Returns the first event that was not taken in, for which `with_place` makes room; `last` if all
    were. Cost: O(1) an event, amortised.
    """
    start, end, room = table[START, band], table[END, band], table[ROOM, band]
    counted = table[COUNTED, band]
    taken = last
    for at in range(first, last):
        time = times[at]
        place = bins[at] & (WIDTH - 1)
        if end > start and time - cells[end - 1, TIME] >= span:
            start = end = table[BASE, band]
            counted = 0
        if end > start and cells[end - 1, TIME] == time and cells[end - 1, ONE_TIME] == 1:
            for i in range(place, WIDTH):
                cells[end - 1, i] += 1
        elif end == room:
            taken = at
            break
        else:
            for i in range(WIDTH):
                cells[end, i] = 1 if i >= place else 0
            cells[end, TIME] = time
            cells[end, ONE_TIME] = 1
            end += 1
        counted = (counted + 1) & (COUNTS - 1)
        if counted & (_EVERY - 1) == 0:
            while cells[start, TIME] < time + 1 - span:
                start += 1
            depth = _DEPTH * (counted & -counted) if counted > 0 else 1 << 60
            end = _join(cells, start, end, epsilon, parts, depth, allowed)
    table[START, band], table[END, band] = start, end
    table[COUNTED, band] = counted
    return taken
