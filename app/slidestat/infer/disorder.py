"""In what disorder the events of a sample lie, judged as a worker judges them."""

import msgspec
import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.lengths import duration_ms
from slidestat.declare.time_format import TIME_FORMATS, Int64s
from slidestat.declare.topology import Topology
from slidestat.infer.sampling import Sample
from slidestat.infer.survey import as_object

_AHEAD_MS = duration_ms(Topology.ahead, "ahead")


def disorder(sample: Sample, path: FieldPath | None, time_format: str) -> tuple[int, int]:
    """How many ms any sampled event lies behind the newest before it at most, and how many events
    a worker would refuse as from the future: those say nothing of the others' order.
    """
    worst = refused = 0
    for partition in range(sample.partitions):
        times, stamps = _times(sample, partition, path, time_format)
        wrong = (times - stamps > _AHEAD_MS) & (stamps > 0)
        times = times[~wrong]
        refused += int(wrong.sum())
        if len(times) > 1:
            worst = max(worst, int((np.maximum.accumulate(times) - times).max()))
    return worst, refused


def _times(
    sample: Sample, partition: int, path: FieldPath | None, time_format: str
) -> tuple[Int64s, Int64s]:
    """The times of a partition's events, and Kafka's timestamps of their records."""
    records = [r for r in sample.records if r.partition == partition]
    if path is None:
        stamps = np.array([r.timestamp_ms for r in records], np.int64)
        return stamps, stamps
    kind = TIME_FORMATS[time_format]
    good, stamped = [], []
    for record in records:
        inner: object = as_object(record)
        for name in path:
            inner = inner.get(name) if isinstance(inner, dict) else None
        try:
            good.append(msgspec.convert(inner, kind.type))
        except msgspec.ValidationError:
            continue
        stamped.append(record.timestamp_ms)
    return kind.to_ms(good, len(good)), np.array(stamped, np.int64)
