"""The schemas of a source's records, by their ids in the registry, as far as they are known."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from slidestat.declare.fields import FieldPath
from slidestat.declare.times.time_format import TimeFormat
from slidestat.engine.records import Headers

SchemaId = int | str
"""The name of a schema in a registry: its number, or its GUID as text."""

# The framing that a schema registry's clients put before a value: a zero byte, then the number of
# the schema as four bytes, big-endian, then what that schema describes (Confluent, "Wire format").

HEADER = 5
# The bytes before the content in the framings of others.
_GLUE_HEADER, _SINGLE_OBJECT_HEADER = 18, 10
_MAGIC = b"\0"


class NotReadableError(ValueError):
    """An error of bytes that cannot be read; the message is the reason, for a person."""


class UnusableSchemaError(ValueError):
    """An error of a schema by which nothing can be read; its message is the reason, for people."""


# The framing in a header of the record, with the content alone in the value: that of Confluent's
# clients from version 8 on, where they are told to, with a byte of 1 and a GUID in 16 bytes, or the
# framing above; in both, which message it is of a Protobuf schema follows.

HEADER_OF_ID, HEADER_OF_KEY_ID = "__value_schema_id", "__key_schema_id"
_MAGIC_OF_GUID, _GUID_HEADER = b"\1", 17
# Apicurio's clients, where they are told to: a number in 8 bytes, that of the content or that of
# the artifact's version. Its interface for Confluent's clients numbers schemas by their content.
APICURIO_HEADERS, APICURIO_KEY_HEADERS = "apicurio.value.", "apicurio.key."
_CONTENT_ID, _GLOBAL_ID = f"{APICURIO_HEADERS}contentId", f"{APICURIO_HEADERS}globalId"


class HeaderFramed(bytes):
    """A value whose schema is named by a header of its record: the framing of that header, then the
    content from `start` on. `trouble` is what is wrong with the header, "" if nothing.
    """

    start: int
    trouble: str

    @classmethod
    def of(cls, framing: bytes, content: bytes, trouble: str = "") -> "HeaderFramed":
        """Return the content with its framing before it."""
        value = cls(framing + content)
        value.start, value.trouble = len(framing), trouble
        return value


def framed_by_headers(
    values: Sequence[bytes | None], headers: Sequence[Headers] | None
) -> Sequence[bytes | None]:
    """Return the values of records, each with the framing that a header of its record has; those
    without such a header as they are.
    """
    if headers is None:
        return values
    return [
        value if value is None or not own else _framed_by(own, value)
        for value, own in zip(values, headers, strict=True)
    ]


def _framed_by(headers: Headers, value: bytes) -> bytes:
    # If several headers have the name, the last one counts, as for Kafka's Java clients: a program
    # that passes a record on may add its own. A header without a value names nothing.
    found = {name: content for name, content in headers if content is not None}
    if (framing := found.get(HEADER_OF_ID)) is not None:
        size = _GUID_HEADER if framing[:1] == _MAGIC_OF_GUID else HEADER
        is_known = framing[:1] in (_MAGIC, _MAGIC_OF_GUID) and len(framing) >= size
        trouble = f"0x{framing[:_GUID_HEADER].hex()} is neither a number nor a GUID"
        return HeaderFramed.of(
            framing, value, "" if is_known else f"its header {HEADER_OF_ID}: {trouble}"
        )
    if (content_id := found.get(_CONTENT_ID)) is not None:
        number = int.from_bytes(content_id, "big")
        if len(content_id) == 8 and 0 < number < 2**31:
            return HeaderFramed.of(framed(number, b""), value)
        trouble = f"its header {_CONTENT_ID}: 0x{content_id[:8].hex()} is no number of a schema"
        return HeaderFramed.of(b"", value, trouble)
    if found.get(_GLOBAL_ID) is not None:
        return HeaderFramed.of(b"", value, _NO_CONTENT_ID)
    return value


_NO_CONTENT_ID = (
    f"its header {_GLOBAL_ID} is the number of an artifact's version, by which Apicurio gives no"
    " schema to Confluent's clients: have the producers write that of the content"
    " (apicurio.registry.use-id=contentId)"
)


def names_key_schema(headers: Headers) -> bool:
    """Return whether a header of a record names a schema of its key."""
    return any(name.startswith((HEADER_OF_KEY_ID, APICURIO_KEY_HEADERS)) for name, _ in headers)


def framing_of(value: bytes) -> bytes:
    """Return the bytes before a framed value's content that all values of a schema share."""
    return value[: value.start if isinstance(value, HeaderFramed) else HEADER]


