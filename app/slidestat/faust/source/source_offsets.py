"""A source beyond its records: the offsets of its partitions, and the id of its topic."""

from collections.abc import Awaitable
from typing import cast

from aiokafka import TopicPartition
from faust.types import TP

from slidestat.engine.records import NOT_KNOWN, LogMark
from slidestat.faust.delivery import BatchApp, BatchConsumer
from slidestat.faust.source.topic_watch import TopicWatch
from slidestat.kafka.read.same_log import first_difference
from slidestat.kafka.read.scan import errors_of
from slidestat.kafka.retries import until_answered


class SourceOffsets:
    """The source topic's partitions and offsets, as the app's consumer knows them, and its id."""

    def __init__(self, app: BatchApp, bootstrap: str, topic: str, topics: TopicWatch) -> None:
        self._app = app
        self._bootstrap = bootstrap
        self._topic = topic
        self._topics = topics

    @property
    def _consumer(self) -> BatchConsumer:
        return cast(BatchConsumer, self._app.consumer)

    @property
    def topic_id(self) -> str:
        """The id of the topic, "" if it is not known."""
        return self._topics.source_id

    def confirm_source(self, fetched_at: float = NOT_KNOWN) -> Awaitable[None]:
        """Ask at once whether what was fetched up to then is of that topic, unless that was asked
        since; what is returned ends when that is sure, and raises SlidestatError if it is of
        another one.
        """
        return self._topics.confirm_source(fetched_at)

    def end(self, partition: int) -> int | None:
        """Return the offset after the partition's last record, as of the last fetch; None where
        that is not known, as while no broker answers.
        """
        # The last fetch, which says nothing about a log that cannot be reached.
        is_known = self._consumer.lost_since is None
        return self._consumer.highwater(TP(self._topic, partition)) if is_known else None

    def is_end(self, partition: int, offset: int) -> bool:
        """Return whether no record from `offset` on can be read, by a recent fetch."""
        return self._consumer.is_end(TP(self._topic, partition), offset)

    def read_up_to(self, partition: int, offset: int) -> int:
        """Return the offset up to which all is read, where all records before `offset` are: behind
        the markers of transactions, which are no records.
        """
        return self._consumer.read_up_to(TP(self._topic, partition), offset)

    def waiting(self, partition: int) -> int:
        """Return how many records before the end wait behind an open transaction, as of the last
        fetch: offsets, so this many at most.
        """
        is_known = self._consumer.lost_since is None
        return self._consumer.waiting(TP(self._topic, partition)) if is_known else 0

    def jumped_to(self, partition: int, offset: int) -> int | None:
        """Return the offset at which the next record will be looked for, if none has come from
        there, and none from `offset` on is on its way; None if one is, or will be.
        """
        return self._consumer.jumped_to(TP(self._topic, partition), offset)

    async def first_difference(self, partition: int, mark: LogMark) -> int | None:
        """Return the first offset up to the mark's that has another record than was read, or none
        any more, as soon as the brokers answer; None if the log is the one that was read.
        """
        place = self._bootstrap, self._topic, partition, mark
        with errors_of(self._topic):
            return await until_answered(lambda: first_difference(*place))

    async def earliest(self, partition: int) -> int:
        """Return the offset of the first record that the broker still has."""
        tp = TopicPartition(self._topic, partition)
        return (await self._app.consumer.earliest_offsets(tp))[tp]
