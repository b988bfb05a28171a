"""A synopsis that a party publishes, and the clock of the party.

A party is a partition of a source topic, named TOPIC/PARTITION. On the topic NAME-synopses it puts,
at each tick after events, its synopsis of each statistic as it stood just before the tick: the
Kafka value is the synopsis' bytes, the Kafka timestamp the tick, the Kafka key the JSON array
[topology, statistic, key, party]; the rest is in the headers. After that comes the
party's clock, under [topology, party]: up to its tick the party has published all that it will.
An idle party publishes what it would if no records came, under keys that end in
"provisional": its synopses of ticks that its watermark has not passed, then a clock. That holds
until its next clock. The topic is compacted: what stays of a party is its newest synopses and its
clock.

Where windows are of the last events of each party, a party's now is a number of its own, that of
its last event: it is 8 bytes before the synopsis.

Of a topology with `synopses`, which needs no referee, there are neither clocks nor provisional
records: each key has its synopses at the multiples of that interval, on its own partition, and the
topic is not compacted.
"""

import struct
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from slidestat.schemas import doc


class SynopsisHeaders(msgspec.Struct, frozen=True, omit_defaults=True):
    """The headers of a synopsis, each a UTF-8 string."""

    meaning: Annotated[str, doc("what the synopsis keeps, and how exactly")]
    source_offset: Annotated[
        int, doc("offset of the record that moved the party's watermark past the tick")
    ]

    interval_ms: Annotated[
        int | None,
        doc("of a topology with `synopses`: each key with events has some at every multiple of it"),
    ] = None

    def encode(self) -> list[tuple[str, bytes]]:
        """Return the Kafka headers, in the order of the fields; a field that is None has none."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return [(name, str(value).encode()) for name, value in fields if value is not None]

    @classmethod
    def decode(cls, headers: Iterable[tuple[str, bytes]]) -> "SynopsisHeaders":
        """Read the headers of a synopsis; raises msgspec.ValidationError for other records."""
        texts = {name: value.decode() for name, value in headers if name in cls.__struct_fields__}
        return msgspec.convert(texts, cls, strict=False)


_NUMBER = struct.Struct("<q")


class NumberedSynopsis(NamedTuple):
    """A synopsis of a party's last events, with the number of the last one."""

    number: int
    synopsis: bytes

    def encode(self) -> bytes:
        """Return the Kafka value: the number as 8 bytes, little-endian, then the synopsis."""
        return _NUMBER.pack(self.number) + self.synopsis

    @classmethod
    def decode(cls, data: bytes) -> "NumberedSynopsis":
        """Read what `encode` wrote; raises ValueError for bytes that begin with no such number."""
        if len(data) < _NUMBER.size:
            raise ValueError("the number of the party's last event is missing")
        (number,) = _NUMBER.unpack_from(data)
        if number < 1:
            raise ValueError(f"{number} is no number of an event")
        return cls(number, data[_NUMBER.size :])


class PartyClock(msgspec.Struct, frozen=True, omit_defaults=True):
    """The clock of a party: it has published its synopses of all events before tick_ms.

    A provisional one gives the tick that an idle party would reach if no records came.
    """

    tick_ms: Annotated[int, doc("a multiple of the topology's `every`")]
    parties: Annotated[int, Meta(ge=1, description="how many parties there are")]
    source_offset: Annotated[
        int,
        doc(
            "offset of the record that moved the party's watermark past the tick; of a"
            " provisional one, of the last record read"
        ),
    ]
    announced: Annotated[
        int,
        Meta(ge=0, description="of a provisional one: how many provisional synopses it is about"),
    ] = 0
    rankings: Annotated[
        dict[str, str], doc("what the party ranks its keys by, by the names of rankings")
    ] = msgspec.field(default_factory=dict)
    ranked_after_ms: Annotated[
        int | None,
        doc(
            "of rankings: of each tick after this one and up to its own, the party has"
            " published which keys lead, if any; left out if of all"
        ),
    ] = None


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


class ProvisionalKey(NamedTuple):
    """The Kafka key of what an idle party would publish if nothing came."""

    of: SynopsisKey | ClockKey


_PROVISIONAL = "provisional"
_keys = msgspec.json.Decoder(list[str])


def party_name(topic: str, partition: int) -> str:
    """Return the name of a partition as a party."""
    return f"{topic}/{partition}"


def encode_key(key: SynopsisKey | ClockKey | ProvisionalKey) -> bytes:
    """Return the bytes of a key: a JSON array, so that no name needs escaping by hand."""
    parts = [*key.of, _PROVISIONAL] if isinstance(key, ProvisionalKey) else list(key)
    return msgspec.json.encode(parts)


def decode_key(data: bytes) -> SynopsisKey | ClockKey | ProvisionalKey:
    """Read a key; raises msgspec.DecodeError for other bytes."""
    parts = _keys.decode(data)
    for kind in (SynopsisKey, ClockKey):
        if len(parts) == len(kind._fields):
            return kind(*parts)
        if len(parts) == len(kind._fields) + 1 and parts[-1] == _PROVISIONAL:
            return ProvisionalKey(kind(*parts[:-1]))
    raise msgspec.ValidationError(f"a key of {len(parts)} parts")
