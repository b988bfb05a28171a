"""Ages of events in a wave over positions: of one event, or of all from the newest on.

Source: Gibbons and Tirthapura 2002, section 5 (Nth most recent 1); the proof is in docs/proofs.md.
The dead items of the wave have been dropped before.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.exponential_histogram import units
from slidestat.synopses.waves import pool


@borrowing_kernel
def answer_age(
    state: Integers, items: Integers, until: int, number: int
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of until - time of the `number`th newest event.

    Cost: O(items newer than that event).
    """
    rank = state[pool.TOTAL] - number + 1
    if rank <= state[pool.LOST]:
        return _lost(state, until)
    slot = state[pool.TAIL]
    newer = -1
    while slot >= 0 and items[pool.THROUGH, slot] - items[pool.GROUP, slot] >= rank:
        newer = slot
        slot = items[pool.OLDER, slot]
    if slot >= 0 and rank <= items[pool.THROUGH, slot]:
        return _at(items, until, slot)
    return _before(state, items, until, newer)


@kernel
def age_steps(state: Integers, items: Integers, until: int) -> tuple[Integers, Floats]:
    """Return the answers of all events, from the newest on: int64[S], how many in a row have one
    answer, and float64[3, S], estimates, lowers and uppers of until - time. Cost: O(items).
    """
    counts = np.empty(2 * state[pool.SIZE] + 1, np.int64)
    answers = np.empty((3, len(counts)), np.float64)
    size = 0
    slot = state[pool.TAIL]
    while slot >= 0:
        older = items[pool.OLDER, slot]
        before = items[pool.THROUGH, older] if older >= 0 else state[pool.LOST]
        counts[size] = items[pool.GROUP, slot]
        answers[0, size], answers[1, size], answers[2, size] = _at(items, until, slot)
        size += 1
        between = items[pool.THROUGH, slot] - items[pool.GROUP, slot] - before
        if between > 0:
            counts[size] = between
            found = _before(state, items, until, slot)
            answers[0, size], answers[1, size], answers[2, size] = found
            size += 1
        slot = older
    if state[pool.LOST] > 0:
        counts[size] = state[pool.LOST]
        answers[0, size], answers[1, size], answers[2, size] = _lost(state, until)
        size += 1
    return counts[:size], answers[:, :size]


@borrowing_kernel
def _lost(state: Integers, until: int) -> tuple[float, float, float]:
    """Return what is known of events that are lost, or never were."""
    if state[pool.LOST] == 0:
        return np.inf, np.inf, np.inf
    return np.inf, units.floor_quotient(int(until - state[pool.LOST_TIME]), 1), np.inf


@borrowing_kernel
def _at(items: Integers, until: int, slot: int) -> tuple[float, float, float]:
    """Return what is known of the events of an item."""
    return _from_to(int(until - items[pool.TIME, slot]), int(until - items[pool.TIME, slot]))


@borrowing_kernel
def _before(state: Integers, items: Integers, until: int, newer: int) -> tuple[float, float, float]:
    """Return the bounds of the age of events between the item `newer` and the one before it, or the
    lost ones: none of them is after the last event before `newer`.
    """
    older = items[pool.OLDER, newer]
    last = items[pool.TIME, older] if older >= 0 else state[pool.LOST_TIME]
    least = int(until - items[pool.TIME, newer] + items[pool.VALUE, newer])
    return _from_to(least, int(until - last) - 1)


@borrowing_kernel
def _from_to(least: int, most: int) -> tuple[float, float, float]:
    return (least + most) * 0.5, units.floor_quotient(least, 1), units.ceil_quotient(most, 1)
