"""Turns for a checkpoint: each slot once in an interval, evenly, and sooner under pressure."""

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from slidestat.engine.keys.unwritten import NOTHING_NEEDED, SLOTS, Unwritten, slot_of
from slidestat.faust.partitions.durable_states import CheckpointTurns


@pytest.mark.parametrize("interval_s", [1.0, 2.5, 30.0, 600.0])
def test_every_slot_has_its_turn_once_in_an_interval_and_none_comes_in_a_burst(
    interval_s: float,
) -> None:
    """However irregular the flushes are."""
    random, now = Random(7), 100.0
    turns = CheckpointTurns(interval_s, now)
    given = [(now, slot) for slot in range(SLOTS)]
    for _ in range(3_000):
        step = random.uniform(0.0, min(interval_s, 2.0))
        now += step
        slots = turns.due(now)
        assert len(slots) <= SLOTS * step / interval_s + 1
        given += [(now, slot) for slot in slots]
    for slot in range(SLOTS):
        times = [time for time, taken in given if taken == slot]
        waits = [after - before for before, after in pairwise(times)]
        slack = 2.0 + interval_s / SLOTS
        assert max(waits[1:]) <= interval_s + slack
        assert min(waits[1:], default=interval_s) >= interval_s - slack


def test_without_an_interval_each_flush_takes_all() -> None:
    turns = CheckpointTurns(0.0, 5.0)
    assert sorted(turns.due(5.0)) == sorted(turns.due(5.1)) == list(range(SLOTS))


def test_under_pressure_more_slots_have_their_turn() -> None:
    """A share of them at once, going on behind the last; then the round goes on as before."""
    turns = CheckpointTurns(64.0, 0.0)
    assert turns.due(1.0) == [0]
    assert turns.due(2.0, 0.5) == list(range(1, 33))
    assert turns.due(2.9) == []
    assert turns.due(3.0) == [33]
    assert Counter(turns.due(4.0, 1.0)) == Counter(range(SLOTS))
    assert Counter(turns.due(1_000.0)) == Counter(range(SLOTS))


def test_what_is_needed_is_the_least_offset_of_the_slots_that_were_not_taken() -> None:
    """Keys are dealt out to slots, all of which are tried."""
    unwritten, keys = Unwritten(), np.arange(501)
    unwritten.fit(len(keys))
    slots = np.array([slot_of(str(key)) for key in keys.tolist()], np.uint8)
    for offsets in (keys + 100, keys + 1_100):
        unwritten.add(keys[:500], slots[:500], offsets[:500])
    unwritten.add(keys[500:], slots[500:], NOTHING_NEEDED)
    assert unwritten.first_offset() == 100
    taken: set[int] = set()
    for slot in range(SLOTS):
        taken.update(unwritten.take([slot], slots).tolist())
        left = set(range(500)) - taken
        assert unwritten.first_offset() == min((100 + key for key in left), default=None)
        assert unwritten.has(keys).tolist() == [key not in taken for key in range(501)]
    assert len(taken) == 501
