"""The history of hot keys in stretches of time, each for a task of its own.

No figure of a window of time depends on an event that has left the span. So an engine that is fed
the events of a stretch, and before them those of the span before it, has at each tick of the
stretch the same events in every window as one that was fed all: what it emits keeps every promise,
whatever the statistics are. The bytes may be others, as a synopsis also depends on its history.

    offsets      ...........|...........o1...........o2...........     o1, o2: ticks T1, T2 passed
    stretch 1    fed and emitted: up to o1
    stretch 2               fed: times from T1 - span; emitted: ticks after T1, up to T2
    stretch 3                            fed: times from T2 - span; emitted: ticks after T2

Events after o1 that count are not before T1, for that is where the watermark was. The key's last
emission, at the first tick at which the span has none of its events left, is emitted by one stretch
as well: after T1 only if the last event is not before T1 - span.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark.backfill.engine_outputs import KEYS

FIRST, LAST = -(2**62), 2**62
"""Where a key's first stretch begins, and its last one ends."""


@dataclass(frozen=True)
class Stretch:
    """A part of a key's history, numbered from 1 on: it is fed the events with times from
    `first_time` and offsets up to `last_offset`, and emits the ticks after `after` up to `until`.
    """

    number: int
    partition: int
    key: str
    first_time: int
    last_offset: int
    after: int
    until: int

    def told(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of those that come out of its engine that are its own, by their ticks."""
        ticks = rows["timestamp"].cast(pa.int64()).to_numpy() // 1_000
        own = pa.array((ticks > self.after) & (ticks <= self.until))
        return rows.filter(pc.or_(own, pc.equal(rows["topic"], KEYS)))


def require_stretches(topology: Topology) -> None:
    """Raise SlidestatError for a topology whose keys' histories cannot be split by time."""
    advice = "Leave --split-hot-keys out."
    if topology.publish:
        raise SlidestatError(
            f"{topology.name} publishes its synopses, each of all that came before it, so no key's"
            " history can be split.",
            advice,
        )
    if not topology.sees_span_alone:
        raise SlidestatError(
            f"{topology.name} has figures of a key's last events, or of all since its first, so no"
            " key's history can be split by time.",
            advice,
        )
