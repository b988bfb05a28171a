"""Tables from their changelogs, in bulk: about 100,000 keys a second where Faust takes 10,000.

Faust counts its way from record to record up to the offset before the end. Where there is no record
at that offset, because it was compacted away or its segment deleted, it waits for ever. Here a
partition is read until the broker reports its end.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice, takewhile
from typing import Any, cast

import rocksdict
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from faust.exceptions import ConsistencyError
from faust.stores.rocksdb import RocksDBOptions, Store
from faust.tables.recovery import Recovery
from faust.types import TP
from faust.types.tables import CollectionT

from slidestat.errors import SlidestatError
from slidestat.faust.fencing import NO_EPOCH, Headers, Restored
from slidestat.faust.local_states import rows_from
from slidestat.faust.progress import RestoreProgress
from slidestat.kafka.read.scan import headers_of, open_scanner, scan
from slidestat.kafka.retries import ask_again, broker_pauses, passes

# The RocksDB databases of a table's partitions, as Faust's recovery and our own code open them.

EPOCH_KEY = b"e"
# In front of a key whose last record in the changelog does not count: compaction leaves that one.
OVERWRITTEN = b"z"
# The key of the changelog's topic id: positions are positions in that topic.
CHANGELOG_KEY = b"c"
_NO_OFFSET = -1

# Faust's defaults are made for one large database, not for one a partition: a 2 GiB cache each.
# All partitions of a process share this, what they have yet to write to files included.
_CACHE_BYTES = 128 * 2**20
_UNWRITTEN_BYTES = 32 * 2**20
# For one partition. A row that is written again before its buffer goes to a file goes there once.
_WRITE_BUFFER_BYTES = 8 * 2**20

Row = tuple[int, bytes, bytes | None, Headers]
"""(offset, key, value, headers) of a changelog's record."""


class StateStore(Store):
    """A store in RocksDB like Faust's, which restores only the records of a partition's owners.

    Each database holds a position in its partition's changelog, and what the records up to there
    lead to, with the keys of which a zombie wrote last. A write moves the position forward, or does
    nothing: a restore that was given up, and whose thread still writes, has nothing that a later
    one does not have (decision 78).

    A position is of one changelog. In one that was made anew, and has grown beyond it since, other
    records have the offsets up to there: so each write has the id of the topic as well.
    """

    def __init__(
        self, url: str, app: Any, table: Any, *, changelog_id: str = "", **kwargs: Any
    ) -> None:
        """Create the store; `changelog_id` is "" where the brokers keep none."""
        super().__init__(url, app, table, driver="rocksdict", **kwargs)
        self._changelog_id = changelog_id
        self.rocksdb_options = _SharedMemory(
            write_buffer_size=_WRITE_BUFFER_BYTES, use_rocksdict=True
        )
        self._open: dict[int, rocksdict.Rdict] = {}
        # Locks by partition, held from the look at a position to the write that moves it.
        self._moving: dict[int, threading.Lock] = {}

    def close(self) -> None:
        """Close all databases, also those still in use; a process that ends with one open may crash
        in RocksDB's threads.
        """
        for database in self._open.values():
            # Rows that cannot be flushed to a table are in RocksDB's own log.
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
        database: rocksdict.Rdict = super()._open_for_partition(partition)
        self._open[partition] = database
        written = (database.get(CHANGELOG_KEY) or b"").decode()
        if written and self._changelog_id and written != self._changelog_id:
            raise ConsistencyError(f"partition {partition}: the table is of another changelog")
        return database

    def restore(self, partition: int, rows: Iterable[Row]) -> None:
        """Write a partition's next changelog records but those that its database has already."""
        database = self._db_for_partition(partition)
        with self._lock(partition):
            last = position = _position(database)
            restored = Restored(newest_epoch(database))
            batch = rocksdict.WriteBatch(raw_mode=True)
            overwritten = set(overwritten_keys(database))
            for offset, key, value, headers in rows:
                if offset <= position:
                    continue
                last = offset
                if restored.counts(headers):
                    if restored.are_replaced:
                        batch = rocksdict.WriteBatch(raw_mode=True)
                        for old, _ in rows_from(database, b""):
                            batch.delete(old)
                        overwritten.clear()
                    _add(batch, key, value, overwritten)
                elif key not in overwritten:
                    overwritten.add(key)
                    batch.put(OVERWRITTEN + key, b"")
            if last > position:
                self._move(database, batch, last, restored.newest)

    def advance(
        self,
        partition: int,
        database: rocksdict.Rdict,
        rows: Iterable[tuple[bytes, bytes | None]],
        end: int,
        epoch: int,
        overwritten: Iterable[bytes] = (),
    ) -> None:
        """Write the rows that are what counts of a partition's changelog since the database's
        position, up to the offset `end`, and note the keys that zombies have `overwritten` in it;
        do nothing if it was restored up to there meanwhile.
        """
        with self._lock(partition):
            if end <= _position(database):
                return
            batch = rocksdict.WriteBatch(raw_mode=True)
            before = set(overwritten_keys(database))
            for key, value in rows:
                _add(batch, key, value, before)
            for key in overwritten:
                batch.put(OVERWRITTEN + key, b"")
            self._move(database, batch, end, epoch)

    def _move(
        self, database: rocksdict.Rdict, batch: rocksdict.WriteBatch, position: int, epoch: int
    ) -> None:
        """Write a batch, and with it the database's position and largest epoch from then on."""
        batch.put(self.offset_key, b"%d" % position)
        if self._changelog_id:
            batch.put(CHANGELOG_KEY, self._changelog_id.encode())
        if epoch != NO_EPOCH:
            batch.put(EPOCH_KEY, b"%d" % epoch)
        database.write(batch)

    def newest_epoch(self, partition: int) -> int:
        """Return the largest epoch of a partition's records so far."""
        return newest_epoch(self._db_for_partition(partition))

    def _lock(self, partition: int) -> threading.Lock:
        return self._moving.setdefault(partition, threading.Lock())

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


