"""Judge the records of a partition once, for all engines that share its keys.

A whole partition decides whether a record counts: by its clock, hence by lateness and by how far it
lies ahead; and a key's quota goes with it. So one reading in order finds the events that count, the
letters of the others, and the records at which the watermark passes ticks. With these, each key's
emissions, synopses and their offsets no longer depend on any other key (`KeyShare`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.clock import GivenClock
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.events import Events
from slidestat.engine.intake.intake import Intake
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.engine.keys.key_states import KeyStates
from slidestat.engine.keys.stored_keys import NoStates, PartitionStore
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.quota import needed_quotas
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.engine.waiting import EventStore
from slidestat.synopses.core.arrays import Integers

_LAST_TIME = 2**62
# The most quotas that are kept before those are dropped that nothing can be charged to.
_QUOTAS = 100_000


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of some records: `events` that count, and `clocks` int64[n], the partition's
    clock after each; the letters of the others; and of the records at which the watermark passed a
    tick, `tick_offsets` and `tick_clocks` int64[t].
    """

    events: Events
    clocks: Integers
    dead_letters: list[Letter]
    late: list[Letter]
    tick_offsets: Integers
    tick_clocks: Integers


class Judge:
    """A reader of one partition from its beginning, which decides on each record.

    In addition to a batch it holds the suspects of the clock, and the quotas that keys have used:
    about 200 bytes for each key that is charged.
    """

    def __init__(self, topology: Topology, decoder: EventDecoder | None = None) -> None:
        """Create the judge; raises ValueError for a topology that publishes whole partitions."""
        if topology.has_referee:
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

    def take(self, batch: RecordBatch) -> Judged:
        """Judge the next records. An event that may yet be refused comes when that is decided.
        Raises ValueError for records that were read before.
        """
        taken = self._intake.take(batch, None, 0)
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


# An engine for some keys of a partition, with the code that a worker runs for all of them.
#
# The records were judged (`Judge`): this engine gets the events of these keys, and the records of
# others at which the watermark passed a tick, each with the partition's clock after it. So ticks
# pass at the same records as where all keys are together, and a key's emissions, synopses and their
# offsets are the same bytes.


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """Records by offset, an event before any other record of its offset: `offsets` and `clocks`
    int64[n]; those at `rows` int64[m] are events, with their `keys` m texts, `times` int64[m] and
    columns as the topology has them.
    """

    offsets: Integers
    clocks: Integers
    rows: Integers
    keys: pa.Array
    times: Integers
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[pa.Array, ...]
    conditions: tuple[npt.NDArray[np.bool_], ...] = ()


class KeyShare:
    """An engine for a share of a partition's keys; `processor` has all else."""

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        store: PartitionStore,
        decoder: EventDecoder | None = None,
        codec: JsonCodec | None = None,
    ) -> None:
        self._place = topic, partition
        self._clock = GivenClock(topology.lateness_ms)
        self.processor = PartitionProcessor(
            topology, topic, partition, store, decoder, codec, clock=self._clock
        )

    def steps(self, records: SharedRecords) -> Iterator[Effects]:
        """Take records in step by step, to the last one, as a processor does."""
        offsets = records.offsets
        # An event's own record may come once more, as one at which a tick passed.
        is_new = np.diff(offsets, prepend=self.processor.next_offset - 1) > 0
        count = int(is_new.sum())
        if not count:
            return
        offsets = offsets[is_new]
        batch = RecordBatch(
            *self._place,
            offsets,
            keys=[None] * count,
            values=[None] * count,
            timestamps=[0] * count,  # Judged already: they lead to no letters.
            start_offset=int(offsets[0]),
        )
        rows = (np.cumsum(is_new) - 1)[records.rows]
        others = np.delete(np.arange(count), rows)
        columns = EventColumns(
            rows=rows,
            keys=records.keys,
            times=records.times,
            numbers=records.numbers,
            items=records.items,
            refusals=[],
            conditions=records.conditions,
            passed_over=others,
            passed_over_times=np.full(len(others), NO_TIME, np.int64),
        )
        self._clock.give(records.clocks[is_new])
        yield from self.processor.steps(batch, columns)
