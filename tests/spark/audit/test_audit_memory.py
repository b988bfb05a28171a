"""An audit on Spark holds what a key's windows have, however many events it had."""

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark.audited_key import audited


@pytest.mark.long
def test_memory_does_not_grow_with_the_history_of_a_key(spark: SparkSession) -> None:
    """A task's peak, above what its process had, of one key with ten times the events of its
    longest window and with forty times as many: much less than one of all their columns.
    """
    few, many = (audited(spark, events) for events in (600_000, 2_400_000))
    assert few.faults == many.faults == 0
    # Two windows of four figures, at each minute after the first span.
    assert [few.figures, many.figures] == [8 * 90, 8 * 390]
    assert many.task_bytes < 1.5 * few.task_bytes + 2**23
