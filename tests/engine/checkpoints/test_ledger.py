"""A ledger of what became of records, against a list of them."""

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
)
from slidestat.engine.checkpoints.ledger import COUNTED, DEAD, LATE, PASSED_OVER, Ledger
from tests.engine.cases import laws

OUTCOMES = st.sampled_from((COUNTED, DEAD, LATE, PASSED_OVER))
# Of each record: its outcome, how far it lies behind the one before, whether a statistic leaves it
# out.
BATCHES = st.lists(
    st.lists(st.tuples(OUTCOMES, st.integers(1, 3), st.booleans()), min_size=1, max_size=8),
    max_size=5,
)


def counters_of(records: list[tuple[int, int, bool]]) -> Counters:
    found = Counter(outcome for _, outcome, _ in records)
    left_out = sum(outcome == COUNTED and is_out for _, outcome, is_out in records)
    return Counters(
        len(records),
        found[COUNTED],
        found[DEAD],
        found[LATE],
        0,
        found[PASSED_OVER],
        {"s": left_out} if left_out else {},
    )


@laws
@given(BATCHES, st.data())
def test_counters_are_those_of_the_records_before(
    batches: list[list[tuple[int, int, bool]]], data: st.DataObject
) -> None:
    """In batches, settled up to any offset, with counted ones refused or taken for unread later."""
    ledger, records, at = Ledger(Checkpoint(0)), list[tuple[int, int, bool]](), -1
    for batch in batches:
        offsets = []
        for _, gap, _ in batch:
            offsets.append(at := at + gap)
        outcomes = np.array([outcome for outcome, _, _ in batch], np.uint8)
        left_out = np.flatnonzero([is_out for _, _, is_out in batch])
        ledger.append(np.array(offsets), np.array(offsets), outcomes, None, {"s": left_out})
        records += [(offset, one[0], one[2]) for offset, one in zip(offsets, batch, strict=True)]
        counted = [offset for offset, outcome, _ in records if outcome == COUNTED]
        if counted and data.draw(st.booleans()):
            refused = data.draw(st.sampled_from(counted))
            ledger.refuse(refused)
            records = [
                (offset, DEAD if offset == refused else outcome, is_out)
                for offset, outcome, is_out in records
            ]
            counted.remove(refused)
        assert ledger.reached.counters == counters_of(records)
        undecided = data.draw(st.sets(st.sampled_from(counted))) if counted else set()
        rest = [one for one in records if one[0] not in undecided]
        assert ledger.reached_without(undecided).counters == counters_of(rest)
    settled = data.draw(st.integers(0, at + 1))
    found = ledger.settle(settled)
    assert found.counters == counters_of([one for one in records if one[0] < settled])
    assert ledger.settle(at + 1).counters == counters_of(records)


@laws
@given(st.lists(st.integers(0, 99), min_size=8, max_size=8))
def test_counters_that_are_added_and_taken_away_are_as_before(numbers: list[int]) -> None:
    first = Counters(*numbers[:6], {"a": numbers[6]} if numbers[6] else {})
    second = Counters(*reversed(numbers[:6]), {"b": numbers[7]} if numbers[7] else {})
    both = first + second
    assert both.passed_over == first.passed_over + second.passed_over
    assert both.since(second) == first
    assert both.since(first) == second


NEWER_COUNTERS = st.builds(
    lambda passed_over, left_out: Counters(
        9, 9, 0, 0, 0, passed_over, {"s": left_out} if left_out else {}
    ),
    st.integers(0, 2),
    st.integers(0, 2),
)


@laws
@given(NEWER_COUNTERS, st.none() | NEWER_COUNTERS, st.integers(0, 9))
def test_what_is_stored_comes_back_whole(
    counters: Counters, further_counters: Counters | None, further: int
) -> None:
    """Whatever version is enough for it, of both positions."""
    checkpoint = Checkpoint(5, 7, counters)
    emitted = None if further_counters is None else Checkpoint(5 + further, 8, further_counters)
    stored = encode_checkpoint(checkpoint, {"name": "t"}, emitted, (), None)
    assert decode_checkpoint(stored, {"name": "t"}) == checkpoint
    ahead = emitted is not None and further
    assert decode_emitted(stored, checkpoint) == (emitted if ahead else checkpoint)
