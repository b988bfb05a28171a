"""Where a topology's records lie in a lake, and what their columns are.

LAKE/TOPOLOGY/DATASET/date=YYYY-MM-DD/batch=N/*.parquet, the date being that of the record's Kafka
timestamp in UTC: of a statistic and an alert the windows' end, of a letter its event's record.
Every row has the record's place, key, bytes and headers, so that nothing of the topic is lost; in
addition the columns that this version reads. Rows of older versions have null in newer columns. In
a lake of Delta tables LAKE/TOPOLOGY/DATASET is such a table, by date, without batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import or_

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from slidestat.errors import SlidestatError
from slidestat.options import Tables
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.schemas.emission import DECLARATION_HEADER, Emission
from slidestat.schemas.ranking import Ranking
from slidestat.schemas.sequence import SequenceAlertChange, SequenceEmission
from slidestat.spark.lake.delta_table import DeltaTable
from slidestat.spark.lake.files import PATTERN_SIGN, LakeFiles
from slidestat.spark.lake.wire_columns import struct_type

# The folder of the figures that an audit has judged, next to the datasets.
AUDIT = "audit"

STREAM = "stream"
"""The checkpoint of a stream, whose batches have records of all datasets."""


class Dataset(StrEnum):
    """A kind of records that a lake keeps of a topology, each from one topic."""

    STATISTICS = "statistics"
    LATE = "late"
    DEAD_LETTERS = "dead-letters"
    SYNOPSES = "synopses"
    ALERTS = "alerts"
    RANKINGS = "rankings"


# The type of a dataset's records; a synopsis is bytes.
_STRUCTS: dict[Dataset, type[msgspec.Struct]] = {
    Dataset.STATISTICS: Emission,
    Dataset.LATE: DeadLetterHeaders,
    Dataset.DEAD_LETTERS: DeadLetterHeaders,
    Dataset.ALERTS: AlertChange,
    Dataset.RANKINGS: Ranking,
}
# The same of a topology whose times are numbers of a sequence.
_NUMBERED: dict[Dataset, type[msgspec.Struct]] = {
    Dataset.STATISTICS: SequenceEmission,
    Dataset.ALERTS: SequenceAlertChange,
}
# The columns of Spark's Kafka source, as what they are kept.
_RECORD = {
    "topic": "record_topic",
    "partition": "record_partition",
    "offset": "record_offset",
    "timestamp": "record_time",
    "key": "key",
    "value": "value",
    "headers": "headers",
}
_OF_SEQUENCE = '"window_end_seq":'
# A column that the record's own key has taken the name of.
EVENT_KEY = "event_key"
_COLUMNS = {(Dataset.STATISTICS, "key"): EVENT_KEY, (Dataset.ALERTS, "key"): EVENT_KEY}


@dataclass(frozen=True)
class Lake:
    """The folders of one topology in a lake at `root`, a path or a Hadoop file system's URL. Raises
    SlidestatError for one that is a pattern to Spark, which would read other folders than it wrote.
    """

    root: str
    topology: str

    def __post_init__(self) -> None:
        if PATTERN_SIGN.search(self.root):
            raise SlidestatError(
                f"The lake's path {self.root!r} is a pattern to Spark.",
                r"Give a path without * ? [ ] { } and \.",
            )

    @property
    def folder(self) -> str:
        return f"{self.root.rstrip('/')}/{self.topology}"

    def data(self, dataset: str) -> str:
        return f"{self.folder}/{dataset}"

    def checkpoint(self, dataset: str) -> str:
        """Return the folder of Spark's progress in a dataset's topic, or in a `STREAM`."""
        return f"{self.folder}/_checkpoints/{dataset}"

    @property
    def declarations(self) -> str:
        """The folder of the declarations by which emissions were computed."""
        return f"{self.folder}/declarations"

    @property
    def lock(self) -> str:
        """The file with the job that is writing to it."""
        return f"{self.folder}/_lock.json"

    @property
    def audit_lock(self) -> str:
        """Return the path of the file that names the auditing job; an audit needs no other lock."""
        return f"{self.folder}/_audit_lock.json"

    @property
    def audit_staging(self) -> str:
        """Return the folder of the figures of an audit that is under way."""
        return f"{self.folder}/_audit_figures"

    @property
    def compaction(self) -> str:
        """Return the folder of dates whose files are being merged."""
        return f"{self.folder}/_compaction"

    @property
    def backfilled(self) -> str:
        """Return the path of a backfill's result, as JSON."""
        return f"{self.folder}/_backfill.json"

    @property
    def summary(self) -> str:
        """Return the path of the last audit's summary, as JSON."""
        return f"{self.folder}/_audit.json"

    def tables(self, spark: SparkSession) -> Tables | None:
        """Return what its records are kept in; None before any, unless Delta tables are made."""
        if any(DeltaTable(spark, self.data(dataset)).exists() for dataset in Dataset):
            return Tables.DELTA
        return Tables.PARQUET if any(self.has(spark, dataset) for dataset in Dataset) else None

    def has(self, spark: SparkSession, dataset: str) -> bool:
        """Return whether a dataset has any record."""
        table = DeltaTable(spark, self.data(dataset))
        if table.exists():
            return table.has_rows()
        names = LakeFiles(spark).names(self.data(dataset))
        return any(not name.startswith(("_", ".")) for name in names)

    def read(self, spark: SparkSession, dataset: str) -> DataFrame:
        """Return all rows of a dataset; raises SlidestatError if there are none."""
        if not self.has(spark, dataset):
            raise no_records(self, dataset)
        table = DeltaTable(spark, self.data(dataset))
        if table.exists():
            return table.read()
        self._require_whole(LakeFiles(spark), dataset)
        return spark.read.option("mergeSchema", True).parquet(self.data(dataset))

    def _require_whole(self, files: LakeFiles, dataset: str) -> None:
        """Raise SlidestatError if a compaction was killed after it had set a date aside."""
        there = files.names(self.data(dataset))
        for date in files.names(f"{self.compaction}/old/{dataset}"):
            if date not in there:
                raise set_aside(f"{self.data(dataset)}/{date}")


