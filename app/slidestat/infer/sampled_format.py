"""The format of sampled records, and their translation into JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from slidestat.engine.decoding.formats.framing import (
    HEADER,
    NotReadableError,
    UnusableSchemaError,
    schema_of,
    schemas_of,
)
from slidestat.engine.decoding.formats.source_schemas import AVRO, PROTOBUF, Registry
from slidestat.engine.decoding.formats.translations import FramedValues
from slidestat.engine.extras import module_of_extra
from slidestat.errors import SlidestatError
from slidestat.infer.sampling import Sample
from slidestat.produce.cells import NOT_JSON


def readable(sample: Sample, registry: str) -> Sample:
    """Return the sample with JSON for the values that need a schema registry, if most of them are
    framed for one.

    `registry` is its address. Values that cannot be read are left as they are. Raises
    SlidestatError if there is no registry, or it does not answer, and if no value can be read.
    """
    values = [record.value for record in sample.records if record.value is not None]
    framed = [value for value in values if schemas_of([value])]
    if 2 * len(framed) <= len(values):
        return sample
    if sum(_is_object(value[HEADER:]) for value in framed) > len(framed) / 2:
        return _translated(sample, "json-schema", {value: value[HEADER:] for value in framed})
    if not registry:
        raise SlidestatError(
            f"Records of {sample.topic!r} begin as the clients of a schema registry write them.",
            "Say where the registry is with --schema-registry.",
        )
    needed = module_of_extra("slidestat.kafka.schema_registry", "A schema registry", "avro")
    return _read_by_schemas(sample, framed, needed.SchemaRegistry(registry))


def _read_by_schemas(sample: Sample, framed: list[bytes], registry: Registry) -> Sample:
    for number in sorted(registry.schemas.unknown(framed)):
        why = registry.look_up(number)
        if why is not None:
            raise SlidestatError(
                f"Schema {number} cannot be had: {why}.", "Try again when the registry answers."
            )
    source_format = _format_of(framed, registry)
    read, reason = FramedValues(registry.schemas, source_format), ""
    texts = {}
    for value in framed:
        try:
            texts[value] = read(value)
        except (NotReadableError, UnusableSchemaError) as error:
            reason = reason or str(error)
    if not texts:
        raise SlidestatError(
            f"No record of {sample.topic!r} that was looked at can be read by its schema:"
            f" {reason}.",
            "Events are JSON, or Avro, Protobuf or JSON with a schema of the registry.",
        )
    return _translated(sample, source_format, texts)


def _format_of(framed: Sequence[bytes], registry: Registry) -> str:
    """Return the format of most values that the registry has a schema of."""
    kinds: Counter[str] = Counter()
    for value in framed:
        try:
            kinds[registry.schemas.of(schema_of(value)).kind] += 1
        except UnusableSchemaError:  # There is none.
            continue
    return "protobuf" if kinds[PROTOBUF] > kinds[AVRO] else "avro"


def _translated(sample: Sample, source_format: str, texts: dict[bytes, bytes]) -> Sample:
    records = tuple(
        record if record.value is None else replace(record, value=texts.get(record.value, b""))
        for record in sample.records
    )
    return replace(sample, records=records, source_format=source_format)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except NOT_JSON:
        return False
