"""Records that were not counted, each with why."""

from typing import NamedTuple

from slidestat.engine.decoding.event_columns import Refusal
from slidestat.engine.records import Headers, RecordBatch
from slidestat.schemas.dead_letter import Reason


class Letter(NamedTuple):
    """A record that was not counted, with its position and why."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    reason: Reason
    detail: str
    headers: Headers = ()


# A letter after the offset of the record at which it was clear that there would be one.
Decided = tuple[int, Letter]


def letter_of(batch: RecordBatch, refusal: Refusal) -> Letter:
    """Write the letter of a record that is refused."""
    row = refusal.row
    return Letter(
        int(batch.offsets[row]),
        batch.keys[row],
        batch.values[row],
        int(batch.timestamps[row]),
        refusal.reason,
        refusal.detail,
        () if batch.headers is None else batch.headers[row],
    )


def as_decided(own: list[Letter], decided: list[Decided]) -> list[Letter]:
    """Return letters in the order of the records at which they were decided."""
    every = [*decided, *((letter.offset, letter) for letter in own)]
    return [letter for _, letter in sorted(every, key=lambda item: (item[0], item[1].offset))]
