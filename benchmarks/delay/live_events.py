"""Events that happen as they are sent, at a rate; their times are their records' timestamps."""

import time

import numpy as np
from confluent_kafka import Producer

from benchmarks.harness.answers import read_messages
from benchmarks.harness.workload import Workload
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

KEYS = 1_000
_CENTS = 125
_PATIENCE_S = 180.0


class LiveEvents:
    """A topic, and what goes to it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self._partitions = partitions
        self.started_ms = 0

    def send(self, events: int, rate: int) -> None:
        """Send so many events, so many a second; `started_ms` is when the last call began.

        Raises SlidestatError if the broker does not take them.
        """
        settings = {**client_config(self.bootstrap), "linger.ms": 1}
        producer = Producer(settings)
        start = time.time()
        self.started_ms = int(start * 1000)
        for number in range(events):
            # Sleep as long as the schedule wants; what is late goes at once.
            if (wait := start + number / rate - time.time()) > 0:
                producer.poll(0)
                time.sleep(wait)
            key, now = number % KEYS, int(time.time() * 1000)
            value = b'{"key":"key-%06d","time":%d,"value":%d.%02d}' % (
                key,
                now,
                *divmod(_CENTS, 100),
            )
            partition = key % self._partitions
            producer.produce(self.topic, value, b"key-%06d" % key, partition, timestamp=now)
        if left := producer.flush(_PATIENCE_S):
            raise SlidestatError(
                f"The broker did not take {left} of the events.", "Look at the broker's log."
            )

    def read(self) -> Workload:
        """All that was sent, in the order of its times."""
        found: list[tuple[int, int]] = []
        for message in read_messages(self.bootstrap, self.topic):
            key = (message.key() or b"").removeprefix(b"key-")
            found.append((int(key), message.timestamp()[1]))
        columns: Integers = np.array(found, np.int64).reshape(-1, 2)
        keys, times = columns[np.argsort(columns[:, 1], kind="stable")].T
        return Workload(KEYS, self._partitions, keys, times, np.full(len(keys), _CENTS, np.int64))
