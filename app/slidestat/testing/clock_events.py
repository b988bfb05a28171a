"""Events of a driver's own, which only move event time: how they are made, and read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy.typing as npt

from slidestat.declare.columns import Column
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder, as_made_up
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas

# Nobody's own begins so, and none is shown.
CLOCK_KEY = "\0clock"
# As in Kafka: a record without one.
NO_TIMESTAMP = -1

_encode = msgspec.json.Encoder().encode


class SourceRecord(NamedTuple):
    """A record of the source, its timestamp in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int


def clock_record(topology: Topology, time: int) -> SourceRecord:
    """Return an event at `time` that every statistic of the topology can read."""
    event: dict[str, Any] = {}
    for column in topology.columns.items:
        _plant(event, column.path, "")
    for column in topology.columns.numbers:
        _plant(event, column.path, _number(column))
    if topology.time_path is not None:
        _plant(event, topology.time_path, topology.times.written(time))
    if topology.key_path is not None:
        _plant(event, topology.key_path, CLOCK_KEY)
    timestamp = time if topology.time_path is None else NO_TIMESTAMP
    return SourceRecord(CLOCK_KEY.encode(), _encode(event), timestamp)


class DriverDecoder(EventDecoder):
    """Reads the driver's own events as if computed fields were in them; a fetch has such alone, or
    none.
    """

    def __init__(self, topology: Topology, schemas: SourceSchemas) -> None:
        super().__init__(topology, schemas=schemas)
        self._known = schemas
        self._of_clock = EventDecoder(as_made_up(topology))

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: npt.ArrayLike = (),
    ) -> EventColumns:
        if keys and keys[0] == CLOCK_KEY.encode():
            return self._of_clock.decode(records, keys, timestamps)
        for number in self._known.unknown(records):
            self._known.lack(number, "there is none of this number")
        return super().decode(records, keys, timestamps)

    def of(self, topology: Topology) -> "DriverDecoder":
        return DriverDecoder(topology, self._known)


def _plant(event: dict[str, Any], path: FieldPath, value: object) -> None:
    for name in path[:-1]:
        event = event.setdefault(name, {})
    event[path[-1]] = value


def _number(column: Column) -> float:
    """The number nearest to 0 that the column can take."""
    limits = column.limits
    return 0.0 if limits is None else min(max(0.0, limits.least), limits.most)
