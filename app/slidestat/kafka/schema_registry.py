"""A schema registry, asked for the schemas of a source's records.

Needs the packages of the extras `avro` and `protobuf` alike: imported only where one is asked for.
"""

from base64 import b64encode
from importlib import import_module

import httpx2
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from slidestat.engine.decoding.formats.source_schemas import (
    AVRO,
    PROTOBUF,
    NamedText,
    SchemaId,
    SchemaText,
    SourceSchemas,
)
from slidestat.engine.schema_registry import registry_client, registry_trouble
from slidestat.errors import SlidestatError
from slidestat.redaction import redacted

# Callers that wait ask again.
_IMPATIENCE = {"timeout": 5.0, "max.retries": 0}
# The errors for a missing subject, version or schema; another 404 is of something else.
_NOT_FOUND = (40401, 40402, 40403)
# Answers of a registry that does not have such an address.
_NO_GUIDS = (404, 405)
_NONE_BY_GUID = (
    "the schema registry at {} gives none by its GUID, as Confluent's does from version 8 on"
    " (Renew it, or have the producers write numbers, with PrefixSchemaIdSerializer)"
)

# Errors of Confluent's client where nothing answers, or where something that is no registry does.
_NO_REGISTRY = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)


class SchemaRegistry:
    """A finder of schemas by their numbers: a Registry."""

    def __init__(self, url: str) -> None:
        """Create the client; `url` may have a user and a password in it. Raises SlidestatError
        without one, and for what is no address.
        """
        if not url:
            raise SlidestatError(
                "Events in Avro or Protobuf need a schema registry, and none is given.",
                "Give its address with --schema-registry, or a schema with source_schema.",
            )
        self.schemas = SourceSchemas()
        self._client, self._shown = registry_client(url, _IMPATIENCE)

    def look_up(self, number: SchemaId) -> str | None:
        """Look a schema up, as of a Registry: 5 s at most for it, and each that it refers to."""
        try:
            schema = (
                self._client.get_schema(number)
                if isinstance(number, int)
                else self._client.get_schema_by_guid(number)
            )
            references: dict[tuple[str, int], NamedText] = {}
            self._gather(schema, references)
        except SchemaRegistryError as error:
            if error.error_code in _NOT_FOUND:
                said = redacted(error.error_message)
                self.schemas.lack(number, f"the schema registry says: {said}")
                return None
            if isinstance(number, str) and error.http_status_code in _NO_GUIDS:
                return redacted(_NONE_BY_GUID.format(self._shown))
            return self._trouble(error)
        except _NO_REGISTRY as error:
            return self._trouble(error)
        kind, named = schema.schema_type or AVRO, list(references.values())
        if kind == PROTOBUF:
            names = {reference.name for reference in named}
            named += [own for own in _confluent_files() if own.name not in names]
        self.schemas.add(number, SchemaText(schema.schema_str or "", tuple(named), kind))
        return None

    def _trouble(self, error: Exception) -> str:
        what, advice = registry_trouble(error, self._shown)
        return redacted(f"{what} ({advice.rstrip('.')})")

    def _gather(self, schema: Schema, found: dict[tuple[str, int], NamedText]) -> None:
        """Gather the schemas that a schema refers to, each after those that it refers to itself;
        also deleted ones: older records need them.
        """
        for reference in schema.references or ():
            place = reference.subject or "", reference.version or 0
            if place in found:
                continue
            registered = self._client.get_version(*place, deleted=True).schema
            self._gather(registered, found)
            found[place] = NamedText(reference.name or "", registered.schema_str or "")


def _confluent_files() -> list[NamedText]:
    """Return the files of Confluent's own that any schema may import, as no registry has them."""
    found = []
    for name in ("meta_pb2", "type.decimal_pb2", "type.variant_pb2", "types.decimal_pb2"):
        try:
            module = import_module(f"confluent_kafka.schema_registry.confluent.{name}")
        except ImportError:  # Without Protobuf nothing reads such a schema.
            return []
        file = module.DESCRIPTOR
        found.append(NamedText(file.name, b64encode(file.serialized_pb).decode()))
    return found
