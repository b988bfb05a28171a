"""Records for the topics of outputs, as columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.schemas.emission import Emission
from slidestat.synopses.core.arrays import Integers

# Key, value and timestamp (the windows' end) of a record for the output topic. A plain tuple: there
# may be as many of them as events. Its header is the same for all.
OutputRecord = tuple[bytes, bytes, int]


class AlertRecord(NamedTuple):
    """A change of an alert for the topic of alerts, as an emission is for that of the output."""

    key: bytes
    value: bytes
    timestamp: int


KeysAndValues = tuple[BinaryColumn, BinaryColumn]


class EmittedNumbers(NamedTuple):
    """The numbers of n emissions, in addition to their text.

    They are like `model`, except for: the keys, `groups` int64[n], each a place in `names`; the
    windows' ends, int64[n]; the figures' numbers, float64[n, figures, 3], NaN for what does not
    exist; and the source offsets, int64[n].
    """

    model: Emission
    names: Sequence[str]
    groups: Integers
    ends: Integers
    numbers: npt.NDArray[np.float64]
    source_offsets: Integers


class OutputRecords(Sequence[OutputRecord]):
    """The columns of n records: `keys` and `values` n byte strings, `ends` int64[n]. Python objects
    are made only of the records that are asked for. `said` has their numbers, part by part, where
    they are kept.
    """

    __slots__ = ("_columns", "are_written", "ends", "said")

    def __init__(
        self,
        write: Callable[[], KeysAndValues],
        ends: Integers,
        said: Sequence[EmittedNumbers] = (),
        *,
        are_written: bool = False,
    ) -> None:
        """Create the records; `write` is called for their text when it is first asked for, in
        whichever thread that is.
        """
        self._columns = write
        self.are_written = are_written
        """Whether their text is in memory."""
        self.ends, self.said = ends, said

    @classmethod
    def written(cls, keys: BinaryColumn, values: BinaryColumn, ends: Integers) -> "OutputRecords":
        """Return the records of these keys and values."""
        return cls(lambda: (keys, values), ends, are_written=True)

    @classmethod
    def of(cls, records: Iterable[OutputRecord]) -> "OutputRecords":
        """Return the columns of these records; columns are returned as they are."""
        if isinstance(records, OutputRecords):
            return records
        rows = list(records)
        keys, values, ends = zip(*rows, strict=True) if rows else ((), (), ())
        times = np.array(ends, np.int64)
        return cls.written(BinaryColumn.of(keys), BinaryColumn.of(values), times)

    @classmethod
    def joined(cls, parts: Sequence["OutputRecords"]) -> "OutputRecords":
        """Return the records of the parts, one after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            lambda: (
                BinaryColumn.joined([part.keys for part in parts]),
                BinaryColumn.joined([part.values for part in parts]),
            ),
            np.concatenate([np.empty(0, np.int64), *(part.ends for part in parts)]),
            [said for part in parts for said in part.said],
            are_written=all(part.are_written for part in parts),
        )

    @property
    def keys(self) -> BinaryColumn:
        return self._written()[0]

    @property
    def values(self) -> BinaryColumn:
        return self._written()[1]

    def _written(self) -> KeysAndValues:
        columns = self._columns()
        # The source columns are let go.
        self._columns = lambda: columns
        self.are_written = True
        return columns

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> OutputRecord: ...

    @overload
    def __getitem__(self, index: slice) -> "OutputRecords": ...

    def __getitem__(self, index: int | slice) -> "OutputRecord | OutputRecords":
        if isinstance(index, slice):
            return OutputRecords.written(self.keys[index], self.values[index], self.ends[index])
        return self.keys[index] or b"", self.values[index] or b"", int(self.ends[index])

    def __iter__(self) -> Iterator[OutputRecord]:
        for key, value, end in zip(self.keys, self.values, self.ends.tolist(), strict=True):
            yield key or b"", value or b"", end

    def take(self, rows: Integers) -> "OutputRecords":
        """Return the records of these rows, in their order."""
        return OutputRecords.written(self.keys.take(rows), self.values.take(rows), self.ends[rows])

    def at(self, times: Integers) -> "OutputRecords":
        """Return the same records with other timestamps, int64[n]."""
        return OutputRecords(self._written, times, are_written=self.are_written)


NO_RECORDS = OutputRecords.of(())
