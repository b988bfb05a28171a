"""What a partition must remember to go on after a restart as if nothing had happened.

Whether a record is late, and at which record the watermark passed a tick, must not depend on where
a crash fell. So beside the key states the table keeps, for each partition, the largest event time
at the position from which it goes on. It is written after the states and records of all that lies
before that position: when reading starts further back, because the commit that should have followed
did not happen, what lies between is settled and is passed over.
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
    checkpoint: Checkpoint


_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes that the table and the changelog keep."""
    return msgspec.msgpack.encode(_Stored(_VERSION, checkpoint))


def decode_checkpoint(stored: bytes | None) -> Checkpoint:
    """The stored checkpoint; that of a partition never seen if there is none.

    Raises SlidestatError for bytes that are not one.
    """
    if stored is None:
        return Checkpoint(next_offset=0)
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
    return decoded.checkpoint
