"""The RocksDB databases of a table's partitions, as Faust's recovery and our own code open them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import rocksdict
from faust.stores.rocksdb import RocksDBOptions, Store
from faust.types import TP
from faust.types.tables import CollectionT

from slidestat.faust.fencing import NO_EPOCH, Headers, Restored

EPOCH_KEY = b"e"
_NO_OFFSET = -1

# Faust's defaults are made for one large database, not for one a partition: a 2 GiB cache each.
# All partitions of a process share this, what they have yet to write to files included.
_CACHE_BYTES = 128 * 2**20
_UNWRITTEN_BYTES = 32 * 2**20
# Of one partition. What is written again before it goes to a file goes there once.
_WRITE_BUFFER_BYTES = 8 * 2**20

Row = tuple[int, bytes, bytes | None, Headers]
"""(offset, key, value, headers) of a changelog's record."""


class StateStore(Store):
    """A store in RocksDB like Faust's, in which only the records of a partition's owners are
    restored.
    """

    def __init__(self, url: str, app: Any, table: Any, **kwargs: Any) -> None:
        super().__init__(url, app, table, driver="rocksdict", **kwargs)
        self.rocksdb_options = _SharedMemory(
            write_buffer_size=_WRITE_BUFFER_BYTES, use_rocksdict=True
        )
        self._open: dict[int, rocksdict.Rdict] = {}

    def close(self) -> None:
        """Close all databases, also those still in use; a process that ends with one open may crash
        in RocksDB's threads.
        """
        for database in self._open.values():
            # What cannot be flushed to a table is in RocksDB's own log.
            with suppress(Exception):
                database.close()
        self._open.clear()

    def revoke_partitions(self, table: CollectionT, tps: set[TP]) -> None:
        """Close the databases of partitions that others have now."""
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self._open.pop(tp.partition, None)
        super().revoke_partitions(table, tps)

    def _open_for_partition(self, partition: int) -> rocksdict.Rdict:
        self._open[partition] = super()._open_for_partition(partition)
        return self._open[partition]

    def restore(self, partition: int, rows: Iterable[Row]) -> None:
        """Write the next records of a partition's changelog."""
        restored = Restored(self.newest_epoch(partition))
        batch = rocksdict.WriteBatch(raw_mode=True)
        last = _NO_OFFSET
        for offset, key, value, headers in rows:
            last = offset
            if not restored.counts(headers):
                continue
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if last == _NO_OFFSET:
            return
        self.note_position(batch, last, restored.newest)
        self._db_for_partition(partition).write(batch)

    def note_position(self, batch: rocksdict.WriteBatch, offset: int, epoch: int) -> None:
        """Have the batch also store the offset up to which its partition follows the changelog."""
        batch.put(self.offset_key, b"%d" % offset)
        if epoch != NO_EPOCH:
            batch.put(EPOCH_KEY, b"%d" % epoch)

    def newest_epoch(self, partition: int) -> int:
        """Return the largest epoch of a partition's records so far."""
        return int(self._db_for_partition(partition).get(EPOCH_KEY) or NO_EPOCH)

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[..., Any],  # noqa: ARG002 - records are stored as they are
        to_value: Callable[..., Any],  # noqa: ARG002
    ) -> None:
        """Store the changelog records that Faust has read for standbys."""
        rows: dict[int, list[Row]] = {}
        for event in batch:
            message = event.message
            row = (message.offset, message.key, message.value, message.headers)
            rows.setdefault(message.partition, []).append(row)
        for partition, some in rows.items():
            self.restore(partition, some)


@cache
def shared_memory() -> tuple[rocksdict.Cache, rocksdict.WriteBufferManager]:
    """Return the memory of all databases of this process: blocks of files that were read, and, as a
    part of that, what is not in files yet.
    """
    blocks = rocksdict.Cache(_CACHE_BYTES)
    unwritten = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
        _UNWRITTEN_BYTES, allow_stall=False, cache=blocks
    )
    return blocks, unwritten


class _SharedMemory(RocksDBOptions):
    """RocksDB options like Faust's, with memory that all partitions share, and without the
    statistics that it writes every ten minutes: they are never read, and their thread ends a
    process with a segmentation fault if they are due while it exits.
    """

    def as_options(self) -> rocksdict.Options:
        options: rocksdict.Options = super().as_options()
        blocks, unwritten = shared_memory()
        files = rocksdict.BlockBasedOptions()
        files.set_block_cache(blocks)
        files.set_bloom_filter(self.bloom_filter_size, block_based=True)
        options.set_block_based_table_factory(files)
        options.set_write_buffer_manager(unwritten)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        return options
