"""Emissions as the bytes of a record's value: JSON, or Avro with a schema registry.

Avro comes in the framing that every consumer of a registry knows: a zero byte, the schema's number,
the fields. No JSON begins with a zero byte, so a reader distinguishes the two by the first byte.
"""

from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from slidestat.declare.declared import Declared
from slidestat.declare.rows import RowColumn
from slidestat.engine.emissions.emission_codec import EmissionCodec, EmissionWriter, JsonCodec
from slidestat.engine.emissions.rows import Row, RowCodec, avro_types, connect_row, json_row
from slidestat.extras import module_of_extra
from slidestat.schemas.avro import row_schema
from slidestat.schemas.emission import Emission
from slidestat.schemas.sequence import kinds

if TYPE_CHECKING:
    from slidestat.engine.emissions.avro_codec import AvroCodec

_AVRO_MARK = b"\0"


class AnyFormat:
    """A reader of emissions in either format; the registry is asked at the first one in Avro."""

    def __init__(self, registry: str) -> None:
        self._registry = registry
        self._json = JsonCodec()
        self._avro: AvroCodec | None = None

    def decode(self, value: bytes) -> Emission:
        """Return the emission of a record's value. Raises NotAnEmissionError for a value without
        one, and SlidestatError for Avro without a registry that answers.
        """
        if not value.startswith(_AVRO_MARK):
            return self._json.decode(value)
        if self._avro is None:
            self._avro = avro_codec("", self._registry)
        return self._avro.decode(value)


def emission_writer(topology: Declared, registry: str) -> EmissionWriter:
    """Return the writer of a topology's output: of its rows, or as `emission_codec`."""
    counted = topology.counted
    if counted is None or not counted.writes_rows:
        return emission_codec(topology, registry)
    return RowCodec(
        counted,
        lambda columns: _row_writer(
            topology.output_format, topology.output_topic, registry, columns
        ),
    )


def _row_writer(
    output_format: str, topic: str, registry: str, columns: Sequence[RowColumn]
) -> Callable[[Row], bytes]:
    write: Callable[[Row], bytes]
    if output_format == "json":
        return json_row
    if output_format == "connect-json":
        return connect_row(topic, columns)
    if output_format == "protobuf":
        rows = _module("protobuf_rows", "Protobuf", "protobuf")
        write = rows.ProtobufRowWriter(topic, registry, columns).write
        return write
    older_names = {column.name: column.older_name for column in columns if column.older_name}
    schema = row_schema(topic, avro_types(columns), older_names)
    write = _module("avro_codec", "Avro", "avro").RowWriter(topic, registry, schema).write
    return write


def emission_codec(topology: Declared, registry: str) -> EmissionCodec:
    """Return the codec of a topology's emissions. For Avro, the schema is registered at once with
    the registry at the address `registry`, under the subject `OUTPUT-TOPIC-value`; raises
    SlidestatError if there is none, or it does not take the schema.
    """
    if topology.output_format == "json":
        return JsonCodec()
    written = kinds(is_sequence=topology.is_sequence).emission
    answering = topology.answering
    asked = {"derived": answering.derived_figures, "window": answering.calendar_windows}
    without = [field for field, figures in asked.items() if not figures]
    codec = avro_codec(topology.output_topic, registry, written, without=without)
    codec.register()
    return codec


def avro_codec(
    topic: str, registry: str, emission: type[Emission] = Emission, *, without: Collection[str] = ()
) -> "AvroCodec":
    """Return the Avro codec for the records of a topic, by the registry at that address, which is
    not asked yet; `emission` is the version that is written, `without` the fields that no figure of
    the topology has. Raises SlidestatError without a registry, and without the packages.
    """
    kind = _module("avro_codec", "Avro", "avro").AvroCodec
    codec: AvroCodec = kind(topic, registry, emission, without=without)
    return codec


def _module(name: str, what: str, extra: str) -> ModuleType:
    return module_of_extra(f"slidestat.engine.emissions.{name}", what, extra)
