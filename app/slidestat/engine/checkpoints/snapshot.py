"""The states and the checkpoint that a flush makes durable."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The states that must be durable before reading may start again at `next_offset`.

    The state of a key is None where it is to be deleted.
    """

    states: dict[str, bytes | None]
    checkpoint: bytes
    next_offset: int
