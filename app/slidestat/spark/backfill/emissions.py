"""Emissions as the rows that a lake has of them, without a detour through their JSON.

A lake's rows have an emission's fields as columns in addition to its bytes (`lake.rows_of`). Spark
would parse the text that the engine has just written, 12 figures of 17 fields each. But where all
emissions have the same figures, their numbers are a table already, and all else is the same in
every row: so it is here, in the columns' own bytes.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.output_records import EmittedNumbers, OutputRecords
from slidestat.produce.ordered_pieces import equal_runs
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA
from slidestat.spark.executors import runs_each_task_once
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import EVENT_KEY, Dataset, rows_of
from slidestat.spark.lake.wire_columns import arrow_schema

_NUMBERS = ("estimate", "lower", "upper")
# Rows for which the shared fields are made at once.
_SHARED_ROWS = 4_096


class EmissionColumns:
    """A maker of the rows of one partition's emissions."""

    def __init__(self, schema: pa.Schema, topic: str, partition: int, declaration: str) -> None:
        """Create the columns; `schema` is that of a lake's rows of statistics; emissions are on
        `topic`, with the header of the `declaration` that computed them.
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
            # Keeps the model, so that no other one gets its id.
            self._models[id(said.model)] = model
        for start in range(0, len(records), _SHARED_ROWS):
            rows = slice(start, start + _SHARED_ROWS)
            yield model.rows(records[rows], said, rows)


class _Model:
    """A model of the rows of one sort of emissions, with all that they share."""

    def __init__(self, said: EmittedNumbers, schema: pa.Schema, own: Mapping[str, Any]) -> None:
        self._schema, self._model = schema, said.model
        # The form on the wire: a field that is left out there is null to its reader.
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


# Emissions of a backfill as a lake's Parquet files, written where they are computed.
#
# Spark's workers hand a row to the JVM, which takes each of its cells in hand to write it: with an
# emission's figures as columns, more than two hundred. On this machine's own disk the task that has
# the columns writes the files itself. No task is tried twice there, and all files lie in a folder
# that is given its name once every task has ended. Elsewhere, where a task may be tried again on
# another machine and a file system may be any, Spark writes them.

_DAY_MS = 86_400_000
# A group of rows is held in memory until it is written; a reader takes one in at once.
_GROUP_BYTES = 32 * 2**20


@dataclass(frozen=True)
class EmissionFolder:
    """The folder to which the tasks of a backfill write its emissions, with their columns."""

    path: str
    schema: pa.Schema

    def files(self, topology: Topology, partition: int) -> "EmissionFiles":
        """Return the files of a task."""
        mark = fingerprint_of(topology)
        columns = EmissionColumns(self.schema, topology.output_topic, partition, mark)
        return EmissionFiles(Path(self.path), columns)


def emission_folder(
    spark: SparkSession, files: LakeFiles, topology: Topology, path: str
) -> EmissionFolder | None:
    """Return the folder at `path` for tasks to write to; None where Spark is to write: anywhere but
    on this machine, and of a topology whose emissions list items, which differ in their figures.
    """
    here = files.path_here(path)
    lists = any(isinstance(statistic, ListStatistic) for statistic in topology.statistics)
    if lists or not here or not runs_each_task_once(str(spark.sparkContext.master)):
        return None
    rows = rows_of(Dataset.STATISTICS, spark.createDataFrame([], RECORD_SCHEMA)).drop("date")
    return EmissionFolder(here, arrow_schema(rows.schema))


class EmissionFiles:
    """A writer of emissions, a file for each run of one date, into date=.../batch=0."""

    def __init__(self, folder: Path, columns: EmissionColumns) -> None:
        self._folder = folder
        self._columns = columns
        self._day: int | None = None
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def write(self, records: OutputRecords) -> None:
        """Write emissions, or hold them until there are enough."""
        for rows in self._columns.rows(records):
            for day, part in _by_day(rows):
                if day != self._day:
                    self.close()
                    self._day = day
                self._held.append(part)
                self._bytes += _bytes_of(part)
                if self._bytes >= _GROUP_BYTES:
                    self._put()

    def close(self) -> None:
        """Write what is held, and end the file."""
        self._put()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _put(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self._bytes = [], 0
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        assert self._day is not None  # noqa: S101 - there are rows
        date = datetime.fromtimestamp(self._day * _DAY_MS / 1_000, UTC).date()
        folder = self._folder / f"date={date}" / "batch=0"
        folder.mkdir(parents=True, exist_ok=True)
        # Spark's own form and names, so that a lake has one sort of files.
        return pq.ParquetWriter(
            folder / f"part-{uuid.uuid4()}.zstd.parquet",
            schema,
            compression="zstd",
            use_dictionary=_of_few_values(schema),
            use_deprecated_int96_timestamps=True,
            store_schema=False,
        )


def _by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    days = rows["window_end_ms"].to_numpy() // _DAY_MS
    for start, end in equal_runs(days):
        yield int(days[start]), rows.slice(start, end - start)


def _bytes_of(rows: pa.RecordBatch) -> int:
    """Return roughly the bytes that are held: the text of emissions is most of them."""
    return 2 * int(rows["value"].nbytes)


def _of_few_values(schema: pa.Schema) -> list[str]:
    """Return the columns in which the same values come again, as Parquet names them."""
    figure = schema.field("figures").type.value_type
    own = [field.name for field in schema if not pa.types.is_nested(field.type)]
    once = {"key", "value", "estimate", "lower", "upper", "source_offset"}
    names = [name for name in own if name not in once]
    names += [f"figures.list.element.{it.name}" for it in figure if it.name not in once]
    return names
