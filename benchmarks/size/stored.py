"""What a stopped worker has left: its databases, its changelog, and how long they take to open."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rocksdict
from confluent_kafka import Consumer, TopicPartition

from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.faust.table import TablePartition
from slidestat.kafka.settings import client_config

_FETCH = 50_000
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class StoredTable:
    """Keys in the databases, the bytes of their states, and of the databases' files; seconds that
    it takes to find what is due for the keys, all partitions together.
    """

    keys: int
    state_bytes: int
    file_bytes: int
    open_s: float


@dataclass(frozen=True)
class StoredChangelog:
    """Records of a changelog as it was written, with their bytes; and what is left of it once it is
    compacted.
    """

    records: int
    bytes: int
    live_records: int
    live_bytes: int


def read_table(topology: Topology, partitions: int, data: Path) -> StoredTable:
    """Look into the databases of a worker that has stopped."""
    keys = state_bytes = 0
    seconds = 0.0
    for partition in range(partitions):
        with stopped_table(topology, partition, data) as table:
            start = time.perf_counter()
            PartitionProcessor(topology, topology.source, partition, table)
            seconds += time.perf_counter() - start
            for _, state in table.scan():
                keys += 1
                state_bytes += len(state)
    return StoredTable(keys, state_bytes, folder_bytes(data), seconds)


@contextmanager
def stopped_table(topology: Topology, partition: int, data: Path) -> Iterator[TablePartition]:
    """A partition's database in the folder of a worker that has stopped, or was killed."""
    (path,) = data.rglob(f"{topology.table_name}-{partition}.db")
    options = rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(str(path), options, access_type=rocksdict.AccessType.read_only())
    try:
        yield TablePartition(partition, database)
    finally:
        database.close()


def folder_bytes(folder: Path, kind: str = "*") -> int:
    """The bytes of all files of a kind under a folder."""
    return sum(path.stat().st_size for path in folder.rglob(kind) if path.is_file())


def changelog_end(topology: Topology, partitions: int, bootstrap: str) -> int:
    """How many records the changelog has had."""
    consumer = Consumer({**client_config(bootstrap), "group.id": "benchmark-changelog"})
    try:
        return sum(
            consumer.get_watermark_offsets(
                TopicPartition(topology.changelog_topic, partition), timeout=_TIMEOUT_S
            )[1]
            for partition in range(partitions)
        )
    finally:
        consumer.close()


def read_changelog(topology: Topology, partitions: int, bootstrap: str) -> StoredChangelog:
    """Read a changelog from its beginning."""
    wanted = changelog_end(topology, partitions, bootstrap)
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": "benchmark-changelog",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    topic = topology.changelog_topic
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    records = size = ended = 0
    # A checkpoint has the same key in each partition.
    live: dict[tuple[int | None, bytes], int] = {}
    try:
        while ended < partitions:
            messages = consumer.consume(min(_FETCH, max(1, wanted - records)), timeout=_TIMEOUT_S)
            for message in messages:
                if message.error() is not None:
                    ended += 1
                    continue
                key, value = message.key() or b"", message.value()
                records += 1
                size += len(key) + len(value or b"")
                if value is None:
                    live.pop((message.partition(), key), None)
                else:
                    live[message.partition(), key] = len(key) + len(value)
    finally:
        consumer.close()
    return StoredChangelog(records, size, len(live), sum(live.values()))
