"""Restores that are given up for another rebalance, and whose threads still write."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import faust
import pytest
from faust.exceptions import ConsistencyError
from faust.types import TP
from hypothesis import given, strategies as st

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Snapshot
from slidestat.errors import SlidestatError
from slidestat.faust import restore, table
from slidestat.faust.delivery import BatchApp
from slidestat.faust.fencing import (
    NO_EPOCH,
    Restored,
    SupersededError,
    epoch_header,
    replacing_epoch,
)
from slidestat.faust.restore import EPOCH_KEY, OVERWRITTEN, BulkRecovery, Row, StateStore
from slidestat.faust.table import StateTable
from slidestat.kafka.producer import BulkProducer
from tests.engine.cases import laws
from tests.faust.simulation.worker import App, Disk, Store, WriteBatch

CHANGELOG = TP("t-state-changelog", 0)
TOPOLOGY = Topology(name="t", source="events", span="1m", every="1s")
LONG_S = 30


@pytest.fixture(autouse=True, scope="module")
def disks() -> Iterator[None]:
    """Databases in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "rocksdict", SimpleNamespace(WriteBatch=WriteBatch))
        patch.setattr(table, "StateStore", Store)
        yield


def app_on(disk: Disk) -> Any:
    app = SimpleNamespace(disk=disk)
    app.Table = lambda *names, **types: App.Table(cast(App, app), *names, **types)
    return app


def content(disk: Disk) -> tuple[int, int, dict[bytes, bytes]]:
    """The position, the epoch and the rows of the only database."""
    (database,) = disk.values()
    rows = dict(database.rows)
    epoch = int(rows.pop(EPOCH_KEY, NO_EPOCH))
    return int(rows.pop(StateStore.offset_key, -1)), epoch, rows


def of_log(log: Sequence[Row], last: int) -> tuple[int, int, dict[bytes, bytes]]:
    """What a database has that follows a changelog up to an offset: with the keys of which a zombie
    wrote last.
    """
    owners, rows = Restored(NO_EPOCH), dict[bytes, bytes]()
    for _, key, value, headers in log[: last + 1]:
        if owners.counts(headers):
            rows.pop(key, None)
            rows.pop(OVERWRITTEN + key, None)
            if value is not None:
                rows[key] = value
        else:
            rows[OVERWRITTEN + key] = b""
    return last, owners.newest, rows


RECORDS = st.tuples(st.sampled_from((b"a", b"b")), st.booleans(), st.integers(0, 3))


@laws
@given(st.lists(RECORDS, min_size=1, max_size=20), st.data())
def test_a_database_is_its_changelog_up_to_its_position(
    records: list[tuple[bytes, bool, int]], data: st.DataObject
) -> None:
    """Whatever was read from after where it was at that time, written in whatever order, late or
    twice; and the position never goes back.
    """
    log: list[Row] = [
        (at, key, None if is_gone else b"%d" % at, epoch_header(epoch) if epoch else None)
        for at, (key, is_gone, epoch) in enumerate(records)
    ]
    disk, place = Disk(), SimpleNamespace(name="t")
    store = Store("", app_on(disk), place)
    read: list[list[Row]] = []
    before = -1
    for _ in range(data.draw(st.integers(1, 8))):
        if read and data.draw(st.booleans()):
            store.restore(0, data.draw(st.sampled_from(read)))
        else:
            start = data.draw(st.integers(0, min(store.position(0) + 1, len(log) - 1)))
            read.append(log[start : data.draw(st.integers(start + 1, len(log)))])
        assert content(disk)[0] >= before if disk else True
        before, *_ = found = content(disk) if disk else of_log(log, -1)
        assert found == of_log(log, before)