def content_start(value: bytes) -> int:
    """Return where the content begins of a value whose schema is known; in Protobuf, which message
    it is.
    """
    by_guid = isinstance(value, HeaderFramed) and value[:1] == _MAGIC_OF_GUID
    return _GUID_HEADER if by_guid else HEADER


def schema_of(value: bytes) -> SchemaId:
    """Return the id of a framed value's schema; raises NotReadableError for one without framing."""
    if isinstance(value, HeaderFramed):
        if value.trouble:
            raise NotReadableError(value.trouble)
        if value[:1] == _MAGIC_OF_GUID:
            return str(UUID(bytes=value[1:_GUID_HEADER]))
        return int.from_bytes(value[1:HEADER], "big")
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
    f"it may be the content alone, which source_schema reads, and it has no header {HEADER_OF_ID}"
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
    " them the id handler Legacy4ByteIdHandler, or apicurio.registry.headers.enabled=true with"
    " apicurio.registry.use-id=contentId"
)


def other_framing(value: bytes) -> str:
    """Return what a value seems to be that is neither framed by Confluent's rules nor an object of
    JSON, and what to do; "" where nothing is known.
    """
    if isinstance(value, HeaderFramed):
        return value.trouble
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


def framed(schema: SchemaId, content: bytes) -> bytes:
    """Return the framing of a schema, and a content behind it."""
    if isinstance(schema, str):
        return _MAGIC_OF_GUID + UUID(schema).bytes + content
    return _MAGIC + schema.to_bytes(4, "big") + content


def schemas_of(values: Iterable[bytes | None]) -> set[SchemaId]:
    """Return the schema ids of the framed ones among the values."""
    found = set()
    for value in {framing_of(value): value for value in values if value is not None}.values():
        with suppress(NotReadableError):
            found.add(schema_of(value))
    return found


class EventTime(NamedTuple):
    """The place of the event time in values, and the format in which it is given; where a schema
    has nothing there, it is in the fields `rows`, those of an envelope.
    """

    path: FieldPath
    format: TimeFormat
    rows: Sequence[str] = ()

    def paths(self, *, is_there: bool) -> list[FieldPath]:
        """Return where it may be, by whether a schema has the first field of its path."""
        return [self.path] if is_there else [(row, *self.path) for row in self.rows]

    def write(self, value: Any, path: FieldPath, to_a_second: int | Fraction = 1) -> None:
        """Write what is a number of so many to a second in the format, in a value as of JSON."""
        *above, name = path
        for part in above:
            value = value.get(part) if isinstance(value, dict) else None
        time: Any = value.get(name) if isinstance(value, dict) else None
        if type(time) is int or isinstance(time, Decimal):
            value[name] = self.format.written(
                floor(time * 1_000 * to_a_second.denominator) // to_a_second.numerator
            )


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
    """The schemas of a source by their ids.

    Callers that read records make sure that the schemas of those records are known before.
    """

    def __init__(self) -> None:
        self._found: dict[SchemaId, SchemaText] = {}
        self._lacking: dict[SchemaId, str] = {}

    def add(self, schema_id: SchemaId, schema: SchemaText) -> None:
        """Take in a schema."""
        self._found[schema_id] = schema

    def lack(self, schema_id: SchemaId, why: str) -> None:
        """Note that there is no schema of this id."""
        self._lacking[schema_id] = why

    def forget_lacking(self) -> None:
        """Forget which schemas are missing, so that they are looked up again: garbage may name any
        number of them. Must not be called during a read.
        """
        self._lacking.clear()

    def unknown(self, values: Iterable[bytes | None]) -> set[SchemaId]:
        """Return the schema ids of values that are not known yet."""
        return schemas_of(values) - self._found.keys() - self._lacking.keys()

    def of(self, schema_id: SchemaId) -> SchemaText:
        """Return the schema of this id; raises UnusableSchemaError where there is none, and
        KeyError if the id has not been looked up.
        """
        if schema_id in self._lacking:
            raise UnusableSchemaError(self._lacking[schema_id])
        return self._found[schema_id]


class Registry(Protocol):
    """A finder of schemas by their ids, which remembers those that it found."""

    @property
    def schemas(self) -> SourceSchemas:
        """Return what was found."""

    def look_up(self, schema_id: SchemaId) -> str | None:
        """Find a schema, or that there is none; else return why not, for a person."""