def no_records(lake: Lake, dataset: str) -> SlidestatError:
    """Return the error of a dataset that has none."""
    advice = f"Bring them there: `slidestat spark ingest TOPOLOGY --lake {lake.root}`."
    if dataset == Dataset.SYNOPSES:
        advice = (
            'Workers write them if the topology has `synopses`, such as synopses = "1h", or'
            " `publish`; `slidestat spark backfill` writes those of history, into a lake of its"
            " own."
        )
    return SlidestatError(f"{lake.data(dataset)} has no records.", advice)


def set_aside(date: str) -> SlidestatError:
    """Return the error of a date that a compaction has taken away for a moment."""
    return SlidestatError(
        f"{date} is set aside by a compaction.",
        "Read again when that has ended; if it was killed, an ingest or a compaction"
        " brings the date back.",
    )


def rows_of(dataset: Dataset, records: DataFrame) -> DataFrame:
    """Return the rows of a dataset from what Spark's Kafka source brings, headers included."""
    return _dated(records, _read_columns(dataset))


def unread_rows(records: DataFrame) -> DataFrame:
    """Return records with the first columns of any dataset, without reading their values."""
    return _dated(records, [])


def _dated(records: DataFrame, read: Sequence[Column]) -> DataFrame:
    columns = [f.col(name).alias(kept_as) for name, kept_as in _RECORD.items()]
    return records.select(*columns, *read).withColumn("date", f.to_date("record_time"))


def records_of(rows: DataFrame) -> DataFrame:
    """Return the records as Spark's Kafka source has them, from the rows of a dataset."""
    return rows.select(*[f.col(kept).alias(name) for name, kept in _RECORD.items()])


def is_unreadable(dataset: Dataset) -> Column:
    """Return whether a row has only its bytes, as it is not what its topic should have."""
    struct = _STRUCTS.get(dataset)
    if struct is None:
        return f.lit(False)
    required = (field.name for field in msgspec.structs.fields(struct) if field.required)
    missing = [f.col(_COLUMNS.get((dataset, name), name)).isNull() for name in required]
    return reduce(or_, missing)


def declaration_mark() -> Column:
    """Return the fingerprint of the declaration that computed an emission; "" without one."""
    return f.coalesce(header(DECLARATION_HEADER), f.lit(""))


def header(name: str) -> Column:
    """Return the first header of that name as text; null without one. Foreign ones may be any."""
    named = f.filter("headers", lambda header: header["key"] == name)
    return f.get(named, 0)["value"].cast("string")


def _read_columns(dataset: Dataset) -> list[Column]:
    struct = _STRUCTS.get(dataset)
    if struct is None:
        return []
    types = struct_type(struct)
    if struct is not DeadLetterHeaders:
        text = f.col("value").cast("string")
        record = f.from_json(text, types)
        if (numbered_struct := _NUMBERED.get(dataset)) is not None:
            # For a sequence the names are others and the places the same. Each record is parsed
            # once: it is recognised by a name that no text inside of it can have, as its quotation
            # marks would be escaped.
            numbered = f.from_json(text, struct_type(numbered_struct, on_the_wire=True)).cast(types)
            record = f.when(f.contains(text, f.lit(_OF_SEQUENCE)), numbered).otherwise(record)
        columns = {name: record[name] for name in types.names}
        if dataset in (Dataset.STATISTICS, Dataset.RANKINGS):
            columns[DECLARATION_HEADER] = header(DECLARATION_HEADER)
    else:
        columns = {field.name: header(field.name).try_cast(field.dataType) for field in types}
    return [column.alias(_COLUMNS.get((dataset, name), name)) for name, column in columns.items()]
