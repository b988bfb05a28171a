"""In what disorder the events of a sample lie, judged as a worker judges them."""

from dataclasses import dataclass

import msgspec
import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.lengths import duration_ms
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.infer.sampling import Sample
from slidestat.infer.survey import as_object
from slidestat.synopses.core.arrays import Integers

_AHEAD_MS = duration_ms(Topology.ahead, "ahead")


@dataclass(frozen=True)
class Disorder:
    """The out-of-orderness of sampled events: how far each lies behind the newest before it, int64
    ms; how many events a worker would refuse as from the future, which do not count for the others'
    order; and how many ms lie between the first and the last event.
    """

    behind: Integers
    refused: int
    length: int

    def late(self, lateness: int) -> float:
        """Return the share of events that a lateness of so many ms would refuse.

        The true share may be larger, as the newest event before another may not be in the sample.
        """
        return float((self.behind > lateness).mean()) if len(self.behind) else 0.0


def disorder(sample: Sample, path: FieldPath | None, time_format: str) -> Disorder:
    """Return the disorder of the sample's events, whose times are in the field at `path`."""
    refused = 0
    behind, firsts, lasts = [np.zeros(0, np.int64)], [], []
    for partition in range(sample.partitions):
        times, stamps = _times(sample, partition, path, time_format)
        wrong = (times - stamps > _AHEAD_MS) & (stamps > 0)
        times = times[~wrong]
        refused += int(wrong.sum())
        if len(times):
            behind.append(np.maximum.accumulate(times) - times)
            firsts.append(int(times.min()))
            lasts.append(int(times.max()))
    length = max(lasts) - min(firsts) if firsts else 0
    return Disorder(np.concatenate(behind), refused, length)


def _times(
    sample: Sample, partition: int, path: FieldPath | None, time_format: str
) -> tuple[Integers, Integers]:
    """Return the times of a partition's events, and Kafka's timestamps of their records."""
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
