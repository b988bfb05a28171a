"""Did a peer count every event, once? Its windows against the exact counts."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from benchmarks.harness.exact import Exact
from benchmarks.harness.workload import Workload
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

_MINUTE_MS, _STEP_MS = 60_000, 10_000
_FETCH = 50_000
_TIMEOUT_S = 30.0


class _Window(msgspec.Struct, gc=False):
    start: int
    value: int
    # -1: an answer that is taken back, as Pathway does before it gives another.
    diff: int = 1


_decode = msgspec.json.Decoder(_Window).decode


@dataclass(frozen=True)
class Answers:
    """Where a peer's answers are and which of them must be there.

    `shape` is tumbling, hopping or sliding. Those of a sliding window end at an event and have it
    in: they are a millisecond longer. `wait_ms` after its end, by the times of its own key and
    by those of each partition, a window must have been answered; None: each window must be. Some do
    not send what is left when they are told to stop. `length_ms` is that of a window, of hopping
    ones too.
    """

    topic: str
    shape: str
    wait_ms: int | None
    is_table: bool = False
    lost_when_stopped: bool = False
    length_ms: int = _MINUTE_MS

    @classmethod
    def of_table(cls, topic: str) -> "Answers":
        """Those of a Faust table's changelog, tumbling, up to date when it has stopped."""
        return cls(topic, "tumbling", None, is_table=True, lost_when_stopped=True)

    @classmethod
    def updated(cls, shape: str, *, lost_when_stopped: bool = False) -> "Answers":
        """Those that are written whenever they change."""
        return cls("{group}-answers", shape, None, lost_when_stopped=lost_when_stopped)

    @classmethod
    def final(cls, shape: str) -> "Answers":
        """Those that are written when a later event of the key closes the window."""
        return cls("{group}-answers", shape, 0)

    @classmethod
    def waited(cls, shape: str, *, lost_when_stopped: bool) -> "Answers":
        """The same, a minute after the window's end."""
        return cls("{group}-answers", shape, _MINUTE_MS, lost_when_stopped=lost_when_stopped)

    def check(self, workload: Workload, bootstrap: str, group: str) -> int:
        """Compare all; return how many windows there are. Raises SlidestatError if one is wrong or
        missing: the speed is worth nothing then.
        """
        topic = self.topic.format(group=group)
        keys, starts, counts = self._last(workload, bootstrap, topic)
        if not len(keys):
            raise _impossible(f"there is no answer on {topic}")
        length = self.length_ms + (self.shape == "sliding")
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

    def window(self, workload: Workload, key: bytes, value: bytes) -> tuple[int, int, int] | None:
        """Key number, start and count of the window that a record tells; None if it takes an answer
        back.
        """
        if self.is_table:
            text, (start, _) = msgspec.json.decode(key)
            return workload.key_number(text), round(start * 1000), int(value)
        window = _decode(value)
        if window.diff < 0:
            return None
        return workload.key_number(key.decode()), window.start, window.value

    def _due(self, workload: Workload) -> Integers:
        """The windows that must have been answered, as start * key_count + key."""
        keys, times = workload.keys, workload.times
        if self.shape == "tumbling":
            starts = [times // self.length_ms * self.length_ms]
        elif self.shape == "hopping":
            last = times // _STEP_MS * _STEP_MS
            starts = [last - back for back in range(0, self.length_ms, _STEP_MS)]
        else:
            starts = [times - self.length_ms]
        newest = np.zeros(workload.key_count, np.int64)
        np.maximum.at(newest, keys, times)
        if self.wait_ms:
            # A watermark as well: that of the partition that has come least far.
            reached = np.zeros(workload.partitions, np.int64)
            np.maximum.at(reached, keys % workload.partitions, times)
            newest = np.minimum(newest, reached.min())
        due: list[Integers] = []
        for of in starts:
            closed = np.ones(len(keys), np.bool_)
            if self.wait_ms is not None:
                closed = of + self.length_ms + self.wait_ms < newest[keys]
            due.append((of * workload.key_count + keys)[closed])
        return np.unique(np.concatenate(due))

    def _last(
        self, workload: Workload, bootstrap: str, topic: str
    ) -> tuple[Integers, Integers, Integers]:
        """Key number, start and count of each window, as it was answered last."""
        last: dict[tuple[int, int], int] = {}
        for record in read_topic(bootstrap, topic):
            found = self.window(workload, *record)
            if found is not None:
                key, start, count = found
                last[key, start] = count
        places = np.array(list(last), np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1], np.array(list(last.values()), np.int64)


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of all records of a topic, without tombstones."""
    messages = read_messages(bootstrap, topic)
    return [(message.key() or b"", message.value() or b"") for message in messages]


def read_messages(bootstrap: str, topic: str) -> Iterator[Message]:
    """All records of a topic, without tombstones; those of a partition in their order."""
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            messages = consumer.consume(_FETCH, timeout=0.5)
            for message in messages:
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    ended.add(message.partition())
                elif message.value() is not None:
                    yield message
    finally:
        consumer.close()


def topic_bytes(bootstrap: str, topic: str) -> int:
    """The bytes of all keys and values on a topic."""
    return sum(len(key) + len(value) for key, value in read_topic(bootstrap, topic))


def changelog_bytes(bootstrap: str, group: str) -> int:
    """The bytes of all keys and values on the changelogs of a group."""
    names = admin_client(bootstrap).list_topics(timeout=_TIMEOUT_S).topics
    changelogs = [name for name in names if group in name and "changelog" in name]
    return sum(topic_bytes(bootstrap, name) for name in changelogs)


def _impossible(what: str) -> SlidestatError:
    return SlidestatError(f"The speed is worth nothing: {what}.", "Report it.")