def newest_epoch(database: rocksdict.Rdict) -> int:
    """Return the largest epoch of the records that a database has."""
    return int(database.get(EPOCH_KEY) or NO_EPOCH)


def _position(database: rocksdict.Rdict) -> int:
    return int(database.get(StateStore.offset_key) or _NO_OFFSET)


def overwritten_keys(database: rocksdict.Rdict) -> list[bytes]:
    """Return the keys whose last changelog record up to the database's position does not count."""
    keys = (key for key, _ in rows_from(database, OVERWRITTEN))
    own = takewhile(lambda key: key.startswith(OVERWRITTEN), keys)
    return [key.removeprefix(OVERWRITTEN) for key in own]


def _add(
    batch: rocksdict.WriteBatch, key: bytes, value: bytes | None, overwritten: set[bytes]
) -> None:
    """Add a row to a batch; the key is none of the `overwritten` any more."""
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)
    if key in overwritten:
        overwritten.discard(key)
        batch.delete(OVERWRITTEN + key)


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


_CHUNK = 10_000


class BulkRecovery(Recovery):
    """A recovery of tables like Faust's, in which active partitions are restored at once.

    `before_highwaters` is awaited with the active partitions before it is asked how far they go.
    `on_owned` is called with the active partitions of changelogs and the offsets of their last
    records, those of them whose records were all deleted, and the group's generation; it returns
    the offsets up to which they are restored then.
    """

    def __init__(
        self,
        *args: Any,
        bootstrap_servers: str,
        before_highwaters: Callable[[set[TP]], Awaitable[None]],
        on_owned: Callable[[dict[TP, int], set[TP], int], Awaitable[dict[TP, int]]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._bootstrap_servers = bootstrap_servers
        self._before_highwaters = before_highwaters
        self._on_owned = on_owned

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ARG002
        # Restoring takes as long as the changelog is; clients have time-outs of their own.
        await super()._wait(coro)

    async def _build_highwaters(
        self, consumer: Any, tps: set[TP], destination: "Counter[TP]", title: str
    ) -> None:
        if title == "active":
            await self._before_highwaters(tps)
        await super()._build_highwaters(consumer, tps, destination, title)

    async def _build_offsets(
        self, consumer: Any, tps: set[TP], destination: "Counter[TP]", title: str
    ) -> None:
        generation = self._generation_id
        emptied: set[TP] = set()
        if title == "active":
            earliest = await consumer.earliest_offsets(*tps)
            self._require_all_states(earliest, destination)
            emptied = {tp for tp, first in earliest.items() if first > self.active_highwaters[tp]}
            emptied -= {tp for tp, first in earliest.items() if not first}
        await super()._build_offsets(consumer, tps, destination, title)
        # When Faust begins anew it changes its sets in place, a moment before it gives this up.
        if title != "active" or self._generation_id != generation:
            return
        tps = set(tps)
        for tp in tps:
            # Faust overlooks it where one of the two offsets is 0.
            if destination[tp] > self.active_highwaters[tp]:
                raise ConsistencyError(f"{tp}: the table is ahead of its changelog")
        behind = {
            tp: offset
            for tp, offset in destination.items()
            if tp in tps and offset < self.active_highwaters[tp]
        }
        if behind:
            await self._restore(behind)
        restored = {tp: max(behind.get(tp, -1), self.active_highwaters[tp]) for tp in tps}
        for tp, offset in (await self._on_owned(restored, emptied, generation)).items():
            destination[tp] = self.active_highwaters[tp] = offset

    def _require_all_states(self, earliest: dict[TP, int], persisted: "Counter[TP]") -> None:
        """Raise SlidestatError where states were deleted that the table does not have.

        A partition without any record is new to all: its source is read from the beginning, or
        from where the table ends.
        """
        for tp, first in earliest.items():
            have = persisted[tp] if persisted[tp] is not None else -1
            if have + 1 < first <= self.active_highwaters[tp]:
                raise _lost(tp.topic, f"the first {first} records of partition {tp.partition}")

    async def _restore(self, last: dict[TP, int]) -> None:
        """Follow the changelogs from after these offsets to their ends; `last` is updated."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, "slidestat-restore")
        try:
            await loop.run_in_executor(thread, self._follow, last, stop)
        finally:
            # Given up for another rebalance, it is not waited for: see `StateStore`.
            stop.set()
            thread.shutdown(wait=False)

    def _follow(self, last: dict[TP, int], stop: threading.Event) -> None:
        followed = RestoreProgress(
            sum(self.active_highwaters[tp] - offset for tp, offset in last.items())
        )
        # Records that are deleted during the reading are missed as much as those that were deleted
        # before.
        consumer = open_scanner(self._bootstrap_servers, must_be_whole=True)
        pauses = broker_pauses()
        try:
            for topic in {tp.topic for tp in last}:
                store = cast(Any, self.tables._changelogs[topic]).data
                while not stop.is_set():
                    try:
                        self._follow_topic(consumer, topic, store, last, followed, stop)
                    except KafkaException as error:
                        if not passes(error.args[0]):
                            raise unreadable_changelog(topic, error) from error
                        stop.wait(pauses.begin())
                    else:
                        break
        finally:
            consumer.close()
        if not stop.is_set():
            followed.done()

    def _follow_topic(
        self,
        consumer: Consumer,
        topic: str,
        store: StateStore,
        last: dict[TP, int],
        followed: RestoreProgress,
        stop: threading.Event,
    ) -> None:
        starts = {tp.partition: offset + 1 for tp, offset in last.items() if tp.topic == topic}
        messages = scan(consumer, topic, starts)
        while not stop.is_set() and (some := list(islice(messages, _CHUNK))):
            for partition, rows in _by_partition(some).items():
                # Rows that are written here were read before this restore was given up, and so
                # before the fence of a later one.
                if stop.is_set():
                    return
                store.restore(partition, rows)
                tp = TP(topic, partition)
                followed.read(rows[-1][0] - last[tp])
                last[tp] = rows[-1][0]


def read_rows(
    bootstrap_servers: str, topic: str, partition: int, start: int, end: int
) -> list[Row]:
    """Return the records of a changelog at offsets start <= offset < end, once the broker answers.

    Raises SlidestatError if it refuses.
    """
    consumer = open_scanner(bootstrap_servers)
    try:
        rows = ask_again(
            lambda: [_row(message) for message in scan(consumer, topic, {partition: start})]
        )
        return [row for row in rows if start <= row[0] < end]
    except KafkaException as error:
        raise unreadable_changelog(topic, error) from error
    finally:
        consumer.close()


def _lost(topic: str, what: str) -> SlidestatError:
    return SlidestatError(
        f"The changelog {topic!r} has lost {what}, which this worker's tables do not have: states"
        " are missing.",
        "Set its cleanup.policy to compact, and read the source again with `slidestat replay`, or"
        " give the topology another name.",
    )


def unreadable_changelog(topic: str, error: KafkaException) -> SlidestatError:
    """Return the error of a changelog's reader that trying again does not solve."""
    if error.args[0].code() == KafkaError._AUTO_OFFSET_RESET:
        return _lost(topic, "records while they were read")
    return SlidestatError(
        f"The changelog {topic!r} cannot be read: {error.args[0].str()}.",
        "Check the broker and what this user may read.",
    )


def _by_partition(messages: Iterable[Message]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for message in messages:
        found.setdefault(cast(int, message.partition()), []).append(_row(message))
    return found


def _row(message: Message) -> Row:
    key = cast(bytes, message.key())
    return cast(int, message.offset()), key, message.value(), headers_of(message)
