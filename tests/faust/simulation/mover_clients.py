"""The mover's clients in a simulation: librdkafka's consumer, admin client and producer, as far as
it uses them. Their calls let time pass in its thread; a process may end, or freeze, in each.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.faust.simulation.brokers import Brokers, Client, Place, Written, away
from tests.faust.simulation.event_loop import current_process
from tests.faust.simulation.threads import Event, current_thread, pause

_ANSWERED_S = 30.0
_MOST_QUEUED = 60
_HIGH_UNKNOWN = -1001


class Message:
    """A record that was fetched, or an error."""

    def __init__(self, place: Place, offset: int, record: Written | None = None) -> None:
        self._place, self._offset, self._record = place, offset, record

    def error(self) -> KafkaError | None:
        return None if self._record is not None else KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._written.key

    def value(self) -> bytes | None:
        return self._written.value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return list(self._written.headers)

    def timestamp(self) -> tuple[int, int]:
        return 1, self._written.timestamp

    def leader_epoch(self) -> int:
        return 0

    def __len__(self) -> int:
        return len(self._written.value or b"")

    @property
    def _written(self) -> Written:
        assert self._record is not None
        return self._record


class Consumer:
    """A consumer that reads committed records of partitions that it is given."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._brokers: Brokers = Client.brokers
        self._process = current_process()
        self._group: str = settings["group.id"]
        self._waits = settings["isolation.level"] == "read_committed"
        self._fetched: dict[Place, int] = {}
        self._delivered: dict[Place, int] = {}
        self._high: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._paused: set[Place] = set()
        self._queue: deque[Message] = deque()

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._fetched = {(it.topic, it.partition): it.offset for it in places}
        self._delivered = dict(self._fetched)
        self._queue.clear()
        self._ends.clear()

    def pause(self, places: Iterable[TopicPartition]) -> None:
        for it in places:
            place = it.topic, it.partition
            self._paused.add(place)
            self._queue = deque(one for one in self._queue if one._place != place)
            self._fetched[place] = self._delivered[place]

    def resume(self, places: Iterable[TopicPartition]) -> None:
        self._paused -= {(it.topic, it.partition) for it in places}

    def consume(self, count: int, seconds: float) -> list[Message]:
        random = self._brokers.random
        pause(seconds * random.random())
        if self._brokers.delay(self._process) < 1.0:
            for place in random.sample(sorted(self._fetched), len(self._fetched)):
                if place not in self._paused and random.random() < 0.7:
                    self._fetch(place)
        found = []
        # Some of it may wait in the queue, while more is fetched.
        most = random.choice((count, count, random.randint(0, 9)))
        while self._queue and len(found) < most:
            found.append(self._queue.popleft())
        for one in found:
            self._delivered[one._place] = one.offset() + (one.error() is None)
        return found

    def _fetch(self, place: Place) -> None:
        start, stable = self._fetched[place], self._brokers.end(*place)
        self._high[place] = len(self._brokers.log(*place))
        end = max(start, min(stable, start + self._brokers.random.choice((2, 9, 100))))
        records = self._brokers.readable(*place, start, end)
        self._queue += [Message(place, one.offset, one) for one in records]
        self._fetched[place] = end
        if end == stable and self._ends.get(place) != end:
            self._ends[place] = end
            self._queue.append(Message(place, end))

    def get_watermark_offsets(self, place: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, self._high.get((place.topic, place.partition), _HIGH_UNKNOWN)

    def consumer_group_metadata(self) -> str:
        return self._group

    def committed(self, wanted: Sequence[TopicPartition], timeout: float) -> list[Any]:
        _request(self._brokers, timeout)
        if self._waits and self._brokers.is_unstable(self._group):
            raise KafkaException(KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT))
        known = self._brokers.offsets.get(self._group, {})
        found = []
        for it in wanted:
            offset, metadata = known.get((it.topic, it.partition), (-1001, ""))
            found.append(
                SimpleNamespace(
                    topic=it.topic,
                    partition=it.partition,
                    offset=offset,
                    metadata=metadata,
                    error=None,
                )
            )
        return found

    def close(self) -> None:
        """Nothing is open."""


