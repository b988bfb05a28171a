"""The client of a schema registry, and what is wrong with one that does not answer as it should.

Needs the packages of the extras `avro` and `protobuf` alike: imported only where one is asked for.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote

import httpx2
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from slidestat.addresses import ESCAPES, checked_address, secret
from slidestat.errors import SlidestatError
from slidestat.redaction import without_user

# Between the addresses of one registry. Other commas are parts of an address.
_BETWEEN = re.compile(r"\s*,\s*(?=https?://)", re.IGNORECASE)
_FORM = (
    'Write it as "http://host:port", with USER:PASSWORD@ before the host if it asks for them;'
    " several addresses, each of them so, with commas between."
)

# A name of a registry in memory, for tests.
_IN_MEMORY = re.compile(r"mock://[\w.-]+")


# The registry's user, where no address has one, and the authority that signed its certificate.
USERNAME, PASSWORD = "SCHEMA_REGISTRY_USERNAME", "SCHEMA_REGISTRY_PASSWORD"
CA_FILE = "SCHEMA_REGISTRY_CA_FILE"

# Reasons of the C library of TLS, and what to do about each.
_NOT_TRUSTED = (
    ("mismatch", "Give the registry by a name that is in its certificate."),
    ("expired", "Have the certificate renewed, or set this machine's clock right."),
    ("not yet valid", "Set this machine's clock right."),
    (
        "",
        "If an authority of your own has signed it, name its PEM file in SCHEMA_REGISTRY_CA_FILE.",
    ),
)
_NO_TLS = (
    ("WRONG_VERSION_NUMBER", "The server there has no TLS: write http:// if that is right."),
    ("RECORD_LAYER", "The server there has no TLS: write http:// if that is right."),
    (
        "CERTIFICATE_REQUIRED",
        "It asks for a certificate of its clients, and slidestat has none: let it take a user and"
        " a password.",
    ),
    ("", "Check its log, and which versions of TLS it has."),
)


def registry_client(
    address: str, settings: Mapping[str, float | int | str]
) -> tuple[SchemaRegistryClient, str]:
    """Return the client of the registry at an address, and the address as it may be shown. Raises
    SlidestatError for anything else.

    A registry may have several, with commas between: one is asked after another until one answers,
    each as its own user, and one without a user as that of the variables, or the first that there
    is.
    """
    if _IN_MEMORY.fullmatch(address):
        return SchemaRegistryClient.new_client({"url": address, **settings}), address
    addresses = _BETWEEN.split(address.strip().rstrip(", "))
    for one in addresses:
        without_user(one)  # No message on another one shows it.
    shown = ",".join(map(_checked, addresses))
    users = [_user(one) for one in addresses]
    first = _user_of_variables(any(users)) or next(filter(None, users), "")
    users = [user or first for user in users]
    url = ",".join(map(_with_user, addresses, users))
    authority = os.environ.get(CA_FILE)
    if authority:
        settings = {**settings, "ssl.ca.location": authority}
    try:
        client = SchemaRegistryClient.new_client({"url": url, **settings})
    except (ValueError, TypeError):
        raise SlidestatError(f"{shown!r} is no schema registry's address.", _FORM) from None
    except OSError as error:
        raise SlidestatError(
            f"{CA_FILE if authority else 'SSL_CERT_FILE or SSL_CERT_DIR'} has no certificates that"
            f" can be read: {error.strerror or error}.",
            "Name a PEM file there, with the authority that signed the registry's certificate.",
        ) from error
    if len(set(users)) > 1:
        # Confluent's client would show the first user to all; without one, each request shows that
        # of its own address.
        client._rest_client.session.auth = None  # type: ignore[assignment]  # As without one.
    return client, shown


def _checked(address: str) -> str:
    """Return one address without its user; raises SlidestatError for anything else."""
    shown = checked_address(address, "schema registry", "http://host:port")
    if "," in _user(address):
        raise SlidestatError(
            "The schema registry's address has a comma in its user or password.",
            "Write it as %2C: commas are between addresses.",
        )
    if "," in shown:
        raise SlidestatError(f"{shown!r} is no schema registry's address.", _FORM)
    return shown


def _user(address: str) -> str:
    return address.partition("://")[2].rpartition("@")[0]


def _user_of_variables(is_in_address: bool) -> str:
    """Return the user and the password of the variables, as in an address; "" if there are none."""
    user, password = os.environ.get(USERNAME), secret(os.environ, PASSWORD)
    if not user and not password:
        return ""
    if not user or not password:
        missing, present = (PASSWORD, USERNAME) if user else (USERNAME, PASSWORD)
        raise SlidestatError(
            f"{present} is set, and {missing} is not.",
            f"Set {USERNAME}, and {PASSWORD} or {PASSWORD}_FILE.",
        )
    if is_in_address:
        raise SlidestatError(
            f"{USERNAME} is set, and the schema registry's address has a user in it.",
            "Leave one of them out: it is not clear which holds.",
        )
    return f"{quote(user, safe='')}:{quote(password, safe='')}"


def _with_user(address: str, user: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{user}@{rest.rpartition('@')[2]}" if user else address


def registry_trouble(error: Exception, shown: str) -> tuple[str, str]:
    """Return what is wrong with the registry at an address, and what to do."""
    if not isinstance(error, SchemaRegistryError):
        text = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"the certificate of the schema registry at {shown} is not trusted: {text}",
                next(advice for reason, advice in _NOT_TRUSTED if reason in text),
            )
        if "[SSL" in text:
            return (
                f"no TLS connection to the schema registry at {shown}: {text}",
                next(advice for reason, advice in _NO_TLS if reason in text.upper()),
            )
        return (
            f"no schema registry answers at {shown}: {text}",
            "Check the address that --schema-registry gives, and try again when it answers.",
        )
    status = error.http_status_code
    if status == 401:
        return (
            f"the schema registry at {shown} knows no such user and password: {error}",
            f"Set {USERNAME}, and {PASSWORD} or {PASSWORD}_FILE, or write them in its address,"
            f" http://user:password@host. {ESCAPES}",
        )
    if status == 403:
        return (
            f"the schema registry at {shown} forbids this user what is asked: {error}",
            "Ask for the right to read schemas, and to register those of the output.",
        )
    if status == 404 and error.error_code < 40400:
        return (
            f"the server at {shown} is no schema registry: {error}",
            "Check the address that --schema-registry gives, with its path if it has one.",
        )
    if status in (409, 422):
        return (
            f"the schema registry at {shown} refused: {error}",
            "Look at its log; the schema is what `slidestat schema emission --format avro` prints.",
        )
    return f"the schema registry at {shown} says: {error}", "Look at its log, and try again."


# The schema registry of what is written.

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
