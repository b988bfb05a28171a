"""Notes that a worker commits for others of its group: which keys its partitions hold.

Kafka keeps a text as metadata with each offset of a group. So a note is as durable as the offset,
comes with the commit that is made anyway, and anyone in the group reads those of all partitions in
one request.

    slidestat-keys-1 FIELD:KEYS FIELD:KEYS ...

one pair for each field that is a key to one of the worker's topologies: the first 8 hexadecimal
digits of its name's hash, and in base64 the identities of the keys of least hash.
"""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping, Sequence

from slidestat.engine.keys.key_sample import IDENTITY_BYTES, Identity, identity

# A broker takes 4,096 characters by default (offset.metadata.max.bytes).
NOTED_KEYS = 256
_HEAD = "slidestat-keys-1"
# Clients in C take a note for a text that ends so, and read on where it does not: confluent-kafka
# 2.16 hands it to Python without its length.
_END = "\0"


def encode_note(samples: Mapping[str, Sequence[Identity]]) -> str:
    """Return the note with the keys of least hash, by the name of the key's field."""
    room = NOTED_KEYS // max(1, len(samples))
    pairs = [
        f"{_of_field(name)}:{b64encode(b''.join(keys[:room])).decode()}"
        for name, keys in samples.items()
    ]
    return " ".join([_HEAD, *pairs]) + _END


def read_note(note: str, key_name: str) -> list[Identity]:
    """Return the keys of a field; none if the note has none, or is of another program."""
    head, *pairs = note.removesuffix(_END).split(" ")
    for pair in pairs if head == _HEAD else ():
        name, _, keys = pair.partition(":")
        if name == _of_field(key_name):
            try:
                joined = b64decode(keys, validate=True)
            except Error:
                return []
            ends = range(IDENTITY_BYTES, len(joined) + 1, IDENTITY_BYTES)
            return [joined[end - IDENTITY_BYTES : end] for end in ends]
    return []


def _of_field(name: str) -> str:
    return identity(name).hex()[:8]
