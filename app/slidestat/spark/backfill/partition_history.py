"""History as what a task is given, and how the task makes records of it: by columns, for a row of
Spark's costs as much as all that is computed of it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from slidestat.engine.records import RecordBatch

ReadHistory = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, RecordBatch]]]
"""Reads the rows that a task is given: batches of records in order, each under the number of its
partition, those of one partition after another.
"""


def _holds() -> None:
    pass


@dataclass(frozen=True)
class History:
    """The rows from which tasks read records; one task has the rows of a partition.

    `verify`, called when all was read, raises SlidestatError if the source has changed since the
    beginning.
    """

    rows: DataFrame
    read: ReadHistory
    verify: Callable[[], None] = _holds
