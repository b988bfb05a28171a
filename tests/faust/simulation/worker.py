"""A worker of a simulation: the worker's own group member, pipelines, table and producers, over
stand-ins of Faust's app, of RocksDB and of the network.

What Faust and aiokafka do is done here in short: fetch into a short queue, commit once a second,
give partitions up, restore tables from their changelogs, and read on from what was committed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock
from zlib import crc32

import numpy as np
from faust.types import TP

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.restore import CHANGELOG_KEY, EPOCH_KEY, OVERWRITTEN, Row, StateStore
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.producer import BulkProducer
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import Move
from tests.faust.simulation.brokers import Brokers, Client, Group, Member
from tests.faust.simulation.event_loop import Process
from tests.faust.simulation.mover_clients import Admin, Consumer, MoverProducer
from tests.faust.simulation.threads import Event, Thread, pause

_HEARTBEAT_S = 3.0
_COMMIT_S = 1.0
_WAITING_BATCHES = 4
_CHUNK = 7
_STAND_BY_S = 0.5


class Disk(dict[tuple[str, int], "Database"]):
    """The databases of a worker, which outlive its process."""


class Database:
    """A RocksDB database: a write is there as a whole, or not at all."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def write(self, batch: "WriteBatch") -> None:
        for key, value in batch.rows:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def get(self, key: Any) -> Any:
        if isinstance(key, list):
            return [self.rows.get(one) for one in key]
        return self.rows.get(key)

    def iter(self) -> "Rows":
        return Rows(sorted(self.rows.items()))

    def property_int_value(self, _name: str) -> int:
        return 0


class Rows:
    """An iterator of RocksDB over rows in key order."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self._rows = iter(rows)
        self._row: tuple[bytes, bytes] | None = None

    def seek(self, start: bytes) -> None:
        self.next()
        while self._row is not None and self._row[0] < start:
            self.next()

    def valid(self) -> bool:
        return self._row is not None

    def next(self) -> None:
        self._row = next(self._rows, None)

    def key(self) -> bytes:
        assert self._row is not None
        return self._row[0]

    def value(self) -> bytes:
        assert self._row is not None
        return self._row[1]

    def status(self) -> None:
        """Nothing is damaged."""


class WriteBatch:
    """A batch of writes."""

    def __init__(self, *, raw_mode: bool) -> None:
        assert raw_mode
        self.rows: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.rows.append((key, value))

    def delete(self, key: bytes) -> None:
        self.rows.append((key, None))


class Store(StateStore):
    """The worker's own store, over such databases."""

    def __init__(
        self, _url: str, app: Any, table: Any, *, changelog_id: str = "", **_more: Any
    ) -> None:
        self._disk, self._name, self._moving = app.disk, table.name, {}
        self._changelog_id = changelog_id

    def _db_for_partition(self, partition: int) -> Any:
        return self._disk.setdefault((self._name, partition), Database())

    def position(self, partition: int) -> int:
        return int(self._db_for_partition(partition).get(self.offset_key) or -1)

    def close(self) -> None:
        """Nothing is open."""


def rows_of_changelog(database: Mapping[bytes, bytes]) -> tuple[dict[bytes, bytes], int]:
    """Return the rows of a table's database that its changelog has, and up to which offset."""
    own = EPOCH_KEY, CHANGELOG_KEY, StateStore.offset_key
    rows = {
        key: row
        for key, row in database.items()
        if key not in own and not key.startswith(OVERWRITTEN)
    }
    return rows, int(database.get(StateStore.offset_key, b"-1"))


