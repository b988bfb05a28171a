"""Where a topology's records lie in a lake, and what their columns are.

LAKE/TOPOLOGY/DATASET/date=YYYY-MM-DD/batch=N/*.parquet, the date being that of the record's Kafka
timestamp in UTC: of a statistic the windows' end, of a letter its event's record. Every row has the
record's place, key, bytes and headers, so that nothing of the topic is lost; beside them the
columns that this version reads. Rows of older versions have null in newer columns.
"""

from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from app.analytics.lake_files import LakeFiles
from app.analytics.wire_columns import struct_type
from app.errors import SlidestatError
from schemas.dead_letter import DeadLetterHeaders
from schemas.emission import Emission

# The folder of the figures that an audit has judged, beside the datasets.
AUDIT = "audit"


class Dataset(StrEnum):
    """What is kept of a topology, each from one topic."""

    STATISTICS = "statistics"
    LATE = "late"
    DEAD_LETTERS = "dead-letters"
    SYNOPSES = "synopses"


@dataclass(frozen=True)
class Lake:
    """The folders of one topology in a lake at `root`, a path or a Hadoop file system's URL."""

    root: str
    topology: str

    @property
    def folder(self) -> str:
        return f"{self.root.rstrip('/')}/{self.topology}"

    def data(self, dataset: str) -> str:
        return f"{self.folder}/{dataset}"

    def checkpoint(self, dataset: str) -> str:
        """Where Spark keeps how far a dataset's topic is read."""
        return f"{self.folder}/_checkpoints/{dataset}"

    def has(self, spark: SparkSession, dataset: str) -> bool:
        """Whether any record of a dataset has come."""
        names = LakeFiles(spark).names(self.data(dataset))
        return any(not name.startswith(("_", ".")) for name in names)

    def read(self, spark: SparkSession, dataset: str) -> DataFrame:
        """All rows of a dataset; raises SlidestatError if there are none."""
        if not self.has(spark, dataset):
            raise SlidestatError(
                f"{self.data(dataset)} has no records.",
                f"Bring them there: slidestat spark ingest {self.topology} --lake {self.root}.",
            )
        return spark.read.option("mergeSchema", True).parquet(self.data(dataset))


def rows_of(dataset: Dataset, records: DataFrame) -> DataFrame:
    """The rows of a dataset from what Spark's Kafka source brings, headers included."""
    return records.select(
        f.col("topic").alias("record_topic"),
        f.col("partition").alias("record_partition"),
        f.col("offset").alias("record_offset"),
        f.col("timestamp").alias("record_time"),
        "key",
        "value",
        "headers",
        *_read_columns(dataset),
    ).withColumn("date", f.to_date("record_time"))


def is_unreadable(dataset: Dataset) -> Column:
    """Whether a row has its bytes alone: it is not what its topic should have."""
    return f.lit(False) if dataset is Dataset.SYNOPSES else f.col("topology").isNull()


def _header(name: str) -> Column:
    """The first header of that name as a text; null without one. A foreign record may have any."""
    named = f.filter("headers", lambda header: header["key"] == name)
    return f.get(named, 0)["value"].cast("string")


def _read_columns(dataset: Dataset) -> list[Column]:
    match dataset:
        case Dataset.STATISTICS:
            emission = f.from_json(f.col("value").cast("string"), struct_type(Emission))
            # The record's key has its column already; the events' key is named after what it is.
            return [
                emission[name].alias("event_key" if name == "key" else name)
                for name in Emission.__struct_fields__
            ]
        case Dataset.LATE | Dataset.DEAD_LETTERS:
            types = struct_type(DeadLetterHeaders)
            return [
                _header(field.name).try_cast(field.dataType).alias(field.name)
                for field in types.fields
            ]
        case Dataset.SYNOPSES:
            return []
