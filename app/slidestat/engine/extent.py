"""How much of a source a worker reads, and of what it emits: all, but for a replay."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slidestat.engine.records import RecordBatch


@dataclass(frozen=True)
class Extent:
    """The range that is read. For each partition: the offset at which reading ends, None for
    reading on for ever; and the event time up to which windows are not emitted, as the records that
    fill them are read for warm-up only.
    """

    end_offsets: Mapping[int, int] | None = None
    silent_until: Mapping[int, int] = field(default_factory=dict)

    def within(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the part of a batch that is to be read, None if there is none."""
        if self.end_offsets is None:
            return batch
        return batch.until(self.end_offsets.get(batch.partition, 0))

    def is_read(self, partition: int, next_offset: int) -> bool:
        """Return whether a partition that has been read up to `next_offset` is read to its end."""
        return self.end_offsets is not None and next_offset >= self.end_offsets.get(partition, 0)


WHOLE = Extent()
