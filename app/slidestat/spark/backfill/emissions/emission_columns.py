"""Emissions as the rows that a lake has of them, without a detour through their JSON.

A lake's rows have an emission's fields as columns in addition to its bytes (`lake.rows_of`). Spark
would parse the text that the engine has just written, 12 figures of 17 fields each. But where all
emissions have the same figures, their numbers are a table already, and all else is the same in
every row: so it is here, in the columns' own bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.engine.emissions.output_records import EmittedNumbers, OutputRecords
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.spark.lake.lake import EVENT_KEY

_NUMBERS = ("estimate", "lower", "upper")
# So many of what all rows share are made at once.
_SHARED_ROWS = 4_096


class EmissionColumns:
    """A maker of the rows of one partition's emissions."""

    def __init__(self, schema: pa.Schema, topic: str, partition: int, declaration: str) -> None:
        """Create the columns; `schema` is that of a lake's rows of statistics; emissions are on
        `topic`, with the header of the `declaration` by which they were computed.
        """
        self._schema = schema
        self._own = {
            "record_topic": topic,
            "record_partition": partition,
            "headers": [{"key": DECLARATION_HEADER, "value": declaration.encode()}],
            DECLARATION_HEADER: declaration,
        }
        self._models: dict[int, _Model] = {}

    def rows(self, records: OutputRecords) -> Iterator[pa.RecordBatch]:
        """Yield the rows of emissions that were written by a `JsonWithNumbers`."""
        start = 0
        for said in records.said:
            end = start + len(said.ends)
            yield from self._rows(records[start:end], said)
            start = end
        if start != len(records):
            raise RuntimeError("there are emissions whose numbers are not known")

    def _rows(self, records: OutputRecords, said: EmittedNumbers) -> Iterator[pa.RecordBatch]:
        model = self._models.get(id(said.model))
        if model is None:
            model = _Model(said, self._schema, self._own)
            # It keeps the model, so no other one gets its id.
            self._models[id(said.model)] = model
        for start in range(0, len(records), _SHARED_ROWS):
            rows = slice(start, start + _SHARED_ROWS)
            yield model.rows(records[rows], said, rows)


class _Model:
    """A model of the rows of one sort of emissions, with all that they share."""

    def __init__(self, said: EmittedNumbers, schema: pa.Schema, own: Mapping[str, Any]) -> None:
        self._schema, self._model = schema, said.model
        # As it is on the wire: what is left out there is null to who reads it.
        wire = msgspec.json.decode(msgspec.json.encode(said.model))
        figures = wire.pop("figures")
        self._count = len(figures)
        kind = schema.field("figures").type
        self._figure_fields = list(kind.value_type)
        self._figures = {
            field.name: _repeated([figure.get(field.name) for figure in figures], field.type)
            for field in self._figure_fields
            if field.name not in _NUMBERS
        }
        self._shared = {
            field.name: _repeated([{**wire, **own}.get(field.name)], field.type)
            for field in schema
            if field.name != "figures"
        }

    def rows(self, records: OutputRecords, said: EmittedNumbers, rows: slice) -> pa.RecordBatch:
        count = len(records)
        keys = pa.array(said.names, pa.string()).take(pa.array(said.groups[rows]))
        stamps = self._schema.field("record_time").type
        columns = {
            "record_time": pa.array(records.ends * 1_000).cast(stamps),
            "key": records.keys.as_arrow_view().cast(pa.binary()),
            "value": records.values.as_arrow_view().cast(pa.binary()),
            EVENT_KEY: keys,
            "window_end_ms": pa.array(records.ends),
            "figures": self._listed(said.numbers[rows]),
            "source_offset": pa.array(said.source_offsets[rows]),
        }
        return pa.record_batch(
            _in_order(self._schema, columns, self._shared, count), schema=self._schema
        )

    def _listed(self, numbers: npt.NDArray[np.float64]) -> pa.Array:
        count = len(numbers)
        table = numbers.reshape(count * self._count, len(_NUMBERS))
        columns = {
            name: pa.array(np.ascontiguousarray(table[:, i]), mask=~np.isfinite(table[:, i]))
            for i, name in enumerate(_NUMBERS)
        }
        fields = self._figure_fields
        figures = pa.StructArray.from_arrays(
            _in_order(fields, columns, self._figures, len(table)), fields=fields
        )
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(self._count)
        return pa.ListArray.from_arrays(
            pa.array(ends), figures, type=self._schema.field("figures").type
        )


def _in_order(
    fields: Iterable[pa.Field],
    own: Mapping[str, pa.Array],
    shared: Mapping[str, pa.Array],
    count: int,
) -> list[pa.Array]:
    """Return the columns of `count` rows: a row's own, and for other fields what all rows share."""
    names = [field.name for field in fields]
    return [own[name] if name in own else shared[name].slice(0, count) for name in names]


def _repeated(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return the values again and again, as often as there are rows."""
    if all(value is None for value in values):
        return pa.nulls(len(values) * _SHARED_ROWS, kind)
    places = np.tile(np.arange(len(values)), _SHARED_ROWS)
    return pa.array(values, kind).take(pa.array(places))
