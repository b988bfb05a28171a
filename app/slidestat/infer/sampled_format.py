"""The format of sampled records, and the JSON that they say."""

from dataclasses import replace

import msgspec

from slidestat.engine.decoding.formats.framing import (
    HEADER,
    NotReadableError,
    UnusableSchemaError,
    schemas_of,
)
from slidestat.engine.decoding.formats.source_schemas import Registry
from slidestat.engine.decoding.formats.translations import FramedAvro, require_avro
from slidestat.errors import SlidestatError
from slidestat.infer.sampling import Sample
from slidestat.produce.readers import NOT_JSON


def readable(sample: Sample, registry: str) -> Sample:
    """The sample with JSON for the values that it takes a schema registry to read, if most of them
    are framed for one. `registry` is its address. What cannot be read is left as it is.

    Raises SlidestatError if there is no registry, or it does not answer, and if no value can be
    read.
    """
    values = [record.value for record in sample.records if record.value is not None]
    framed = [value for value in values if schemas_of([value])]
    if 2 * len(framed) <= len(values):
        return sample
    if sum(_is_object(value[HEADER:]) for value in framed) > len(framed) / 2:
        return _translated(sample, "json-schema", {value: value[HEADER:] for value in framed})
    if not registry:
        raise SlidestatError(
            f"Records of {sample.topic!r} are written as a schema registry's clients do.",
            "Say where the registry is with --schema-registry.",
        )
    require_avro()
    from slidestat.kafka.schema_registry import SchemaRegistry

    return _read_as_avro(sample, framed, SchemaRegistry(registry))


def _read_as_avro(sample: Sample, framed: list[bytes], registry: Registry) -> Sample:
    for number in sorted(registry.schemas.unknown(framed)):
        why = registry.look_up(number)
        if why is not None:
            raise SlidestatError(
                f"Schema {number} cannot be had: {why}.", "Try again when the registry answers."
            )
    read, reason = FramedAvro(registry.schemas), ""
    texts = {}
    for value in framed:
        try:
            texts[value] = read(value)
        except (NotReadableError, UnusableSchemaError) as error:
            reason = reason or str(error)
    if not texts:
        raise SlidestatError(
            f"No record of {sample.topic!r} that was looked at can be read as Avro: {reason}.",
            "Events are JSON, or Avro or JSON with a schema of the registry.",
        )
    return _translated(sample, "avro", texts)


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
