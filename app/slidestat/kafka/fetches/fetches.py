"""Take what aiokafka has fetched as columns, where it is of a batch topic."""

import sys
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any
from weakref import proxy

from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords

from slidestat.kafka.fetches.columns import FetchedColumns, columns_of
from slidestat.kafka.fetches.fetched_bytes import FetchedBytes, PlainRecords


class Fetches(OrderedDict[TopicPartition, Any]):
    """The fetches of aiokafka by partition, those of `topics` as columns."""

    def __init__(self, topics: Collection[str], fetched: Mapping[TopicPartition, Any]) -> None:
        super().__init__()
        self._topics = topics
        for tp, of_it in fetched.items():
            self[tp] = of_it

    def __setitem__(self, tp: TopicPartition, fetched: Any) -> None:
        if tp.topic in self._topics and isinstance(fetched, FetchResult):
            # Weakly: a worker's garbage collector looks rarely for circles, and these hold a fetch.
            records = fetched._partition_records
            records._consumer_record = partial(_noted, proxy(records))
            fetched.getall = partial(_take, proxy(fetched))
        super().__setitem__(tp, fetched)


def keep_fetched_bytes() -> None:
    """Have aiokafka keep what it fetches where it can be read."""
    fetcher.MemoryRecords = FetchedBytes


def _noted(records: PartitionRecords, _tp: TopicPartition, record: Any) -> Any:
    """Return a record, or many; of many, the wanted ones are those that aiokafka has not passed
    yet.
    """
    if isinstance(record, PlainRecords):
        record.least_offset = records.next_fetch_offset
    return record


def _take(fetched: FetchResult, max_records: int | None = None) -> FetchedColumns | list[Any]:
    """Take up to `max_records` of what was fetched of a partition, as `FetchResult.getall` does."""
    if not fetched.check_assignment(fetched._topic_partition):
        return []
    # What compaction has left of a batch may all lie before the offset that was asked for.
    while fetched.has_more():
        columns = _next_columns(fetched, sys.maxsize if max_records is None else max_records)
        if len(columns):
            return columns
    return []


def _next_columns(fetched: FetchResult, left: int) -> FetchedColumns:
    records = fetched._partition_records
    parts: list[Any] = []
    records._records.room = left
    for part in records:
        parts.append(part)
        left -= part.count if isinstance(part, PlainRecords) else 1
        records._records.room = left
        if not left:
            break
    columns = columns_of(parts)
    fetched._update_position()
    if left:
        fetched._partition_records = None
    return columns