@laws
@given(
    st.lists(RECORDS, min_size=1, max_size=8),
    st.lists(st.sampled_from((b"a", b"b", b"c")), max_size=2),
    st.lists(RECORDS, max_size=8),
    st.data(),
)
def test_an_old_database_keeps_nothing_of_what_was_replaced(
    before: list[tuple[bytes, bool, int]],
    kept: list[bytes],
    after: list[tuple[bytes, bool, int]],
    data: st.DataObject,
) -> None:
    """By a replay or a seed, whose deletions the broker has forgotten since: what it restores is
    what one without a database restores.
    """
    newest = replacing_epoch(max(epoch for _, _, epoch in before))
    log: list[Row] = [
        (at, key, b"old", epoch_header(epoch) if epoch else None)
        for at, (key, _, epoch) in enumerate(before)
    ]
    log += [(10 + at, key, b"new", epoch_header(newest)) for at, key in enumerate([b"p", *kept])]
    log += [
        (20 + at, key, None if is_gone else b"%d" % at, epoch_header(newest + epoch))
        for at, (key, is_gone, epoch) in enumerate(after)
    ]
    whole = [row for row in log if row[0] >= 10]
    disk = Disk()
    store = Store("", app_on(disk), SimpleNamespace(name="t"))
    store.restore(0, log[: data.draw(st.integers(0, len(before)))])
    cut = data.draw(st.integers(0, len(whole)))
    for some in (whole[:cut], whole[cut:]):
        store.restore(0, [*log[: len(before)], *some] if data.draw(st.booleans()) else some)
    fresh = Disk()
    Store("", app_on(fresh), SimpleNamespace(name="t")).restore(0, whole)
    assert content(disk) == content(fresh)


class Changelog:
    """A producer, and the log that it writes to; `between` is awaited by each flush."""

    def __init__(self) -> None:
        self.log: list[Row] = []
        self.between: Callable[[], Awaitable[None]] = self.flushed
        self.may_read = threading.Event()
        self.is_read = threading.Event()
        self.may_read.set()

    def produce(
        self, _topic: str, _partition: int, key: bytes, value: bytes | None, *more: Any
    ) -> None:
        self.log.append((len(self.log), key, value, more[-1]))

    produce_columns = BulkProducer.produce_columns

    async def flushed(self) -> None:
        await asyncio.sleep(0)

    async def flush(self) -> None:
        await self.between()

    def last_offset(self, _topic: str, _partition: int) -> int:
        return len(self.log) - 1

    def read_rows(self, *place: Any) -> list[Row]:
        self.is_read.set()
        assert self.may_read.wait(LONG_S)
        return self.log[place[-2] : place[-1]]

    def add(self, key: bytes, epoch: int) -> None:
        """Write a record of another worker."""
        self.log.append((len(self.log), key, b"%d" % len(self.log), epoch_header(epoch)))


@pytest.fixture
def changelog(monkeypatch: pytest.MonkeyPatch) -> Changelog:
    changelog = Changelog()
    monkeypatch.setattr(table, "read_rows", changelog.read_rows)
    return changelog


def state_table(changelog: Changelog, disk: Disk) -> StateTable:
    return StateTable(app_on(disk), TOPOLOGY, 1, cast(BulkProducer, changelog), "nowhere", "")


def snapshot(**states: bytes) -> Snapshot:
    return Snapshot(dict(states), b"checkpoint", 0)


