"""Some keys of a partition, through the engine that a worker runs for all of them.

The records were judged (`judge.py`): what comes here is the events of these keys, and the records
of others at which the watermark passed a tick, each with the partition's clock after it. So ticks
pass at the same records as where all keys are together, and a key's emissions, synopses and their
offsets are the same bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.clock.given_clock import GivenClock
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import TickPublisher
from slidestat.engine.records import RecordBatch
from slidestat.engine.states.stored_keys import PartitionStore

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """Records by offset, an event before any other record of its offset: `offsets` and `clocks`
    int64[n]; those at `rows` int64[m] are events, with their `keys` m texts, `times` int64[m] and
    columns as the topology has them.
    """

    offsets: Int64s
    clocks: Int64s
    rows: Int64s
    keys: pa.Array
    times: Int64s
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
        publisher: TickPublisher | None = None,
        codec: JsonCodec | None = None,
    ) -> None:
        """Create the share; `publisher` decides what is published tick by tick."""
        self._place = topic, partition
        self._clock = GivenClock(topology.lateness_ms)
        self.processor = PartitionProcessor(
            topology,
            topic,
            partition,
            store,
            decoder,
            codec,
            publisher=publisher,
            clock=self._clock,
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
