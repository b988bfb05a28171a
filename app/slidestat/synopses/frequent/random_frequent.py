"""How often each item came, over any window, by random sampling: no count is ever too high.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004), sections 5
and 7 and appendix B (theorems 5.1, 7.1, B.1): sticky sampling, for fixed-size, variable-size and
n-of-N windows, with the samples of all levels in one list: each is kept once, at its highest level.
Promises and costs: blocks/README.md. Why: docs/proofs.md.

The draws are a function of the seed and the events' numbers: replays repeat them, and answers of
overlapping windows fail together. Made with `FixedRandomFrequentParameters`, it is for the window
of the last N = `span` events alone, each with a number of its own, by samples of one level r, that
of min(N, events so far): A + 2 of them at most, theorem 5.1's O(1/epsilon log(1/(epsilon delta))).
In windows of n < N events, counts miss at most epsilon min(N, events so far) then.

>>> from slidestat.synopses import (
...     RandomFrequentItems, RandomFrequentParameters)
>>> parameters = RandomFrequentParameters(epsilon=0.01, span=60_000, delta=0.01, seed=7)
>>> pages = RandomFrequentItems.create(parameters)
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import ClassVar

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.blocks.blocks import EVENT_LIMIT, LIVE_LIMIT
from slidestat.synopses.blocks.one_window import not_larger
from slidestat.synopses.blocks.parameters import DrawnParameters
from slidestat.synopses.blocks.run import summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, follows, split
from slidestat.synopses.core.envelope import named_by_bytes, refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive, with_columns, with_room
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.frequent import sticky
from slidestat.synopses.frequent.frequent_items import FrequentBatch, ItemSummary, part_of


@dataclass(frozen=True)
class RandomFrequentParameters(DrawnParameters):
    """Frequent items of windows of up to `span`, by random sampling.

    epsilon, span: as for `FrequentParameters`. delta: how often a count of a window may be lower
    still, 1e-9 to 0.5. seed: 0 to 2^63 - 1; streams with the same seed draw the same numbers of
    events. Raises SynopsisError for anything else.
    """

    what: ClassVar[str] = "frequent items"
    stored_kind: ClassVar[int] = sticky.RANDOM_FREQUENT

    @property
    def rarity(self) -> float:
        """lambda of random_frequent.py: in groups of 2^r, lambda 2^r occurrences are not missed."""
        return log(2 * (2 / self.epsilon + 8) / self.delta)

    @property
    def reach(self) -> int:
        """The number of groups of a level that are sampled, and of last events that are exact."""
        return ceil(2 * self.rarity / self.epsilon) + 8

    @property
    def head(self) -> Integers:
        """The whole numbers that kernels take."""
        return np.array([self.span, self.seed, self.reach, self.stored_kind], np.int64)


@dataclass(frozen=True)
class FixedRandomFrequentParameters(RandomFrequentParameters):
    """Frequent items of the last `span` events, as `RandomFrequentParameters` but for that window.

    In windows of n < span events, counts may be too low by epsilon of span.
    """

    stored_kind: ClassVar[int] = sticky.FIXED_RANDOM_FREQUENT


@kernel
def _list_items(
    head: Integers,
    rarity: float,
    state: Integers,
    samples: Integers,
    start: int,
    part: int,
    facts: Integers,
    lists: Integers,
    listed: int,
) -> tuple[Integers, int]:
    """Append the items that may have part/PARTS of the window from `start` on to `lists`.

    facts, and what is returned, are as of `list_items`. Cost: O(samples * log).
    """
    first, fewest, most = sticky.window_of(head, state, samples, start)
    level = sticky.level_needed(most, head[sticky.REACH])
    if head[sticky.STORED] == sticky.FIXED_RANDOM_FREQUENT:
        level = sticky.level_kept(head, state[sticky.TOTAL], 0)
    missed = int(np.ceil(rarity * (1 << level))) - 1 if level > 0 else 0
    lists = with_columns(lists, listed, state[sticky.SIZE] - first)
    begin = listed
    for i in np.argsort(samples[sticky.ITEM, first : state[sticky.SIZE]]):
        item = samples[sticky.ITEM, first + i]
        if listed == begin or lists[0, listed - 1] != item:
            lists[0, listed] = item
            lists[1, listed] = 0
            listed += 1
        lists[1, listed - 1] += samples[sticky.COUNT, first + i]
    count = begin
    for i in range(begin, listed):
        upper = min(lists[1, i] + missed, most)
        if upper * PARTS >= part * fewest:
            lists[0, count] = lists[0, i]
            lists[1, count] = lists[1, i]
            lists[2, count] = upper
            count += 1
    facts[0] = min(missed, most)
    facts[1] = fewest
    facts[2] = most
    return lists, count


@kernel
def open_state(
    head: Integers, shares: Floats, arena: Bytes, start: int, end: int, state: Integers, added: int
) -> tuple[int, int, int, Integers]:
    """Read a stored state, or make a new one; return (error, its two numbers, samples)."""
    samples = np.empty((sticky.ROWS, added), np.int64)
    state[sticky.TOTAL] = 0
    state[sticky.NOW] = TIME_MIN
    state[sticky.SIZE] = 0
    if start == end:
        return error_codes.OK, 0, 0, samples
    found = np.empty(len(shares), np.float64)
    kind = head[sticky.STORED]
    error_code, number, seed, span, at = sticky.read_head(arena, start, end, kind, found)
    if error_code != error_codes.OK:
        return error_code, number, 0, samples
    if seed != head[sticky.SEED] or span != head[sticky.SPAN] or not np.all(found == shares):
        return error_codes.OTHER_PARAMETERS, 0, 0, samples
    error_code, samples = sticky.decode(arena, at, end, head, state, added)
    return error_code, 0, 0, samples


@kernel
def _run(
    head: Integers,
    shares: Floats,
    rarity: float,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    items: Integers,
    part: int,
    facts: Integers,
    ends: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers]:
    """Run each group's events and queries, as `drive` describes; return the lists, too."""
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    state = np.empty(sticky.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    lists = np.empty((3, 64), np.int64)
    length = 0
    end = 0
    for group in range(groups):
        event = starts[group]
        stop = starts[group + 1]
        error_code, a, b, samples = open_state(
            head, shares, arena, offsets[group], offsets[group + 1], state, stop - event
        )
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets, lists
        if state[sticky.TOTAL] + stop - event > EVENT_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists
        error_code, a, b, after = follows(columns, group, state[sticky.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets, lists
        if head[sticky.STORED] == sticky.FIXED_RANDOM_FREQUENT:
            a, b = not_larger(times[event:stop], state[sticky.NOW])
            if a <= b:
                return error_codes.NUMBER_NOT_LARGER, group, a, b, out, out_offsets, lists
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            samples = sticky.take(head, state, samples, times[event:cut], items[event:cut])
            event = cut
            if query == query_starts[group + 1]:
                break
            for k in range(len(spans)):
                lists, length = _list_items(
                    head,
                    rarity,
                    state,
                    samples,
                    query_times[query] - spans[k],
                    part,
                    facts[:, query, k],
                    lists,
                    length,
                )
                ends[query * len(spans) + k + 1] = length
        state[sticky.NOW] = after
        sticky.sweep(head, state, samples, state[sticky.TOTAL])
        if (
            sticky.window_of(head, state, samples, state[sticky.NOW] - head[sticky.SPAN])[2]
            > LIVE_LIMIT
        ):
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists
        out = with_room(out, end, sticky.encoded_limit(state[sticky.SIZE]))
        end = sticky.encode(out, end, head, shares, state, samples)
        out_offsets[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, out_offsets, lists


def run_random_frequent_batch(
    parameters: RandomFrequentParameters, states: Sequence[bytes | None], batch: Batch, share: float
) -> FrequentBatch:
    """Feed and ask many random summaries of frequent items at once, one a group (key).

    All is as `run_frequent_batch` has it, but that uppers and `unlisted` of a query and span may be
    too low for some item, with a chance of delta. Cost: O(bytes in + events * log(samples) + bytes
    out), and of a query and window O(samples * log). Source: Arasu and Manku 2004.
    """
    part = part_of(share)
    columns = batch.within(parameters.span)
    queries, windows = batch.shape
    facts = np.empty((3, queries, windows), np.int64)
    ends = np.zeros(queries * windows + 1, np.int64)
    made_with = parameters.head, parameters.shares, parameters.rarity
    given = made_with, states, columns, batch.items(), part, facts, ends
    kinds = (parameters.stored_kind,)
    out, offsets, lists = drive(_run, *given, kinds=kinds, error_of=summary_error)
    return FrequentBatch(split(out, offsets), ends, *lists[:, : ends[-1]], *facts)


class RandomFrequentItems(ItemSummary[RandomFrequentParameters]):
    """A synopsis of the items of one stream; windows and times are as in `Stored`."""

    is_checked_when_read = True
    run_batch = staticmethod(run_random_frequent_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[RandomFrequentParameters, int]:
        parameters, state, _ = _read(data)
        return parameters, int(state[sticky.NOW])

    def stored_entries(self) -> int:
        """Return how many samples the state holds."""
        return int(_read(self._data)[1][sticky.SIZE])

    def check(self) -> None:
        """Raise SynopsisError unless the samples are what sticky.py says: what decoding
        checks, and that each is of a level that is still sampled."""
        parameters, state, samples = _read(self._data)
        for position in samples[sticky.POSITION, : state[sticky.SIZE]].tolist():
            level = sticky.level_kept(parameters.head, int(state[sticky.TOTAL]), position)
            if sticky.level_of(parameters.seed, position, level) != level:
                raise SynopsisError(f"event {position} is a sample, and should have been let go")


def _read(data: bytes) -> tuple[RandomFrequentParameters, Integers, Integers]:
    """Decode `data`; returns its parameters, numbers and samples."""
    array = np.frombuffer(bytearray(data), np.uint8)
    state = np.empty(sticky.STATE_SIZE, np.int64)
    shares = np.empty(2)
    is_fixed = data[3:4] == bytes([sticky.FIXED_RANDOM_FREQUENT])
    made = FixedRandomFrequentParameters if is_fixed else RandomFrequentParameters
    kind = made.stored_kind
    error_code, number, seed, span, _ = sticky.read_head(array, 0, len(array), kind, shares)
    if error_code != error_codes.OK:
        raise refused(error_code, number, kind)
    parameters = named_by_bytes(made.of_bytes, shares.tolist(), int(span), int(seed))
    error_code, _, _, samples = open_state(parameters.head, shares, array, 0, len(array), state, 0)
    if error_code != error_codes.OK:
        raise refused(error_code, 0)
    return parameters, state, samples