async def given_up(work: Awaitable[Any], reached: threading.Event) -> None:
    """Cancel work once it has got so far, as mode does: what it waits for continues."""
    task = asyncio.ensure_future(work)
    assert await asyncio.to_thread(reached.wait, LONG_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_take_over_that_is_given_up_leaves_nothing_owned(changelog: Changelog) -> None:
    """Given up after its fence is written, and before it has what lies before it: who opened the
    partition before may write nothing more to it, nobody opens it, and the next one has all.
    """
    disk = Disk()
    changelog.add(b"k1", 1)

    async def rebalance_twice() -> None:
        stored = state_table(changelog, disk)
        await stored.own({0: -1}, (), 1)
        before = stored.partition(0)
        await stored.write({before: snapshot(k2=b"first")})
        has = content(disk)
        assert has == of_log(changelog.log, len(changelog.log) - 1)
        # Another owner's, which ends before the next rebalance.
        changelog.add(b"kk1", 3)
        changelog.is_read.clear()
        changelog.may_read.clear()
        await given_up(stored.own({0: has[0]}, (), 2), changelog.is_read)
        assert not stored.owns(0)
        assert content(disk) == has
        with pytest.raises(SupersededError):
            await stored.write({stored.partition(0): snapshot(k2=b"of nobody")})
        writes = asyncio.ensure_future(stored.write({before: snapshot(k2=b"late")}))
        changelog.may_read.set()
        with pytest.raises(SupersededError):
            await writes
        position, *_ = found = content(disk)
        assert found == of_log(changelog.log, position)
        ends = await stored.own({0: position}, (), 3)
        assert ends == {0: len(changelog.log) - 1}
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)
        assert stored.owns(0)
        await stored.write({stored.partition(0): snapshot(k2=b"of the owner")})
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)
        assert content(disk)[2][b"kk2"] == b"of the owner"

    asyncio.run(rebalance_twice())


def test_a_flush_that_is_stored_late_lies_over_nothing(changelog: Changelog) -> None:
    """Its rows are in the changelog, where the next owner has restored them, and written others."""
    disk = Disk()

    async def store_late() -> None:
        stored = state_table(changelog, disk)
        await stored.own({0: -1}, (), 1)
        before = stored.partition(0)
        await stored.write({before: snapshot(k1=b"first")})
        await stored.own({0: content(disk)[0]}, (), 2)
        await stored.write({stored.partition(0): snapshot(k1=b"second")})
        stored.store_rows(before, [(b"kk1", b"first")])
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)

    asyncio.run(store_late())


def test_a_take_over_writes_again_what_a_zombie_wrote_last(changelog: Changelog) -> None:
    """Its records do not count, and are all that a compacting broker leaves of their keys: without
    a folder, nothing would be restored of what their owner had written.
    """
    disk = Disk()
    for key, epoch in ((b"kk1", 1), (b"kk2", 1), (b"f", 3), (b"kk1", 3), (b"p", 3)):
        changelog.add(key, epoch)
    for key in (b"kk1", b"kk3", b"p"):
        changelog.add(key, 1)

    def compacted() -> list[Row]:
        last = {key: row for row in changelog.log for key in [row[1]]}
        return sorted(last.values())

    async def take_over() -> None:
        stored = state_table(changelog, disk)
        before = len(changelog.log)
        stored._store.restore(0, changelog.log)
        lost = Disk()
        Store("", app_on(lost), SimpleNamespace(name="t")).restore(0, compacted())
        assert content(lost)[2].keys() >= {b"kk2", OVERWRITTEN + b"kk1"}
        assert b"kk1" not in content(lost)[2]
        ends = await stored.own({0: before - 1}, (), 5)
        assert ends == {0: len(changelog.log) - 1}
        assert {row[1] for row in changelog.log[before:]} == {b"f", b"kk1", b"kk3", b"p"}
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)
        fresh = Disk()
        Store("", app_on(fresh), SimpleNamespace(name="t")).restore(0, compacted())
        assert content(fresh) == content(disk)
        await stored.write({stored.partition(0): snapshot(k2=b"next")})
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)

    asyncio.run(take_over())


