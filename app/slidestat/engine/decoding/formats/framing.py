"""The framing that a schema registry's clients put before a value: a zero byte, then the number of
the schema as four bytes, big-endian, then what that schema describes (Confluent, "Wire format").
"""

from collections.abc import Iterable

HEADER = 5
_MAGIC = b"\0"


class NotReadableError(ValueError):
    """An error of bytes that cannot be read; the message is the reason, for a person."""


class UnusableSchemaError(ValueError):
    """An error of a schema by which nothing can be read; the message is the reason, for a
    person.
    """


def schema_of(value: bytes) -> int:
    """Return the number of a framed value's schema; raises NotReadableError for a value without
    framing.
    """
    if not value:
        raise NotReadableError("the value has no bytes")
    if value[:1] != _MAGIC:
        raise NotReadableError(
            f"the value begins with 0x{value[0]:02x}, not with the zero byte that a schema"
            " registry's clients write"
        )
    if len(value) < HEADER:
        raise NotReadableError("the value ends within the number of its schema")
    return int.from_bytes(value[1:HEADER], "big")


def framed(schema: int, content: bytes) -> bytes:
    """Return the framed value of a schema's content."""
    return _MAGIC + schema.to_bytes(4, "big") + content


def schemas_of(values: Iterable[bytes | None]) -> set[int]:
    """Return the schema numbers of the framed ones among the values."""
    headers = {value[:HEADER] for value in values if value is not None}
    return {
        int.from_bytes(header[1:], "big")
        for header in headers
        if len(header) == HEADER and header[:1] == _MAGIC
    }
