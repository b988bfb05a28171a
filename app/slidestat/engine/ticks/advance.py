"""How far the watermark moves, and which ticks that passes."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.loss import Loss

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Advance:
    """An advance of the watermark, which was at `before`, and at watermarks[i] after the record at
    offsets[i].

    Up to the watermark `emitted` everything was emitted before, and acknowledged; `loss` is the
    newest loss of records.
    """

    before: int
    offsets: Int64s
    watermarks: Int64s
    emitted: int
    loss: Loss | None

    @classmethod
    def at_once(
        cls, before: int, offset: int, watermark: int, emitted: int, loss: Loss | None
    ) -> "Advance":
        """Return an advance to `watermark` by one record, at `offset`."""
        offsets, watermarks = np.array([offset], np.int64), np.array([watermark], np.int64)
        return cls(before, offsets, watermarks, emitted, loss)

    @property
    def watermark(self) -> int:
        """The watermark at the end."""
        return int(self.watermarks[-1])

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was read."""
        return int(self.offsets[-1])

    def until(self, watermark: int) -> "Advance":
        """Return the same advance, up to `watermark`."""
        return replace(self, watermarks=np.minimum(self.watermarks, watermark))

    def source_offsets(self, ticks: Int64s) -> Int64s:
        """Return int64[n]: for each tick the offset of the record that passed it."""
        return self.offsets[np.searchsorted(self.watermarks, ticks)]
