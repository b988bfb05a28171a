"""Emissions in Avro, through Confluent's serializers and a schema registry.

Needs the packages of the extra `avro`: imported only where Avro is asked for.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any, cast

import httpx2
import msgspec
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from fastavro.read import SchemaResolutionError

from slidestat.engine.emissions.emission_codec import NotAnEmissionError, OneRecord
from slidestat.errors import SlidestatError
from slidestat.schemas.avro import emission_schema
from slidestat.schemas.emission import Emission
from slidestat.schemas.sequence import SequenceEmission

# Two retries of at most half a second each: whoever waits for a registry that is away is told soon.
_PATIENCE = {"timeout": 5.0, "max.retries": 2, "retries.max.wait.ms": 500}
_NOT_FOUND = 404

# The default strategy would ask the registry about each subject's topic.
_NAMING: dict[str, Any] = {"subject.name.strategy.type": "TOPIC"}

# What fastavro and Confluent's deserializer raise for bytes that are not what their schema says.
_GARBAGE = (
    SerializationError,
    SchemaResolutionError,
    msgspec.ValidationError,
    EOFError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Registry:
    """A schema registry, and the framing for the records of a topic."""

    def __init__(self, topic: str, registry: str) -> None:
        """`registry` is its address, with a user and password in it if it asks for them; "mock://"
        and a name is one in memory. Raises SlidestatError for no address.
        """
        self._registry = registry
        if not registry:
            raise SlidestatError(
                "Avro takes a schema registry, and none is named.",
                "Say where it is with --schema-registry.",
            )
        try:
            self._client = SchemaRegistryClient.new_client({"url": registry, **_PATIENCE})
        except ValueError as error:
            raise SlidestatError(
                f"{registry!r} is no schema registry's address.",
                'Write it as "http://host:port".',
            ) from error
        self._context = SerializationContext(topic, MessageField.VALUE)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Say what is wrong with the registry, should it be asked."""
        registry = re.sub(r"//[^/@]*@", "//", self._registry)  # Without a password.
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SlidestatError(
                f"No schema registry answers at {registry}: {error}.",
                "Say where one is with --schema-registry.",
            ) from error
        except SchemaRegistryError as error:
            raise SlidestatError(
                f"The schema registry at {registry} refused: {error}.",
                "Look at its log; the schema is what `slidestat schema emission --format avro`"
                " prints.",
            ) from error


class AvroCodec(_Registry, OneRecord):
    """Avro in Confluent's framing, for the records of a topic. An emission of ten figures takes
    some 100 microseconds, where JSON takes 6, and two thirds of its bytes.
    """

    def __init__(self, topic: str, registry: str, emission: type[Emission] = Emission) -> None:
        """As of a registry; `emission` is the version that is written."""
        super().__init__(topic, registry)
        self._emission = emission
        self._serialize = AvroSerializer(self._client, emission_schema(emission), _fields, _NAMING)
        # The second one would take records of the first for its own: it has their names as aliases.
        self._deserializers = [
            (version, AvroDeserializer(self._client, emission_schema(version), conf=_NAMING))
            for version in (Emission, SequenceEmission)
        ]

    def register(self) -> None:
        """Have the registry know the schema, under the topic's subject."""
        self.encode(self._emission("", "", 0, [], "", 0, 0))

    def encode(self, emission: Emission) -> bytes:
        """The framed bytes of an emission."""
        with self._asking():
            return cast(bytes, self._serialize(emission, self._context))

    def decode(self, value: bytes) -> Emission:
        """The emission of framed bytes, also if another version of it wrote them; raises
        NotAnEmissionError for others, SlidestatError if the registry does not answer.
        """
        try:
            with self._asking():
                return self._read(value)
        except _GARBAGE as error:
            raise NotAnEmissionError from error
        except SlidestatError as error:
            cause = error.__cause__
            if isinstance(cause, SchemaRegistryError) and cause.http_status_code == _NOT_FOUND:
                raise NotAnEmissionError from error
            raise

    def _read(self, value: bytes) -> Emission:
        (of_times, read), (of_sequences, read_of_sequences) = self._deserializers
        try:
            return msgspec.convert(read(value), of_times)
        except SchemaResolutionError:
            return msgspec.convert(read_of_sequences(value), of_sequences)


class RowWriter(_Registry):
    """Writes rows in Avro in Confluent's framing, by the `schema` of their columns, which is
    registered at once, under the topic's subject.
    """

    def __init__(self, topic: str, registry: str, schema: str) -> None:
        """As of a registry; raises SlidestatError if it does not take the schema."""
        super().__init__(topic, registry)
        self._serialize = AvroSerializer(self._client, schema, conf=_NAMING)
        with self._asking():
            subject = f"{topic}-value"
            self._client.register_schema(subject, Schema(schema, "AVRO"), normalize_schemas=False)

    def write(self, row: dict[str, Any]) -> bytes:
        """The framed bytes of a row."""
        plain = {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in row.items()
        }
        with self._asking():
            return cast(bytes, self._serialize(plain, self._context))


def _fields(emission: Emission, _context: SerializationContext) -> dict[str, object]:
    fields: dict[str, Any] = msgspec.to_builtins(emission)
    for figure in fields["figures"]:
        for name in ("estimate", "lower", "upper"):
            # As in JSON: a number that does not exist is null.
            if figure[name] is not None and not isfinite(figure[name]):
                figure[name] = None
    return fields
