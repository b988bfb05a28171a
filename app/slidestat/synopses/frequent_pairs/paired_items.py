"""How often each item came, of one key over any window: frequent items in a few kilobytes.

Source: Misra and Gries, "Finding repeated elements" (1982); Lee and Ting, "A simpler and more
efficient deterministic scheme for finding frequent items over sliding windows" (2006); for any
window at once, Arasu and Manku (2004), section 6. Promises and costs: blocks/README.md.
Why: docs/proofs.md.

>>> from slidestat.synopses import PairedItems, PairedParameters
>>> pages = PairedItems.create(PairedParameters(epsilon=0.01, span=60_000))
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
>>> pages.query(60_000, 9)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.blocks import EVENT_LIMIT, LIVE_LIMIT
from slidestat.synopses.blocks.columns import get_column
from slidestat.synopses.blocks.run import RunResult, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, Joined, follows
from slidestat.synopses.core.envelope import damaged, named_by_bytes, refused
from slidestat.synopses.core.keyed import drive, open_body, with_columns, with_room
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.frequent.frequent_items import FrequentBatch, ItemSummary, part_of
from slidestat.synopses.frequent_pairs import codec, layout
from slidestat.synopses.frequent_pairs.feeding import code_of, make_table, take
from slidestat.synopses.frequent_pairs.layout import PairedParameters
from slidestat.synopses.frequent_pairs.marks import since


@borrowing_kernel
def tally(
    levels: Integers, entries: Integers, rooms: Integers, start: int, counts: Integers
) -> None:
    """Add up the entries of each item with times from `start` on: counts[0], and the events of the
    oldest of them: counts[1]. Cost: O(entries).
    """
    counts[:] = 0
    for depth in range(len(levels)):
        level = levels[depth]
        for i in range(level[layout.TAKEN]):
            item = rooms[depth, layout.ITEM, i]
            if item >= 0 and rooms[depth, layout.TIME, i] >= start:
                counts[0, item] += 1 << (depth - 1)
                counts[1, item] = 1 << (depth - 1)
        for i in range(level[layout.QUEUE] - 1, -1, -1):
            at = level[layout.OLDEST] + i
            at = level[layout.BEGIN] + (at - level[layout.RING] if at >= level[layout.RING] else at)
            if entries[layout.TIME, at] < start:
                return  # all that follow are older
            item = entries[layout.ITEM, at]
            counts[0, item] += 1 << depth
            counts[1, item] = 1 << depth


@borrowing_kernel
def count_window(
    head: Integers, state: Integers, memory: layout.Memory, start: int
) -> tuple[int, int]:
    """Return the fewest and the most events that came from `start` on. Cost: O(tail)."""
    levels, entries, _, _, _, counted = memory
    level = levels[0]
    size = level[layout.QUEUE]
    for i in range(size - 1, -1, -1):
        at = level[layout.OLDEST] + i
        at = at - level[layout.RING] if at >= level[layout.RING] else at
        if entries[layout.TIME, at] < start:
            return int(size - 1 - i), int(size - 1 - i)
    if size < head[layout.TAIL]:  # all before has expired
        return int(size), int(size)
    total = state[layout.TOTAL]
    return since(counted, state[layout.MARKS], total, head[layout.COUNTED], start, total - size + 1)


@borrowing_kernel
def count_dropped(levels: Integers, drops: Integers, start: int) -> int:
    """Return how many events an item may have lost at most in drops from `start` on."""
    lost = 0
    for depth in range(1, len(levels)):
        last = levels[depth, layout.DROPS]
        _, most = since(
            drops[depth], levels[depth, layout.DROP_MARKS], last, layout.MARKED, start, last + 1
        )
        lost += most << (depth - 1)
    return int(lost)


@kernel
def list_pairs(
    head: Integers,
    state: Integers,
    memory: layout.Memory,
    items: Integers,
    start: int,
    part: int,
    instead: int,
    facts: Integers,
    counts: Integers,
    lists: Integers,
    listed: int,
) -> tuple[Integers, int]:
    """Append the items that may have part/PARTS of the window from `start` on to `lists`, rising.

    As `list_items` of answer.py does. items[code] is the item of a code; counts:
    int64[2, codes] to work in. Cost: O(entries + items listed * log).
    """
    levels, entries, rooms, _, drops, _ = memory
    tally(levels, entries, rooms, start, counts)
    fewest, most = count_window(head, state, memory, start)
    dropped = count_dropped(levels, drops, start)
    size = counts.shape[1]
    found = np.empty(size, np.int64)
    number = 0
    held = 0
    are_exact = dropped == 0
    for code in range(size):
        held += counts[0, code] > 0
        are_exact = are_exact and counts[1, code] <= 1
        if counts[0, code] > 0 and min(counts[0, code] + dropped, most) * PARTS >= part * fewest:
            found[number] = code
            number += 1
    chosen = found[:number]
    if number == 0 and are_exact and instead > 0:
        # Among equal counts, the least numbers come first.
        order = np.argsort(items[:size])
        order = order[np.argsort(-counts[0][order], kind="mergesort")]
        chosen = order[: min(instead, held)]
    else:
        chosen = chosen[np.argsort(items[:size][chosen])]
    lists = with_columns(lists, listed, len(chosen))
    for code in chosen:
        lists[0, listed] = items[code]
        lists[1, listed] = counts[0, code] - counts[1, code] + 1
        lists[2, listed] = min(counts[0, code] + dropped, most)
        listed += 1
    facts[0] = min(dropped, most)
    facts[1] = fewest
    facts[2] = most
    return lists, listed


@borrowing_kernel
def _open(
    made_with: Bytes, arena: Bytes, start: int, end: int, state: Integers
) -> tuple[int, int, int, int]:
    """Check a stored state; return (error, its number, how many items it has, the offset)."""
    error_code, number, at = open_body(arena, start, end, layout.PAIRED, layout.PAIRED)
    if error_code != error_codes.OK:
        return error_code, number, 0, at
    # Equal parameters are equal bytes.
    same = end - at >= len(made_with)
    for i in range(len(made_with)):
        same = same and arena[at + i] == made_with[i]
    if not same:
        return error_codes.OTHER_PARAMETERS, 0, 0, at
    number, at = codec.read_numbers(arena, at + len(made_with), end, state)
    return error_codes.OK if at >= 0 else error_codes.CORRUPTED, 0, number, at


@kernel
def load(
    head: Integers,
    made_with: Bytes,
    arena: Bytes,
    start: int,
    end: int,
    state: Integers,
    added: int,
) -> tuple[int, int, layout.Memory, Integers, int]:
    """Read a stored state, or none; return (error, its number, it in memory, items, how many).

    There is room for `added` more events and items.
    """
    state[layout.TOTAL] = 0
    state[layout.NOW] = TIME_MIN
    state[layout.MARKS] = 0
    error_code, a, number, at = error_codes.OK, 0, 0, end
    if start < end:
        error_code, a, number, at = _open(made_with, arena, start, end, state)
    items = np.empty(number + added, np.int64)
    depth, tail, held, drops = 1, 0, 0, 0
    if error_code == error_codes.OK and start < end:
        at = get_column(arena, at, end, items[:number], False)
        if at >= 0:
            depth, tail, held, drops = codec.measure(arena, at, end)
        if at < 0 or depth < 0:
            error_code = error_codes.CORRUPTED
    if error_code != error_codes.OK:
        return error_code, a, layout.make_memory(head, 1, 0, 0, 0, 0), items, 0
    memory = layout.make_memory(
        head,
        max(depth, layout.levels_needed(head, held + added)),
        tail + added,
        number + added,
        drops + (held + added) // (head[layout.WAITING] + 1) + 1,
        state[layout.TOTAL] + added,
    )
    if start < end:
        error_code = codec.decode(arena, at, end, head, state, memory, items[:number])
    return error_code, 0, memory, items, number


@kernel
def _note(noted: Integers, end: int, items: Integers) -> tuple[Integers, int]:
    """Append the items of a state, rising; as `with_room` does."""
    noted = with_room(noted, end, len(items))
    noted[end : end + len(items)] = items if len(items) <= codec.FEW else np.sort(items)
    return noted, end + len(items)


@kernel
def _run(
    head: Integers,
    epsilon: float,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    payload: Integers,
    part: int,
    instead: int,
    facts: Integers,
    ends: Integers,
    held: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers, Integers, Integers]:
    """Run as `drive` describes; return the lists, and the items held before, and now, too."""
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    made_with = codec.put_parameters(epsilon, head[layout.SPAN])
    state = np.empty(layout.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    lists = np.empty((3, 64), np.int64)
    before = np.empty(0, np.int64)
    now = np.empty(0, np.int64)
    length = 0
    end = 0
    for group in range(groups):
        event = starts[group]
        stop = starts[group + 1]
        added = stop - event
        error_code, a, memory, items, number = load(
            head, made_with, arena, offsets[group], offsets[group + 1], state, added
        )
        if error_code != error_codes.OK:
            return error_code, group, a, 0, out, out_offsets, lists, before, now
        if state[layout.TOTAL] + added > EVENT_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists, before, now
        before, held[0, group + 1] = _note(before, held[0, group], items[:number])
        codes = np.empty(added, np.int64)
        if added > 0:
            table = make_table(number + added)
            for i in range(number):
                code_of(table, items, i, items[i])
            for i in range(added):
                codes[i] = code_of(table, items, number, payload[event + i])
                number = max(number, codes[i] + 1)
        is_asked = query_starts[group] < query_starts[group + 1]
        counts = np.empty((2, number if is_asked else 0), np.int64)
        error_code, a, b, after = follows(columns, group, state[layout.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets, lists, before, now
        first = event
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            take(head, state, memory, codes, times[first:], event - first, cut - first)
            event = cut
            if query == query_starts[group + 1]:
                break
            for k in range(len(spans)):
                lists, length = list_pairs(
                    head,
                    state,
                    memory,
                    items,
                    query_times[query] - spans[k],
                    part,
                    instead,
                    facts[:, query, k],
                    counts,
                    lists,
                    length,
                )
                ends[query * len(spans) + k + 1] = length
        state[layout.NOW] = after
        size = codec.settle(head, state, memory)
        if count_window(head, state, memory, state[layout.NOW] - head[layout.SPAN])[1] > LIVE_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists, before, now
        out = with_room(out, end, codec.encoded_limit(size, len(memory[0]), number))
        end, holds = codec.encode(out, end, made_with, state, memory, items[:number])
        out_offsets[group + 1] = end
        now, held[1, group + 1] = _note(now, held[1, group], holds)
    return error_codes.OK, 0, 0, 0, out, out_offsets, lists, before, now


def run_pairs(
    parameters: PairedParameters,
    states: Sequence[bytes | None] | Joined,
    batch: Batch,
    items: Integers,
    part: int,
    instead: int,
) -> RunResult:
    """Feed and ask many summaries at once, one a group (key).

    items: one a time. part: a share in whole millionths; instead: how many items are listed where
    none has it and counts are exact. Raises SynopsisError.
    """
    columns = batch.within(parameters.span)
    queries, windows = batch.shape
    facts = np.empty((3, queries, windows), np.int64)
    ends = np.zeros(queries * windows + 1, np.int64)
    held = np.zeros((2, batch.groups + 1), np.int64)
    given = (parameters.head, parameters.epsilon), states, columns, items, part, instead, facts
    out, offsets, lists, before, now = drive(
        _run, *given, ends, held, kinds=PairedItems.kinds, error_of=summary_error
    )
    listed = lists[:, : ends[-1]]
    return RunResult(out, offsets, np.empty(0), facts, ends, listed, before, now, held)


def run_paired_items_batch(
    parameters: PairedParameters, states: Sequence[bytes | None], batch: Batch, share: float
) -> FrequentBatch:
    """Feed and ask many summaries of frequent items in pairs at once, one a group (key).

    All is as of `run_frequent_batch`, but for the cost: O(bytes in + events + bytes out) amortised;
    of a query and window O(entries + items listed * log). Raises SynopsisError.
    """
    ran = run_pairs(parameters, states, batch, batch.items(), part_of(share), 0)
    return FrequentBatch(ran.states, ran.ends, *ran.lists, *ran.facts)


class PairedItems(ItemSummary[PairedParameters]):
    """A synopsis of the items of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (layout.PAIRED,)

    is_checked_when_read = True
    run_batch = staticmethod(run_paired_items_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[PairedParameters, int]:
        parameters, state, _ = _start_of(data)
        return parameters, int(state[layout.NOW])

    def stored_entries(self) -> int:
        """Return how many different items the state holds."""
        return _start_of(self._data)[2]

    def check(self) -> None:
        """Raise SynopsisError unless the state is one that is written: what reading checks."""
        if self._moved(np.empty(0, np.int64), self._no_values(), None) != self._data:
            raise damaged()


def _start_of(data: bytes) -> tuple[PairedParameters, Integers, int]:
    """Return the parameters and numbers of a state, and how many items it holds."""
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, number, epsilon, at = codec.read_parameters(array, 0, len(array), layout.PAIRED)
    if error_code != error_codes.OK:
        raise refused(error_code, number, layout.PAIRED)
    parameters = named_by_bytes(PairedParameters, float(epsilon), int(number))
    state = np.empty(layout.STATE_SIZE, np.int64)
    held, at = codec.read_numbers(array, at, len(array), state)
    if at < 0:
        raise damaged()
    return parameters, state, int(held)
