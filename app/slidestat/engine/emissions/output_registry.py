"""The schema registry of what is written.

Needs the packages of the extras `avro` and `protobuf` alike: imported only where one of both is
asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from slidestat.engine.schema_registry import registry_client, registry_trouble
from slidestat.errors import SlidestatError

# Two retries of at most half a second each: the error of a registry that is away comes soon.
_PATIENCE = {"timeout": 5.0, "max.retries": 2, "retries.max.wait.ms": 500}


class OutputRegistry:
    """A schema registry, and the framing for the records of a topic."""

    def __init__(self, what: str, topic: str, registry: str) -> None:
        """Create a client of the registry; `what` is the format. `registry` is its address, with a
        user and password in it if it asks for them; "mock://" and a name is one in memory. Raises
        SlidestatError for no address.
        """
        if not registry:
            raise SlidestatError(
                f"{what} needs a schema registry, and none is given.",
                "Give its address with --schema-registry.",
            )
        self._client, self._shown = registry_client(registry, _PATIENCE)
        self._context = SerializationContext(topic, MessageField.VALUE)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise errors of requests to the registry as SlidestatError."""
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL, SchemaRegistryError) as error:
            what, advice = registry_trouble(error, self._shown)
            raise SlidestatError(f"{what[0].upper()}{what[1:]}.", advice) from error
