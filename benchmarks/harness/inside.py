"""Batches for a PartitionProcessor in this process: no broker, no worker."""

from collections.abc import Iterator

import numpy as np

from benchmarks.harness.workload import Workload
from slidestat.engine.records import RecordBatch


def batches(workload: Workload, topic: str, size: int) -> Iterator[RecordBatch]:
    """The events as batches of partition 0, each made when it is asked for."""
    for start in range(0, len(workload), size):
        columns = zip(*workload.records(start, start + size), strict=True)
        keys, values, times, _ = map(list, columns)
        offsets = np.arange(start, start + len(times), dtype=np.int64)
        yield RecordBatch(topic, 0, offsets, keys, values, times, start)
