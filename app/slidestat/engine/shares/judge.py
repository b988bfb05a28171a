"""Judge the records of a partition once, for all engines that share its keys.

What decides whether a record counts is of the whole partition: the clock, hence lateness and what
lies too far ahead; and a key's quota goes with it. So one reading in order finds the events that
count, the letters of the others, and the records at which the watermark passes ticks. With these,
each key's emissions, synopses and their offsets no longer depend on any other key
(`key_share.py`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.events import Events
from slidestat.engine.intake.intake import Intake
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.engine.quota import needed_quotas
from slidestat.engine.records import RecordBatch
from slidestat.engine.states.key_states import KeyStates
from slidestat.engine.states.no_states import NoStates
from slidestat.engine.waiting.event_store import EventStore

Int64s = npt.NDArray[np.int64]

_LAST_TIME = 2**62
# So many keys' quotas may be kept before those are dropped that nothing can be charged to.
_QUOTAS = 100_000


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of some records: `events` that count, and `clocks` int64[n], the partition's
    clock after each; the letters of the others; and of the records at which the watermark passed a
    tick, `tick_offsets` and `tick_clocks` int64[t].
    """

    events: Events
    clocks: Int64s
    dead_letters: list[Letter]
    late: list[Letter]
    tick_offsets: Int64s
    tick_clocks: Int64s


class Judge:
    """A reader of one partition from its beginning, which decides on each record.

    In addition to a batch it holds the suspects of the clock, and the quotas that keys have used:
    about 200 bytes for each key that is charged.
    """

    def __init__(self, topology: Topology, decoder: EventDecoder | None = None) -> None:
        """Create the judge; raises ValueError for a topology that publishes, as its synopses are of
        whole partitions.
        """
        if topology.publish:
            raise ValueError("what a topology publishes is of its partitions, not of keys alone")
        self._every = topology.every_ms
        self._lateness = topology.lateness_ms
        self._span = topology.span_length.length
        self._waiting = EventStore(topology.columns)
        numbers = KeyNumbers()
        self._keys = HeldKeys(numbers, KeyStates(numbers, NoStates(), synopses=0, limit=0))
        start = Checkpoint(next_offset=0)
        self._intake = Intake(
            topology, decoder or EventDecoder(topology), None, start, self._keys, self._waiting
        )
        self._most_quotas = _QUOTAS
        # The clock after the records that wait to be decided.
        self._clock_at: dict[int, int] = {}

    def take(self, batch: RecordBatch, decoded: EventColumns | None = None) -> Judged:
        """Judge the next records; `decoded` are their columns, where they are known already. An
        event that may yet be refused comes when that is decided. Raises ValueError for records that
        were read before.
        """
        taken = self._intake.take(batch, decoded, 0)
        if taken is None:
            raise ValueError("these records were read before")
        offsets, clocks = taken.offsets, taken.watermarks + self._lateness
        self._intake.ledger.settle(self._intake.next_offset)
        self._intake.clock.settle(self._intake.next_offset)
        self._drop_quotas()

        events = self._waiting.take(_LAST_TIME)
        suspects = np.array(list(self._intake.suspects.offsets), np.int64)
        is_open = np.isin(events.offsets, suspects)
        rows = np.searchsorted(offsets, events.offsets)
        rows[rows == len(offsets)] = 0
        their_clocks = clocks[rows]
        for place in np.flatnonzero(events.offsets < offsets[0]).tolist():
            their_clocks[place] = self._clock_at[int(events.offsets[place])]
        self._clock_at = dict(
            zip(events.offsets[is_open].tolist(), their_clocks[is_open].tolist(), strict=True)
        )
        self._waiting.add(events.take(np.flatnonzero(is_open)))
        passed = np.diff(taken.watermarks // self._every, prepend=taken.before // self._every) > 0
        return Judged(
            events.take(np.flatnonzero(~is_open)),
            their_clocks[~is_open],
            taken.dead_letters,
            taken.late,
            offsets[passed],
            clocks[passed],
        )

    def rest(self) -> Judged:
        """Return what was not decided until the end, which counts; the last record, with the clock
        after it, is taken as one that has passed a tick. At least one record must have been read.
        """
        events = self._waiting.take(_LAST_TIME)
        clocks = [self._clock_at[offset] for offset in events.offsets.tolist()]
        end = np.array([self._intake.next_offset - 1], np.int64)
        clock = np.array([self._intake.clock.time], np.int64)
        return Judged(events, np.array(clocks, np.int64), [], [], end, clock)

    def _drop_quotas(self) -> None:
        if len(self._keys.used) > self._most_quotas:
            oldest = self._intake.watermark // self._span
            self._keys.used = needed_quotas(self._keys.used, oldest)
            self._most_quotas = max(_QUOTAS, 2 * len(self._keys.used))
