"""The events of a throughput run, and what is exactly true of them.

Drawn from a seed, so that every run and every machine counts the same topic. Event times never go
back; the gaps are exponential, as arrivals of independent sources are.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from app.client.connection import client_config
from app.errors import SlidestatError

Int64s = npt.NDArray[np.int64]

_KEY = "key-"
_SEED = 20020106
_START_MS = 1_700_000_040_000  # a whole minute in November 2023
_LARGEST_CENTS = 100_00


class KeyDistribution(StrEnum):
    """How often each key comes: the k-th in proportion to 1/k or to 1/k^1.1, or all alike."""

    ZIPF = "zipf"
    ZIPF_STEEP = "zipf-1.1"
    UNIFORM = "uniform"


_EXPONENTS = {KeyDistribution.ZIPF: 1.0, KeyDistribution.ZIPF_STEEP: 1.1}


@dataclass(frozen=True)
class Workload:
    """Events in the order of their times.

    keys: int64[n], numbers of keys in [0, key_count). times: int64[n], milliseconds, not falling.
    cents: int64[n], 100 times the values. An event goes to partition key % partitions.
    """

    key_count: int
    partitions: int
    keys: Int64s
    times: Int64s
    cents: Int64s

    def __len__(self) -> int:
        return len(self.keys)


def key_text(key: int) -> str:
    """The text of a key's number, as it stands on the wire."""
    return f"{_KEY}{key:06d}"


def key_number(text: str) -> int:
    """The number of a key's text."""
    return int(text.removeprefix(_KEY))


def record(key: bytes, time_ms: int, cents: int) -> bytes:
    """An event as it stands on the wire."""
    return b'{"key":"%b","time":%d,"value":%d.%02d}' % (key, time_ms, cents // 100, cents % 100)


def draw(
    events: int,
    key_count: int,
    distribution: KeyDistribution,
    partitions: int,
    mean_gap_ms: float = 10.0,
) -> Workload:
    """Draw a workload; the same arguments give the same one."""
    rng = np.random.default_rng(_SEED)
    if distribution in _EXPONENTS:
        weights = 1.0 / np.arange(1, key_count + 1) ** _EXPONENTS[distribution]
        shares = np.cumsum(weights) / weights.sum()
        keys = np.searchsorted(shares, rng.random(events), side="right")
        keys = np.minimum(keys, key_count - 1).astype(np.int64)
    else:
        keys = rng.integers(0, key_count, events)
    gaps = rng.exponential(mean_gap_ms, events)
    times = _START_MS + np.cumsum(gaps).astype(np.int64)
    return Workload(key_count, partitions, keys, times, rng.integers(1, _LARGEST_CENTS, events))


def send(workload: Workload, bootstrap: str, topic: str) -> int:
    """Produce the events, with their times as timestamps; the mean size of a record in bytes.

    Raises SlidestatError if the broker did not take all of them.
    """
    refused = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal refused
        refused += error is not None

    producer = Producer(
        {
            **client_config(bootstrap),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.num.messages": 50_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    texts = [key_text(key) for key in range(workload.key_count)]
    encoded = [text.encode() for text in texts]
    partitions = workload.partitions
    size = 0
    for key, time_ms, cents in zip(
        workload.keys.tolist(), workload.times.tolist(), workload.cents.tolist(), strict=True
    ):
        value = record(encoded[key], time_ms, cents)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, encoded[key], key % partitions, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(60)
    if left or refused:
        raise SlidestatError(
            f"The broker did not take {left + refused} of the events.", "Look at the broker's log."
        )
    return round(size / len(workload))
