"""A dead letter: a record that could not be counted, kept whole with the reason.

The Kafka value is the original record's bytes, untouched; what is known about it is in the headers,
so that a record as large as the broker takes still fits. The original's own headers come first, as
they were; but one whose name a letter has a use for is `original_header_NAME`. The header
`original_key` has the original's key, if there is one. Of a record that is larger than what the
topic of letters takes, value, key and headers are the beginning, and `original_value_bytes`,
`original_key_bytes` and `original_header_count` say how much there was. The Kafka key is
`topic/partition/offset`: a letter sent twice is one letter. The Kafka timestamp is the original's.
Late records travel in the same form on a topic of their own, with the reason `late`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

from slidestat.schemas import doc

# Headers of what a letter has of the original record.
ORIGINAL_KEY = "original_key"
KEY_BYTES = "original_key_bytes"
VALUE_BYTES = "original_value_bytes"
# The header of the record that closes a letter.
SENT_AGAIN = "sent_again"
HEADER_COUNT = "original_header_count"
_RENAMED = "original_header_"

Header = tuple[str, bytes | None]


class Reason(StrEnum):
    """The reason why a record was not counted."""

    NULL_RECORD = "null-record"
    NOT_JSON = "not-json"
    NOT_AVRO = "not-avro"
    NOT_PROTOBUF = "not-protobuf"
    BAD_SCHEMA = "bad-schema"
    MISSING_FIELD = "missing-field"
    WRONG_TYPE = "wrong-type"
    BAD_KEY = "bad-key"
    BAD_TIME = "bad-time"
    FROM_THE_FUTURE = "from-the-future"
    NEGATIVE_VALUE = "negative-value"
    VALUE_TOO_LARGE = "value-too-large"
    BAD_ITEM = "bad-item"
    NOT_COMPUTABLE = "not-computable"
    WINDOW_FULL = "window-full"
    BAD_SYNOPSIS = "bad-synopsis"
    LATE = "late"


class DeadLetterHeaders(msgspec.Struct, frozen=True):
    """The headers of a dead letter, each a UTF-8 string."""

    reason: Annotated[Reason, doc("one of a fixed list")]
    detail: Annotated[str, doc("what was wrong, for a person")]
    topic: Annotated[str, doc("topic that the record came from")]
    partition: Annotated[int, doc("partition that it came from")]
    offset: Annotated[int, doc("its offset there")]
    topology: Annotated[str, doc("topology that refused it")]

    def encode(self) -> list[tuple[str, bytes]]:
        """Return the Kafka headers, in the order of the fields."""
        return [(f, str(getattr(self, f)).encode()) for f in self.__struct_fields__]

    @classmethod
    def decode(cls, headers: Iterable[tuple[str, bytes]]) -> "DeadLetterHeaders":
        """Read the headers of a dead letter; raises msgspec.ValidationError for other records."""
        texts = {name: value.decode() for name, value in headers if name in cls.__struct_fields__}
        return msgspec.convert(texts, cls, strict=False)


_OWN_NAMES = frozenset(
    {
        *DeadLetterHeaders.__struct_fields__,
        *(ORIGINAL_KEY, KEY_BYTES, VALUE_BYTES, HEADER_COUNT, SENT_AGAIN),
    }
)


def kept_headers(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of a record as its letter keeps them, without the letter's own."""
    return [
        (f"{_RENAMED}{name}" if name in _OWN_NAMES or name.startswith(_RENAMED) else name, value)
        for name, value in headers
    ]


def original_headers(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of the record that a letter was written for."""
    return [
        (name.removeprefix(_RENAMED), value) for name, value in headers if name not in _OWN_NAMES
    ]


def dead_letter_key(topic: str, partition: int, offset: int) -> bytes:
    """Return the Kafka key of a dead letter."""
    return f"{topic}/{partition}/{offset}".encode()
