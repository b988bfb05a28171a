"""Batches for a PartitionProcessor in this process: no broker, no worker."""

from collections.abc import Iterator

import numpy as np

from app.streaming.records import RecordBatch
from benchmarks.workload import Workload, key_text, record


def batches(workload: Workload, topic: str, size: int) -> Iterator[RecordBatch]:
    """The events as batches of partition 0, each made when it is asked for."""
    texts = [key_text(key).encode() for key in range(workload.key_count)]
    for start in range(0, len(workload), size):
        rows = slice(start, start + size)
        times = workload.times[rows].tolist()
        keys = [texts[key] for key in workload.keys[rows].tolist()]
        values = list(map(record, keys, times, workload.cents[rows].tolist()))
        offsets = np.arange(start, start + len(times), dtype=np.int64)
        yield RecordBatch(topic, 0, offsets, keys, values, times, start)
