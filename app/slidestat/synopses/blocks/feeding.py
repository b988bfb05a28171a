"""Taking events into the blocks of a summary, each as its index says, and letting them expire.

Source: Arasu and Manku 2004, section 4 and appendix A. blocks.py says what is kept and why;
quantile_layout.py and frequent_layout.py say what stands for a block. Cost of an event: one merge
step in each layer up to `fresh`, half of it or less in each layer beyond; O(log(1/epsilon)).
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks import memory
from slidestat.synopses.blocks.blocks import BASE, bit_length, left_tail, tail_length
from slidestat.synopses.blocks.frequent_layout import threshold
from slidestat.synopses.blocks.memory import Blocks
from slidestat.synopses.blocks.one_window import fixed_phase, known_dead, oldest_of
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.keyed import first_from
from slidestat.synopses.core.philox import priority

# Summarise a block of items: counts merged after Misra and Gries, and small ones left out.
#
# Source: Misra and Gries 1982; Arasu and Manku 2004, section 4.1 (frequent_layout.py).


@borrowing_kernel
def count_sorted(work: Integers, size: int) -> int:
    """Make sorted items work[0, :size] into items and counts; return how many there are."""
    count = 0
    for i in range(size):
        if count > 0 and work[0, count - 1] == work[0, i]:
            work[1, count - 1] += 1
        else:
            work[0, count] = work[0, i]
            work[1, count] = 1
            count += 1
    return count


@borrowing_kernel
def leave_out(old: Integers, new: Integers, facts: Integers, above: int) -> None:
    """Copy what has a count over `above` from `old` to `new`; they may be the same."""
    count = 0
    for i in range(facts[memory.LISTED]):
        if old[1, i] > above:
            new[0, count] = old[0, i]
            new[1, count] = old[1, i]
            count += 1
        else:
            facts[memory.MISSED] = max(facts[memory.MISSED], old[1, i])
    facts[memory.LISTED] = count


@borrowing_kernel
def merge_items(left: Integers, listed: int, right: Integers, size: int, out: Integers) -> int:
    """Write the items of both, their counts added, by rising item; return how many."""
    i = 0
    j = 0
    count = 0
    while i < listed or j < size:
        is_left = j >= size or (i < listed and left[0, i] <= right[0, j])
        item = left[0, i] if is_left else right[0, j]
        both = 0
        if i < listed and left[0, i] == item:
            both += left[1, i]
            i += 1
        if j < size and right[0, j] == item:
            both += right[1, j]
            j += 1
        out[0, count] = item
        out[1, count] = both
        count += 1
    return count


@kernel
def take_off(items: Integers, size: int, most: int) -> tuple[int, int]:
    """Reduce `items` to `most`, after Misra and Gries; return (how many, what was off)."""
    if size <= most:
        return size, 0
    off = int(np.sort(items[1, :size])[size - 1 - most])
    count = 0
    for i in range(size):
        if items[1, i] > off:
            items[0, count] = items[0, i]
            items[1, count] = items[1, i] - off
            count += 1
    return count, off


# Summarise a block of values: merge two, and thin them.
#
# Source: Arasu and Manku 2004, section 4.2, with blocks merged of small ones (quantile_layout.py).


@borrowing_kernel
def offset_of(head: Integers, layer: int, block: int, draw: int, every: int) -> int:
    """Return which of every `every` values, a power of two, is kept: the first, or a random one.

    `draw` numbers the thinnings of a block: 0 when it is merged, 1 + phase later.
    """
    if head[memory.KIND] != memory.RANDOM_QUANTILES or every == 1:
        return 0
    return int(priority(head[memory.SEED], block, (draw << 8) | layer) & (every - 1))


@borrowing_kernel
def thin(old: Integers, size: int, new: Integers, offset: int) -> int:
    """Write one of every so many of old[0, :size] that they fill `new`; return how many."""
    count = new.shape[1]
    every = size // count
    for i in range(count):
        new[0, i] = old[0, i * every + offset]
    return int(count)


@borrowing_kernel
def merge_values(
    left: Integers, listed: int, right: Integers, size: int, out: Integers, every: int, offset: int
) -> int:
    """Write one of every `every` of both together, in order, to `out`; return how many."""
    i = 0
    j = 0
    count = 0
    taken = offset
    for position in range(listed + size):
        if j >= size or (i < listed and left[0, i] <= right[0, j]):
            value = left[0, i]
            i += 1
        else:
            value = right[0, j]
            j += 1
        if position == taken:
            out[0, count] = value
            count += 1
            taken += every
    return count


@borrowing_kernel
def summarise(
    head: Integers,
    layer: int,
    block: int,
    phase: int,
    old: Integers,
    new: Integers,
    facts: Integers,
) -> None:
    """Copy what still stands for an odd block in `phase` from `old` to `new`."""
    if head[memory.KIND] == memory.FREQUENT:
        leave_out(old, new, facts, threshold(layer, phase, head[memory.FINENESS]))
    else:
        every = facts[memory.LISTED] // new.shape[1]
        offset = offset_of(head, layer, block, 1 + phase, every)
        facts[memory.LISTED] = thin(old, facts[memory.LISTED], new, offset)


@borrowing_kernel
def _join(
    head: Integers,
    layer: int,
    block: int,
    waiting: Integers,
    left: Integers,
    facts: Integers,
    right: Integers,
    out: Integers,
) -> None:
    """Merge the left and the right child of a block of `layer` into `out` and `facts`."""
    if head[memory.KIND] == memory.FREQUENT:
        size = merge_items(left, waiting[memory.LISTED], right, facts[memory.LISTED], out)
        facts[memory.LISTED], off = take_off(out, size, memory.fresh_room(head, layer))
        facts[memory.SHORT] += waiting[memory.SHORT] + off
    else:
        both = waiting[memory.LISTED] + facts[memory.LISTED]
        every = both // memory.fresh_room(head, layer)
        offset = offset_of(head, layer, block, 0, every)
        facts[memory.LISTED] = merge_values(
            left, waiting[memory.LISTED], right, facts[memory.LISTED], out, every, offset
        )


@kernel
def _grow_older(
    head: Integers, state: Integers, blocks: Blocks, layer: int, complete: int, edge: int
) -> None:
    """Move the kept blocks of `layer` whose age has reached a power of two, the oldest first."""
    levels = head[memory.LEVELS]
    for g in range(levels, 0, -1):
        block = complete - (1 << g)
        if block < 1 or block & 1 == 0 or block << layer <= state[memory.DEAD]:
            continue
        facts = memory.kept_facts(head, blocks, layer, block)
        if facts[memory.TIME] < edge:
            state[memory.DEAD] = block << layer
        elif g < levels:
            old = memory.kept_rows(head, blocks, layer, block, g - 1)
            new = memory.kept_rows(head, blocks, layer, block, g)
            summarise(head, layer, block, g, old, new, facts)


@kernel
def _grow_coarser(head: Integers, state: Integers, blocks: Blocks, end: int, edge: int) -> None:
    """Move all kept blocks on by a phase, M having doubled to `end` (one_window.py)."""
    for layer in range(BASE, bit_length(end) - 1):
        g = fixed_phase(head, end, layer)
        if g > head[memory.LEVELS]:
            continue  # It had been let go before.
        for block in range(1, (end >> layer) - 2, 2):
            if block << layer <= state[memory.DEAD]:
                continue
            facts = memory.kept_facts(head, blocks, layer, block)
            if facts[memory.TIME] < edge:
                state[memory.DEAD] = max(state[memory.DEAD], block << layer)
            elif g < head[memory.LEVELS]:
                old = memory.kept_rows(head, blocks, layer, block, g - 1)
                new = memory.kept_rows(head, blocks, layer, block, g)
                summarise(head, layer, block, g, old, new, facts)


@borrowing_kernel
def _take_eight(
    head: Integers,
    state: Integers,
    times: Integers,
    payload: Integers,
    end: int,
    edge: int,
    facts: Integers,
    work: Integers,
) -> None:
    """Make the 2^BASE events before `end`, or what is alive of them, a block in `work`, `facts`."""
    tail = state[memory.TAIL]
    size = 0
    for index in range(max(end - (1 << BASE), tail), end):
        if times[index - tail] < edge:
            state[memory.DEAD] = max(state[memory.DEAD], index)
            continue
        key = payload[index - tail]
        i = size
        while i > 0 and work[0, i - 1] > key:
            work[0, i] = work[0, i - 1]
            i -= 1
        work[0, i] = key
        size += 1
    facts[memory.LISTED] = size
    if size == 0:
        state[memory.DEAD] = max(state[memory.DEAD], end - 1)
        return
    facts[memory.TIME] = times[end - (1 << BASE) - tail] if size == 1 << BASE else memory.GONE
    facts[memory.LAST] = times[end - 1 - tail]
    if head[memory.KIND] == memory.FREQUENT:
        facts[memory.SHORT] = 0
        facts[memory.MISSED] = 0
        facts[memory.LISTED] = count_sorted(work, size)
    else:
        facts[memory.LOW] = work[0, 0]
        facts[memory.HIGH] = work[0, size - 1]


@kernel
def _complete(
    head: Integers,
    state: Integers,
    times: Integers,
    payload: Integers,
    blocks: Blocks,
    end: int,
    edge: int,
    facts: Integers,
    work: Integers,
    spare: Integers,
) -> None:
    """Take the 2^BASE events before `end` as a block, and complete all blocks that end there."""
    _take_eight(head, state, times, payload, end, edge, facts, work)
    if facts[memory.LISTED] == 0:
        return
    layer = BASE
    block = (end >> BASE) - 1
    if memory.is_fixed(head) and end & (end - 1) == 0 and end <= head[memory.SPAN]:
        _grow_coarser(head, state, blocks, end, edge)
    while True:
        first_phase = fixed_phase(head, end, layer) if memory.is_fixed(head) else 0
        if not memory.is_fixed(head):
            _grow_older(head, state, blocks, layer, block + 1, edge)
        whole = facts[memory.TIME] >= edge
        waiting = memory.waiting_facts(head, blocks, layer)
        if block & 1 == 0:
            waiting[:] = facts
            if whole:
                rows = memory.waiting_rows(head, blocks, layer)
                rows[:, : facts[memory.LISTED]] = work[:, : facts[memory.LISTED]]
            return
        kept = memory.kept_facts(head, blocks, layer, block)
        kept[:] = facts
        if first_phase >= head[memory.LEVELS]:
            if not whole:  # Its time is known for the last time.
                state[memory.DEAD] = max(state[memory.DEAD], block << layer)
        elif whole:
            rows = memory.kept_rows(head, blocks, layer, block, first_phase)
            summarise(head, layer, block, first_phase, work, rows, kept)
        start = (block - 1) << layer
        block >>= 1
        layer += 1
        if (start + (1 << (layer - 1))) - 1 <= state[memory.DEAD] or waiting[memory.LAST] < edge:
            state[memory.DEAD] = max(state[memory.DEAD], start + (1 << (layer - 1)) - 1)
            facts[memory.TIME] = memory.GONE
            continue
        if head[memory.KIND] != memory.FREQUENT:
            facts[memory.LOW] = min(facts[memory.LOW], waiting[memory.LOW])
            facts[memory.HIGH] = max(facts[memory.HIGH], waiting[memory.HIGH])
        facts[memory.TIME] = waiting[memory.TIME] if start > state[memory.DEAD] else memory.GONE
        if facts[memory.TIME] >= edge:
            rows = memory.waiting_rows(head, blocks, layer - 1)
            _join(head, layer, block, waiting, rows, facts, work, spare)
            work, spare = spare, work


@kernel
def absorb(
    head: Integers, state: Integers, times: Integers, payload: Integers, blocks: Blocks, total: int
) -> None:
    """Take in the events up to `total`: times and payload are of the events from TAIL on, checked.

    `blocks` has room for them. Cost: O(events * log(1/epsilon)).
    """
    before = state[memory.TOTAL]
    if total == before:
        return
    left = left_tail(total, head[memory.LEVELS])
    old = left_tail(before, head[memory.LEVELS])
    if left > old:
        room = max(2 * memory.fresh_room(head, bit_length(left)), 1 << BASE)
        work = np.empty((blocks[2].shape[0], room), np.int64)
        spare = np.empty((blocks[2].shape[0], room), np.int64)
        facts = np.empty(memory.FACTS, np.int64)
        for end in range(old + (1 << BASE), left + 1, 1 << BASE):
            newest = end + tail_length(head[memory.LEVELS]) - 1
            edge = (
                max(state[memory.NOW], times[newest - state[memory.TAIL]] + 1) - head[memory.SPAN]
            )
            _complete(head, state, times, payload, blocks, end, edge, facts, work, spare)
    state[memory.NOW] = max(state[memory.NOW], times[total - 1 - state[memory.TAIL]] + 1)
    state[memory.TOTAL] = total


@kernel
def settle(head: Integers, state: Integers, times: Integers, blocks: Blocks) -> None:
    """Set DEAD to the highest index known to have expired now. Cost: O(blocks)."""
    total = state[memory.TOTAL]
    left = left_tail(total, head[memory.LEVELS])
    edge = state[memory.NOW] - head[memory.SPAN]
    dead = max(state[memory.DEAD], known_dead(head, total))
    index = tail_begin(head, state)
    while index < total and times[index - state[memory.TAIL]] < edge:
        dead = index
        index += 1
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        if complete & 1 == 1:
            start = (complete - 1) << layer
            if start > dead and memory.waiting_facts(head, blocks, layer)[memory.TIME] < edge:
                dead = start
            end = (complete << layer) - 1
            if end > dead and memory.waiting_facts(head, blocks, layer)[memory.LAST] < edge:
                dead = end
        oldest = oldest_of(head, left, layer, state[memory.DEAD])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            if block << layer <= dead:
                break
            if memory.kept_facts(head, blocks, layer, block)[memory.TIME] < edge:
                dead = block << layer
                break
    state[memory.DEAD] = dead


@borrowing_kernel
def tail_begin(head: Integers, state: Integers) -> int:
    """Return the first event that is known by itself and has not expired."""
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    return int(max(left, state[memory.DEAD] + 1, state[memory.TAIL]))


@kernel
def find_start(
    head: Integers, state: Integers, times: Integers, blocks: Blocks, start: int
) -> tuple[int, int]:
    """Return (first known event from time `start` on, last known one before). Cost: O(blocks)."""
    tail = state[memory.TAIL]
    begin = tail_begin(head, state)
    before = state[memory.DEAD]
    after = tail + first_from(times, begin - tail, state[memory.TOTAL] - tail, start)
    if after > begin:
        before = max(before, after - 1)
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        event = (complete - 1) << layer
        end = (complete << layer) - 1
        if complete & 1 == 1 and end > state[memory.DEAD]:
            if memory.waiting_facts(head, blocks, layer)[memory.LAST] < start:
                before = max(before, end)
            if event > state[memory.DEAD]:
                if memory.waiting_facts(head, blocks, layer)[memory.TIME] >= start:
                    after = min(after, event)
                else:
                    before = max(before, event)
        oldest = oldest_of(head, left, layer, state[memory.DEAD])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            event = block << layer
            if event <= state[memory.DEAD]:
                break
            if memory.kept_facts(head, blocks, layer, block)[memory.TIME] >= start:
                after = min(after, event)
            else:
                before = max(before, event)
                break
    return int(after), int(before)


@borrowing_kernel
def window_room(head: Integers, state: Integers, after: int) -> int:
    """Return how many values or items, at most, stand for the events from `after` on."""
    room = state[memory.TOTAL] - max(after, tail_begin(head, state))
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    for layer in range(BASE, bit_length(max(left - after, 0))):
        room += 2 * memory.fresh_room(head, layer)
    return int(room)
