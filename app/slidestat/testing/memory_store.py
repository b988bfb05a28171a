"""A partition's table in memory."""

from collections.abc import Iterable, Iterator

# A key and its state, None for a state that is deleted; without a key, the partition's checkpoint.
Row = tuple[str | None, bytes | None]


class MemoryStore:
    """A PartitionStore that outlives the processors that read it."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._states: dict[str, bytes] = {}
        self._checkpoint: bytes | None = None
        self.write(rows)

    def write(self, rows: Iterable[Row]) -> None:
        """Take in rows, as the table takes a changelog's."""
        for key, value in rows:
            if key is None:
                self._checkpoint = value
            elif value is None:
                self._states.pop(key, None)
            else:
                self._states[key] = value

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the stored states of keys, None where there is none."""
        return [self._states.get(key) for key in keys]

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Return the keys from `start` on and their states, in order of the keys."""
        return iter(sorted(item for item in self._states.items() if item[0] >= start))

    def checkpoint(self) -> bytes | None:
        """Return the partition's checkpoint, None for a partition never seen."""
        return self._checkpoint