class App:
    """Faust's app and its consumer in one, as far as a group member knows them."""

    def __init__(self, worker: "Worker") -> None:
        self.disk = worker.disk
        self.consumer = self
        self.conf = SimpleNamespace(id="group")
        self.tables = SimpleNamespace(beacon=None, loop=None)
        self.stores: dict[str, Store] = {}
        self.rebalancing, self.rebalancing_count = True, 0
        self.should_stop = False
        self.traces = None
        self.lost_since = None
        self.revoked: Callable[..., Awaitable[None]]
        self.ready: Callable[..., Awaitable[None]]
        self.absorb: Callable[[AsyncIterator[RecordBatch]], Awaitable[None]]
        self.timers: list[tuple[float, Callable[[], Awaitable[None]]]] = []
        self.on_partitions_revoked = SimpleNamespace(connect=partial(setattr, self, "revoked"))
        self.on_rebalance_complete = SimpleNamespace(connect=partial(setattr, self, "ready"))
        self._worker = worker

    def topic(self, name: str, **_serializers: str) -> str:
        return name

    def agent(self, _topic: str, name: str) -> Callable[[Any], None]:  # noqa: ARG002
        return partial(setattr, self, "absorb")

    def timer(self, seconds: float) -> Callable[[Any], None]:
        return lambda look: self.timers.append((seconds, look))

    def Table(self, name: str, **_types: Any) -> Any:  # noqa: N802 - Faust's name
        changelog = f"{name}-changelog"
        topic = SimpleNamespace(get_topic_name=lambda: changelog, topics=[changelog])
        return SimpleNamespace(name=name, changelog_topic=topic)

    async def crash(self, error: BaseException) -> None:
        self._worker.fail(error)

    def add_future(self, work: Any) -> None:
        self._worker.process.start(work)

    # The consumer.

    def assignment(self) -> Set[TP]:
        """In an order that is the same in each process."""
        worker = self._worker
        return dict.fromkeys(TP(worker.source, partition) for partition in worker.held).keys()

    def highwater(self, tp: TP) -> int:
        return len(self._worker.brokers.log(tp.topic, tp.partition))

    def is_end(self, tp: TP, offset: int) -> bool:
        return self._worker.fetched(tp.partition, offset) >= self.highwater(tp)

    def read_up_to(self, _tp: TP, offset: int) -> int:
        return offset

    def waiting(self, _tp: TP) -> int:
        return 0

    def jumped_to(self, _tp: TP, _offset: int) -> None:
        return None

    async def earliest_offsets(self, tp: TP) -> dict[TP, int]:
        await asyncio.sleep(self._worker.delay())
        return {tp: 0}

    def join_again(self) -> None:
        self._worker.joins_again = True


class _Topics:
    """What watches the topics: they stay what they are."""

    source_id = "id"
    without_leader = ()

    def __init__(self, *_what: object) -> None:
        """Nothing is asked."""

    def id_of(self, _topic: str) -> str:
        return "id"

    def error(self) -> None:
        return None

    async def confirm(self, _fetched_at: float = 0) -> None:
        await asyncio.sleep(0)

    confirm_source = confirm


