"""How far moving records is behind, in records and by the clock."""

import numpy as np
import pytest

from slidestat.repartition import mover
from slidestat.repartition.merge_order import MergeOrder
from slidestat.repartition.moved_from import Behind, in_all
from slidestat.repartition.mover import Mover


def test_seconds_are_since_the_oldest_record_that_waits() -> None:
    """None where the rest is not known yet, and never less than none: clocks differ."""
    assert Behind(0, None).seconds(1_000.0) == Behind(0, 5).seconds(1_000.0) == 0
    assert Behind(7, None).seconds(1_000.0) is None
    assert Behind(7, 990_500).seconds(1_000.0) == 9.5
    assert Behind(7, 1_000_500).seconds(1_000.0) == 0


def test_all_sources_together() -> None:
    """Their records are added, and the oldest counts; none are none."""
    assert in_all([Behind(3, 70), Behind(4, 50), Behind(0, None)]) == Behind(7, 50)
    assert in_all([]) == Behind(0, None)


def test_the_oldest_record_is_the_first_of_those_that_were_not_taken() -> None:
    """Of two partitions; nothing waits once both are at their ends and all was taken."""
    order = MergeOrder[str]({0: 0, 1: 0}, 0)
    times = np.array([10, 20])
    sizes = np.ones(2, np.int64)
    assert order.first(0) is None
    order.add(0, np.arange(2), times, sizes, ["a", "b"])
    assert order.take() == []
    assert order.first(0) == "a"
    order.add(1, np.arange(2), times, sizes, ["c", "d"])
    order.reach_end(0, 2)
    order.reach_end(1, 2)
    assert len(order.take()) == 4
    assert (order.first(0), order.first(1)) == (None, None)
    assert (order.position(0), order.position(1)) == (2, 2)


def test_a_lag_that_is_not_measured_any_more_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one would say for ever that nothing waits, while brokers hold up the mover."""
    now = 100.0
    monkeypatch.setattr(mover.time, "monotonic", lambda: now)
    standing = Mover.__new__(Mover)
    standing._behind = None
    assert standing.behind is None
    standing._behind = (now, {"s": Behind(0, None)})
    now += 29
    assert standing.behind == {"s": Behind(0, None)}
    now += 1
    assert standing.behind is None