def test_a_worker_that_dies_before_it_writes_again(changelog: Changelog) -> None:
    """What a zombie wrote between its records is noted with them: the next take-over finds it."""
    disk = Disk()

    async def die() -> None:
        stored = state_table(changelog, disk)
        await stored.own({0: -1}, (), 5)
        await stored.write({stored.partition(0): snapshot(k1=b"first", k2=b"first")})
        for key in (b"kk1", b"kk3"):
            changelog.add(key, 1)
        dies = mock.patch.object(stored, "write_again", side_effect=ZeroDivisionError)
        with dies, pytest.raises(ZeroDivisionError):
            await stored.write({stored.partition(0): snapshot(k2=b"second")})
        before = len(changelog.log)
        assert content(disk) == of_log(changelog.log, before - 1)
        again = state_table(changelog, disk)
        await again.own({0: before - 1}, (), 6)
        assert {row[1:3] for row in changelog.log[before + 1 :]} == {
            (b"kk1", b"first"),
            (b"kk3", None),
        }

    asyncio.run(die())


@pytest.mark.parametrize("given_up_by", ["a rebalance", "the next take-over"])
def test_a_take_over_notes_nothing_after_it_was_given_up(
    changelog: Changelog, given_up_by: str
) -> None:
    """It may end before it is cancelled, or not be cancelled at all."""
    disk = Disk()
    changelog.add(b"k1", 1)

    async def end_late() -> None:
        stored = state_table(changelog, disk)
        changelog.may_read.clear()
        late = asyncio.ensure_future(stored.own({0: -1}, (), 1))
        assert await asyncio.to_thread(changelog.is_read.wait, LONG_S)
        if given_up_by == "a rebalance":
            stored.give_up()
            changelog.may_read.set()
            await late
            assert not stored.owns(0)
            return
        taking = asyncio.ensure_future(stored.own({0: -1}, (), 2))
        changelog.may_read.set()
        await asyncio.gather(late, taking)
        assert stored.partition(0).owner.epoch == content(disk)[1]
        assert content(disk) == of_log(changelog.log, len(changelog.log) - 1)

    asyncio.run(end_late())


