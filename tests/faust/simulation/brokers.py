"""Brokers of a simulation: logs, transactions and a consumer group, and librdkafka's producer.

Requests take their time by chance, and longer, or for ever, where a process is cut off. Now and
then a connection is lost with a request to commit: what was sent may arrive much later, and often
does so in the middle of the next transaction of its producers.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.faust.simulation.event_loop import Process, current_process

_LONGEST_REQUEST_S = 0.2
_LATEST_REQUEST_S = 5.0
_BETWEEN_RECORDS = 0.3
SESSION_S = 10.0
_REBALANCE_S = 60.0
Place = tuple[str, int]


@dataclass(eq=False)
class Transaction:
    """A transaction; records of none are of one that is committed."""

    is_open: bool = True
    is_committed: bool = False
    places: set[Place] = field(default_factory=set)
    # Of a group, with their metadata: they count once it is committed.
    offsets: dict[str, dict[Place, tuple[int, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """A record of a log, or with `is_marker` an offset that no reader gets."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]]
    transaction: Transaction | None
    is_marker: bool = False
    # How many records all logs had by then.
    moment: int = 0

    @property
    def is_readable(self) -> bool:
        return not self.is_marker and (self.transaction is None or self.transaction.is_committed)


class Brokers:
    """All logs, by topic and partition."""

    def __init__(self, random: Random) -> None:
        self.random = random
        # Of topics that are asked for.
        self.partitions: dict[str, int] = {}
        self.logs: dict[Place, list[Written]] = {}
        self._times: dict[Place, list[float]] = {}
        # Records that compaction has taken away, by their offsets.
        self._gone: dict[Place, set[int]] = {}
        self.offsets: dict[str, dict[Place, tuple[int, str]]] = {}
        self._moment = 0
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}
        # The share of requests to commit of which the answer is lost.
        self.lost_connections = 0.0
        # What must be so whenever a request has come twice.
        self.after_late_request: Callable[[], object] = bool
        # Requests under way that were sent again, by the name of their producers.
        self._late: dict[str, list[Callable[[], object]]] = {}
        # Processes whose requests wait until then.
        self.cut_off: dict[str, float] = {}

    def log(self, topic: str, partition: int) -> list[Written]:
        return self.logs.setdefault((topic, partition), [])

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last one that is read: the last stable one."""
        for written in self.log(topic, partition):
            if written.transaction is not None and written.transaction.is_open:
                return written.offset
        return len(self.log(topic, partition))

    def readable(self, topic: str, partition: int, start: int, end: int) -> list[Written]:
        return [one for one in self.log(topic, partition)[start:end] if one.is_readable]

    def fetched(self, topic: str, partition: int, start: int, end: int) -> list[Written]:
        """The readable ones that compaction has left."""
        gone = self._gone.get((topic, partition), ())
        return [
            one for one in self.readable(topic, partition, start, end) if one.offset not in gone
        ]

    def compact(self, topic: str, partition: int, older_s: float) -> None:
        """Of the records that are older leave the last of each key. Of writers and epochs a broker
        knows nothing.
        """
        place, now = (topic, partition), asyncio.get_running_loop().time()
        until = bisect_right(self._times.get(place, []), now - older_s)
        last: dict[bytes | None, int] = {}
        for one in self.readable(topic, partition, 0, min(until, self.end(topic, partition))):
            if one.key in last:
                self._gone.setdefault(place, set()).add(last[one.key])
            last[one.key] = one.offset

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
        transaction: Transaction | None = None,
        *,
        is_marker: bool = False,
    ) -> int:
        log = self.log(*place)
        self._moment += 1
        self._times.setdefault(place, []).append(asyncio.get_running_loop().time())
        record = (key, value, timestamp, headers, transaction, is_marker, self._moment)
        log.append(Written(len(log), *record))
        return len(log) - 1

    def delay(self, process: Process | None) -> float:
        """How long a request takes from now on."""
        takes = self.random.random() ** 4 * _LONGEST_REQUEST_S
        until = 0.0 if process is None else self.cut_off.get(process.name, 0.0)
        return max(takes, until - asyncio.get_running_loop().time())

    # Transactions.

    def init_transactions(self, name: str) -> int:
        self.end_transaction(name, commits=False)
        self._epochs[name] = self._epochs.get(name, -1) + 1
        return self._epochs[name]

    def is_fenced(self, name: str, epoch: int) -> bool:
        return self._epochs[name] != epoch

    def transaction(self, name: str, open_s: float) -> Transaction:
        """The open transaction of a producer, or a new one that may be open for so long."""
        if name not in self._open:
            self._open[name] = Transaction()
            loop = asyncio.get_running_loop()
            loop.call_later(open_s, self._expire, name, self._open[name], context=_NO_PROCESS)
        return self._open[name]

    def end_transaction(self, name: str, *, commits: bool) -> None:
        if name not in self._open:
            return
        transaction = self._open.pop(name)
        transaction.is_open, transaction.is_committed = False, commits
        for place in sorted(transaction.places):
            self.append(place, None, None, is_marker=True)
        for group, offsets in transaction.offsets.items() if commits else ():
            self.offsets.setdefault(group, {}).update(offsets)

    def send_late(self, name: str, after_s: float, request: Callable[[], object]) -> None:
        """Have a request arrive a second time: by then, or by chance with a record before."""
        own = self._late.setdefault(name, [])

        def arrives() -> None:
            if arrives in own:
                own.remove(arrives)
                request()
                self.after_late_request()

        own.append(arrives)
        asyncio.get_running_loop().call_later(after_s, arrives, context=_NO_PROCESS)

    def has_written(self, name: str) -> None:
        """Have late requests of producers of this name arrive right after a record, by chance."""
        for arrives in tuple(self._late.get(name, ())):
            if self.random.random() < _BETWEEN_RECORDS:
                arrives()

    def is_any_open(self, names: str) -> bool:
        """Whether a transaction is open of a producer whose name begins so."""
        return any(name.startswith(names) for name in self._open)

    def is_unstable(self, group: str) -> bool:
        """Whether offsets of a group are in an open transaction."""
        return any(group in transaction.offsets for transaction in self._open.values())

    def _expire(self, name: str, transaction: Transaction) -> None:
        if self._open.get(name) is transaction:
            self.end_transaction(name, commits=False)
            self._epochs[name] = self._epochs.get(name, 0) + 1


class Client:
    """librdkafka's producer, as far as workers use it."""

    brokers: Brokers
    """Of the simulation that runs."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._brokers = type(self).brokers
        self._process = current_process()
        self._reports_all = not settings["delivery.report.only.error"]
        self._on_delivery = settings["on_delivery"]
        self._name = settings.get("transactional.id", "")
        self._open_s = settings.get("transaction.timeout.ms", 60_000) / 1000
        self._logger = settings.get("logger")
        self._log: list[str] = []
        self._epoch = 0
        self._queued: dict[Place, deque[tuple[Any, ...]]] = {}
        self._sending: set[Place] = set()
        self._reports: list[tuple[KafkaError | None, Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes,
        partition: int,
        *,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        place = topic, partition
        self._queued.setdefault(place, deque()).append((key, value, timestamp, headers))
        self._count += 1
        self._send(place)

    def _send(self, place: Place) -> None:
        """Send what is queued of a partition: one request after another, in order."""
        if place in self._sending or not self._queued[place]:
            return
        self._sending.add(place)
        count = self._brokers.random.randint(1, len(self._queued[place]))
        delay = self._brokers.delay(self._process)
        # On its way, it does not die with its process.
        arrives = asyncio.get_running_loop().create_task(
            self._arrive(place, count, delay), context=_NO_PROCESS
        )
        arrives.add_done_callback(lambda _: self._acknowledged(place), context=_NO_PROCESS)

    async def _arrive(self, place: Place, count: int, delay: float) -> None:
        await asyncio.sleep(delay)
        for _ in range(count):
            key, value, timestamp, headers = self._queued[place].popleft()
            transaction, error = None, None
            if self._name:
                error = self._fenced(KafkaError.INVALID_PRODUCER_EPOCH)
                if error is None:
                    transaction = self._brokers.transaction(self._name, self._open_s)
                    transaction.places.add(place)
            offset = -1
            if error is None:
                offset = self._brokers.append(place, key, value, timestamp, headers, transaction)
            self._reports.append((error, _Report(*place, key, offset)))
            if transaction is not None:
                self._brokers.has_written(self._name)

    def _acknowledged(self, place: Place) -> None:
        process = self._process
        if process is not None and process.is_frozen and not process.is_dead:
            loop = asyncio.get_running_loop()
            loop.call_later(_LONGEST_REQUEST_S, self._acknowledged, place, context=_NO_PROCESS)
            return
        self._sending.discard(place)
        # Of what a dead process had handed to its sockets some is still sent.
        if process is None or not process.is_dead or self._brokers.random.random() < 0.5:
            self._send(place)

    def poll(self, _seconds: float) -> None:
        logged, self._log = self._log, []
        for facility in logged:
            if self._logger is not None:
                self._logger.log(7, "%s", facility, "")
        reports, self._reports = self._reports, []
        for error, report in reports:
            self._count -= 1
            if error is not None or self._reports_all:
                self._on_delivery(error, report)

    def flush(self, _seconds: float) -> int:
        self.poll(0)
        return self._count

    def list_topics(self, _topic: str, _seconds: float) -> None:
        if self._brokers.delay(self._process) > SESSION_S:
            raise KafkaException(away())

    def init_transactions(self, seconds: float) -> None:
        self._ask(self._init, seconds)

    def begin_transaction(self) -> None:
        """Nothing is sent before a record is."""

    def commit_transaction(self, seconds: float) -> None:
        self._ask(self._commit, seconds, is_ending=True)

    def send_offsets_to_transaction(
        self, offsets: Sequence[TopicPartition], group: str, seconds: float
    ) -> None:
        found = {(it.topic, it.partition): (it.offset, it.metadata or "") for it in offsets}
        self._ask(lambda: self._add_offsets(group, found), seconds, is_ending=True)

    def _init(self) -> None:
        self._epoch = self._brokers.init_transactions(self._name)

    def _commit(self) -> KafkaError | None:
        if (error := self._fenced(KafkaError._FENCED)) is None:
            self._brokers.end_transaction(self._name, commits=True)
        return error

    def _add_offsets(
        self, group: str, offsets: Mapping[Place, tuple[int, str]]
    ) -> KafkaError | None:
        if (error := self._fenced(KafkaError._FENCED)) is None:
            transaction = self._brokers.transaction(self._name, self._open_s)
            transaction.offsets.setdefault(group, {}).update(offsets)
        return error

    def _fenced(self, code: int) -> KafkaError | None:
        is_fenced = self._brokers.is_fenced(self._name, self._epoch)
        return KafkaError(code, "fenced", is_fenced) if is_fenced else None

    def _ask(
        self, request: Callable[[], KafkaError | None], _seconds: float, *, is_ending: bool = False
    ) -> None:
        """Have the brokers do what a request says, in one step; raises KafkaException."""
        if self._brokers.delay(self._process) > 1.0:
            raise KafkaException(away())
        if is_ending:
            self._lose_connection(request)
        if (error := request()) is not None:
            raise KafkaException(error)

    def _lose_connection(self, request: Callable[[], object]) -> None:
        """By chance, lose the connection: a second request is answered, and the first one arrives
        later, too (librdkafka has no KIP-890).
        """
        random = self._brokers.random
        if random.random() < self._brokers.lost_connections:
            self._log.append("FAIL")
            after_s = random.random() ** 3 * _LATEST_REQUEST_S
            self._brokers.send_late(self._name, after_s, request)

    def _later(self, seconds: float, request: Callable[[], object]) -> None:
        """Have a request arrive, also if its process has ended by then."""
        asyncio.get_running_loop().call_later(seconds, request, context=_NO_PROCESS)


def away() -> KafkaError:
    """The error of a request that is not answered in time."""
    return KafkaError(KafkaError._TIMED_OUT, "away", False, True)


class _Report:
    def __init__(self, topic: str, partition: int, key: bytes, offset: int) -> None:
        self._parts = topic, partition, key, offset

    def topic(self) -> str:
        return self._parts[0]

    def partition(self) -> int:
        return self._parts[1]

    def key(self) -> bytes:
        return self._parts[2]

    def offset(self) -> int:
        return self._parts[3]


# What is on its way to a broker belongs to no process.
_NO_PROCESS = Context()


@dataclass(eq=False)
class Member:
    """A member of the group, as its coordinator knows it."""

    process: Process
    last_seen: float
    joined: "asyncio.Future[tuple[int, list[int]] | None] | None" = None
    generation: int = -1


@dataclass
class Group:
    """The coordinator of one group."""

    brokers: Brokers
    partitions: int
    members: list[Member] = field(default_factory=list)
    generation: int = 0
    committed: dict[int, int] = field(default_factory=dict)
    is_joining: bool = False
    _since: float = 0.0

    async def join(self, member: Member) -> tuple[int, list[int]] | None:
        """Return the generation and the member's partitions; None if it is no member any more."""
        await asyncio.sleep(self.brokers.delay(member.process))
        now = asyncio.get_running_loop().time()
        if member not in self.members:
            if member.generation >= 0:
                return None
            self.members.append(member)
        member.last_seen = now
        member.joined = joined = asyncio.get_running_loop().create_future()
        self._begin()
        self._complete()
        return await joined

    def leave(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
            self._begin()
            self._complete()

    def heartbeat(self, member: Member) -> str:
        if member not in self.members:
            return "unknown"
        member.last_seen = asyncio.get_running_loop().time()
        return "rebalance" if self.is_joining else ""

    def commit(self, member: Member, generation: int, offsets: dict[int, int]) -> bool:
        if member not in self.members or generation != self.generation:
            return False
        if self.is_joining and member.joined is not None:
            return False
        self.committed.update(offsets)
        return True

    async def watch(self) -> None:
        """Remove members that are silent, or do not join."""
        while True:
            await asyncio.sleep(0.5)
            now = asyncio.get_running_loop().time()
            late = self.is_joining and now - self._since > _REBALANCE_S
            gone = [
                one
                for one in self.members
                # One that waits to be let in sends no heartbeats.
                if (one.joined is None and (late or now - one.last_seen > SESSION_S))
                or (one.joined is not None and one.process.is_dead)
            ]
            for one in gone:
                self.members.remove(one)
            if gone:
                self._begin()
                self._complete()

    def _begin(self) -> None:
        if not self.is_joining:
            self.is_joining, self._since = True, asyncio.get_running_loop().time()

    def _complete(self) -> None:
        if not self.members or any(one.joined is None for one in self.members):
            return
        self.is_joining = False
        self.generation += 1
        shares: list[list[int]] = [[] for _ in self.members]
        # Whoever had them: more moves than with the workers' own assignor.
        for place, partition in enumerate(
            self.brokers.random.sample(range(self.partitions), self.partitions)
        ):
            shares[place % len(shares)].append(partition)
        for one, share in zip(self.members, shares, strict=True):
            future, one.joined = one.joined, None
            one.last_seen = asyncio.get_running_loop().time()
            one.generation = self.generation
            if future is not None and not future.done():
                future.set_result((self.generation, sorted(share)))
