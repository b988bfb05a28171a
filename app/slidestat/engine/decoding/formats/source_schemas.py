"""The schemas of a source's records, by their numbers in the registry, as far as they are known."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

# The framing that a schema registry's clients put before a value: a zero byte, then the number of
# the schema as four bytes, big-endian, then what that schema describes (Confluent, "Wire format").

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


AVRO = "AVRO"
PROTOBUF = "PROTOBUF"


class NamedText(NamedTuple):
    """A schema that another one refers to, by this name."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema, and those that it names types of, each before those that name its own; `kind` is
    its type as a registry calls it.
    """

    text: str
    references: tuple[NamedText, ...] = ()
    kind: str = AVRO


class SourceSchemas:
    """The schemas of a source by their numbers.

    Callers that read records make sure that the schemas of those records are known before.
    """

    def __init__(self) -> None:
        self._found: dict[int, SchemaText] = {}
        self._lacking: dict[int, str] = {}

    def add(self, number: int, schema: SchemaText) -> None:
        """Take in a schema."""
        self._found[number] = schema

    def lack(self, number: int, why: str) -> None:
        """Note that there is no schema of this number."""
        self._lacking[number] = why

    def forget_lacking(self) -> None:
        """Forget which schemas are missing, so that they are looked up again: garbage may name any
        number of them. Must not be called during a read.
        """
        self._lacking.clear()

    def unknown(self, values: Iterable[bytes | None]) -> set[int]:
        """Return the schema numbers of values that are not known yet."""
        return schemas_of(values) - self._found.keys() - self._lacking.keys()

    def of(self, number: int) -> SchemaText:
        """Return the schema of this number; raises UnusableSchemaError where there is none, and
        KeyError if the number has not been looked up.
        """
        if number in self._lacking:
            raise UnusableSchemaError(self._lacking[number])
        return self._found[number]


class Registry(Protocol):
    """A finder of schemas by their numbers, which remembers those that it found."""

    @property
    def schemas(self) -> SourceSchemas:
        """Return what was found."""

    def look_up(self, number: int) -> str | None:
        """Find a schema, or that there is none; else return why not, for a person."""
