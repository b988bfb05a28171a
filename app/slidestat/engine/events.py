"""On-time events as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slidestat.declare.columns import Columns
from slidestat.synopses.core.arrays import Bools, Floats, Integers


def texts(values: Sequence[str | None] | pa.Array) -> pa.Array:
    """Return texts as a column, null for None; it may hold more than 2 GiB of them."""
    if isinstance(values, pa.Array):
        return values
    return pa.array(values, pa.large_string())


def numbered_texts(places: Integers, names: pa.Array) -> pa.Array:
    """Return a column of the texts at these places of `names`, each of which is held once."""
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), names)


def distinct_texts(column: pa.Array) -> tuple[list[str], Integers]:
    """Return a column's different texts, and each row's place among them, int64[n], -1 for null."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = column.indices.fill_null(-1) if column.null_count else column.indices
    places = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    names = column.dictionary
    # Rows may be fewer than there were when texts were numbered.
    is_used = np.zeros(len(names) + 1, bool)
    is_used[places] = True
    if not is_used[:-1].all():
        numbers = np.cumsum(is_used[:-1]) - 1
        places = np.where(places < 0, -1, numbers[places])
        names = names.filter(pa.array(is_used[:-1]))
    return names.to_pylist(), places


@dataclass(slots=True)
class Events:
    """Events as columns: `offsets` and `times` int64[n], `keys` n texts; `numbers` float64[n] and
    `items` n texts for each of the topology's columns, NaN and null where an event lacks the field,
    `conditions` bool[n]. Texts are plain or numbered, each different one held once.
    """

    offsets: Integers
    times: Integers
    keys: pa.Array
    numbers: tuple[Floats, ...]
    items: tuple[pa.Array, ...]
    conditions: tuple[Bools, ...] = ()

    @classmethod
    def none(cls, columns: Columns) -> "Events":
        """Return no events, with these columns."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            texts([]),
            tuple(np.empty(0) for _ in columns.numbers),
            tuple(texts([]) for _ in columns.items),
            tuple(np.empty(0, bool) for _ in columns.conditions),
        )

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        """Return their bytes in memory, texts included."""
        arrays = (self.offsets, self.times, self.keys, *self.numbers, *self.items, *self.conditions)
        return sum(array.nbytes for array in arrays)

    def take(self, rows: Integers) -> "Events":
        """Return the events of these rows, in their order."""
        places = pa.array(rows)
        return Events(
            self.offsets[rows],
            self.times[rows],
            self.keys.take(places),
            tuple(column[rows] for column in self.numbers),
            tuple(column.take(places) for column in self.items),
            tuple(column[rows] for column in self.conditions),
        )

    def between(self, start: int, end: int) -> "Events":
        """Return the events of rows `start` up to but not including `end`; nothing is copied."""
        return Events(
            self.offsets[start:end],
            self.times[start:end],
            self.keys[start:end],
            tuple(column[start:end] for column in self.numbers),
            tuple(column[start:end] for column in self.items),
            tuple(column[start:end] for column in self.conditions),
        )

    def numbered(self) -> "Events":
        """Return the same events with each text held once, and 4 bytes an event for its number."""
        return replace(self, keys=_numbered(self.keys), items=tuple(map(_numbered, self.items)))

    def in_order(self) -> "Events":
        """Return the same events sorted by (time, offset). Costs little if they are already."""
        times, offsets = self.times, self.offsets
        rising = times[1:] > times[:-1]
        rising |= (times[1:] == times[:-1]) & (offsets[1:] > offsets[:-1])
        return self if rising.all() else self.take(np.lexsort((offsets, times)))


def joined(parts: Sequence[Events], columns: Columns) -> Events:
    """Return the events of the parts, one after another."""
    if not parts:
        return Events.none(columns)
    if len(parts) == 1:
        return parts[0]
    return Events(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.times for part in parts]),
        joined_texts([part.keys for part in parts]),
        tuple(map(np.concatenate, zip(*(part.numbers for part in parts), strict=True))),
        tuple(map(joined_texts, zip(*(part.items for part in parts), strict=True))),
        tuple(map(np.concatenate, zip(*(part.conditions for part in parts), strict=True))),
    )


def joined_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the texts of columns, one after another; numbered, if one of them is."""
    if not any(pa.types.is_dictionary(column.type) for column in columns):
        return pa.concat_arrays(columns)
    numbered = [_numbered(column) for column in columns]
    return pa.chunked_array(numbered).unify_dictionaries().combine_chunks()


def _numbered(column: pa.Array) -> pa.Array:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
