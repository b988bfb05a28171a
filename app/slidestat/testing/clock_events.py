"""Ticks of a driver's own, which only move event time: their records, and how they are read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas

# As in Kafka: a record without one.
NO_TIMESTAMP = -1
# It is recognised by its identity: an event may have any key and any value.
_TICK = b"a tick of the driver's clock"


class SourceRecord(NamedTuple):
    """A record of the source, its timestamp in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int

    @property
    def is_tick(self) -> bool:
        """Return whether it is the driver's own."""
        return self.value is _TICK


def tick_at(time: int) -> SourceRecord:
    """Return a record that moves event time to `time`, and is not counted."""
    return SourceRecord(None, _TICK, time)


class DriverDecoder(EventDecoder):
    """A decoder that reads ticks as records that the topology passes over: no condition, no
    statistic and no output sees them. A fetch has ticks alone, or none.
    """

    def __init__(self, topology: Topology, schemas: SourceSchemas) -> None:
        super().__init__(topology, schemas=schemas)
        self._known = schemas

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: npt.ArrayLike = (),
    ) -> EventColumns:
        if len(records) and records[0] is _TICK:
            times = np.asarray(timestamps, np.int64)
            return replace(
                super().decode([]), passed_over=np.arange(len(times)), passed_over_times=times
            )
        for number in self._known.unknown(records):
            self._known.lack(number, "there is none of this number")
        return super().decode(records, keys, timestamps)

    def of(self, topology: Topology) -> "DriverDecoder":
        return DriverDecoder(topology, self._known)
