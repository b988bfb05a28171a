"""How far moving a source's records is behind."""

from typing import NamedTuple


class Behind(NamedTuple):
    """The lag of moving: how many offsets of the source are not moved yet, of all its partitions,
    and the Kafka timestamp, in milliseconds, of the oldest such record that was fetched; None
    without one.
    """

    records: int
    oldest_ms: int | None

    def seconds(self, now_s: float) -> float | None:
        """Return the age of that record, by a clock in seconds: 0 where all is moved, None where
        nothing of the rest was fetched yet.
        """
        if not self.records:
            return 0.0
        return None if self.oldest_ms is None else max(0.0, now_s - self.oldest_ms / 1000)
