"""A schedule of workers that move the records of their sources by key, before they count them.

Sources have records of transactions that are committed, aborted, or open for a while. The mover
runs in the worker that is elected; that one is killed in any of its requests, too. Whatever
happens, what is committed of the repartition topic and of the offsets belongs together at any time.
"""

import asyncio
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.repartition.moved_from import mover_id
from tests.broker.workers import Expected
from tests.faust.simulation.brokers import Place, Written
from tests.faust.simulation.schedule import PARTITIONS, START_MS, Schedule

_RECORDS = 40
_KEYS = 9
_OPEN_S = 60.0
_HOW = ("plain", "plain", "plain", "committed", "aborted", "open")


def moved_topology(sources: tuple[str, ...], *, exactly_once: bool) -> Topology:
    """The topology of a schedule, of one source or several."""
    return Topology(
        name="t",
        source="" if len(sources) > 1 else sources[0],
        sources=sources if len(sources) > 1 else (),
        repartition=True,
        span="4s",
        every="500ms",
        windows=("1s", "4s"),
        lateness="1s",
        statistics=(Count(),),
        exactly_once=exactly_once,
    )


class MovedSchedule(Schedule):
    """A schedule of workers whose records are moved; half of them begin with a backlog."""

    def __init__(self, seed: int, *, exactly_once: bool) -> None:
        super().__init__(seed, exactly_once=exactly_once)
        random = self.random
        sources = random.choice((("events",), ("eu", "us")))
        self.topology = moved_topology(sources, exactly_once=exactly_once)
        self._places = [(name, number) for name in sources for number in range(2)]
        self._has_backlog = random.random() < 0.5
        self._by_place = {place: _records(random, place) for place in self._places}
        self._transactions = 0
        for topic, count in (*((name, 2) for name in sources), (self._topic, PARTITIONS)):
            self.brokers.partitions[topic] = count

    @property
    def _topic(self) -> str:
        return self.topology.events_topic

    async def before(self) -> None:
        if self._has_backlog:
            await self._feed(pauses_s=0.0)

    async def feed(self) -> None:
        if not self._has_backlog:
            await self._feed(pauses_s=6.0)
        while self.brokers.is_any_open("of a source"):
            await asyncio.sleep(1.0)

    async def _feed(self, pauses_s: float) -> None:
        rest = {place: list(own) for place, own in self._by_place.items()}
        while rest:
            place = self.random.choice(sorted(rest))
            count = self.random.randint(1, 12)
            self._append(place, rest[place][:count])
            del rest[place][:count]
            if not rest[place]:
                del rest[place]
            if pauses_s:
                await asyncio.sleep(self.random.random() ** 2 * pauses_s)

    def _append(self, place: Place, records: list[Any]) -> None:
        """Append records to a source, in a transaction or without."""
        how, transaction = self.random.choice(_HOW), None
        if how != "plain":
            self._transactions += 1
            name = f"of a source {self._transactions}"
            transaction = self.brokers.transaction(name, _OPEN_S)
            transaction.places.add(place)
        for one in records:
            self.brokers.append(place, one.key, one.value, one.timestamp, (), transaction)
        if how in ("committed", "aborted"):
            self.brokers.end_transaction(name, commits=how == "committed")
        elif how == "open" and self.random.random() < 0.8:
            commits = self.random.random() < 0.5
            asyncio.get_running_loop().call_later(
                self.random.random() * 40,
                lambda: self.brokers.end_transaction(name, commits=commits),
            )

    def possible_faults(self) -> Any:
        return *super().possible_faults(), self._kill_mover, self._kill_mover, self._sleep_long

    async def _kill_mover(self) -> None:
        """Kill the worker that moves records, in one of its next requests."""
        slots = [slot for slot, worker in enumerate(self.workers) if 0 in worker.held]
        if not slots:
            return
        slot = self.random.choice(slots)
        worker = self.workers[slot]
        worker.process.dies_in = self.random.randint(1, 40)
        for _ in range(20):
            if not worker.process.is_dead and self.workers[slot] is worker:
                await asyncio.sleep(0.5)
        await self.start_again(slot, self.random.choice((0.0, 5.0)))
        self.note("killed in a request of its mover", slot)

    async def _sleep_long(self) -> None:
        """Freeze a worker for longer than a transaction may be open."""
        await self.freeze(self.random.choice((70.0, 100.0)))

    # What is there.

    def counted(self) -> dict[int, list[Any]]:
        return {
            partition: self.brokers.readable(self._topic, partition, 0, 10**9)
            for partition in range(PARTITIONS)
        }

    def is_moved(self) -> bool:
        self.check_always()
        return all(
            self._committed(place) > own[-1].offset
            for place in self._places
            if (own := self.brokers.readable(*place, 0, 10**9))
        )

    def _committed(self, place: Place) -> int:
        return self.brokers.offsets.get(mover_id(self.topology), {}).get(place, (0, ""))[0]

    def check_always(self) -> None:
        """What readers of committed records see is what was moved up to the committed offsets."""
        super().check_always()
        origins = self._origins()
        moved: dict[Place, Counter[bytes]] = {place: Counter() for place in self._places}
        for one in (one for own in self.counted().values() for one in own):
            moved[origins[one.value][0]][one.value] += 1
        for place, found in moved.items():
            wanted = Counter(
                one.value for one in self.brokers.readable(*place, 0, self._committed(place))
            )
            assert found == wanted, f"moved of {place}: {found - wanted}, not: {wanted - found}"

    def _origins(self) -> dict[bytes | None, tuple[Place, Written]]:
        """Where each record was: no two have the same value."""
        return {
            one.value: (place, one)
            for place in self._places
            for one in self.brokers.readable(*place, 0, 10**9)
        }

    def check(self, expected: Expected) -> None:
        self.check_always()
        assert self.is_moved()
        origins = self._origins()
        for own in self.counted().values():
            last: dict[Place, int] = {}
            for one in own:
                place, record = origins[one.value]
                assert record.offset > last.get(place, -1), "another order"
                last[place] = record.offset
                assert one.timestamp == record.timestamp
            if self._has_backlog:
                self._check_order([origins[one.value] for one in own])
        super().check(expected)

    def _check_order(self, moved: list[tuple[Place, Written]]) -> None:
        """No record comes later behind the times of those before it than in its own partition."""
        reached = 0
        for place, record in moved:
            before = self.brokers.readable(*place, 0, record.offset + 1)
            assert reached <= max(map(_time, before)), "merged too early"
            reached = max(reached, _time(record))


def _records(random: Random, place: Place) -> list[Any]:
    """The records of a partition of a source, in their order, each with another value."""
    found, time_ms = [], START_MS
    for number in range(_RECORDS):
        time_ms += random.randint(0, 300)
        at = time_ms - random.choice((0, 0, 0, 300, 5_000))
        name = b"%s/%d/%d" % (place[0].encode(), place[1], number)
        value = b'{"key":"k%d","time":%d,"is":"%s"}' % (random.randrange(_KEYS), at, name)
        if random.random() < 0.03:
            value = b"no JSON " + name
        found.append(SimpleNamespace(key=b"own", value=value, timestamp=time_ms))
    return found


def _time(record: Written) -> int:
    """Its event time, 0 without one."""
    value = record.value or b""
    return int(value.split(b'"time":')[1].split(b",")[0]) if b'"time":' in value else 0
