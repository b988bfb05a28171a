"""A synopsis that a party publishes, and the clock that says how far it has come.

A party is a partition of a source topic, named TOPIC/PARTITION. On the topic NAME-synopses it puts,
at each tick after events, its synopsis of each statistic as it stood just before the tick: the
Kafka value is the synopsis' bytes, the Kafka timestamp the tick, the Kafka key the JSON array
[topology, statistic, key, party]; what else is known stands in the headers. After that comes the
party's clock, under [topology, party]: up to its tick the party has published all that it will.
The topic is compacted: what stays of a party is its newest synopses and its clock.
"""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta


class SynopsisHeaders(msgspec.Struct, frozen=True):
    """The headers of a synopsis, each a UTF-8 string."""

    meaning: Annotated[str, Meta(description="what the synopsis keeps, and how exactly")]
    source_offset: Annotated[
        int, Meta(description="offset of the record that moved the party's watermark past the tick")
    ]

    def encode(self) -> list[tuple[str, bytes]]:
        """Kafka headers, in the order of the fields."""
        return [(f, str(getattr(self, f)).encode()) for f in self.__struct_fields__]

    @classmethod
    def decode(cls, headers: Iterable[tuple[str, bytes]]) -> "SynopsisHeaders":
        """Read the headers of a synopsis; raises msgspec.ValidationError for other records."""
        texts = {name: value.decode() for name, value in headers if name in cls.__struct_fields__}
        return msgspec.convert(texts, cls, strict=False)


class PartyClock(msgspec.Struct, frozen=True):
    """How far a party has come: it has published what it knows of all events before tick_ms."""

    tick_ms: Annotated[int, Meta(description="a multiple of the topology's `every`")]
    parties: Annotated[int, Meta(ge=1, description="how many parties there are")]
    source_offset: Annotated[
        int, Meta(description="offset of the record that moved the party's watermark past the tick")
    ]


class SynopsisKey(NamedTuple):
    """The Kafka key of a synopsis: whose it is, and of what."""

    topology: str
    statistic: str
    key: str
    party: str


class ClockKey(NamedTuple):
    """The Kafka key of a party's clock."""

    topology: str
    party: str


_keys = msgspec.json.Decoder(list[str])
_clocks = msgspec.json.Decoder(PartyClock)


def party_name(topic: str, partition: int) -> str:
    """The name of the party that a partition is."""
    return f"{topic}/{partition}"


def encode_key(key: SynopsisKey | ClockKey) -> bytes:
    """The bytes of a key: a JSON array, so that no name needs escaping by hand."""
    return msgspec.json.encode(list(key))


def decode_key(data: bytes) -> SynopsisKey | ClockKey:
    """Read a key; raises msgspec.DecodeError for other bytes."""
    parts = _keys.decode(data)
    if len(parts) == len(SynopsisKey._fields):
        return SynopsisKey(*parts)
    if len(parts) == len(ClockKey._fields):
        return ClockKey(*parts)
    raise msgspec.ValidationError(f"a key of {len(parts)} parts")


def decode_clock(data: bytes) -> PartyClock:
    """Read a party's clock; raises msgspec.DecodeError for other bytes."""
    return _clocks.decode(data)
