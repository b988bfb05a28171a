"""Which windows may lack records that were gone before they were read.

All that is known of such records is that they were between the last record that was read, and the
first one that is there again. An event among them that would have been counted has a time of

    first   the watermark before them: an older event would have been late;
    last    the lateness, and as far as any record may jump, after the largest of: the clock so far,
            the time of the first record behind them that is on time, and that record's timestamp +
            `ahead`.

For a record is refused whose event lies more than `ahead` after its timestamp, and timestamps do
not run back by more than the lateness: never, where brokers give them; where producers do, as far
as the declared lateness is right. Without a usable timestamp: a single event that lies further
ahead of steady ones is refused (`event_clock.py`), and most of several would have made the first
one behind them late. Late records do not count: they may be old ones that were sent again. Until
one on time comes, `last` is not known, and every window that ends behind `first` may lack them.

So the window [end - n, end) may lack them if end > first and end - n <= last. A window of a key's
last events, and a total since its first, may reach back over any time: from then on it always may.
"""

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.schemas.emission import LostRecords


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """A number of records, with events from `first` to `last`, that were gone before they were
    read.
    """

    records: int
    first: int
    last: int
    # Whether nothing has come since that was on time.
    is_open: bool = True

    def closed(self, last: int) -> "Loss":
        """Return the loss, closed by a record after it, so that no lost one is later than
        `last`.
        """
        return replace(self, last=max(self.last, last), is_open=False)

    def concerns(self, ends: npt.NDArray[np.int64], longest: int | None) -> npt.NDArray[np.bool_]:
        """Return bool[n]: whether windows of up to `longest`, None for any length, that end at
        these times may lack some of the records.
        """
        found: npt.NDArray[np.bool_] = ends > self.first
        if longest is not None and not self.is_open:
            found &= ends - longest <= self.last
        return found

    def as_record(self, record: type[LostRecords] = LostRecords) -> LostRecords:
        """Return the loss as emissions and answers have it, in the version `record`."""
        return record(self.records, self.first, None if self.is_open else self.last)


def joined(
    before: Loss | None, records: int, first: int, watermark: int, longest: int | None
) -> Loss:
    """Return a loss of `records` with events from `first` on; joined with the one `before` it, if a
    window of up to `longest` that ends after the watermark may still lack records of that one.
    """
    if before is None:
        return Loss(records, first, first)
    next_end = np.array([watermark + 1])
    if not before.concerns(next_end, longest)[0]:
        return Loss(records, first, first)
    return Loss(before.records + records, min(before.first, first), max(before.last, first))
