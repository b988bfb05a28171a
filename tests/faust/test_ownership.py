"""Epochs of a changelog's owners."""

from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.faust.exactly_once import PartitionTransactions, TransactionalTable
from slidestat.faust.fencing import (
    FENCE_KEY,
    NO_EPOCH,
    Restored,
    SupersededError,
    epoch_header,
    epoch_of,
    next_epoch,
)
from slidestat.faust.restore import overwritten_keys
from slidestat.kafka.producer import BulkProducer
from tests.engine.cases import laws, topology
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, Row, batch_of, rows_of
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.faust.simulation.brokers import Brokers
from tests.faust.simulation.event_loop import seeded_loop
from tests.faust.simulation.worker import App, Disk, Store, simulated_clients

EPOCHS = st.integers(1, 2**62)


@laws
@given(EPOCHS)
def test_an_epoch_comes_back(epoch: int) -> None:
    """From the headers that it is written in, as a list and as a mapping."""
    headers = epoch_header(epoch)
    assert epoch_of(headers) == epoch_of(dict(headers)) == epoch
    assert epoch_of(None) == epoch_of([]) == epoch_of([("epoch", None)]) == NO_EPOCH
    assert epoch_of([("epoch", b"9" * 5_000)]) == NO_EPOCH
    assert epoch_of([("epoch", b"of another")]) == epoch_of([("other", b"7")]) == NO_EPOCH


@laws
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), max_size=30))
def test_a_later_owner_has_a_larger_epoch(owners: list[tuple[int, bool, bool]]) -> None:
    """Also than earlier ones that have not written yet, and where the group was deleted after all
    had written, and counts generations from 1 again.
    """
    written = generation = largest = 0
    for further, writes, group_is_deleted in owners:
        if group_is_deleted and written == largest:
            generation = 0
        generation += further
        epoch = next_epoch(written, generation)
        assert epoch > largest
        largest = epoch
        written = epoch if writes else written


@laws
@given(st.lists(st.integers(0, 6), max_size=40))
def test_what_an_older_owner_writes_behind_a_newer_one_does_not_count(epochs: list[int]) -> None:
    """Everything else does, also records without an epoch; restored in two goes, it is the same."""
    for cut in range(len(epochs) + 1):
        first = Restored(NO_EPOCH)
        counted = [first.counts(epoch_header(epoch) if epoch else None) for epoch in epochs[:cut]]
        second = Restored(first.newest)
        counted += [second.counts(epoch_header(epoch) if epoch else None) for epoch in epochs[cut:]]
        assert counted == [
            epoch == NO_EPOCH or epoch >= max(epochs[:i], default=0)
            for i, epoch in enumerate(epochs)
        ]
        assert second.newest == max(epochs, default=0)


COUNTED = topology(span="10m", every="1m")
TIMES_MS = [START_MS + 1_000 * i for i in range(1_200)]
RECORDS = [
    Record(offset, None, encode("ab"[offset % 2], at, 1.0), at)
    for offset, at in enumerate(TIMES_MS)
]
# An owner's epoch and row; a fence has no row.
Written = tuple[int, Row | None]


def restored(changelog: Iterable[Written]) -> MemoryStore:
    """The table as the next owner has it."""
    owners = Restored(NO_EPOCH)
    counted = [row for epoch, row in changelog if owners.counts(epoch_header(epoch))]
    return MemoryStore(row for row in counted if row is not None)


def read(store: MemoryStore, until: int) -> tuple[PartitionProcessor, list[Row]]:
    """A worker that goes on from a table to an offset, and what its flush would write then."""
    worker = PartitionProcessor(COUNTED, SOURCE, PARTITION, store)
    if worker.next_offset < until:
        worker.process(batch_of(RECORDS[worker.next_offset : until]))
    snapshot = worker.snapshot()
    return worker, [] if snapshot is None else rows_of(snapshot)


def after_a_zombie(
    stops: Sequence[int], writes_late: bool, crash_after: int, *, fenced: bool = True
) -> tuple[int, dict[str, tuple[int, tuple[bytes, ...]]]]:
    """How many events were counted, and the synopses, after a worker has read and flushed up to the
    first stop and read up to the second one; its successor up to the third, and dies when it has
    written so many rows of its first flush; and another reads the rest. The first one's second
    flush comes before its successor's fence, or late.
    """
    first, zombies, owners = stops
    store = MemoryStore()
    zombie, rows = read(store, first)
    begun: list[Written] = [(1, row) for row in rows]
    store.write(rows)
    zombie.written()
    zombie.process(batch_of(RECORDS[first:zombies]))
    snapshot = zombie.snapshot()
    flushed: list[Written] = [] if snapshot is None else [(1, row) for row in rows_of(snapshot)]
    if writes_late:
        flushed = [(3, None), *flushed] if fenced else flushed
        found = restored(begun)
    else:
        flushed = [*flushed, (3, None)]
        found = restored([*begun, *flushed])
    _, rows = read(found, owners)
    last = restored([*begun, *flushed, *((3, row) for row in rows[:crash_after])])
    worker, rows = read(last, len(RECORDS))
    last.write(rows)
    return worker.reached.counters.counted, last.synopses(COUNTED)


