"""Values of other formats as the JSON that says the same."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.framing import (
    HEADER,
    NotReadableError,
    UnusableSchemaError,
    schema_of,
)
from slidestat.engine.decoding.formats.source_schemas import SchemaText, SourceSchemas
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from slidestat.engine.decoding.formats.avro_schema import AvroSchema

Translation = Callable[[bytes], bytes]
"""Makes JSON of a value; raises NotReadableError, and UnusableSchemaError for the error of its
schema."""


def translation_of(topology: Topology, schemas: SourceSchemas) -> Translation:
    """Return what makes JSON of the values of a topology's source, which are in another format.

    Raises SlidestatError without the packages that it takes, and for a schema of its own that
    nothing can be read by.
    """
    if not topology.reads_avro:
        return _content
    if topology.takes_registry:
        return FramedAvro(schemas, topology)
    try:
        return avro_schema(SchemaText(topology.source_schema), topology).json
    except UnusableSchemaError as error:
        raise SlidestatError(
            f"source_schema of {topology.name}: {error}.", "Give the schema of the source's values."
        ) from error


def _content(value: bytes) -> bytes:
    """The JSON of a value that a JSON Schema describes: what follows the framing."""
    schema_of(value)
    return value[HEADER:]


class FramedAvro:
    """Makes JSON of Avro in a registry's framing."""

    def __init__(self, schemas: SourceSchemas, topology: Topology | None = None) -> None:
        """Event times are given as `topology` has them, if it is given; else as the schema."""
        self._schemas = schemas
        self._topology = topology
        # By the bytes before the content; an error of a schema that there is, too.
        self._parsed: dict[bytes, AvroSchema | UnusableSchemaError] = {}
        require_avro()

    def __call__(self, value: bytes) -> bytes:
        """As of a Translation."""
        schema = self._parsed.get(value[:HEADER]) or self._schema_of(value)
        if isinstance(schema, UnusableSchemaError):
            raise schema
        try:
            return schema.json(value, HEADER)
        except NotReadableError as error:
            raise NotReadableError(f"by schema {schema_of(value)}, {error}") from error

    def _schema_of(self, value: bytes) -> "AvroSchema | UnusableSchemaError":
        number = schema_of(value)
        try:
            text = self._schemas.of(number)
        except UnusableSchemaError as error:
            raise UnusableSchemaError(f"schema {number}: {error}") from error
        found: AvroSchema | UnusableSchemaError
        try:
            found = avro_schema(text, self._topology)
        except UnusableSchemaError as error:
            found = UnusableSchemaError(f"schema {number}: {error}")
        self._parsed[value[:HEADER]] = found
        return found


def avro_schema(schema: SchemaText, topology: Topology | None = None) -> "AvroSchema":
    """An Avro schema, parsed; event times are given as `topology` has them, if it is given.

    Raises UnusableSchemaError, and SlidestatError without the packages.
    """
    path, times = (None, None) if topology is None else (topology.time_path, topology.times)
    made: AvroSchema = require_avro()(schema.text, schema.references, path, times)
    return made


def require_avro() -> type["AvroSchema"]:
    """Return what reads Avro; raises SlidestatError without the packages."""
    try:
        # Here, for it needs packages that not everybody has.
        found: type[AvroSchema] = import_module(
            "slidestat.engine.decoding.formats.avro_schema"
        ).AvroSchema
    except ImportError as error:
        raise SlidestatError(
            f"Avro needs packages that are not installed ({error.name}).",
            "Install them with `pip install 'slidestat[avro]'`.",
        ) from error
    return found
