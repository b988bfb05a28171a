"""What a partition must remember to go on after a restart as if nothing had happened.

Whether a record is late, and at which record the watermark passed a tick, must not depend on where
a crash fell. So beside the key states the table keeps, for each partition, the largest event time
at every position from which reading may start again: the positions of the last commits.
"""

import msgspec

from app.errors import SlidestatError

_VERSION = 1

# Before any event: below every time that an event may have, and far from overflow.
NO_TIME = -(2**62)


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """Records read and what became of them; read = counted + dead + late."""

    read: int = 0
    counted: int = 0
    dead: int = 0
    late: int = 0


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """A partition just before the record at `next_offset`.

    Every record before it is settled: in its key's state, a dead letter, or late.
    """

    next_offset: int
    max_time: int = NO_TIME
    counters: Counters = Counters()


class _Stored(msgspec.Struct, array_like=True):
    version: int
    checkpoints: list[Checkpoint]


_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_checkpoints(checkpoints: list[Checkpoint]) -> bytes:
    """Bytes of a partition's checkpoints, oldest first."""
    return msgspec.msgpack.encode(_Stored(_VERSION, checkpoints))


def decode_checkpoints(stored: bytes | None) -> list[Checkpoint]:
    """Oldest first; empty for a partition never seen. Raises SlidestatError for other bytes."""
    if stored is None:
        return []
    try:
        decoded = _decoder.decode(stored)
    except msgspec.DecodeError as error:
        raise SlidestatError(
            "A stored partition checkpoint is damaged.", "Delete the worker's data folder."
        ) from error
    if decoded.version > _VERSION:
        raise SlidestatError(
            f"A stored partition checkpoint has version {decoded.version}.",
            "Run the version that wrote it, or reset the topology's state.",
        )
    return decoded.checkpoints


def checkpoint_for(checkpoints: list[Checkpoint], offset: int) -> Checkpoint:
    """The checkpoint to go on from when reading starts at `offset`.

    The newest one not after `offset`. When reading starts before all of them (the group's offsets
    were lost), the oldest: every record before it is settled and will be passed over.
    """
    candidates = [c for c in checkpoints if c.next_offset <= offset]
    if candidates:
        return candidates[-1]
    return checkpoints[0] if checkpoints else Checkpoint(next_offset=0)