class Admin:
    """An admin client."""

    def __init__(self, _settings: dict[str, Any]) -> None:
        self._brokers: Brokers = Client.brokers

    def list_topics(self, timeout: float) -> Any:
        _request(self._brokers, timeout)
        topics = {
            name: SimpleNamespace(partitions=range(count))
            for name, count in self._brokers.partitions.items()
        }
        return SimpleNamespace(topics=topics)

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Any]:
        _request(self._brokers, request_timeout)
        return {
            name: _answer(
                SimpleNamespace(
                    topic_id=f"id of {name}",
                    partitions=[
                        SimpleNamespace(leader=0) for _ in range(self._brokers.partitions[name])
                    ],
                )
            )
            for name in topics.topic_names
        }

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], request_timeout: float
    ) -> dict[TopicPartition, Any]:
        _request(self._brokers, request_timeout)
        return {
            it: _answer(
                SimpleNamespace(
                    offset=0
                    if which._value == _EARLIEST
                    else len(self._brokers.log(it.topic, it.partition)),
                    leader_epoch=0,
                )
            )
            for it, which in wanted.items()
        }


_EARLIEST = -2


class MoverProducer(Client):
    """A producer whose calls wait for their answers, as they are made in a thread."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        # Of a call that took too long: the next one of its kind waits for its answer.
        self._asked: Event | None = None
        self._answers: list[KafkaError | None] = []

    def produce(  # type: ignore[override]
        self,
        topic: str,
        value: bytes | None,
        key: str | bytes | None,
        partition: int,
        *,
        timestamp: int = 0,
        headers: Sequence[tuple[str, Any]] | None = None,
    ) -> None:
        if len(self) >= _MOST_QUEUED:
            raise BufferError
        own = key.encode() if isinstance(key, str) else key
        if partition < 0:
            partition = crc32(own or b"") % self._brokers.partitions[topic]
        encoded = [(n, v.encode() if isinstance(v, str) else v) for n, v in headers or ()]
        super().produce(topic, value, own, partition, timestamp=timestamp, headers=encoded)  # type: ignore[arg-type]

    def poll(self, seconds: float) -> None:
        if seconds:
            pause(seconds * self._brokers.random.random())
        super().poll(seconds)

    def commit_transaction(self, seconds: float) -> None:
        """Wait for the records of the transaction, and commit it."""
        until = asyncio.get_running_loop().time() + seconds
        while len(self):
            self.poll(0.05)
            if asyncio.get_running_loop().time() > until:
                raise KafkaException(away())
        super().commit_transaction(seconds)

    def _ask(
        self,
        request: Callable[[], KafkaError | None],
        seconds: float,
        *,
        is_ending: bool = False,
    ) -> None:
        if self._asked is None:
            self._asked = answered = Event()
            delay = self._brokers.delay(self._process)

            def arrives() -> None:
                self._answers.append(request())
                answered.set()

            # On its way, it does not die with its process.
            if is_ending:
                self._lose_connection(request)
            self._later(delay, arrives)
        assert current_thread() is not None
        if not self._asked.wait(seconds):
            raise KafkaException(away())
        pause(self._brokers.random.random() ** 4 * 0.2)
        self._asked = None
        if (error := self._answers.pop()) is not None:
            raise KafkaException(error)


def _request(brokers: Brokers, within_s: float) -> None:
    """Let the time of a request pass; raises KafkaException if it takes too long."""
    delay = brokers.delay(current_process())
    pause(min(delay, within_s))
    if delay > within_s:
        raise KafkaException(away())


def _answer(result: object) -> Any:
    return SimpleNamespace(result=lambda: result)
