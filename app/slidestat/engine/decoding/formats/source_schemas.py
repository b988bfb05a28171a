"""The schemas of a source's records, by their numbers in the registry, as far as they are known."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

# The framing that a schema registry's clients put before a value: a zero byte, then the number of
# the schema as four bytes, big-endian, then what that schema describes (Confluent, "Wire format").

HEADER = 5
# Confluent's clients from version 8 on, where they are told to; it has an identifier of 16 bytes.
HEADER_OF_ID = "__value_schema_id"
# Apicurio's clients, where they are told to; the rest of the name is of which number it is.
APICURIO_HEADERS = "apicurio.value."
# The bytes before the content in the framings of others.
_GLUE_HEADER, _SINGLE_OBJECT_HEADER = 18, 10
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
            f" registry's clients write: {other_framing(value) or _NO_FRAMING}"
        )
    if len(value) < HEADER:
        raise NotReadableError("the value ends within the number of its schema")
    return int.from_bytes(value[1:HEADER], "big")


# Framings that are not read, and what to do.

_NO_FRAMING = (
    "it may be the content alone, which source_schema reads, or the schema's number is in a header"
    f" of the record ({HEADER_OF_ID}, {APICURIO_HEADERS}...): have the producers write it before"
    " the value (PrefixSchemaIdSerializer, apicurio.registry.headers.enabled=false)"
)
_GLUE = (
    "AWS Glue's serializers begin so, and its registry is not read: have the producers write by a"
    " registry with Confluent's interface, or the content alone, for source_schema"
)
_SINGLE_OBJECT = (
    "Avro's single-object encoding begins so, and is not read: have the producers write the content"
    " alone, for source_schema, or by a schema registry"
)
_EIGHT_BYTES = (
    "its number seems to have 8 bytes, as Apicurio's serializers write it up to version 2: give"
    " them the id handler Legacy4ByteIdHandler"
)


def other_framing(value: bytes) -> str:
    """Return what a value seems to be that is neither framed by Confluent's rules nor an object of
    JSON, and what to do; "" where nothing is known.
    """
    if value[:2] in (b"\x03\x00", b"\x03\x05") and len(value) >= _GLUE_HEADER:
        return _GLUE
    if value[:2] == b"\xc3\x01" and len(value) >= _SINGLE_OBJECT_HEADER:
        return _SINGLE_OBJECT
    if has_long_number(value):
        return _EIGHT_BYTES
    match value.lstrip()[:1]:
        case b"{":
            return 'it seems to be JSON: leave source_format out, or write "json"'
        case b"[":
            return "it seems to be an array of JSON: a record is one event, so have each sent alone"
    return ""


def has_long_number(value: bytes) -> bool:
    """Return whether the number of a value's schema seems to have eight bytes: numbers begin with
    1, and four zeros behind the first are those of a small one.
    """
    return value[:HEADER] == bytes(HEADER) and 0 < int.from_bytes(value[HEADER:9], "big") < 2**24


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
    """A schema and the schemas that it refers to, each before those that refer to it; `kind` is its
    type as a registry calls it.
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
