"""The order of moved records: that of event time, the same however partitions are fetched, and no
record later than it was.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.clock import RECORDS, EventClock
from slidestat.engine.records import NO_TIME
from slidestat.repartition.merge_order import MergeOrder
from slidestat.synopses.core.arrays import Integers

Place = tuple[int, int]
NOON = 1_700_000_000_000
LATENESS = 2_000
FAR = 10**9


def streams(seed: int) -> list[Integers]:
    """Event times of partitions that differ in how dense they are, where they begin, how far out of
    order their times come; with nights without records, jumps of single records, and unreadable
    ones.
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(int(random.integers(1, 6))):
        count = int(random.integers(0, 400))
        steps = random.exponential(random.choice([3.0, 200.0, 5_000.0]), count).astype(np.int64)
        steps[random.random(count) < 0.005] += 6 * 3_600_000
        times = NOON + int(random.integers(0, 3_600_000)) + np.cumsum(steps)
        times -= random.integers(0, random.choice([1, 1_500, 30_000]), count)
        times[random.random(count) < 0.01] += FAR
        times[random.random(count) < 0.02] = NO_TIME
        found.append(times)
    return found


def merged(
    times: Sequence[Integers], seed: int, *, ends: bool = True, largest: int = 60
) -> Iterator[Place]:
    """(partition, offset) as they are moved, fetched in pieces at random; no end is reached before
    all is fetched.
    """
    random = np.random.default_rng(seed)
    order = MergeOrder[Place](dict.fromkeys(range(len(times)), 0), LATENESS)
    reached = [0] * len(times)
    while any(at < len(own) for at, own in zip(reached, times, strict=True)):
        p = int(random.integers(len(times)))
        start, end = reached[p], min(len(times[p]), reached[p] + int(random.integers(1, largest)))
        if start < end:
            offsets = np.arange(start, end)
            places = [(p, offset) for offset in offsets.tolist()]
            order.add(p, offsets, times[p][start:end], np.ones(end - start, np.int64), places)
            reached[p] = end
        yield from order.take()
        assert all(order.position(q) + order.waiting(q)[0] == reached[q] for q in range(len(times)))
    if ends:
        for p, end in enumerate(reached):
            order.reach_end(p, end)
        yield from order.take()
        assert not any(order.waiting(p)[0] for p in range(len(times)))


def keys_of(times: Integers) -> list[int]:
    """What each record of a whole partition goes by, one after the other."""
    clock = EventClock(Checkpoint(0), LATENESS)
    clocks = [int(clock.read(np.array([o]), times[o : o + 1]).clocks[0]) for o in range(len(times))]
    timed = [offset for offset, time in enumerate(times.tolist()) if time != NO_TIME]
    never = len(times)
    found, largest = [], NO_TIME
    for offset, time in enumerate(times.tolist()):
        if time != NO_TIME:
            rank = timed.index(offset) + RECORDS - 1
            decided = min(timed[rank] if rank < len(timed) else never, offset + 256)
            jumps = decided < never and time > clocks[decided]
            largest = max(largest, clocks[offset] if jumps else time)
        found.append(largest)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_order_is_that_of_keys_however_partitions_are_fetched(seed: int) -> None:
    """Of equal ones the lesser partition's go first; each partition's stay in order; none is lost,
    and none comes twice.
    """
    times = streams(seed)
    wanted = sorted((k, p, o) for p, own in enumerate(times) for o, k in enumerate(keys_of(own)))
    for fetches in (1, 2):
        assert list(merged(times, fetches)) == [(p, o) for _, p, o in wanted]


@pytest.mark.parametrize("seed", range(40))
def test_no_record_comes_later_than_it_was(seed: int) -> None:
    """Behind what counts of those before it, it lies by no more than it did in its partition."""
    times = streams(seed)
    keys = [keys_of(own) for own in times]
    newest = NO_TIME
    for p, offset in merged(times, seed):
        newest = max(newest, keys[p][offset])
        assert newest == keys[p][offset]


def test_a_run_of_unreadable_records_is_moved_on_by_who_fetches_little() -> None:
    """Whoever fetches no more of a partition with many records, unless nothing of it can take its
    turn, comes to the end, with few that wait.
    """
    broken = NOON + 1_000 * np.arange(6_000)
    broken[3:5_000] = NO_TIME
    times = [broken, NOON + 700 * np.arange(6_000)]
    order = MergeOrder[Place](dict.fromkeys(range(2), 0), LATENESS)
    reached, moved = [0, 0], 0
    for _ in range(2_000):
        for p, own in enumerate(times):
            start, end = reached[p], min(len(own), reached[p] + 40)
            if start < end and (order.waiting(p)[0] <= 100 or order.needs_more(p)):
                places = [(p, offset) for offset in range(start, end)]
                sizes = np.ones(end - start, np.int64)
                order.add(p, np.arange(start, end), own[start:end], sizes, places)
                reached[p] = end
            elif start == len(own):
                order.reach_end(p, start)
        moved += len(order.take())
        assert order.waiting(0)[0] < 500
    assert moved == 12_000


def test_a_partition_that_is_behind_holds_the_others_back() -> None:
    """Of a backlog of an hour a piece, the records come minute by minute."""
    hour = NOON + 1_000 * np.arange(3_600)
    order = list(merged([hour, hour + 500, hour], 7, largest=900))
    moved = np.array([[hour, hour + 500, hour][p][o] for p, o in order])
    assert (np.diff(moved) >= 0).all()


def test_what_has_not_come_to_its_end_is_waited_for() -> None:
    order = MergeOrder[Place]({0: 5, 1: 0}, LATENESS)
    own = np.arange(40)
    order.add(0, own + 5, NOON + own, own, [(0, o) for o in range(40)])
    assert order.take() == []
    assert order.awaited == [1]
    assert order.position(0) == 5
    order.reach_end(1, 0)
    # The last fifteen are not settled while more may follow.
    assert order.take() == [(0, o) for o in range(25)]
    order.reach_end(0, 45)
    assert order.take() == [(0, o) for o in range(25, 40)]
    assert (order.position(0), order.position(1)) == (45, 0)


def test_a_wrong_clock_holds_nothing_up() -> None:
    """Its record goes with the one before it, and all others as if its time were right."""
    times = NOON + 1_000 * np.arange(100)
    wrong = times.copy()
    wrong[30] += FAR
    order, right = (list(merged([first, times], 3)) for first in (wrong, times))
    assert order[:60] == [*right[:59], (0, 30)]
    assert [place for place in order if place != (0, 30)] == [p for p in right if p != (0, 30)]


def test_a_jump_of_all_is_waited_for_by_its_first_record() -> None:
    """The first record of a morning does not go among the others' of the evening before, where
    nothing would confirm its time.
    """
    evening = NOON + 60_000 * np.arange(60)
    morning = NOON + 10 * 3_600_000 + 60_000 * np.arange(60)
    others = NOON + 60_000 * np.arange(700)
    order = list(merged([np.concatenate([evening, morning]), others], 5))
    first = order.index((0, 60))
    assert others[order[first - 1][1]] == morning[0] - 60_000
