"""Emissions of a backfill as a lake's Parquet files, written where they are computed.

Spark's workers hand a row to the JVM, which takes each of its cells in hand to write it: with an
emission's figures as columns, more than two hundred. On this machine's own disk the task that has
the columns writes the files itself. No task is tried twice there, and all files lie in a folder
that is given its name once every task has ended. Elsewhere, where a task may be tried again on
another machine and a file system may be any, Spark writes them.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from slidestat.declare.forms.fingerprint import fingerprint_of
from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.spark.backfill.emissions.emission_columns import EmissionColumns
from slidestat.spark.backfill.reading.equal_runs import equal_runs
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA
from slidestat.spark.executors import runs_each_task_once
from slidestat.spark.lake.lake import Dataset, rows_of
from slidestat.spark.lake.lake_files import LakeFiles

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
    return EmissionFolder(here, to_arrow_schema(rows.schema))


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
        # As Spark writes them: so a lake has one sort of files.
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
