"""The interface by which a pipeline asks about its source, beside its records."""

from typing import Protocol


class SourceOffsets(Protocol):
    """The source topic's partitions and offsets, as the worker knows them."""

    @property
    def topic_id(self) -> str:
        """Which topic it is, "" where that is not known."""

    async def confirm_source(self) -> None:
        """Return when it is sure that what was fetched before is of that topic; raises
        SlidestatError if it is of another one.
        """

    def end(self, partition: int) -> int | None:
        """The offset after its last record, as of the last fetch."""

    def is_end(self, partition: int, offset: int) -> bool:
        """Whether there is nothing from `offset` on, as a fetch of a moment ago has seen."""

    def jumped_to(self, partition: int, offset: int) -> int | None:
        """Where the next record will be looked for, if none has come from there, and none from
        `offset` on is on its way; None if one is, or will be.
        """

    async def earliest(self, partition: int) -> int:
        """The offset of the first record that the broker still has."""
