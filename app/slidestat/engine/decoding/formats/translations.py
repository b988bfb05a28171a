"""Values of other formats as JSON with the same content."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.event_columns import FieldColumns, RecordReader, Refusal, placed_at
from slidestat.engine.decoding.formats.envelope import ROWS, NoEnvelopeError, unwrapped
from slidestat.engine.decoding.formats.source_schemas import (
    AVRO,
    EventTime,
    HeaderFramed,
    NotReadableError,
    SchemaId,
    SchemaText,
    SourceSchemas,
    UnusableSchemaError,
    content_start,
    framing_of,
    has_long_number,
    other_framing,
    schema_of,
)
from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.schemas.dead_letter import Reason

if TYPE_CHECKING:
    from slidestat.engine.decoding.formats.avro_schema import AvroSchema
    from slidestat.engine.decoding.formats.protobuf import ProtobufSchema

_ROOM = "slidestat.engine.decoding.formats"

Translation = Callable[[bytes], bytes | None]
"""Makes JSON of a value, None where it has no event; raises NotReadableError, and
UnusableSchemaError for the error of its schema."""


def translation_of(topology: Topology, schemas: SourceSchemas) -> Translation:
    """Return what makes JSON of the values of a topology's source, which are in another format.

    Raises SlidestatError without the packages that it takes, and for a schema of its own that
    nothing can be read by.
    """
    if not topology.envelope:
        return _value_of(topology, schemas)
    if topology.source_format == "json":
        return unwrapped
    translate = _value_of(topology, schemas)
    return lambda value: unwrapped(translate(value))


def _value_of(topology: Topology, schemas: SourceSchemas) -> Callable[[bytes], bytes]:
    if not topology.reads_binary:
        return _content
    if topology.takes_registry:
        return FramedValues(schemas, topology.source_format, topology)
    try:
        if topology.source_format == "protobuf":
            return protobuf_of(topology).reader_of(topology.source_message)
        return avro_schema(SchemaText(topology.source_schema), topology).json
    except UnusableSchemaError as error:
        raise SlidestatError(
            f"source_schema of {topology.name}: {error}.", "Give the schema of the source's values."
        ) from error


def _content(value: bytes) -> bytes:
    """Return the JSON of a value that a JSON Schema describes: the bytes after the framing."""
    schema_of(value)
    return value[len(framing_of(value)) :]


class FramedValues:
    """A translator of Avro or Protobuf in a registry's framing into JSON."""

    def __init__(
        self, schemas: SourceSchemas, source_format: str, topology: Topology | None = None
    ) -> None:
        """Create the translator; event times are written in the format of `topology`, if it is
        given, else as the schema has them.
        """
        self._schemas = schemas
        self._format = source_format
        self._topology = topology
        # Parsed schemas by the bytes before the content; also errors of schemas.
        self._parsed: dict[bytes, AvroSchema | ProtobufSchema | UnusableSchemaError] = {}
        _ = require_protobuf() if source_format == "protobuf" else require_avro()

    def __call__(self, value: bytes) -> bytes:
        """Return the JSON of a framed value; raises as a Translation."""
        schema = self._parsed.get(framing_of(value)) or self._schema_of(value)
        if isinstance(schema, UnusableSchemaError):
            raise schema
        try:
            return schema.json(value, content_start(value))
        except NotReadableError as error:
            why = _twice_framed(value)
            raise NotReadableError(f"by schema {schema_of(value)}, {error}{why}") from error
        except UnusableSchemaError as error:  # Only of the message that this value is.
            raise UnusableSchemaError(f"schema {schema_of(value)}: {error}") from error

    def _schema_of(self, value: bytes) -> "AvroSchema | ProtobufSchema | UnusableSchemaError":
        number = schema_of(value)
        self._require_whole(value)
        try:
            text = self._schemas.of(number)
        except UnusableSchemaError as error:
            why = f"; {other_framing(value)}" if has_long_number(value) else ""
            raise UnusableSchemaError(f"schema {number}: {error}{why}") from error
        found: AvroSchema | ProtobufSchema | UnusableSchemaError
        try:
            found = parsed_schema(text, self._format, self._topology)
        except UnusableSchemaError as error:
            found = UnusableSchemaError(f"schema {number}: {error}")
        self._parsed[framing_of(value)] = found
        return found

    def _require_whole(self, value: bytes) -> None:
        """Check that a header has the framing of this format, and nothing else."""
        if not isinstance(value, HeaderFramed):
            return
        end = content_start(value)
        if self._format == "protobuf":
            end = require_protobuf().after_index(framing_of(value), end)
        if end != value.start:
            raise NotReadableError(
                f"the header that names its schema has {value.start} bytes, not {end}"
            )


