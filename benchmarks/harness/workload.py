"""The events of a throughput run, and what is exactly true of them.

Drawn from a seed, so that every run and every machine counts the same topic. Event times never go
back; the gaps are exponential, as arrivals of independent sources are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks import REPOSITORY
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

_KEY = "key-"
_SEED = 20020106
_START_MS = 1_700_000_040_000  # a whole minute in November 2023
_LARGEST_CENTS = 100_00
_FLIGHTS = REPOSITORY / "app" / "slidestat" / "demo" / "data" / "flights-2001.parquet"


class KeyDistribution(StrEnum):
    """How often each key comes: the k-th in proportion to 1/k or to 1/k^1.1, or all alike."""

    ZIPF = "zipf"
    ZIPF_STEEP = "zipf-1.1"
    UNIFORM = "uniform"


_EXPONENTS = {KeyDistribution.ZIPF: 1.0, KeyDistribution.ZIPF_STEEP: 1.1}


class Record(NamedTuple):
    """An event on the wire, its time and the partition that it goes to."""

    key: bytes
    value: bytes
    time_ms: int
    partition: int


@dataclass(frozen=True)
class Workload:
    """Events in the order of their times.

    keys: int64[n], numbers of keys in [0, key_count). times: int64[n], milliseconds, not falling.
    cents: int64[n], 100 times the values. An event goes to partition key % partitions. `names` are
    the texts of the keys, made from their numbers where there are none. `note_bytes` is the length
    of a text that each record carries and nobody asks for.
    """

    key_count: int
    partitions: int
    keys: Integers
    times: Integers
    cents: Integers
    names: tuple[str, ...] = ()
    note_bytes: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, end: int) -> "Workload":
        """Its events from `start` up to `end`."""
        rows = slice(start, end)
        keys, times, cents = self.keys[rows], self.times[rows], self.cents[rows]
        return replace(self, keys=keys, times=times, cents=cents)

    def key_text(self, key: int) -> str:
        """The text of a key's number, as it stands on the wire."""
        return self.names[key] if self.names else f"{_KEY}{key:06d}"

    def key_number(self, text: str) -> int:
        """The number of a key's text."""
        return self._numbers[text] if self.names else int(text.removeprefix(_KEY))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def records(self, start: int = 0, end: int | None = None) -> Iterator[Record]:
        """Events as they stand on the wire."""
        part = self.part(start, len(self) if end is None else end)
        encoded = {key: self.key_text(key).encode() for key in np.unique(part.keys).tolist()}
        note = b',"note":"%b"' % (b"x" * self.note_bytes) if self.note_bytes else b""
        columns = (column.tolist() for column in (part.keys, part.times, part.cents))
        for key, time_ms, cents in zip(*columns, strict=True):
            fields = (encoded[key], time_ms, cents // 100, cents % 100, note)
            value = b'{"key":"%b","time":%d,"value":%d.%02d%b}' % fields
            yield Record(encoded[key], value, time_ms, key % self.partitions)


def draw(
    events: int,
    key_count: int,
    distribution: KeyDistribution,
    partitions: int,
    mean_gap_ms: float = 10.0,
    note_bytes: int = 0,
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
    cents = rng.integers(1, _LARGEST_CENTS, events)
    return Workload(key_count, partitions, keys, times, cents, note_bytes=note_bytes)


def flights(partitions: int) -> Workload:
    """600,000 real departures by airport, with the miles as values; see slidestat/demo/data."""
    table = pq.read_table(_FLIGHTS, columns=["date", "origin", "distance"])
    origins = table["origin"].combine_chunks().dictionary_encode()
    times = table["date"].cast("int64").to_numpy()
    cents = table["distance"].to_numpy().astype(np.int64) * 100
    names = tuple(origins.dictionary.to_pylist())
    keys = origins.indices.to_numpy().astype(np.int64)
    return Workload(len(names), partitions, keys, times, cents, names)


def send(workload: Workload, bootstrap: str, topic: str, *, keyed: bool = True) -> int:
    """Produce the events, with their times as timestamps; the mean size of a record in bytes.

    Not keyed, records have no key, and the partitions take turns.

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
    size = 0
    for number, (key, value, time_ms, partition) in enumerate(workload.records()):
        size += len(value)
        to = partition if keyed else number % workload.partitions
        while True:
            try:
                producer.produce(topic, value, key if keyed else None, to, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(60)
    if left or refused:
        raise SlidestatError(
            f"The broker did not take {left + refused} of the events.", "Look at the broker's log."
        )
    return round(size / len(workload))
