"""Partitions of many keys are taken up beside the event loop, which goes on meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.faust.pipeline import Pipeline
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable, TablePartition
from slidestat.kafka.producer import BulkProducer
from tests.engine.memory import MemoryStore
from tests.faust.simulation.worker import Rows
from tests.faust.test_slices import EVERYONE, KEYS, LATER, TOPOLOGY, Offsets, Outputs, nothing


class Database:
    """RocksDB as far as a partition reads it; a scan stands still after a key until told."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.is_scanned, self.may_go_on = threading.Event(), threading.Event()

    def get(self, key: Any) -> Any:
        if isinstance(key, list):
            return self._store.get_many([one[1:].decode() for one in key])
        return self._store.checkpoint()

    def iter(self) -> Rows:
        return Rows(self._scanned())

    def _scanned(self) -> Iterator[tuple[bytes, bytes]]:
        for key, state in self._store.scan():
            yield b"k" + key.encode(), state
            self.is_scanned.set()
            self.may_go_on.wait(30)


class Table:
    """One partition's, with keys in it."""

    changelog_topic = "changelog"
    is_owned = True

    def __init__(self) -> None:
        store = MemoryStore()
        processor = PartitionProcessor(TOPOLOGY, "events", 0, store)
        processor.process(EVERYONE)
        snapshot = processor.snapshot()
        assert snapshot is not None
        store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
        self.database = Database(store)

    def owns(self, _partition: int) -> bool:
        return self.is_owned

    def partition(self, partition: int) -> TablePartition:
        return TablePartition(partition, cast(Any, self.database))


def pipeline(table: Table) -> Pipeline:
    stored, outputs = cast(StateTable, table), cast(BulkProducer, Outputs(nothing))
    return Pipeline(
        TOPOLOGY, stored, outputs, Offsets(), Progress("opening"), checkpoint_interval_s=0.0
    )


async def being_scanned(table: Table) -> None:
    """Return once the first key was read."""
    await asyncio.to_thread(table.database.is_scanned.wait, 30)


def test_the_event_loop_goes_on_meanwhile() -> None:
    """What is stored answers questions until the partition is open; a batch waits for it."""
    table = Table()
    one = pipeline(table)

    async def take_up() -> None:
        opening = asyncio.ensure_future(one.partitions.open([0]))
        batch = asyncio.ensure_future(one.steps.process(LATER))
        await being_scanned(table)
        assert one.view(0).has("key-3")
        assert one.view(0).keys_held is None
        assert not opening.done()
        assert not batch.done()
        table.database.may_go_on.set()
        await opening
        assert await batch
        assert one.view(0).keys_held == KEYS

    asyncio.run(take_up())


def test_what_is_given_up_meanwhile_is_read_no_further() -> None:
    """Its table can be closed once `opened` returns; whoever waited for it is told."""
    table = Table()
    one = pipeline(table)

    async def give_up() -> None:
        opening = asyncio.ensure_future(one.partitions.open([0]))
        batch = asyncio.ensure_future(one.steps.process(LATER))
        await being_scanned(table)
        one.forget()
        closing = asyncio.ensure_future(one.partitions.opened())
        await asyncio.sleep(0)
        assert not closing.done()
        table.database.may_go_on.set()
        await closing
        await opening
        assert not await batch
        assert one.durable() == {}

    asyncio.run(give_up())


def test_what_is_not_taken_over_stays_closed() -> None:
    """Its table is still being restored, or another worker's: a batch that was fetched before is
    read again by its owner.
    """
    table = Table()
    one = pipeline(table)
    table.is_owned = False

    async def read() -> None:
        await one.partitions.open([0])
        assert not await one.steps.process(LATER)
        assert one.durable() == {}

    asyncio.run(read())
    assert not table.database.is_scanned.is_set()


def test_it_is_opened_again_after_it_was_given_up() -> None:
    """As it comes back with the next rebalance, while the first scan has not ended yet."""
    table = Table()
    one = pipeline(table)

    async def come_back() -> None:
        opening = asyncio.ensure_future(one.partitions.open([0]))
        await being_scanned(table)
        one.forget()
        again = asyncio.ensure_future(one.partitions.open([0]))
        table.database.may_go_on.set()
        await opening
        await again
        assert one.view(0).keys_held == KEYS

    asyncio.run(come_back())


def test_what_is_wrong_with_a_state_is_told_to_who_opens() -> None:
    """In the words of who reads it."""
    table = Table()
    table.database._store.write([("key-3", b"damaged")])
    table.database.may_go_on.set()
    with pytest.raises(SlidestatError, match="damaged"):
        asyncio.run(pipeline(table).partitions.open([0]))
