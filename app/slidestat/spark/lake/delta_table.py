"""A dataset as a Delta table: Parquet files by date, and a log of the files that count.

Each batch of an ingest is one commit of the log, with the batch's number in it: what a killed try
has left is in no commit, and a batch that is written again is found.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slidestat.spark.delta import require_delta
from slidestat.spark.lake.files import LakeFiles

_LOG = "_delta_log"
# A commit, or a checkpoint of all commits up to it, which stays when commits are cleared away.
_COMMIT = re.compile(r"(\d{20})\.(?:json|checkpoint\..*)")
_COMPRESSION = "zstd"


@dataclass(frozen=True)
class DeltaTable:
    """The Delta table of a folder, which may not be there yet; batches are those of an
    `application`. Reading or writing it raises SlidestatError in a session without Delta Lake;
    looking whether it exists does not.
    """

    spark: SparkSession
    path: str
    application: str = ""

    def exists(self) -> bool:
        """Return whether the table has been made."""
        return self._version() >= 0

    def has_rows(self) -> bool:
        """Return whether any rows have come: the table is made by a commit without any."""
        return self._version() > 0

    def _version(self) -> int:
        names = LakeFiles(self.spark).names(f"{self.path}/{_LOG}")
        commits = filter(None, map(_COMMIT.fullmatch, names))
        return max((int(commit[1]) for commit in commits), default=-1)

    def make(self, columns: StructType) -> None:
        """Make the table, without rows, if it is not there."""
        require_delta(self.spark, self.path)
        if not self.exists():
            empty = self.spark.createDataFrame([], columns)
            empty.write.format("delta").partitionBy("date").save(self.path)

    def read(self) -> DataFrame:
        """Return all rows of its newest commit."""
        require_delta(self.spark, self.path)
        return self.spark.read.format("delta").load(self.path)

    def has_batch(self, batch: int) -> bool:
        """Return whether a commit has the rows of a batch of its application."""
        # Delta skips such a write by itself, silently.
        log: Any = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        snapshot = log.forTableWithSnapshot(self.spark._jsparkSession, self.path)._2()
        last = snapshot.transactions().get(self.application)
        return bool(last.isDefined() and last.get() >= batch)

    def append(self, rows: DataFrame, batch: int) -> None:
        """Write the rows of a batch in one commit; columns that it lacks are added."""
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", self.application)
            .option("txnVersion", batch)
            .option("mergeSchema", True)
            .option("compression", _COMPRESSION)
            .partitionBy("date")
            .save(self.path)
        )

    def merge_files(self, file_bytes: int) -> tuple[int, int, int]:
        """Merge the small files of each date; in how many dates, and their files before and after.

        Delta writes the large files, and replaces the small ones in one commit.
        """
        require_delta(self.spark, self.path)
        settings = {
            "spark.databricks.delta.optimize.maxFileSize": str(file_bytes),
            "spark.databricks.delta.optimize.minFileSize": str(file_bytes),
            "spark.sql.parquet.compression.codec": _COMPRESSION,
        }
        quoted = self.path.replace("`", "``")
        with _set(self.spark, settings):
            (done,) = self.spark.sql(f"OPTIMIZE delta.`{quoted}`").select("metrics.*").collect()
        return done.partitionsOptimized, done.numFilesRemoved, done.numFilesAdded


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to a session while the context lasts."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