@laws
@given(
    st.lists(st.integers(1, 1_000), min_size=3, max_size=3).map(sorted),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_zombie_before_the_first_flush_costs_nothing(
    stops: list[int], writes_late: bool, crash_after: int
) -> None:
    """Wherever its records fall, of which the fence decides, and wherever its successor dies."""
    undisturbed = MemoryStore()
    worker, rows = read(undisturbed, len(RECORDS))
    undisturbed.write(rows)
    expected = worker.reached.counters.counted, undisturbed.synopses(COUNTED)
    first, owners, zombies = stops
    found = after_a_zombie([first, zombies + 100, owners], writes_late, crash_after)
    assert found == expected


def test_without_a_fence_events_would_be_lost() -> None:
    """A state of the successor behind the checkpoint of the zombie, which had read more."""
    stops = [300, 1_000, 600]
    _, whole = after_a_zombie(stops, True, 1)
    assert [number for number, *_ in whole.values()] == [600, 600]
    _, synopses = after_a_zombie(stops, True, 1, fenced=False)
    assert min(number for number, *_ in synopses.values()) < 600


def transactional_table(disk: Disk) -> TransactionalTable:
    counted = Topology(name="t", source="events", span="1m", every="1s", exactly_once=True)
    app: Any = SimpleNamespace(disk=disk)
    app.Table = partial(App.Table, app)
    transactions = PartitionTransactions("", "t")
    return TransactionalTable(app, counted, 1, BulkProducer(""), "", "", transactions)


def test_what_a_zombie_wrote_last_is_written_again_exactly_once() -> None:
    """In a transaction that is committed, where the topology was one of at least once before."""
    brokers = Brokers(Random(0))
    place = "t-state-changelog", 0

    async def play() -> None:
        for key, value, epoch in ((b"k", b"right", 3), (b"k", b"wrong", 1), (b"l", b"wrong", 1)):
            brokers.append(place, key, value, headers=epoch_header(epoch))
        disk = Disk()
        owner = transactional_table(disk)
        written = brokers.readable(*place, 0, 10)
        rows = [(one.offset, one.key or b"", one.value, one.headers) for one in written]
        owner._store.restore(0, rows)
        await owner.before_highwaters([0])
        ends = await owner.own({0: 2}, (), 4)
        again = [one for one in brokers.readable(*place, 3, 99) if one.key != FENCE_KEY]
        assert {(one.key, one.value) for one in again} == {(b"k", b"right"), (b"l", None)}
        # The mark of the transaction comes last.
        assert ends == {0: len(brokers.log(*place)) - 1}
        assert not overwritten_keys(owner.partition(0).database)

    with seeded_loop(brokers.random) as loop, simulated_clients(brokers):
        loop.run_until_complete(play())


def test_a_take_over_that_was_frozen_writes_no_fence_behind_the_next_owner_s() -> None:
    """Exactly once, the broker refuses it. Its epoch would be the larger one, as it has read of the
    owner's, and what that commits would count no more.
    """
    brokers = Brokers(Random(0))

    async def play() -> None:
        disk = Disk()
        frozen, owner = transactional_table(disk), transactional_table(Disk())
        await frozen.before_highwaters([0])
        await owner.before_highwaters([0])
        await owner.own({0: -1}, (), 2)
        written = brokers.readable("t-state-changelog", 0, 0, 10)
        rows = [(one.offset, one.key or b"", one.value, one.headers) for one in written]
        Store("", SimpleNamespace(disk=disk), SimpleNamespace(name="t-state")).restore(0, rows)
        with pytest.raises(SupersededError):
            await frozen.own({0: rows[-1][0]}, (), 1)
        assert not frozen.owns(0)
        assert owner.owns(0)
        assert brokers.readable("t-state-changelog", 0, 0, 10) == written

    with seeded_loop(brokers.random) as loop, simulated_clients(brokers):
        loop.run_until_complete(play())
