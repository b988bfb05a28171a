"""Frequent items in pairs: their space, and the marks that count what was dropped.

That bounds hold is in test_frequent_items_error.py, that no split shows in
test_quantiles_and_items_state.py.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import product
from math import ceil
from zlib import adler32

import numpy as np
import pytest

from slidestat.synopses import Batch, NamedItems, PairedParameters, run_named_items_batch
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.frequent_pairs import layout
from slidestat.synopses.frequent_pairs.codec import put_parameters
from slidestat.synopses.frequent_pairs.marks import compact, mark, marks_room, since
from slidestat.synopses.frequent_pairs.paired_items import PairedItems, run_paired_items_batch

HOUR_MS = 3_600_000
BUSY = 900_000


def _zipf(exponent: float, different: int = 10_000) -> Callable[[int], Integers]:
    weights = 1 / np.arange(1, different + 1) ** exponent
    return lambda size: (
        np.random.default_rng(3).choice(different, size, p=weights / weights.sum()).astype(np.int64)
    )


BUSY_STREAMS: dict[str, Callable[[int], Integers]] = {
    "zipf 0.5": _zipf(0.5),
    "zipf 1": _zipf(1.0),
    "zipf 1 of a million": _zipf(1.0, 10**6),
    "zipf 1.5": _zipf(1.5),
    "even over 150": lambda size: np.random.default_rng(4).integers(0, 150, size),
    "even over 5,000": lambda size: np.random.default_rng(4).integers(0, 5_000, size),
    "all different": lambda size: np.arange(size),
    "one": lambda size: np.zeros(size, np.int64),
    "in turn": lambda size: np.arange(size) % 112,
    "in runs": lambda size: np.arange(size) // 1_000,
}


@pytest.mark.parametrize("name", BUSY_STREAMS)
def test_a_busy_key_takes_at_most_40_kilobytes_at_one_percent(name: str) -> None:
    """Texts of ten letters or so, 900,000 in the span and 100,000 before; and any window up to
    the span keeps the promise.
    """
    size = 1_000_000
    items = BUSY_STREAMS[name](size)
    times = 1_700_000_000_000 + np.arange(size) * (HOUR_MS // BUSY)
    parameters = PairedParameters(0.01, HOUR_MS)
    state: bytes | None = None
    for first in range(0, size, 50_000):
        different, codes = np.unique(items[first : first + 50_000], return_inverse=True)
        texts = [f"item {item}" for item in different.tolist()]
        (state,) = run_named_items_batch(
            parameters,
            [state],
            Batch([0, len(codes)], times[first : first + 50_000], codes, [0, 0], [], []),
            texts,
            0,
        ).states
    assert state is not None
    assert len(state) <= 40_000
    summary = NamedItems.from_bytes(state)
    for events in (1_000, 1_001, 1_500, 10_000, 123_456, BUSY):
        exact = Counter(items[-events:].tolist())
        n = summary.now - int(times[-events])
        listed = {item.text: item for item in summary.query(n, 0.01)}
        often = {f"item {item}" for item, count in exact.items() if count >= 0.01 * events}
        assert often <= set(listed)
        for text, item in listed.items():
            assert item.lower <= exact[int(text.removeprefix("item "))] <= item.upper
            assert item.upper - item.lower < parameters.relative_width * events or (
                item.upper == item.lower
            )
            assert events > 1_000 or item.upper == item.lower


@pytest.mark.parametrize("name", BUSY_STREAMS)
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01, 0.003])
def test_space_is_that_of_the_levels(name: str, epsilon: float) -> None:
    """At most Q + k entries a level, R in the tail, and the marks: eight bytes for each that is an
    item's only one, five for each.
    """
    waiting, queued, tail, share = layout.choose(epsilon)
    items = item_ids([str(item) for item in BUSY_STREAMS[name](60_000).tolist()])
    state: bytes | None = None
    for end in (300, 2_000, 20_000, 60_000):
        times = np.arange(end) * 4
        (state,) = run_paired_items_batch(
            PairedParameters(epsilon, 10**9),
            [None],
            Batch([0, end], times, items[:end], [0, 0], [], []),
            0,
        ).states
        levels = 0
        while tail + queued * ((2 << levels) - 2) < end:
            levels += 1
        entries = min(end, tail + levels * (queued + waiting))
        marks = (share + 2) * ceil(np.log2(end)) + levels * 9 * (ceil(np.log2(end)) + 2)
        assert len(state) <= 60 + 13 * entries + 3 * marks * (levels > 0)


@cache
def _kept(share: int, size: int) -> tuple[Integers, int]:
    """Marks of the numbers 1 to `size`, each at the time 3 for each number; tidied as they fill."""
    marks = np.empty((2, marks_room(share, size)), np.int64)
    count = 0
    for number in range(1, size + 1):
        count = mark(marks, count, number, 3 * number, number, share, 0)
    return marks, count


@pytest.mark.parametrize("share", [1, 8, 20])
@pytest.mark.parametrize("size", [1, 17, 18, 19, 500, 5_000])
def test_marks_count_to_a_share(share: int, size: int) -> None:
    """Of d things, the bounds hold d, and the upper one is below (1 + 1/share) d."""
    marks, count = _kept(share, size)
    for time in [*range(0, 3 * size + 4, 7), 3 * size - 1, 3 * size, 3 * size + 1]:
        exact = max(0, size - max(ceil(time / 3), 1) + 1)
        low, high = since(marks, count, size, share, time, size + 1)
        assert low <= exact <= high
        assert high == exact or share * (high - exact) < exact
        assert exact >= 2 * share + 2 or low == high


def test_marks_are_few_whatever_came_before() -> None:
    """A number is marked as if all numbers had just been looked at, however often they were."""
    marks, count = _kept(8, 5_000)
    count = compact(marks, count, 5_000, 8, 0)
    assert count <= 9 * 10 + 18
    assert marks.shape[1] < 500


def test_only_exact_counts_are_compared() -> None:
    """Items that nearly all come as often: where no item has the share, the most frequent ones are
    told if their order is sure, and else none is.
    """
    parameters = PairedParameters(0.01, 10**6)
    told = 0
    for seed, (different, window) in product(range(60), ((108, 3_000), (2_000, 900))):
        random = np.random.default_rng(seed)
        rounds = [random.permutation(different) for _ in range(6_480 // different)]
        items = np.concatenate(rounds)
        items[-window:][random.choice(window, 5, replace=False)] = np.arange(5)
        size = len(items)
        answer = run_named_items_batch(
            parameters,
            [None],
            Batch([0, size], np.arange(size), items, [0, 1], [size], [window]),
            [f"i{item}" for item in range(different)],
            0.01,
            instead=5,
        )
        exact = Counter(items[-window:].tolist())
        if max(exact.values()) >= 0.01 * window:
            continue
        told += len(answer.names)
        fifth = sorted(exact.values())[-5]
        assert all(exact[int(name[1:])] >= fifth for name in answer.names)
    assert told


@pytest.mark.parametrize("count", [2**42, 2**43, 2**61, 2**62, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("place", [3, 5, 6, 7])
def test_a_count_that_no_state_has(place: int, count: int) -> None:
    """Of the tail, of what waits, of what is queued, of marks: refused, also where twice as many
    numbers would be few again.
    """
    numbers = [5, 2_000, 0, 0, 1, 0, 0, 0, 3, 0, 0]
    numbers[place] = count
    body = bytes(put_parameters(0.5, 400)) + b"".join(map(_varint, numbers))
    head = PairedItems.create(PairedParameters(0.5, 400)).to_bytes()[:4]
    checksum = adler32(head[2:4] + body).to_bytes(4, "little")
    with pytest.raises(SynopsisError):
        PairedItems.from_bytes(head + checksum + body)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])
