"""The schema registry of what is written.

Needs the packages of the extras `avro` and `protobuf` alike: imported only where one of both is
asked for.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from slidestat.errors import SlidestatError

# Two retries of at most half a second each: whoever waits for a registry that is away is told soon.
_PATIENCE = {"timeout": 5.0, "max.retries": 2, "retries.max.wait.ms": 500}


class OutputRegistry:
    """A schema registry, and the framing for the records of a topic."""

    def __init__(self, what: str, topic: str, registry: str) -> None:
        """`what` is the format. `registry` is its address, with a user and password in it if it
        asks for them; "mock://" and a name is one in memory. Raises SlidestatError for no address.
        """
        self._registry = registry
        if not registry:
            raise SlidestatError(
                f"{what} needs a schema registry, and none is given.",
                "Give its address with --schema-registry.",
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
                "Check the address that --schema-registry gives.",
            ) from error
        except SchemaRegistryError as error:
            raise SlidestatError(
                f"The schema registry at {registry} refused: {error}.",
                "Look at its log; the schema is what `slidestat schema emission --format avro`"
                " prints.",
            ) from error
