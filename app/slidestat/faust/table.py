"""Key states in a Faust table on RocksDB, written in bulk.

Faust writes a table key by key: one RocksDB put, one message object and one send for each, about
170 microseconds together. Here the keys of a snapshot go to the changelog through one librdkafka
producer and to RocksDB in one WriteBatch, which also carries the changelog offset they reach, so
that states and offset cannot disagree. Recovery, standbys and rebalances stay Faust's own: it finds
the changelog and the database as it would have written them.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import faust
import numpy as np
import rocksdict

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY, Snapshot
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.faust.fencing import FENCE_KEY, SupersededError, epoch_header, epoch_of, next_epoch
from slidestat.faust.local_states import rows_from
from slidestat.faust.restore import Row, StateStore, overwritten_keys, read_rows
from slidestat.kafka.producer import BulkProducer

STATE_KEY, _TOLD = b"k", b"t"
"""In front of a key in its state's row, and in that of its provisional alerts."""
_SIZES = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")


class StateTable:
    """The table `NAME-state` of a topology, partitioned as its source."""

    def __init__(
        self,
        app: faust.App,
        topology: Declared,
        partitions: int,
        changelog: BulkProducer,
        bootstrap_servers: str,
        changelog_id: str,
    ) -> None:
        self._changelog = changelog
        # Written to the changelog since the process began.
        self.changelog_records = 0
        self.changelog_bytes = 0
        self._bootstrap_servers = bootstrap_servers
        # A new dictionary after each rebalance: a partition that was given up notes nothing in the
        # next.
        self._owned: dict[int, Owned] = {}
        self._table = cast(
            Any,
            app.Table(topology.table_name, partitions=partitions, key_type=bytes, value_type=bytes),
        )
        self._table._data = self._store = StateStore(
            "rocksdb://",
            app,
            self._table,
            table_name=self._table.name,
            key_type=bytes,
            value_type=bytes,
            changelog_id=changelog_id,
        )

    def partition(self, partition: int) -> "TablePartition":
        """Return the store of one partition; raises if it is not open here."""
        database = self._store._db_for_partition(partition)
        return TablePartition(partition, database, self._owned.get(partition))

    def owns(self, partition: int) -> bool:
        """Return whether a partition was taken over, up to its fence, and not given up since."""
        return partition in self._owned

    @property
    def changelog_topic(self) -> str:
        """The name of the changelog."""
        name: str = self._table.changelog_topic.get_topic_name()
        return name

    def close(self) -> None:
        """Close the databases of all partitions."""
        self._store.close()

    async def own(
        self, restored: Mapping[int, int], emptied: Collection[int], generation: int
    ) -> dict[int, int]:
        """Take partitions over since a generation, which are restored up to these offsets: write a
        fence to each, and restore what has come before it meanwhile; return the offsets up to which
        they are restored then.

        A partition is owned once it has all up to its fence, and not before: given up meanwhile,
        it is nobody's here, and nothing is written of it. Keys of which a zombie wrote last are
        written again: a broker that compacts leaves the last record of a key alone. A partition
        whose records were all deleted stays without a record: a worker without its table reads the
        source from the start, and would be refused if there were one. Raises SupersededError if
        another worker has taken one over.
        """
        self._owned = owned = dict[int, Owned]()
        taken = {
            partition: Owned(next_epoch(self._store.newest_epoch(partition), generation), last)
            for partition, last in restored.items()
        }
        ends = dict(restored)
        try:
            fences = await self.write_fences({p: it for p, it in taken.items() if p not in emptied})
            for partition, owner in taken.items():
                if partition in fences:
                    fence = fences[partition]
                    await asyncio.to_thread(self._restore_to_fence, partition, owner, fence)
                    if owner.last_offset == fence and self._owned is owned:
                        await self._write_overwritten(partition, owner)
                    ends[partition] = max(fence, owner.last_offset)
                owned[partition] = owner
        except SupersededError:
            if self._owned is not owned:
                return ends  # Given up meanwhile, they are taken over again.
            raise
        return ends

    async def _write_overwritten(self, partition: int, owner: "Owned") -> None:
        """Write the keys again whose last record is a zombie's."""
        database = self._store._db_for_partition(partition)
        if keys := set(overwritten_keys(database)):
            await self.write_again(TablePartition(partition, database, owner), keys)

    async def write_fences(self, owners: Mapping[int, "Owned"]) -> dict[int, int]:
        """Write the fence of the owner of each partition; return their offsets."""
        for partition, owner in owners.items():
            self.queue(partition, [(FENCE_KEY, b"%d" % owner.epoch)], owner)
        await self._changelog.flush()
        topic = self.changelog_topic
        return {partition: self._changelog.last_offset(topic, partition) for partition in owners}

    def _restore_to_fence(self, partition: int, owner: "Owned", fence: int) -> None:
        rows: list[Row] = []
        if fence > owner.last_offset + 1:
            rows = read_rows(
                *(self._bootstrap_servers, self.changelog_topic, partition),
                *(owner.last_offset + 1, fence),
            )
        headers = epoch_header(owner.epoch)
        rows.append((fence, FENCE_KEY, b"%d" % owner.epoch, headers))
        self._store.restore(partition, rows)
        # The first flush learns of another owner, and gives way.
        if self._store.newest_epoch(partition) == owner.epoch:
            owner.last_offset = fence

    def give_up(self) -> None:
        """Own no partition any more, until the next take-over."""
        self._owned = {}

    async def before_highwaters(self, partitions: Collection[int]) -> None:
        """Prepare for taking partitions over, before it is asked how far their changelogs go."""

    async def write(self, snapshots: Mapping["TablePartition", Snapshot]) -> None:
        """Make the snapshots of partitions durable: changelog first, acknowledged; then RocksDB.

        Databases are written by the same handles as they are read by: Faust lets go of its own when
        it stops, before the last flush, and one that is held cannot be opened again. Raises
        SupersededError, with nothing in RocksDB, if another worker has taken one over.
        """
        rows = {store: list(rows_of(snapshot)) for store, snapshot in snapshots.items()}
        written = {
            store: self.queue(store.partition, rows[store], store.owner) for store in snapshots
        }
        await self._changelog.flush()
        strangers = {
            store: await asyncio.to_thread(self._strangers, store, count)
            for store, count in written.items()
        }
        for store in snapshots:
            await asyncio.to_thread(self.store_rows, store, rows[store], strangers[store])
        for store, keys in strangers.items():
            await self.write_again(store, keys)

    def store_rows(
        self,
        store: "TablePartition",
        rows: Iterable[tuple[bytes, bytes | None]],
        overwritten: Collection[bytes] = (),
    ) -> None:
        """Write to RocksDB what the changelog has up to where its owner knows it, and which keys
        zombies have overwritten in it.
        """
        owner = store.owner
        place = store.partition, store.database
        self._store.advance(*place, rows, owner.last_offset, owner.epoch, overwritten)

    def queue(
        self,
        partition: int,
        rows: Iterable[tuple[bytes, bytes | None]],
        owner: "Owned",
        producer: BulkProducer | None = None,
    ) -> int:
        """Queue rows of the changelog, one at least, to another producer than the table's own if
        one is given; return their number.
        """
        headers = epoch_header(owner.epoch)
        keys, states = map(BinaryColumn.of, zip(*rows, strict=True))
        records = OutputRecords.written(keys, states, np.zeros(len(keys), np.int64))  # 0 is now
        place = self.changelog_topic, partition
        (producer or self._changelog).produce_columns(*place, records, headers)
        self.changelog_records += len(keys)
        self.changelog_bytes += keys.size() + states.size()
        return len(keys)

    def _strangers(self, store: "TablePartition", written: int) -> set[bytes]:
        """Return the keys that others have written since the last time; this worker has `written`
        so many records itself.

        Raises SupersededError if one of them owns the partition.
        """
        owner, partition = store.owner, store.partition
        before = owner.last_offset
        owner.last_offset = self._changelog.last_offset(self.changelog_topic, partition)
        if owner.last_offset - before == written:
            return set()
        keys = set()
        for _, key, _, headers in read_rows(
            self._bootstrap_servers,
            self.changelog_topic,
            partition,
            before + 1,
            owner.last_offset + 1,
        ):
            epoch = epoch_of(headers)
            if epoch > owner.epoch:
                raise SupersededError
            if epoch < owner.epoch:
                keys.add(key)
        return keys

    async def write_again(self, store: "TablePartition", keys: set[bytes]) -> None:
        """Write this worker's own states of keys again, after those that others wrote; raises
        SupersededError if another worker has taken the partition over.
        """
        while keys:
            rows = [(key, store.database.get(key)) for key in keys]
            count = self.queue(store.partition, rows, store.owner)
            await self._changelog.flush()
            keys = await asyncio.to_thread(self._strangers, store, count)
            await asyncio.to_thread(self.store_rows, store, rows, keys)


