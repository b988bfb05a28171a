"""Events as the records of a source, in its format."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.framing import UnusableSchemaError, framed
from slidestat.engine.decoding.formats.source_schemas import SchemaText, SourceSchemas
from slidestat.engine.decoding.formats.translations import avro_schema
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from slidestat.engine.decoding.formats.avro_schema import AvroSchema

# Of a JSON Schema, which nobody needs to read the record.
_ANY_SCHEMA = 1

_encode = msgspec.json.Encoder().encode


class EventWriter:
    """Writes events in the format of a topology's source, in Avro by the last of its schemas."""

    def __init__(self, topology: Topology, schemas: Mapping[int, str]) -> None:
        """Raises SlidestatError for a schema that cannot be used, or that nothing reads."""
        self.schemas = SourceSchemas()
        self._format = topology.source_format
        if schemas and not topology.takes_registry:
            raise SlidestatError(
                f"There are schemas, and {topology.name} takes none of a registry.",
                'Leave them out, or declare source_format="avro" without a source_schema.',
            )
        self._number: int | None = None
        self._avro: AvroSchema | None = None
        if topology.source_schema:
            self._avro = _parsed(SchemaText(topology.source_schema))
        for number, text in schemas.items():
            schema = SchemaText(text)
            self._avro = _parsed(schema)
            self.schemas.add(number, schema)
            self._number = number

    def write(self, event: Mapping[str, Any]) -> bytes:
        """The value of an event's record; raises SlidestatError if the schema cannot have it."""
        if self._format == "json":
            return _encode(event)
        if self._format == "json-schema":
            return framed(_ANY_SCHEMA, _encode(event))
        if self._avro is None:
            raise SlidestatError(
                "Events are sent in Avro, and there is no schema.",
                "Give the driver schemas={1: TEXT}.",
            )
        content = self._avro.write(dict(event))
        return content if self._number is None else framed(self._number, content)


def _parsed(schema: SchemaText) -> "AvroSchema":
    try:
        return avro_schema(schema)
    except UnusableSchemaError as error:
        raise SlidestatError(f"A schema cannot be used: {error}.", "Give another one.") from error