def test_a_rebalance_ends_with_its_own_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with that of the one before, which may end after it has begun."""

    async def assign(*_what: object) -> None:
        """Nothing is restored."""

    monkeypatch.setattr(faust.App, "_on_partitions_assigned", assign)

    async def rebalance_twice() -> None:
        app = BatchApp("rebalances", broker="kafka://127.0.0.1:1", store="memory://")
        assert not app.rebalancing
        app.on_rebalance_start()
        assert app.rebalancing
        await app._on_partitions_assigned(set())
        app.on_rebalance_start()
        app.on_rebalance_end()
        assert app.rebalancing
        await app._on_partitions_assigned(set())
        app.on_rebalance_end()
        assert not app.rebalancing

    asyncio.run(rebalance_twice())


class Message:
    """A record of the changelog, as a consumer gives it."""

    def __init__(self, row: Row) -> None:
        self._row = row

    def offset(self) -> int:
        return self._row[0]

    def partition(self) -> int:
        return 0

    def key(self) -> bytes:
        return self._row[1]

    def value(self) -> bytes | None:
        return self._row[2]

    def headers(self) -> Any:
        return self._row[3]


def recovery(store: object, ends: Mapping[TP, int]) -> Any:
    found: Any = BulkRecovery.__new__(BulkRecovery)
    found._bootstrap_servers, found._generation_id = "nowhere", 1
    found.log = SimpleNamespace(info=lambda *_: None)
    found.active_highwaters = Counter(ends)
    found.tables = SimpleNamespace(_changelogs={CHANGELOG.topic: SimpleNamespace(data=store)})
    return found


@pytest.mark.parametrize("while_it", ["reads", "writes"])
def test_a_restore_that_is_given_up_changes_nothing_later(
    monkeypatch: pytest.MonkeyPatch, while_it: str
) -> None:
    """What it reads then it does not write; what it writes then, a later restore has."""
    reached, continues = threading.Event(), threading.Event()
    log = [(at, b"k", b"%d" % at, epoch_header(1)) for at in range(3)]
    disk = Disk()
    store: Any = Store("", app_on(disk), SimpleNamespace(name="t"))
    written = store.restore

    def scan(*_what: Any) -> Iterator[Message]:
        if while_it == "reads":
            reached.set()
            assert continues.wait(LONG_S)
        yield from map(Message, log[:1])

    def write(partition: int, rows: list[Row]) -> None:
        reached.set()
        assert continues.wait(LONG_S)
        written(partition, rows)

    monkeypatch.setattr(restore, "scan", scan)
    monkeypatch.setattr(restore, "open_scanner", lambda *_, **__: SimpleNamespace(close=int))
    monkeypatch.setattr(store, "restore", write)

    async def rebalance_again() -> None:
        await given_up(recovery(store, {CHANGELOG: 0})._restore({CHANGELOG: -1}), reached)
        assert not disk or content(disk) == of_log(log, -1)
        if while_it == "writes":
            written(0, log)

    asyncio.run(rebalance_again())
    continues.set()
    for thread in threading.enumerate():
        if thread.name.startswith("slidestat-restore"):
            thread.join(LONG_S)
            assert not thread.is_alive()
    assert not disk or content(disk) == of_log(log, 2)
    assert bool(disk) == (while_it == "writes")


def consumer(first: int, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """A consumer of changelogs whose first offsets are all the same."""

    async def earliest_offsets(*tps: TP) -> dict[TP, int]:
        meanwhile()
        return dict.fromkeys(tps, first)

    return SimpleNamespace(earliest_offsets=earliest_offsets)


@pytest.mark.parametrize(("have", "end"), [(0, -1), (5, 0), (5, 4)])
def test_a_table_ahead_of_its_changelog_is_refused(have: int, end: int) -> None:
    """Also where Faust takes an offset of 0 for none."""
    offsets = Counter({CHANGELOG: have})
    with pytest.raises(ConsistencyError):
        asyncio.run(
            recovery(None, {CHANGELOG: end})._build_offsets(
                consumer(0), {CHANGELOG}, offsets, "active"
            )
        )


@laws
@given(st.one_of(st.none(), st.integers(-1, 9)), st.integers(0, 9), st.integers(-1, 9))
def test_states_that_were_deleted_and_that_a_table_lacks_are_missed(
    have: int | None, first: int, end: int
) -> None:
    """Those after where the table ends, and before the first record that is left; a partition
    without a record lacks none.
    """
    lacks = any((-1 if have is None else have) < offset < first for offset in range(10))
    lacks &= first <= end
    persisted: Any = {CHANGELOG: have}
    refused = pytest.raises(SlidestatError, match=f"the first {first} records of partition 0")
    with refused if lacks else nullcontext():
        recovery(None, {CHANGELOG: end})._require_all_states({CHANGELOG: first}, persisted)


def test_a_restore_that_is_about_to_be_given_up_takes_nothing_over() -> None:
    """Faust's sets are those of the next rebalance already, and its offsets are not."""
    one = recovery(None, {CHANGELOG: 5})
    held, offsets = {CHANGELOG}, Counter({CHANGELOG: 5})

    def rebalance() -> None:
        one._generation_id = 2
        held.clear()
        held.add(other := TP(CHANGELOG.topic, 1))
        offsets.clear()
        offsets[other] = 7

    asyncio.run(one._build_offsets(consumer(0, rebalance), held, offsets, "active"))


def test_one_whose_records_were_all_deleted_is_owned_without_a_fence(
    changelog: Changelog,
) -> None:
    """And what its owner writes then is in its table."""
    disk = Disk()
    for _ in range(3):
        changelog.add(b"deleted", 1)

    async def take_over() -> None:
        stored = state_table(changelog, disk)
        assert await stored.own({0: 2}, {0}, 1) == {0: 2}
        assert len(changelog.log) == 3
        await stored.write({stored.partition(0): snapshot(k1=b"first")})
        assert content(disk) == (4, 2, {b"kk1": b"first", b"p": b"checkpoint"})

    asyncio.run(take_over())
