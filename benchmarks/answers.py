"""Did a peer count every event, once? Its windows of a minute against the exact counts."""

from dataclasses import dataclass

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.errors import SlidestatError
from app.security.clients import client_config
from benchmarks.exact import Exact
from benchmarks.workload import Int64s, Workload

_MINUTE_MS, _STEP_MS = 60_000, 10_000
_FETCH = 50_000
_TIMEOUT_S = 30.0


class _Window(msgspec.Struct, gc=False):
    start: int
    value: int


@dataclass(frozen=True)
class Answers:
    """Where a peer's answers are and which of them must be there.

    `shape` is tumbling, hopping or sliding. Those of a sliding window end at an event and have it
    in: they are a millisecond longer. `wait_ms` after its end, by the times of its own key, a
    window must have been answered; None: each window must be. Some do not send what is left when
    they are told to stop.
    """

    topic: str
    shape: str
    wait_ms: int | None
    is_table: bool = False
    lost_when_stopped: bool = False

    @classmethod
    def of_table(cls, topic: str) -> "Answers":
        """Those of a Faust table's changelog, tumbling, up to date when it has stopped."""
        return cls(topic, "tumbling", None, is_table=True, lost_when_stopped=True)

    @classmethod
    def updated(cls, shape: str) -> "Answers":
        """Those that are written whenever they change."""
        return cls("{group}-answers", shape, None)

    @classmethod
    def final(cls, shape: str) -> "Answers":
        """Those that are written when a later event of the key closes the window."""
        return cls("{group}-answers", shape, 0)

    @classmethod
    def waited(cls, shape: str) -> "Answers":
        """The same, a minute after the window's end."""
        return cls("{group}-answers", shape, _MINUTE_MS, lost_when_stopped=True)

    def check(self, workload: Workload, bootstrap: str, group: str) -> int:
        """Compare all; return how many windows there are. Raises SlidestatError if one is wrong or
        missing: the speed is worth nothing then.
        """
        topic = self.topic.format(group=group)
        keys, starts, counts = self._last(workload, bootstrap, topic)
        if not len(keys):
            raise _impossible(f"there is no answer on {topic}")
        length = _MINUTE_MS + (self.shape == "sliding")
        exact, _ = Exact(workload).of(keys, starts, starts + length)
        wrong = np.flatnonzero(exact != counts)
        if len(wrong):
            i = wrong[0]
            raise _impossible(
                f"{len(wrong)} of {len(keys)} windows of {topic} are wrong, such as that of key "
                f"{keys[i]} from {starts[i]}: {counts[i]}, exactly {exact[i]}"
            )
        wanted = self._due(workload)
        found = starts * workload.key_count + keys
        missing = np.setdiff1d(wanted, found)
        if len(missing):
            raise _impossible(f"{len(missing)} of {len(wanted)} windows of {topic} are missing")
        return len(keys)

    def _due(self, workload: Workload) -> Int64s:
        """The windows that must have been answered, as start * key_count + key."""
        keys, times = workload.keys, workload.times
        if self.shape == "tumbling":
            starts = [times // _MINUTE_MS * _MINUTE_MS]
        elif self.shape == "hopping":
            last = times // _STEP_MS * _STEP_MS
            starts = [last - back for back in range(0, _MINUTE_MS, _STEP_MS)]
        else:
            starts = [times - _MINUTE_MS]
        newest = np.zeros(workload.key_count, np.int64)
        np.maximum.at(newest, keys, times)
        due: list[Int64s] = []
        for of in starts:
            closed = np.ones(len(keys), np.bool_)
            if self.wait_ms is not None:
                closed = of + _MINUTE_MS + self.wait_ms < newest[keys]
            due.append((of * workload.key_count + keys)[closed])
        return np.unique(np.concatenate(due))

    def _last(
        self, workload: Workload, bootstrap: str, topic: str
    ) -> tuple[Int64s, Int64s, Int64s]:
        """Key number, start and count of each window, as it was answered last."""
        decode = msgspec.json.Decoder(_Window).decode
        last: dict[tuple[int, int], int] = {}
        for key, value in read_topic(bootstrap, topic):
            if self.is_table:
                text, (start, _) = msgspec.json.decode(key)
                last[workload.key_number(text), round(start * 1000)] = int(value)
            else:
                window = decode(value)
                last[workload.key_number(key.decode()), window.start] = window.value
        places = np.array(list(last), np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1], np.array(list(last.values()), np.int64)


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of all records of a topic, without tombstones."""
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    records: list[tuple[bytes, bytes]] = []
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            messages = consumer.consume(_FETCH, timeout=0.5)
            for message in messages:
                value = message.value()
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    ended.add(message.partition())
                elif value is not None:
                    records.append((message.key() or b"", value))
    finally:
        consumer.close()
    return records


def topic_bytes(bootstrap: str, topic: str) -> int:
    """The bytes of all keys and values on a topic."""
    return sum(len(key) + len(value) for key, value in read_topic(bootstrap, topic))


def _impossible(what: str) -> SlidestatError:
    return SlidestatError(f"The speed is worth nothing: {what}.", "Report it.")
