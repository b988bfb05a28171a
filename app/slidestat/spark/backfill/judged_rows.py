"""Judged records as rows that Spark can hand out by key: events that count, ticks, letters."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.shares import Judged, SharedRecords
from slidestat.spark.backfill.record_rows import RECORD_ARROW, Out, arrow_rows

# A letter as its record; its partition is in the row already.
_LETTER = pa.struct(
    [RECORD_ARROW.field(name) for name in ("topic", "timestamp", "key", "value", "headers")]
)


class JudgedRows:
    """A format of a topology's judged rows, which it writes and reads.

    Each has its `partition`. An event has `offset`, `clock` (the partition's after it), `key`,
    `time` and a column for each number, item and condition; the record at which a tick passed has
    only `offset` and `clock`; a letter has only `letter`.
    """

    def __init__(self, topology: Topology) -> None:
        columns = topology.columns
        self._numbers = [f"number_{i}" for i in range(len(columns.numbers))]
        self._items = [f"item_{i}" for i in range(len(columns.items))]
        self._conditions = [f"condition_{i}" for i in range(len(columns.conditions))]
        self._schema = pa.schema(
            [
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("clock", pa.int64()),
                ("key", pa.string()),
                ("time", pa.int64()),
                *((name, pa.float64()) for name in self._numbers),
                *((name, pa.string()) for name in self._items),
                *((name, pa.bool_()) for name in self._conditions),
                ("letter", _LETTER),
            ]
        )

    @property
    def ddl(self) -> str:
        """Return the columns for Spark."""
        kinds = ["partition int", "offset bigint", "clock bigint", "key string", "time bigint"]
        kinds += [f"{name} double" for name in self._numbers]
        kinds += [f"{name} string" for name in self._items]
        kinds += [f"{name} boolean" for name in self._conditions]
        headers = "array<struct<key: string, value: binary>>"
        letter = (
            f"topic: string, timestamp: timestamp, key: binary, value: binary, headers: {headers}"
        )
        return ", ".join([*kinds, f"letter struct<{letter}>"])

    def of(self, judged: Judged, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of events and ticks."""
        events = judged.events
        if len(events):
            columns = [events.offsets, judged.clocks, _text(events.keys), events.times]
            items = map(_text, events.items)
            columns += [*events.numbers, *items, *events.conditions]
            names = ["offset", "clock", "key", "time"]
            names += [*self._numbers, *self._items, *self._conditions]
            yield self._batch(partition, dict(zip(names, columns, strict=True)))
        if len(judged.tick_offsets):
            ticks = {"offset": judged.tick_offsets, "clock": judged.tick_clocks}
            yield self._batch(partition, ticks)

    def letters(self, rows: Iterable[Out], partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of letters."""
        for batch in arrow_rows(rows):
            fields = [batch[field.name] for field in _LETTER]
            letters = pa.StructArray.from_arrays(fields, fields=list(_LETTER))
            yield self._batch(partition, {"letter": letters})

    def shared(self, part: pa.RecordBatch) -> SharedRecords:
        """Read rows of events and ticks, by offset."""
        is_event = part["key"].is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_event)
        events = part if len(rows) == len(part) else part.take(pa.array(rows))
        return SharedRecords(
            part["offset"].to_numpy(),
            part["clock"].to_numpy(),
            rows,
            events["key"].cast(pa.large_string()),
            events["time"].to_numpy(),
            tuple(events[name].to_numpy() for name in self._numbers),
            tuple(events[name].cast(pa.large_string()) for name in self._items),
            tuple(events[name].to_numpy(zero_copy_only=False) for name in self._conditions),
        )

    def _batch(self, partition: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
        count = len(next(iter(columns.values())))
        columns = {"partition": pa.repeat(pa.scalar(partition, pa.int32()), count), **columns}
        return pa.record_batch(
            [
                pa.array(columns[field.name], field.type)
                if field.name in columns
                else pa.nulls(count, field.type)
                for field in self._schema
            ],
            schema=self._schema,
        )


def _text(column: pa.Array) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.string())
