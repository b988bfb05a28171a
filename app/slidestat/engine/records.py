"""The records that one fetch brought for one partition, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a record, name and value, in their order; a name may come more than once."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one partition in offset order, column by column; never empty.

    `offsets` int64[n], strictly increasing, not always consecutive (compaction and transactions
    leave holes); `keys` and `values` n byte strings or None, a BinaryColumn where there are many;
    `timestamps` n milliseconds; `headers` those of each record, None where no record has any. The
    topic has no other records from `start_offset` to the last of `offsets`.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] | npt.NDArray[np.int64]
    start_offset: int
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def until(self, offset: int) -> "RecordBatch | None":
        """Return the records before `offset`; this very batch if all are, None if none is."""
        end = int(np.searchsorted(self.offsets, offset))
        if end == len(self):
            return self
        if end == 0:
            return None
        return RecordBatch(
            self.topic,
            self.partition,
            self.offsets[:end],
            self.keys[:end],
            self.values[:end],
            self.timestamps[:end],
            self.start_offset,
            None if self.headers is None else self.headers[:end],
        )

    def since(self, offset: int) -> "RecordBatch":
        """Return the records at or after `offset`; this very batch if none lies before."""
        start = int(np.searchsorted(self.offsets, offset))
        if start == 0:
            return self
        return RecordBatch(
            self.topic,
            self.partition,
            self.offsets[start:],
            self.keys[start:],
            self.values[start:],
            self.timestamps[start:],
            offset,
            None if self.headers is None else self.headers[start:],
        )
