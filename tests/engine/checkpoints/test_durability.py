"""What a partition's snapshots store, against what a restart needs of them."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Loss,
    Recent,
    Snapshot,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    stored_mark,
)
from slidestat.engine.checkpoints.ledger import COUNTED, Durability, Ledger
from slidestat.engine.clock import tick_after
from slidestat.engine.records import LogMark
from tests.engine.cases import laws

LATENESS, EVERY, START = 3_000, 5_000, 1_600_000_000_000
ALERT = Alert(name="many", when="count > 3")


def topology(*alerts: Alert) -> Topology:
    return Topology(
        name="t",
        source="events",
        span="1m",
        every="5s",
        lateness="3s",
        statistics=(Count(),),
        alerts=alerts,
    )


class Partition:
    """A partition that reads a record a second, and is flushed; `stored` is what a restart has."""

    def __init__(
        self, stored: bytes | None, topology_now: Topology | None = None, topic_id: str = ""
    ) -> None:
        self.topology = topology_now or topology()
        self.stored = stored
        self.durability = Durability(self.topology, stored, topic_id)
        self.ledger = Ledger(self.durability.checkpoint)
        # The least offsets of events that wait, and of those in states that are not written.
        self.waiting: int | None = None
        self.unwritten: int | None = None

    @property
    def read(self) -> int:
        return self.ledger.reached.next_offset

    def fetch(self, count: int) -> None:
        offsets = np.arange(self.read, self.read + count)
        times = START + 1_000 * offsets
        self.ledger.append(offsets, times, np.full(count, COUNTED, np.uint8))
        self.durability.read(mark_of(int(offsets[-1])))

    def lose(self, count: int) -> None:
        end = self.read + count
        self.ledger.lose(end, START + 1_000 * (end - 1), Loss(count, START, START), count)
        self.durability.lost()

    def flush(self, states: dict[str, bytes | None]) -> Snapshot | None:
        keys: Any = SimpleNamespace(
            take_changes=lambda _slots: states,
            first_offset=lambda: self.unwritten,
            written=lambda: None,
        )
        clock: Any = SimpleNamespace(settle=lambda _needed: Recent())
        ledger, waiting = self.ledger, self.waiting
        found = self.durability.snapshot(keys, (), ledger, clock, self.read, waiting, {})
        if found is not None:
            self.stored = found.checkpoint
            self.durability.written(keys)
        return found

    @property
    def needed(self) -> int:
        """Where a restart must begin to read."""
        places = (self.read, self.waiting, self.unwritten)
        return min(place for place in places if place is not None)


def mark_of(offset: int) -> LogMark:
    return LogMark(offset, 1, offset)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("read", "read", "lose", "restart", "none")),
        st.integers(1, 4),
        st.booleans(),
        st.integers(0, 6),
        st.integers(0, 6),
    ),
    max_size=12,
)


@laws
@given(st.sampled_from((0, 7)), STEPS)
def test_what_is_stored_is_what_a_restart_needs(first: int, steps: list[Any]) -> None:
    """After each flush: where to read from, up to where all was emitted, and the last record that
    was read. So nothing is stored only where that would be the same.
    """
    one = Partition(None)
    assert one.durability.durable_offset == 0
    if first:
        # The records before are gone.
        one.ledger = Ledger(Checkpoint(first, START + 1_000 * (first - 1)))
    reached, mark = 0, cast("LogMark | None", None)
    for what, count, has_states, waits, unwritten in steps:
        if what == "read":
            one.fetch(count)
            last = mark_of(one.read - 1)
            mark = last if mark is None or last.offset >= mark.offset else mark
        elif what == "lose":
            one.lose(count)
            mark = None
        elif what == "restart":
            one = Partition(one.stored)
            mark = stored_mark(one.stored)
            assert one.durability.durable_offset == one.read
        least = one.durability.durable_offset
        one.waiting = max(least, one.read - waits) if waits else None
        one.unwritten = max(least, one.read - unwritten) if unwritten else None
        if not one.read:
            continue
        found = one.flush({"k": b"state"} if has_states else {})
        reached = one.read if what == "lose" else max(reached, one.read)
        stored = decode_checkpoint(one.stored, one.topology.state_meaning)
        assert stored.next_offset == one.needed == one.durability.durable_offset
        assert decode_emitted(one.stored, stored).next_offset == reached
        assert one.durability.mark == mark
        # One that was read again behind a loss is not stored for itself.
        assert found is None or stored_mark(one.stored) == mark
        assert one.durability.emitted_watermark == START + 1_000 * (reached - 1) - LATENESS


@pytest.mark.parametrize("behind_s", range(10))
def test_added_alerts_judge_all_keys_until_that_is_durable(behind_s: int) -> None:
    """A restart judges them again as long as states of before the tick may be read anew: until the
    watermark of the position from which reading starts has reached it.
    """
    before = Partition(None)
    before.fetch(20)
    before.flush({})
    one = Partition(before.stored, topology(ALERT))
    tick = one.durability.judge_all_at
    assert tick == tick_after(START + 19_000 - LATENESS, EVERY)
    one.fetch(8)
    one.waiting = one.read - behind_s
    one.flush({})
    watermark = START + 1_000 * (one.waiting - 1) - LATENESS
    judged = Partition(one.stored, one.topology).durability.judge_all_at
    assert judged == (tick if watermark < tick else None)


def test_a_topic_s_id_is_stored_at_once() -> None:
    """A checkpoint without one claims that of its source, with nothing read."""
    before = encode_checkpoint(Checkpoint(3, START), topology().state_label)
    one = Partition(before)
    assert one.flush({}) is None
    one = Partition(before, topic_id="id")
    assert one.flush({}) is not None
    assert decode_checkpoint(one.stored, one.topology.state_meaning).topic_id == "id"
    assert one.flush({}) is None


def test_changed_statistics_are_stored_at_once() -> None:
    """And once, with nothing read."""
    before = encode_checkpoint(Checkpoint(3, START), topology().state_label)
    one = Partition(before)
    one.durability.is_changed = True
    assert one.flush({}) is not None
    assert one.flush({}) is None
