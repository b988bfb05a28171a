"""Events as the records of a source, in its format."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.framing import UnusableSchemaError, framed
from slidestat.engine.decoding.formats.source_schemas import PROTOBUF, SchemaText, SourceSchemas
from slidestat.engine.decoding.formats.translations import (
    avro_schema,
    protobuf_of,
    require_protobuf,
)
from slidestat.errors import SlidestatError, shown

# Of a JSON Schema, which nobody needs to read the record.
_ANY_SCHEMA = 1

_encode = msgspec.json.Encoder().encode


class EventWriter:
    """A writer of events in the format of a topology's source, by the last of its schemas where it
    takes any; in Protobuf as the first message of that.
    """

    def __init__(self, topology: Topology, schemas: Mapping[int, str]) -> None:
        """Check the schemas; raise SlidestatError for one that cannot be used, or that nothing
        reads.
        """
        self.schemas = SourceSchemas()
        self._format = topology.source_format
        if schemas and not topology.takes_registry:
            raise SlidestatError(
                f"There are schemas, and {topology.name} takes none of a registry.",
                'Leave them out, or declare source_format="avro" (or "protobuf") without a'
                " source_schema.",
            )
        self._write: Callable[[Mapping[str, Any]], bytes] | None = None
        try:
            if topology.source_schema:
                self._write = _by_its_own(topology)
            for number, text in schemas.items():
                schema = SchemaText(text, kind=topology.source_format.upper())
                self._write = _by_registered(schema, number)
                self.schemas.add(number, schema)
        except UnusableSchemaError as error:
            raise SlidestatError(
                f"A schema cannot be used: {error}.", "Give another one."
            ) from error

    def write(self, event: Mapping[str, Any]) -> bytes:
        """Return the value of an event's record; raise SlidestatError if it does not fit the
        schema.
        """
        if self._format == "json":
            return _json(event)
        if self._format == "json-schema":
            return framed(_ANY_SCHEMA, _json(event))
        if self._write is None:
            raise SlidestatError(
                f"Events are sent in {self._format.title()}, and there is no schema.",
                "Give the driver schemas={1: TEXT}.",
            )
        return self._write(event)


def _json(event: Mapping[str, Any]) -> bytes:
    try:
        return _encode(event)
    except (TypeError, ValueError, RecursionError) as error:
        raise SlidestatError(
            f"{shown(event)} cannot be written as JSON: {error}.",
            "Give what JSON has, or the record itself with send_bytes.",
        ) from error


def _by_its_own(topology: Topology) -> Callable[[Mapping[str, Any]], bytes]:
    if topology.source_format == "protobuf":
        protobuf, message = protobuf_of(topology), topology.source_message
        protobuf.reader_of(message)  # It says what is wrong with the message.
        return lambda event: protobuf.write(event, message)
    avro = avro_schema(SchemaText(topology.source_schema))
    return lambda event: avro.write(dict(event))


def _by_registered(schema: SchemaText, number: int) -> Callable[[Mapping[str, Any]], bytes]:
    if schema.kind == PROTOBUF:
        protobuf = require_protobuf().registered(schema.text)
        return lambda event: framed(number, protobuf.write(event, framed=True))
    avro = avro_schema(schema)
    return lambda event: framed(number, avro.write(dict(event)))
