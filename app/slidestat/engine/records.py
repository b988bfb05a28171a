"""The records that one fetch brought for one partition, as columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a record, name and value, in their order; a name may come more than once."""


class LogMark(msgspec.Struct, frozen=True, array_like=True):
    """A record that was read, by which a log is told from another one that uses its offsets.

    The leader epoch is that of the record's batch in the log, below 0 where it is not known.
    """

    offset: int
    leader_epoch: int
    checksum: int

    def is_before(self, other: "LogMark | None") -> bool:
        """Return whether the other mark is known, and of a later record."""
        return other is not None and self.offset < other.offset


NO_TIME = -(2**62)
"""The time of a record that has none: below every time of an event, and far from overflow."""

UNKNOWN_EPOCH = -1

NOT_KNOWN = math.inf
"""The time of a fetch that is not known: later than whatever was asked of a broker."""


def record_checksum(timestamp: int, key: bytes | None, value: bytes | None) -> int:
    """Return the checksum of a record, for its mark."""
    head = b"%d %d " % (timestamp, len(key or b""))
    return crc32(value or b"", crc32(key or b"", crc32(head)))


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one partition in offset order, column by column; never empty.

    `offsets` int64[n], strictly increasing, not always consecutive (compaction and transactions
    leave holes); `keys` and `values` n byte strings or None, a BinaryColumn where there are many;
    `timestamps` n milliseconds; `headers` those of each record, None where no record has any. The
    topic has no other records from `start_offset` to the last of `offsets`. `leader_epochs` are
    those of the first and the last record. `fetched_at` is when the last of them had come, in
    seconds of time.monotonic(), NOT_KNOWN without a fetch. `decoded` are the columns of events that
    were decoded ahead, by the id of their topology; a part of a batch has none.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] | npt.NDArray[np.int64]
    start_offset: int
    headers: Sequence[Headers] | None = None
    leader_epochs: tuple[int, int] = (UNKNOWN_EPOCH, UNKNOWN_EPOCH)
    fetched_at: float = NOT_KNOWN
    decoded: dict[int, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mark(self) -> LogMark:
        """The mark of the last record."""
        timestamp, key, value = int(self.timestamps[-1]), self.keys[-1], self.values[-1]
        checksum = record_checksum(timestamp, key, value)
        return LogMark(int(self.offsets[-1]), self.leader_epochs[1], checksum)

    def until(self, offset: int) -> "RecordBatch | None":
        """Return the records before `offset`; this very batch if all are, None if none is."""
        end = int(np.searchsorted(self.offsets, offset))
        if end == len(self):
            return self
        if end == 0:
            return None
        return self._rows(slice(end), self.start_offset, epochs_before_last(self.leader_epochs))

    def since(self, offset: int) -> "RecordBatch":
        """Return the records at or after `offset`; this very batch if none lies before."""
        start = int(np.searchsorted(self.offsets, offset))
        if start == 0:
            return self
        return self._rows(slice(start, None), offset, self.leader_epochs)

    def _rows(self, rows: slice, start_offset: int, epochs: tuple[int, int]) -> "RecordBatch":
        return RecordBatch(
            self.topic,
            self.partition,
            self.offsets[rows],
            self.keys[rows],
            self.values[rows],
            self.timestamps[rows],
            start_offset,
            None if self.headers is None else self.headers[rows],
            epochs,
            self.fetched_at,
        )


def epochs_before_last(epochs: tuple[int, int]) -> tuple[int, int]:
    """Return the leader epochs of a batch of which the last records are left out."""
    first, last = epochs
    return first, first if first == last else UNKNOWN_EPOCH
