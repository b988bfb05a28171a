"""Key states in a Faust table on RocksDB, written in bulk.

Faust writes a table key by key: one RocksDB put, one message object and one send for each, about
170 microseconds together. Here the keys of a snapshot go to the changelog through one librdkafka
producer and to RocksDB in one WriteBatch, which also carries the changelog offset they reach, so
that states and offset cannot disagree. Recovery, standbys and rebalances stay Faust's own: it finds
the changelog and the database as it would have written them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, cast

import faust
import rocksdict

from app.streaming.checkpoint import CHECKPOINT_KEY
from app.streaming.partition import Snapshot
from app.streaming.producer import BulkProducer
from app.streaming.referee import Referee
from app.streaming.topology import Topology

_KEY = b"k"
_SIZES = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")

# Faust's defaults are made for one large database, not for one a partition: a 2 GiB cache each.
_ROCKSDB_OPTIONS = {
    "driver": "rocksdict",
    "block_cache_size": 32 * 2**20,
    "write_buffer_size": 16 * 2**20,
}


class StateTable:
    """The table `NAME-state` of a topology, partitioned as its source."""

    def __init__(
        self, app: faust.App, topology: Topology | Referee, partitions: int, changelog: BulkProducer
    ) -> None:
        self._changelog = changelog
        # Written to the changelog since the process began.
        self.changelog_records = 0
        self.changelog_bytes = 0
        self._table = app.Table(
            topology.table_name,
            partitions=partitions,
            key_type=bytes,
            value_type=bytes,
            options=dict(_ROCKSDB_OPTIONS),
        )

    def partition(self, partition: int) -> "TablePartition":
        """What is stored for one partition; raises if it is not open here."""
        return TablePartition(partition, self._store._db_for_partition(partition))

    @property
    def changelog_topic(self) -> str:
        """Name of the changelog."""
        name: str = self._table.changelog_topic.get_topic_name()
        return name

    async def write(self, snapshots: Mapping["TablePartition", Snapshot]) -> None:
        """Make the snapshots of partitions durable: changelog first, acknowledged; then RocksDB.

        Databases are written by the handles that are read by: Faust lets go of its own when it
        stops, before the last flush, and one that is held cannot be opened again.
        """
        topic = self.changelog_topic
        for store, snapshot in snapshots.items():
            size = 0
            for key, state in _rows(snapshot):
                self._changelog.produce(topic, store.partition, key, state)
                size += len(key) + len(state or b"")
            self.changelog_records += len(snapshot.states) + 1
            self.changelog_bytes += size
        await self._changelog.flush()
        loop = asyncio.get_running_loop()
        for store, snapshot in snapshots.items():
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, state in _rows(snapshot):
                if state is None:
                    batch.delete(key)
                else:
                    batch.put(key, state)
            offset = self._changelog.last_offset(topic, store.partition)
            batch.put(self._store.offset_key, str(offset).encode())
            await loop.run_in_executor(None, store.database.write, batch)

    @property
    def _store(self) -> Any:
        return self._table.data  # Faust types it as a mapping; it is its RocksDB store


class TablePartition:
    """One partition's database, and reads of it."""

    def __init__(self, partition: int, database: rocksdict.Rdict) -> None:
        self.partition = partition
        self.database = database

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Stored states, None where there is none. About 1 microsecond a key."""
        return cast(list[bytes | None], self.database.get([_KEY + key.encode() for key in keys]))

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """The keys from `start` on with their states, in key order."""
        first = _KEY + start.encode()
        items = cast(Iterator[tuple[bytes, bytes]], self.database.items(from_key=first))
        for key, state in items:
            if key[:1] != _KEY:
                break
            yield key[1:].decode(), state

    def size(self) -> int:
        """Bytes that the states take, in files and in what RocksDB has yet to write there."""
        sizes = map(self.database.property_int_value, _SIZES)
        return sum(size for size in sizes if size is not None)

    def checkpoint(self) -> bytes | None:
        """The partition's checkpoint, None for a partition never seen."""
        return cast(bytes | None, self.database.get(CHECKPOINT_KEY))


def _rows(snapshot: Snapshot) -> Iterator[tuple[bytes, bytes | None]]:
    for key, state in snapshot.states.items():
        yield _KEY + key.encode(), state
    # Last, so that one recovered from a half-written changelog is never ahead of its states.
    yield CHECKPOINT_KEY, snapshot.checkpoint
