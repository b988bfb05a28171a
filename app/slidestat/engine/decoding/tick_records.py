"""Records that only move event time, where no source's records do: in drivers, frames and seeds.

They pass through the engine as records that the topology passes over: no condition, no statistic
and no output sees them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.clock import RECORDS
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas, framed_by_headers
from slidestat.engine.records import Headers, RecordBatch

TICK = b"a tick of the driver's clock"
"""The value of such a record. It is recognised by its identity: an event may have any value."""


def ticks_at(time: int, topic: str, partition: int, offset: int) -> RecordBatch:
    """Return as many of these records as always move a partition's event time to `time`."""
    return RecordBatch(
        topic,
        partition,
        np.arange(offset, offset + RECORDS, dtype=np.int64),
        [None] * RECORDS,
        [TICK] * RECORDS,
        [time] * RECORDS,
        offset,
    )


class TickDecoder(EventDecoder):
    """A decoder of events and ticks. A fetch has ticks alone, or none."""

    def __init__(self, topology: Topology, schemas: SourceSchemas | None = None) -> None:
        self._known = SourceSchemas() if schemas is None else schemas
        super().__init__(topology, schemas=self._known)

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: npt.ArrayLike = (),
        headers: Sequence[Headers] | None = None,
    ) -> EventColumns:
        if len(records) and records[0] is TICK:
            times = np.asarray(timestamps, np.int64)
            return replace(
                super().decode([]), passed_over=np.arange(len(times)), passed_over_times=times
            )
        for schema_id in self._known.unknown(framed_by_headers(records, headers)):
            self._known.lack(schema_id, "the driver has none of this id")
        return super().decode(records, keys, timestamps, headers)

    def of(self, topology: Topology) -> "TickDecoder":
        return TickDecoder(topology, self._known)
