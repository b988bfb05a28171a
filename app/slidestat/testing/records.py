"""Records of a driver: its own ticks, events written in the source's format, a table in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.source_schemas import (
    HEADER_OF_ID,
    PROTOBUF,
    SchemaId,
    SchemaText,
    SourceSchemas,
    UnusableSchemaError,
    framed,
)
from slidestat.engine.decoding.formats.translations import (
    avro_schema,
    protobuf_of,
    require_protobuf,
)
from slidestat.engine.decoding.tick_records import TICK
from slidestat.engine.records import Headers
from slidestat.errors import SlidestatError, shown

NO_TIMESTAMP = -1
"""As in Kafka: a record without one."""


class SourceRecord(NamedTuple):
    """A record of the source, its timestamp in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()

    @property
    def is_tick(self) -> bool:
        """Return whether it is the driver's own."""
        return self.value is TICK


def tick_at(time: int) -> SourceRecord:
    """Return a record that moves event time to `time`, and is not counted."""
    return SourceRecord(None, TICK, time)


# Events as the records of a source, in its format.

Written = tuple[bytes, Headers]

# For a JSON Schema, which nobody needs to read the record.
_ANY_SCHEMA = 1

_encode = msgspec.json.Encoder().encode


class EventWriter:
    """A writer of events in the format of a topology's source, by the last of its schemas where it
    takes any; in Protobuf as the first message of that.
    """

    def __init__(self, topology: Topology, schemas: Mapping[SchemaId, str]) -> None:
        """Check the schemas; raise SlidestatError for one that is unusable or never read."""
        self.schemas = SourceSchemas()
        self._format = topology.source_format
        if schemas and not topology.takes_registry:
            raise SlidestatError(
                f"There are schemas, and {topology.name} takes none of a registry.",
                'Leave them out, or declare source_format="avro" (or "protobuf") without a'
                " source_schema.",
            )
        self._write: Callable[[Mapping[str, Any]], Written] | None = None
        try:
            if topology.source_schema:
                self._write = _by_its_own(topology)
            for given, text in schemas.items():
                schema = SchemaText(text, kind=topology.source_format.upper())
                schema_id = _schema_id(given)
                self._write = _by_registered(schema, schema_id)
                self.schemas.add(schema_id, schema)
        except UnusableSchemaError as error:
            raise SlidestatError(
                f"A schema cannot be used: {error}.", "Give another one."
            ) from error

    def write(self, event: Mapping[str, Any]) -> Written:
        """Return an event's value and headers; raise SlidestatError if the schema does not fit."""
        if self._format == "json":
            return _json(event), ()
        if self._format == "json-schema":
            return framed(_ANY_SCHEMA, _json(event)), ()
        if self._write is None:
            raise SlidestatError(
                f"Events are sent in {self._format.title()}, and there is no schema.",
                "Give the driver schemas={1: TEXT}.",
            )
        return self._write(event)


def _json(event: Mapping[str, Any]) -> bytes:
    try:
        written = _encode(event)
    except (TypeError, ValueError, RecursionError) as error:
        raise SlidestatError(
            f"{shown(event)} cannot be written as JSON: {error}.",
            "Give what JSON has, or the record itself with send_bytes.",
        ) from error
    if not written.startswith(b"{"):
        raise SlidestatError(
            f"an event is {shown(event)}, which is no JSON object.",
            "Give a dictionary for each event, those of a list as send(*events); bytes with"
            " send_bytes.",
        )
    return written


def _schema_id(given: SchemaId) -> SchemaId:
    """Return an id of a schema, a GUID in its usual form; raises SlidestatError for another."""
    try:
        if isinstance(given, str):
            return str(UUID(given))
        if type(given) is int and 0 <= given < 2**31:
            return given
    except ValueError:
        pass
    raise SlidestatError(
        f"{shown(given)} is no id of a schema.", "Give a number below 2^31, or a GUID as text."
    )


def _by_its_own(topology: Topology) -> Callable[[Mapping[str, Any]], Written]:
    if topology.source_format == "protobuf":
        protobuf, message = protobuf_of(topology), topology.source_message
        protobuf.reader_of(message)  # It says what is wrong with the message.
        return lambda event: (protobuf.write(event, message), ())
    avro = avro_schema(SchemaText(topology.source_schema))
    return lambda event: (avro.write(dict(event)), ())


def _by_registered(
    schema: SchemaText, schema_id: SchemaId
) -> Callable[[Mapping[str, Any]], Written]:
    if schema.kind == PROTOBUF:
        protobuf = require_protobuf().registered(schema.text)
        return lambda event: _framed(schema_id, protobuf.write(event, framed=True), 1)
    avro = avro_schema(schema)
    return lambda event: _framed(schema_id, avro.write(dict(event)), 0)


def _framed(schema_id: SchemaId, content: bytes, index_bytes: int) -> Written:
    """Return a value with its framing in front; or, if a GUID names the schema, with the framing
    and the index of the message in a header.
    """
    if isinstance(schema_id, int):
        return framed(schema_id, content), ()
    return content[index_bytes:], ((HEADER_OF_ID, framed(schema_id, content[:index_bytes])),)


# A partition's table in memory.

# A key and its state, None for a state that is deleted; without a key, the partition's checkpoint.
Row = tuple[str | None, bytes | None]


class MemoryStore:
    """A PartitionStore that outlives the processors that read it."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._states: dict[str, bytes] = {}
        self._told: dict[str, bytes] = {}
        self._checkpoint: bytes | None = None
        self.write(rows)

    def write(
        self, rows: Iterable[Row], told: Mapping[str, bytes | None] = MappingProxyType({})
    ) -> None:
        """Take in rows, as the table takes a changelog's, and notes of provisional alerts."""
        for noted, note in told.items():
            self._told.pop(noted, None)
            if note is not None:
                self._told[noted] = note
        for key, value in rows:
            if key is None:
                self._checkpoint = value
            elif value is None:
                self._states.pop(key, None)
            else:
                self._states[key] = value

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the stored states of keys, None where there is none."""
        return [self._states.get(key) for key in keys]

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Return the keys from `start` on and their states, in order of the keys."""
        return iter(sorted(item for item in self._states.items() if item[0] >= start))

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Return the keys with provisional alerts, and what is noted of these."""
        return iter(sorted(self._told.items()))

    def checkpoint(self) -> bytes | None:
        """Return the partition's checkpoint, None for a partition never seen."""
        return self._checkpoint
