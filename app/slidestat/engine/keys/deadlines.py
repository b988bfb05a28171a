"""The next ticks of stored keys, from the times in their states and the watermark alone."""

from typing import NamedTuple

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import tick_after
from slidestat.engine.keys.key_timers import NOT_DUE, AlertTicks, SilentTicks
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Bools, Integers


class Deadlines(NamedTuple):
    """The next ticks of n stored keys, int64[n] each, NOT_DUE where there is none: that of the
    newest event, the first one without an event, and the one at which synopses with that event are
    published. And, bool[n] each, which keys are forgotten, and which were expected and are to end.
    """

    opened: Integers
    closing: Integers
    unpublished: Integers
    are_closed: Bools
    are_left: Bools

    @classmethod
    def of(
        cls,
        topology: Topology,
        clocks: Integers,
        watermark: int,
        is_standing: Bools,
        is_expected: Bools,
        judge_all_at: int | None = None,
    ) -> "Deadlines":
        """Return the deadlines after a watermark, by the `clocks` of states, int64[n, 3]; of those
        that are standing an alert waits or fires, and expected ones are never forgotten. At the
        tick `judge_all_at` alerts are evaluated of all keys.
        """
        watermarks, _, last_times = clocks.T
        passed, every = np.maximum(watermarks, watermark), topology.every_ms
        ticks = tick_after(last_times, every)
        # After so many events, a state has none whose tick has not passed.
        is_open = (ticks > passed) & (topology.every_events is None)
        opened = np.where(is_open, ticks, NOT_DUE)
        unpublished = np.full(len(clocks), NOT_DUE)
        if topology.synopses_ms:
            published = tick_after(last_times, topology.synopses_ms)
            unpublished = np.where(published > passed, published, NOT_DUE)
        closing = SilentTicks.of_emissions(topology).next_after(last_times, passed)
        is_closed = np.full(len(clocks), topology.forget_ms is not None) & (closing == NOT_DUE)
        is_closed &= ~is_expected
        is_left = np.zeros(len(clocks), bool)
        if topology.alerts:
            evaluated = AlertTicks(topology).next_after(last_times, passed, is_standing)
            if judge_all_at is not None:
                is_judged = (last_times != NO_TIME) & (judge_all_at > passed)
                evaluated = np.where(is_judged, np.minimum(evaluated, judge_all_at), evaluated)
            closing = np.where(is_closed, closing, np.minimum(closing, evaluated))
            # If a key is no longer expected, its alerts end at the next tick.
            is_left = is_closed & is_standing
            closing = np.where(is_left, tick_after(passed, every), closing)
            is_closed = is_closed & ~is_left
        return cls(opened, closing, unpublished, is_closed, is_left)

    @property
    def are_any(self) -> Bools:
        """Return bool[n]: of which keys there is anything to remember."""
        is_due = [ticks != NOT_DUE for ticks in (self.opened, self.closing, self.unpublished)]
        any_due: Bools = np.logical_or.reduce([*is_due, self.are_closed])
        return any_due

    @property
    def first(self) -> Integers:
        """Return the earlier tick of each key, int64[n]."""
        first: Integers = np.minimum(self.opened, self.closing)
        return first
