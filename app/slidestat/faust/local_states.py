"""States of a partition's keys on the local disk, for as long as its history is read."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import cast

import rocksdict

from slidestat.engine.checkpoints.checkpoint import Snapshot

FLUSH_RECORDS = 500_000
"""After how many records states are put away."""


def rows_from(database: rocksdict.Rdict, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of a database from the key `start` on, in key order.

    Raises where a row cannot be read: the iterators that rocksdict itself offers end there, as if
    there were no more.
    """
    rows = database.iter()
    rows.seek(start)
    while rows.valid():
        yield rows.key(), rows.value()
        rows.next()
    rows.status()


class LocalStates:
    """A PartitionStore on RocksDB in a folder of its own, which goes with it."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="slidestat-backfill-")
        self._opened: rocksdict.Rdict | None = None

    @property
    def _database(self) -> rocksdict.Rdict:
        if self._opened is None:
            options = rocksdict.Options(raw_mode=True)
            self._opened = rocksdict.Rdict(self._folder.name, options)
        return self._opened

    def write(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot has."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, state in snapshot.states.items():
            if state is None:
                batch.delete(key.encode())
            else:
                batch.put(key.encode(), state)
        self._database.write(batch)

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the states of keys, None where there is none."""
        return cast(list[bytes | None], self._database.get([key.encode() for key in keys]))

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the keys from `start` on and their states, in key order."""
        for key, state in rows_from(self._database, start.encode()):
            yield key.decode(), state

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Yield nothing: history has no provisional alerts."""
        return iter(())

    def checkpoint(self) -> None:
        """Return nothing: a partition of history is always read from the start."""
        return

    def put_away(self) -> None:
        """Keep nothing in memory; the next call reads from the disk again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def close(self) -> None:
        """Delete everything."""
        self.put_away()
        self._folder.cleanup()