def _twice_framed(value: bytes) -> str:
    """Return the doubt about a value whose record has a framing in a header, and before the value
    another one; "" where there is none.
    """
    if not isinstance(value, HeaderFramed):
        return ""
    try:
        own = schema_of(value[value.start :])
    except NotReadableError:
        return ""
    return (
        f"; a header of the record names that schema, and counts, and the value begins with the"
        f" framing of schema {own}: have whatever passes records on leave out headers that came"
        " with others"
    )


def parsed_schema(
    schema: SchemaText, source_format: str, topology: Topology | None = None
) -> "AvroSchema | ProtobufSchema":
    """Return a registry's schema, parsed; event times are written in the format of `topology`, if
    it is given.

    Raises UnusableSchemaError, and SlidestatError without the packages.
    """
    if schema.kind != source_format.upper():
        raise UnusableSchemaError(f"it is of the type {schema.kind}, not {source_format.upper()}")
    if source_format == "avro":
        return avro_schema(schema, topology)
    return require_protobuf().registered(schema.text, schema.references, _time_of(topology))


def avro_schema(schema: SchemaText, topology: Topology | None = None) -> "AvroSchema":
    """Return an Avro schema, parsed; event times are written in the format of `topology`, if given.

    Raises UnusableSchemaError, and SlidestatError without the packages.
    """
    references = [reference.text for reference in schema.references]
    return require_avro()(schema.text, references, _time_of(topology))


def remarks_on(schemas: SourceSchemas, number: SchemaId) -> list[str]:
    """Return what a schema of a registry does not mean as it is written, for a person."""
    try:
        schema = schemas.of(number)
        return avro_schema(schema).remarks if schema.kind == AVRO else []
    except UnusableSchemaError:  # Its records have letters.
        return []


def remarks_on_its_own(topology: Topology) -> list[str]:
    """Return what a topology's own schema does not mean as it is written, for a person."""
    if topology.source_format != "avro" or not topology.source_schema:
        return []
    return avro_schema(SchemaText(topology.source_schema)).remarks


def protobuf_of(topology: Topology) -> "ProtobufSchema":
    """Return a topology's own Protobuf schema, parsed; raises as `avro_schema`."""
    return require_protobuf().declared(topology.source_schema, _time_of(topology))


def _time_of(topology: Topology | None) -> EventTime | None:
    if topology is None or topology.time_path is None:
        return None
    return EventTime(topology.time_path, topology.times, ROWS if topology.envelope else ())


def require_avro() -> type["AvroSchema"]:
    """Return what reads Avro; raises SlidestatError without the packages."""
    found: type[AvroSchema] = module_of_extra(f"{_ROOM}.avro_schema", "Avro", "avro").AvroSchema
    return found


def require_protobuf() -> type["ProtobufSchema"]:
    """Return what reads Protobuf; raises SlidestatError without the packages."""
    module_of_extra("grpc_tools", "Protobuf", "protobuf")
    found: type[ProtobufSchema] = module_of_extra(
        f"{_ROOM}.protobuf", "Protobuf", "protobuf"
    ).ProtobufSchema
    return found


# Read records of other formats by translation into JSON.
#
# So a field means what it means in JSON, is checked as there and refused with the same messages;
# and a letter has the original record.


class TranslatedReader:
    """A reader of records that are translated into JSON; the cost is mostly the translation's."""

    def __init__(self, translate: Translation, json: RecordReader, not_readable: Reason) -> None:
        """Create the reader; `json` reads the translated records; a value that cannot be translated
        is refused as `not_readable`.
        """
        self._translate = translate
        self._json = json
        self._not_readable = not_readable

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of readable records, and a refusal for each other one; never raises."""
        translate = self._translate
        texts: list[bytes | None] = []
        refusals: list[Refusal] = []
        for row, record in enumerate(records):
            try:
                texts.append(None if record is None else translate(record))
            except NoEnvelopeError as error:
                refusals.append(Refusal(row, Reason.MISSING_FIELD, str(error)))
            except NotReadableError as error:
                refusals.append(Refusal(row, self._not_readable, str(error)))
            except UnusableSchemaError as error:
                refusals.append(Refusal(row, Reason.BAD_SCHEMA, str(error)))
        read = self._json.read(texts)
        if not refusals:
            return read
        readable = np.delete(np.arange(len(records)), [refusal.row for refusal in refusals])
        read = placed_at(readable, read)
        both = sorted([*read.refusals, *refusals], key=lambda refusal: refusal.row)
        return replace(read, refusals=both)
