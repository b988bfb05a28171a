"""The lengths of windows and lateness of a proposed topology, by the times of a topic's events."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.lengths import duration_ms
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.infer.sampling import Sample
from slidestat.infer.survey import as_object
from slidestat.synopses.core.arrays import Integers

# In what disorder the events of a sample lie, judged as a worker judges them.

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


_LATENESS = ("0s", "1s", "5s", "30s", "1m", "5m", "15m", "1h", "6h", "1d", "7d")
# So many may be late, of what lies twice as far behind as it was seen to.
_MOST_LATE = 0.001
# A watermark that far behind the newest event never lets the events of a short topic be counted.
_LATENESS_OF_LENGTH = 4
_EVENTS_OF_A_WINDOW = 5
_MINUTE_MS = 60_000


class Windows(NamedTuple):
    """The windows of a topology, the shortest first; the last one is its span."""

    lengths: tuple[str, str, str]
    reason: str


_WINDOWS = (
    ("1m", "5m", "1h"),
    ("5m", "1h", "6h"),
    ("15m", "1h", "1d"),
    ("1h", "6h", "7d"),
    ("6h", "1d", "7d"),
    ("1d", "7d", "30d"),
)


def propose_lateness(found: Disorder) -> tuple[str, str]:
    """Return the lateness, and what share it refuses; for a short topic, a part of its length."""
    if not found.behind.any():
        return _LATENESS[0], "all sampled events lie in order"
    fitting = [text for text in _LATENESS if _ms(text) * _LATENESS_OF_LENGTH <= found.length] or [
        _LATENESS[0]
    ]
    enough = (text for text in fitting if found.late(_ms(text) // 2) <= _MOST_LATE)
    chosen = next(enough, fitting[-1])
    notes = [f"refuses {_share(found, chosen)} of the sampled events"]
    place = _LATENESS.index(chosen)
    notes += [f"{shorter} {_share(found, shorter)}" for shorter in _LATENESS[:place][-1:]]
    if found.late(_ms(chosen)):
        longer = [text for text in _LATENESS if not found.late(_ms(text))]
        notes += [f"{longest} nothing" for longest in longer[:1]]
        notes.append(f"the topic is {_length(found.length)} long")
    return chosen, ", ".join(notes)


def propose_windows(records: int, length: int, keys: int) -> Windows:
    """Return windows in which a key has some events, of `records` in `length` ms; none longer than
    the topic, if its length is known.
    """
    if length <= 0 or not keys:
        return Windows(_WINDOWS[0], "the usual ones: the events tell no rate")
    a_minute = records / keys * _MINUTE_MS / length
    fitting = [
        lengths
        for place, lengths in enumerate(_WINDOWS)
        if place == 0 or _ms(lengths[-1]) <= length
    ]
    wide = (w for w in fitting if a_minute * _ms(w[0]) / _MINUTE_MS >= _EVENTS_OF_A_WINDOW)
    lengths = next(wide, fitting[-1])
    in_first = a_minute * _ms(lengths[0]) / _MINUTE_MS
    return Windows(
        lengths,
        f"a key has about {_about(in_first)} events in {lengths[0]}, and the topic is"
        f" {_length(length)} long",
    )


def _about(number: float) -> str:
    """Return a number with three digits, the others 0: 1,590, not 1.59e+03."""
    return f"{float(f'{number:.3g}'):,.10g}"


def _ms(text: str) -> int:
    return duration_ms(text, "length")


def _share(found: Disorder, lateness: str) -> str:
    share = found.late(_ms(lateness))
    return f"{100 * share:.2g} %" if share else "nothing"


def _length(ms: int) -> str:
    """Return a length in the largest unit of which it has at least two."""
    for unit, per_unit in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * per_unit:
            return f"{ms / per_unit:,.0f} {unit}"
    return f"{ms / 1_000:,.0f} seconds"
