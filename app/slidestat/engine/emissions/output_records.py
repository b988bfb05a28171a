"""Records for the topics of outputs, as columns."""

from collections.abc import Iterable, Iterator, Sequence
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

    __slots__ = ("ends", "keys", "said", "values")

    def __init__(
        self,
        keys: BinaryColumn,
        values: BinaryColumn,
        ends: Integers,
        said: Sequence[EmittedNumbers] = (),
    ) -> None:
        self.keys, self.values, self.ends, self.said = keys, values, ends, said

    @classmethod
    def of(cls, records: Iterable[OutputRecord]) -> "OutputRecords":
        """Return the columns of these records; columns are returned as they are."""
        if isinstance(records, OutputRecords):
            return records
        rows = list(records)
        keys, values, ends = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(BinaryColumn.of(keys), BinaryColumn.of(values), np.array(ends, np.int64))

    @classmethod
    def joined(cls, parts: Sequence["OutputRecords"]) -> "OutputRecords":
        """Return the records of the parts, one after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            BinaryColumn.joined([part.keys for part in parts]),
            BinaryColumn.joined([part.values for part in parts]),
            np.concatenate([np.empty(0, np.int64), *(part.ends for part in parts)]),
            [said for part in parts for said in part.said],
        )

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> OutputRecord: ...

    @overload
    def __getitem__(self, index: slice) -> "OutputRecords": ...

    def __getitem__(self, index: int | slice) -> "OutputRecord | OutputRecords":
        if isinstance(index, slice):
            return OutputRecords(self.keys[index], self.values[index], self.ends[index])
        return self.keys[index] or b"", self.values[index] or b"", int(self.ends[index])

    def __iter__(self) -> Iterator[OutputRecord]:
        for key, value, end in zip(self.keys, self.values, self.ends.tolist(), strict=True):
            yield key or b"", value or b"", end

    def take(self, rows: Integers) -> "OutputRecords":
        """Return the records of these rows, in their order."""
        return OutputRecords(self.keys.take(rows), self.values.take(rows), self.ends[rows])


NO_RECORDS = OutputRecords.of(())
