"""The interface by which a pipeline asks about its source, in addition to its records."""

from collections.abc import Awaitable
from typing import Protocol

from slidestat.engine.records import LogMark


class SourceOffsets(Protocol):
    """The source topic's partitions and offsets, as the worker knows them."""

    @property
    def topic_id(self) -> str:
        """The id of the topic, "" if it is not known."""

    def confirm_source(self) -> Awaitable[None]:
        """Ask at once whether what was fetched before is of that topic; what is returned ends when
        that is sure, and raises SlidestatError if it is of another one.
        """

    def end(self, partition: int) -> int | None:
        """Return the offset after the partition's last record, as of the last fetch; None where
        that is not known, as while no broker answers.
        """

    def is_end(self, partition: int, offset: int) -> bool:
        """Return whether there is no record from `offset` on that can be read, by a recent
        fetch.
        """

    def read_up_to(self, partition: int, offset: int) -> int:
        """Return the offset up to which all is read, where all records before `offset` are: behind
        the markers of transactions, which are no records.
        """

    def waiting(self, partition: int) -> int:
        """Return how many records before the end wait behind an open transaction, as of the last
        fetch: offsets, so this many at most.
        """

    def jumped_to(self, partition: int, offset: int) -> int | None:
        """Return the offset at which the next record will be looked for, if none has come from
        there, and none from `offset` on is on its way; None if one is, or will be.
        """

    async def first_difference(self, partition: int, mark: LogMark) -> int | None:
        """Return the first offset up to the mark's that has another record than was read, or none
        any more, as soon as the brokers answer; None if the log is the one that was read.
        """

    async def earliest(self, partition: int) -> int:
        """Return the offset of the first record that the broker still has."""