class Worker:
    """A worker's process; `disk` is what the one before it has left."""

    def __init__(
        self, name: str, topology: Topology, brokers: Brokers, group: Group, disk: Disk
    ) -> None:
        self.process = Process(name)
        self.disk = disk
        self.brokers = brokers
        self.source = topology.events_topic
        self.held: list[int] = []
        self.joins_again = False
        self.ended: BaseException | None = None
        self.has_left = False
        self._group = group
        self._entry = Member(self.process, 0.0)
        self._generation = -1
        self._rejoins = asyncio.Event()
        self._flows = asyncio.Event()
        self._positions: dict[int, int] = {}
        self._begins: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._queue: asyncio.Queue[RecordBatch] = asyncio.Queue(_WAITING_BATCHES)
        self._recovery: asyncio.Task[None] | None = None
        self._follows = brokers.random.random() < 0.5
        self._app = App(self)
        self._mover: ElectedMover | None = None
        if topology.repartition:
            self._mover = self.process.call(lambda: ElectedMover(Move("simulated", topology)))
        settings = WorkerSettings(
            topologies=[topology],
            bootstrap_servers="simulated",
            data_dir=cast(Any, None),
            partitions=group.partitions,
            web=cast(Any, None),
            checkpoint_interval_s=brokers.random.choice((0.0, 3.0, 20.0)),
            mover=self._mover,
        )
        made = "slidestat.faust.worker.group_member.batch_app"
        with mock.patch(made, return_value=self._app):
            self._member = self.process.call(lambda: GroupMember(settings))

    def delay(self) -> float:
        """How long a request takes."""
        return self.brokers.delay(self.process)

    def start(self) -> None:
        """Begin to work."""
        repeated = [partial(self._repeat, *timer) for timer in self._app.timers]
        for work in (
            *(self._belong, self._beat, self._commit, self._fetch, self._absorb),
            *repeated,
        ):
            self.process.start(self._alive(work))

    @property
    def read(self) -> dict[int, int]:
        """The partitions that this worker owns, and the offset up to which it has read each."""
        if self._generation != self._group.generation:
            return {}
        processors = self._member._pipelines[0].partitions.processors
        return {partition: one.next_offset for partition, one in processors.items()}

    def fetched(self, partition: int, offset: int) -> int:
        """Up to where a partition was fetched, if it has brought nothing from an offset on."""
        has_more = self._delivered.get(partition, 0) > offset
        return -1 if has_more else self._positions.get(partition, -1)

    def fail(self, error: BaseException) -> None:
        """Note the error that ends the worker."""
        self.ended = self.ended or error

    def kill(self) -> None:
        """End at once."""
        self.process.is_dead = True

    def stop(self) -> None:
        """End after a last commit."""
        self.process.start(self._alive(self._stop))

    async def _alive(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - the process ends of it
            self.fail(error)

    async def _stop(self) -> None:
        self._app.should_stop = True
        self._flows.clear()
        await self._commit_once()
        self._group.leave(self._entry)
        if self._mover is not None:
            ending = Thread(self._mover.stop)
            ending.start()
            while ending.is_alive():
                await asyncio.sleep(0.1)
        self.has_left = True

    async def _repeat(self, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await look()

    # The group.

    async def _belong(self) -> None:
        app = self._app
        while not app.should_stop:
            self._rejoins.clear()
            app.rebalancing, app.rebalancing_count = True, app.rebalancing_count + 1
            self._flows.clear()
            while not self._queue.empty():
                self._queue.get_nowait()
            await app.revoked()
            given = await self._group.join(self._entry)
            if given is None:
                self._entry = Member(self.process, 0.0)
                continue
            self._generation, self.held = given
            if self._recovery is not None and not self._recovery.done():
                self._recovery.cancel()
            recover = partial(self._recover, self._generation, tuple(self.held))
            self._recovery = asyncio.ensure_future(
                self._alive(partial(recover, app.rebalancing_count))
            )
            await self._rejoins.wait()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S if not self.joins_again else 0.1)
            await asyncio.sleep(self.delay())
            said = self._group.heartbeat(self._entry)
            if said == "unknown" and self._entry.generation >= 0:
                self._entry = Member(self.process, 0.0)
                self._rejoins.set()
            elif self.joins_again or (said and self._entry.joined is None):
                self.joins_again = False
                self._rejoins.set()

    async def _recover(self, generation: int, held: tuple[int, ...], rebalances: int) -> None:
        member, app = self._member, self._app
        (table,) = member._tables
        store = cast(Any, table)._store
        standbys = {
            partition: store.position(partition)
            for partition in range(self._group.partitions)
            if partition not in held and self._follows
        }
        await self._restore(member, generation, held)
        await app.ready()
        if generation != self._generation:
            return
        await asyncio.sleep(self.delay())
        for partition in held:
            committed = self._group.committed.get(partition, 0)
            needed = app.needed_offset(TP(self.source, partition))
            self._positions[partition] = self._begins[partition] = min(committed, needed)
            self._delivered.pop(partition, None)
        # As `BatchApp` does: the next rebalance may have begun.
        app.rebalancing = app.rebalancing_count != rebalances
        self._flows.set()
        await self._stand_by(standbys)

    async def _stand_by(self, positions: dict[int, int]) -> None:
        """Follow the changelogs of others from after where their tables were at the rebalance."""
        (table,) = self._member._tables
        store = cast(Any, table)._store
        while positions:
            await asyncio.sleep(self.delay() + _STAND_BY_S)
            for partition, position in positions.items():
                end = self.brokers.end(table.changelog_topic, partition)
                rows = self.rows(table.changelog_topic, partition, position + 1, end)
                store.restore(partition, rows)
                positions[partition] = max(position, end - 1)

    async def _restore(self, member: GroupMember, generation: int, held: tuple[int, ...]) -> None:
        (table,) = member._tables
        topic, store = table.changelog_topic, cast(Any, table)._store
        changelogs = {TP(topic, partition) for partition in held}
        await member._before_highwaters(changelogs)
        await asyncio.sleep(self.delay())
        restored = {}
        for tp in sorted(changelogs):
            end = self.brokers.end(topic, tp.partition)
            position = store.position(tp.partition) + 1
            assert position <= end, "a table is ahead of its changelog"
            for start in range(position, end, _CHUNK):
                rows = self.rows(topic, tp.partition, start, min(start + _CHUNK, end))
                # Given up meanwhile, as by mode, its thread still writes, and nobody waits for it.
                await asyncio.to_thread(store.restore, tp.partition, rows)
            restored[tp] = end - 1
        await member._own(restored, set(), generation)

    def rows(self, topic: str, partition: int, start: int, end: int) -> list[Row]:
        """The records of a changelog that are committed."""
        found = self.brokers.fetched(topic, partition, start, end)
        return [(one.offset, one.key or b"", one.value, one.headers) for one in found]

    # Records.

    async def _fetch(self) -> None:
        random = self.brokers.random
        while True:
            await self._flows.wait()
            await asyncio.sleep(self.delay() + 0.05)
            for partition in random.sample(self.held, len(self.held)):
                start, end = self._positions.get(partition, 0), random.choice((5, 40))
                end = min(start + end, self.brokers.end(self.source, partition))
                if start >= end or not self._flows.is_set() or self._queue.full():
                    continue
                self._positions[partition] = end
                some = self.brokers.readable(self.source, partition, start, end)
                if not some:
                    continue
                start = max(self._begins.get(partition, 0), self._delivered.get(partition, 0))
                self._delivered[partition] = some[-1].offset + 1
                headers = [one.headers for one in some]
                batch = RecordBatch(
                    self.source,
                    partition,
                    np.array([one.offset for one in some], np.int64),
                    BinaryColumn.of([one.key for one in some]),
                    BinaryColumn.of([one.value for one in some]),
                    np.array([one.timestamp for one in some], np.int64),
                    start,
                    cast(Any, headers) if any(headers) else None,
                )
                self._queue.put_nowait(batch)

    async def _absorb(self) -> None:
        async def batches() -> AsyncIterator[RecordBatch]:
            while True:
                yield await self._queue.get()

        await self._app.absorb(batches())

    # Commits.

    async def _commit(self) -> None:
        while not self._app.should_stop:
            await asyncio.sleep(_COMMIT_S)
            await self._commit_once()

    async def _commit_once(self) -> None:
        offsets = await self._app.before_commit()
        held = self._app.assignment()
        wanted = {tp.partition: offset for tp, offset in offsets.items() if tp in held}
        entry, generation = self._entry, self._generation
        await asyncio.sleep(self.delay())
        self._group.commit(entry, generation, wanted)
        await asyncio.sleep(self.delay())


@contextmanager
def simulated_clients(brokers: Brokers) -> Iterator[None]:
    """Have the worker's modules reach these brokers, and such disks."""

    def read_rows(_servers: str, topic: str, partition: int, start: int, end: int) -> list[Row]:
        found = brokers.fetched(topic, partition, start, end)
        return [(one.offset, one.key or b"", one.value, one.headers) for one in found]

    def producer(servers: str, *, track_offsets: bool = False) -> BulkProducer:
        return BulkProducer(servers, track_offsets=track_offsets)

    async def no_difference(*_place: object) -> None:
        await asyncio.sleep(0)

    def no_broker(*_how: object, **_more: object) -> None:
        raise SlidestatError("A process that is cut off has no other client either.")

    rocks = SimpleNamespace(WriteBatch=WriteBatch)
    threads = SimpleNamespace(Thread=Thread, Event=Event)
    at = "slidestat.faust."
    instead: Iterable[tuple[str, object]] = (
        ("slidestat.kafka.producer.Producer", Client),
        (at + "worker.parts.bulk_producer", producer),
        (at + "worker.parts.TopicWatch", _Topics),
        (at + "source.source_offsets.SourceOffsets.first_difference", no_difference),
        (at + "table.StateStore", Store),
        (at + "table.rocksdict", rocks),
        (at + "restore.rocksdict", rocks),
        (at + "table.read_rows", read_rows),
        (at + "worker.group_member.BulkRecovery", mock.Mock),
        ("slidestat.kafka.groups.Consumer", Consumer),
        (at + "broker_contact.require_broker", no_broker),
        ("slidestat.pauses.random", brokers.random),
        ("slidestat.repartition.elected_mover.threading", threads),
        ("slidestat.repartition.mover.made_in_time", lambda call: call()),
        ("slidestat.repartition.mover.AdminClient", Admin),
        ("slidestat.repartition.mover.Consumer", Consumer),
        ("slidestat.repartition.mover.Producer", MoverProducer),
        ("time.sleep", pause),
        (at + "worker.group_member.give_back_memory", lambda: None),
        (at + "worker.group_member.collect_garbage", lambda: None),
    )
    Client.brokers = brokers
    with ExitStack() as patches:
        for name, what in instead:
            patches.enter_context(mock.patch(name, what))
        # Python's own is another one in each process.
        slots = "slidestat.engine.keys.unwritten.hash"
        patches.enter_context(mock.patch(slots, lambda key: crc32(key.encode()), create=True))
        yield
