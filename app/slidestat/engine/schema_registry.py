"""The client of a schema registry, and what is wrong with one that does not answer as it should.

Needs the packages of the extras `avro` and `protobuf` alike: imported only where one of both is
asked for.
"""

import re

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from slidestat.addresses import ESCAPES, checked_address
from slidestat.errors import SlidestatError

# A name of a registry in memory, for tests.
_IN_MEMORY = re.compile(r"mock://[\w.-]+")


def registry_client(
    address: str, settings: dict[str, float | int]
) -> tuple[SchemaRegistryClient, str]:
    """Return the client of the registry at an address, and the address as it may be shown. Raises
    SlidestatError for what is none.
    """
    shown = address
    if not _IN_MEMORY.fullmatch(address):
        shown = checked_address(address, "schema registry", "http://host:port")
    try:
        return SchemaRegistryClient.new_client({"url": address, **settings}), shown
    except (ValueError, TypeError):
        raise SlidestatError(
            f"{shown!r} is no schema registry's address.",
            'Write it as "http://host:port", or "http://user:password@host:port".',
        ) from None


def registry_trouble(error: Exception, shown: str) -> tuple[str, str]:
    """Return what is wrong with the registry at an address, and what to do."""
    if not isinstance(error, SchemaRegistryError):
        text = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"the certificate of the schema registry at {shown} is not trusted: {text}",
                "If an authority of your own has signed it, name its PEM file in SSL_CERT_FILE.",
            )
        return (
            f"no schema registry answers at {shown}: {text}",
            "Check the address that --schema-registry gives, and try again when it answers.",
        )
    status = error.http_status_code
    if status == 401:
        return (
            f"the schema registry at {shown} knows no such user and password: {error}",
            f"Write them in its address, http://user:password@host. {ESCAPES}",
        )
    if status == 403:
        return (
            f"the schema registry at {shown} forbids this user what is asked: {error}",
            "Ask for the right to read schemas, and to register those of the output.",
        )
    if status == 404 and error.error_code < 40400:
        return (
            f"what answers at {shown} is no schema registry: {error}",
            "Check the address that --schema-registry gives, with its path if it has one.",
        )
    if status in (409, 422):
        return (
            f"the schema registry at {shown} refused: {error}",
            "Look at its log; the schema is what `slidestat schema emission --format avro` prints.",
        )
    return f"the schema registry at {shown} says: {error}", "Look at its log, and try again."
