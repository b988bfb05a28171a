"""A schedule: workers of a group over some records, with faults, all of it from one seed.

Whatever happens, what is committed, written and stored in the end is what an undisturbed worker
would have left, and it is so within a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    CHECKPOINT_KEY,
    decode_checkpoint,
    decode_emitted,
    stored_meaning,
)
from slidestat.errors import SlidestatError
from slidestat.faust.fencing import NO_EPOCH, Restored
from slidestat.schemas.dead_letter import dead_letter_key
from tests.broker.workers import Expected, table, undisturbed
from tests.faust.simulation.brokers import Brokers, Group, Written
from tests.faust.simulation.event_loop import SeededLoop, StuckError, seeded_loop
from tests.faust.simulation.trace import Event, Trace
from tests.faust.simulation.worker import Disk, Worker, rows_of_changelog, simulated_clients

PARTITIONS = 3
_RECORDS = 60
# A group notices what is gone after a session, and a rebalance takes a minute at most.
_SETTLES_S = 240.0
START_MS = 1_700_000_000_000
_CHECK_S = 0.5
# The share of requests to commit with which a connection is lost.
OFTEN = 0.3
_CHANGELOG = "t-state-changelog"
# Compaction leaves the segment alone that is written: what is younger.
_OLDER_S = 10.0


class Outcome(NamedTuple):
    """What a schedule has been."""

    faults: list[str]
    steps: int
    virtual_s: float


class UnsettledError(AssertionError):
    """An error of a group that stands still."""


def topology(*, exactly_once: bool) -> Topology:
    """A topology that emits often, has late records and letters, and few keys."""
    return Topology(
        name="t",
        source="events",
        span="4s",
        every="500ms",
        windows=("1s", "4s"),
        lateness="1s",
        statistics=(Count(),),
        exactly_once=exactly_once,
    )


def source_of(random: Random) -> dict[int, list[Any]]:
    """The records of each partition, in their order."""
    found: dict[int, list[Any]] = {}
    for partition in range(PARTITIONS):
        records, time_ms = [], START_MS
        for offset in range(_RECORDS):
            time_ms += random.randint(0, 200)
            key = f"k{partition}-{random.randrange(4)}"
            at = time_ms - random.choice((0, 0, 0, 300, 5_000))
            value = (
                b"no JSON"
                if random.random() < 0.03
                else b'{"key":"%s","time":%d}' % (key.encode(), at)
            )
            records.append(
                SimpleNamespace(offset=offset, key=key.encode(), value=value, timestamp=time_ms)
            )
        found[partition] = records
    return found


class Schedule:
    """Workers that are disturbed, and what they leave."""

    def __init__(self, seed: int, *, exactly_once: bool) -> None:
        self.random = Random(seed)
        self.topology = topology(exactly_once=exactly_once)
        self.brokers = Brokers(self.random)
        self.brokers.after_late_request = self.check_always
        self.brokers.lost_connections = self.random.choice((0.0, 0.02, OFTEN))
        self.group = Group(self.brokers, PARTITIONS)
        self.source = source_of(self.random)
        self.faults: list[str] = []
        self._disks = [Disk() for _ in range(self.random.randint(1, 3))]
        self.workers: list[Worker] = []
        self._is_over = False
        self._loop: SeededLoop

    def run(self) -> Outcome:
        """Run it; raises AssertionError if the end is not as it must be."""
        with seeded_loop(self.random) as loop, simulated_clients(self.brokers):
            self._loop = loop
            try:
                expected = loop.run_until_complete(self._play())
            except StuckError:
                raise UnsettledError("nothing will ever happen again") from None
            outcome = Outcome(self.faults, loop.steps, loop.time() - 1_000)
        if loop.failures:
            raise loop.failures[0]
        self.check(expected)
        return outcome

    async def _play(self) -> Expected:
        await self.before()
        background = [
            asyncio.ensure_future(work)
            for work in (self.group.watch(), self.feed(), self._supervise(), self._compact())
        ]
        self.workers = [self._worker(slot) for slot in range(len(self._disks))]
        for _ in range(self.random.randint(1, 4)):
            await asyncio.sleep(self.random.random() ** 2 * 10)
            await self.random.choice(self.possible_faults())()
        await background[1]
        await self._until(self.is_moved, background)
        counted = self.counted()
        expected = undisturbed(self.topology, counted)
        durable = {partition: at for partition, at in expected.next_offsets.items() if at}
        ends = {partition: own[-1].offset + 1 for partition, own in counted.items() if own}
        await self._until(
            lambda: self.group.committed == durable and self._is_all_read(ends), background
        )
        self._is_over = True
        # After a commit in doubt, a worker that stops leaves states to be made again.
        self.brokers.lost_connections = 0.0
        for worker in self.workers:
            worker.stop()
        await self._until(
            lambda: all(worker.has_left or worker.ended for worker in self.workers), []
        )
        for worker in self.workers:
            worker.kill()
        return expected

    async def _until(
        self, is_so: Callable[[], bool], background: Sequence[asyncio.Future[Any]]
    ) -> None:
        """Wait until something is so; raises UnsettledError if it is not in time."""
        until = self._loop.time() + _SETTLES_S
        while not is_so():
            for one in background:
                if one.done():
                    one.result()
            if self._loop.time() > until:
                workers = [(one.process.name, one.held, one.ended) for one in self.workers]
                raise UnsettledError(f"committed {self.group.committed}; workers {workers}")
            await asyncio.sleep(_CHECK_S)

    def _is_all_read(self, ends: dict[int, int]) -> bool:
        """Whether the owners of all partitions have read them: states may have more than what is
        committed needs.
        """
        read = {partition: at for worker in self.workers for partition, at in worker.read.items()}
        return {partition: at for partition, at in read.items() if at} == ends

    async def before(self) -> None:
        """Have records there before any worker is."""

    def counted(self) -> dict[int, list[Any]]:
        """The records of each partition that are to be counted."""
        return self.source

    def is_moved(self) -> bool:
        """Whether they are all there."""
        return True

    def possible_faults(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return self._kill, self._kill, self._lose, self._freeze, self._stop, self._cut_off

    async def feed(self) -> None:
        """Have the records come, some at a time."""
        for offset in range(_RECORDS):
            for partition, records in self.source.items():
                one = records[offset]
                self.brokers.append(("events", partition), one.key, one.value, one.timestamp)
            if not offset % 8:
                await asyncio.sleep(self.random.random() * 6)

    async def _compact(self) -> None:
        """Compact the changelogs, now and then."""
        while True:
            await asyncio.sleep(self.random.random() * 10)
            self.brokers.compact(_CHANGELOG, self.random.randrange(PARTITIONS), _OLDER_S)

    async def _supervise(self) -> None:
        """Start workers again that have ended."""
        while True:
            await asyncio.sleep(1.0)
            for slot, worker in enumerate(self.workers):
                if worker.ended is not None and not isinstance(worker.ended, SlidestatError):
                    raise worker.ended
                if not self._is_over and (worker.ended is not None or worker.has_left):
                    self.faults.append(f"{worker.process.name} ended: {worker.ended}")
                    worker.kill()
                    self.workers[slot] = self._worker(slot)

    def _worker(self, slot: int) -> Worker:
        worker = Worker(f"w{slot}", self.topology, self.brokers, self.group, self._disks[slot])
        worker.start()
        return worker

    # Faults.

    async def _kill(self, *, loses: bool = False) -> None:
        slot = self.random.randrange(len(self.workers))
        self.workers[slot].kill()
        if loses:
            self._disks[slot] = Disk()
        await self.start_again(slot, self.random.choice((0.0, 0.5, 15.0)))
        self.note("killed", slot, " and its folder lost" if loses else "")

    async def start_again(self, slot: int, after_s: float) -> None:
        """Start another worker in place of one that was killed."""
        await asyncio.sleep(after_s)
        # One that had ended already was started again meanwhile.
        self.workers[slot].kill()
        self.workers[slot] = self._worker(slot)

    async def _lose(self) -> None:
        await self._kill(loses=True)

    async def _freeze(self) -> None:
        await self.freeze(self.random.choice((1.0, 14.0, 40.0)))

    async def freeze(self, lasts_s: float) -> None:
        """Have a worker stand still."""
        slot = self.random.randrange(len(self.workers))
        process = self.workers[slot].process
        process.is_frozen = True
        await asyncio.sleep(lasts_s)
        self._loop.thaw(process)
        self.note("frozen", slot)

    async def _stop(self) -> None:
        slot = self.random.randrange(len(self.workers))
        self.workers[slot].stop()
        self.note("stopped", slot)

    async def _cut_off(self) -> None:
        slot = self.random.randrange(len(self.workers))
        lasts = self.random.choice((2.0, 12.0, 50.0))
        self.brokers.cut_off[f"w{slot}"] = self._loop.time() + lasts
        self.note(f"cut off for {lasts:.0f} s", slot)

    def note(self, what: str, slot: int, more: str = "") -> None:
        self.faults.append(f"{self._loop.time() - 1_000:.1f} s: w{slot} {what}{more}")

    def check_always(self) -> None:
        """Exactly once, readers of committed records see no emission behind the position of the
        states that it came with.
        """
        if not self.topology.exactly_once:
            return
        for partition in range(PARTITIONS):
            if (log := self.brokers.logs.get((self.topology.output_topic, partition))) is None:
                continue
            due = self._due(partition, self._emitted_up_to(partition))
            for one in log:
                assert not one.is_readable or one.key in due, f"torn: {one.key!r} without its state"

    def _emitted_up_to(self, partition: int) -> int:
        """The position up to which all was emitted, as it was committed last."""
        for one in reversed(self.brokers.logs.get((_CHANGELOG, partition), ())):
            if one.is_readable and one.key == CHECKPOINT_KEY and one.value is not None:
                at = decode_checkpoint(one.value, stored_meaning(one.value))
                return decode_emitted(one.value, at).next_offset
        return 0

    # Ends.

    def check(self, expected: Expected) -> None:
        """Raise AssertionError if what is there is not what is expected."""
        assert self._records(self.topology.output_topic) == expected.emissions
        assert self._records(self.topology.dead_letter_topic) == expected.dead_letters
        assert self._records(self.topology.late_topic) == expected.late
        for partition in range(PARTITIONS):
            states = self._restored(partition, 10**9)
            states = {key[1:].decode(): state for key, state in states.items() if key[:1] == b"k"}
            assert table(self.topology, states) == expected.tables[partition]
            # So would a worker without a folder restore them.
            left = self._restored(partition, 10**9, self.brokers.fetched)
            left = {key[1:].decode(): state for key, state in left.items() if key[:1] == b"k"}
            assert table(self.topology, left) == expected.tables[partition], "compacted"
        for partition in range(PARTITIONS):
            self.trace(partition).check()
        for disk in self._disks:
            for (_, partition), database in disk.items():
                rows, position = rows_of_changelog(database.rows)
                assert rows == self._restored(partition, position), "another table"

    def trace(self, partition: int) -> Trace:
        """What workers have written of a partition."""
        records = self.counted()[partition]
        topic = self.topology.events_topic
        letters = self._first(self.topology.dead_letter_topic) | self._first(
            self.topology.late_topic
        )
        events = [
            Event.of(one.offset, one.value)
            for one in records
            if dead_letter_key(topic, partition, one.offset) not in letters
        ]

        return Trace(
            self.brokers.readable(_CHANGELOG, partition, 0, 10**9),
            events,
            partial(self._due, partition),
            self._first(self.topology.output_topic),
            self.topology.span_length.length,
        )

    def _due(self, partition: int, at: int) -> Collection[bytes]:
        """The keys of the emissions that the records before an offset lead to."""
        before = [one for one in self.counted()[partition] if one.offset < at]
        return undisturbed(self.topology, {partition: before}).emissions.keys()

    def _first(self, topic: str) -> dict[Any, Written]:
        """The first record of a topic by key."""
        found: dict[Any, Written] = {}
        for partition in range(PARTITIONS):
            for one in self.brokers.readable(topic, partition, 0, 10**9):
                found.setdefault(one.key, one)
        return found

    def _records(self, topic: str) -> dict[Any, Any]:
        """The records of a topic by key; repeated ones are equal, and not there exactly once."""
        found: dict[Any, Any] = {}
        for partition in range(PARTITIONS):
            for one in self.brokers.readable(topic, partition, 0, 10**9):
                assert not (self.topology.exactly_once and one.key in found), "repeated"
                assert found.setdefault(one.key, one.value) == one.value, "another figure"
        return found

    def _restored(
        self, partition: int, last: int, read: Callable[..., list[Written]] | None = None
    ) -> dict[bytes, bytes]:
        """What the changelog comes to, up to an offset."""
        owners, rows = Restored(NO_EPOCH), dict[bytes, bytes]()
        for one in (read or self.brokers.readable)(_CHANGELOG, partition, 0, last + 1):
            if owners.counts(one.headers):
                rows.pop(one.key or b"", None)
                if one.value is not None:
                    rows[one.key or b""] = one.value
        return rows