@dataclass
class Owned:
    """The epoch of this worker for a partition, and up to which offset it knows the changelog."""

    epoch: int
    last_offset: int


class GivenUpError(Exception):
    """An error of a partition that went to another worker: its keys are read no further."""


class TablePartition:
    """The database of a partition, for reading; and, if its owner opened it, as whom it writes."""

    def __init__(
        self, partition: int, database: rocksdict.Rdict, owned: Owned | None = None
    ) -> None:
        self.partition = partition
        self.database = database
        self._owned = owned
        self._is_given_up = False

    @property
    def owner(self) -> Owned:
        """The owner that opened it; raises SupersededError if it was opened to be read only."""
        if self._owned is None:
            raise SupersededError
        return self._owned

    def give_up(self) -> None:
        """End a scan that is under way, in another thread, with GivenUpError."""
        self._is_given_up = True

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the stored states of keys, None where there is none. About 1 microsecond a key."""
        return cast(
            list[bytes | None], self.database.get([STATE_KEY + key.encode() for key in keys])
        )

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the keys from `start` on with their states, in key order."""
        return self._rows(STATE_KEY, start)

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Yield the keys with alerts that were written provisionally, and what is noted of them."""
        return self._rows(_TOLD)

    def _rows(self, kind: bytes, start: str = "") -> Iterator[tuple[str, bytes]]:
        first = kind + start.encode()
        for key, row in rows_from(self.database, first):
            if self._is_given_up:
                raise GivenUpError
            if key[:1] != kind:
                break
            yield key[1:].decode(), row

    def size(self) -> int:
        """Return the bytes of the states, in files and in what RocksDB has yet to write there."""
        sizes = map(self.database.property_int_value, _SIZES)
        return sum(size for size in sizes if size is not None)

    def checkpoint(self) -> bytes | None:
        """Return the partition's checkpoint, None for a partition never seen."""
        return cast(bytes | None, self.database.get(CHECKPOINT_KEY))


def rows_of(snapshot: Snapshot) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows of a snapshot for the changelog: states, then the checkpoint."""
    for kind, rows in ((STATE_KEY, snapshot.states), (_TOLD, snapshot.told)):
        for key, row in rows.items():
            yield kind + key.encode(), row
    # Last, so that one recovered from a half-written changelog is never ahead of its states.
    yield CHECKPOINT_KEY, snapshot.checkpoint
