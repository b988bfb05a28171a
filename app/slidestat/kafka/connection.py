"""The check that a broker answers, and that it lets us in."""

import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ClusterMetadata,
)

from slidestat.errors import SlidestatError, near_name
from slidestat.kafka.settings import (
    CA_FILE,
    CERTIFICATE_FILE,
    CLIENT_ID,
    CLIENT_SECRET,
    MECHANISM,
    OAUTH_CA_FILE,
    PASSWORD,
    PROTOCOL,
    REGIONS,
    SCOPE,
    TOKEN_ENDPOINT,
    USERNAME,
    broker_security,
    client_config,
)
from slidestat.log import tell
from slidestat.options import BOOTSTRAP_VARIABLE
from slidestat.redaction import without_user

# Larger than the largest record that a source takes by default (1 MiB), so that a letter about it
# still fits its topic.
MAX_MESSAGE_BYTES = 8 * 2**20

# The settings of a topic that takes records with event times of any age, or ahead of the clock.
ANY_TIME = {
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}

# A single request's wait. It is short, as Python sees Ctrl-C between requests only.
_ATTEMPT_S = 1.0
# A user who waits for longer is told why, on a terminal and in a log.
_SILENT_S = 1.9

# librdkafka begins an error with the connection it was on, and ends it with the time that it took.
_REPORTED_BY = re.compile(r"^\w+://[^ ]+: | \(after \d+ms in state [^)]*\)|^[^ ]+/bootstrap: ")

_NOT_ACQUIRED = "Failed to acquire SASL OAUTHBEARER token"
_NO_MECHANISM = "mechanism handshake failed"

# The protocols that librdkafka takes before an address: another one, as Faust's kafka://, it drops
# with the address, and waits. So it does with one that is not that of the client.
_ADDRESS = re.compile(
    r"(?:(?P<protocol>(?i:(?:SASL_)?(?:PLAINTEXT|SSL)))://)?"
    r"(?:[^\s:;@\[\]/?#&]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
)
_LARGEST_PORT = 65_535


class NotLetInError(SlidestatError):
    """An error of a broker that is there and does not let this client in."""


def admin_client(
    bootstrap: str, on_error: Callable[[KafkaError], None] | None = None
) -> AdminClient:
    """Return an administration client; raises SlidestatError for an address that cannot be one.

    `on_error` is called, while requests wait, with the reason why a connection failed.
    """
    # librdkafka itself takes anything, and then waits for a broker that cannot be.
    found = [(one, _ADDRESS.fullmatch(one.strip())) for one in bootstrap.split(",")]
    bad = [one for one, it in found if it is None or int(it["port"] or 0) > _LARGEST_PORT]
    if bad:
        # A password may have a comma: where there is an @, no part is surely an address.
        cut = "@" in bootstrap
        shown = without_user(bootstrap if cut else bad[0])
        raise SlidestatError(
            f"{shown!r}{' (all before the last @ is left out)' if cut else ''} is not the address"
            " of a Kafka broker.",
            'Write "host:port", without kafka:// before it or a path behind it, several with commas'
            " between them, no blanks and no semicolons; a user and a password are in"
            f" {USERNAME} and {PASSWORD}.",
        )
    config: dict[str, Any] = dict(client_config(bootstrap))
    protocol = broker_security().protocol
    for one, it in found:
        if it is not None and it["protocol"] and it["protocol"].upper() != protocol:
            raise SlidestatError(
                f"{one.strip()!r} is the address of a broker with {it['protocol'].upper()}, and"
                f" {PROTOCOL} is {protocol}.",
                f"Set {PROTOCOL}={it['protocol'].upper()}, or give the address of a listener with"
                f" {protocol}.",
            )
    if on_error is not None:
        config["error_cb"] = on_error
    return AdminClient(config)


def set_command(bootstrap: str, topic: str, *settings: str) -> str:
    """Return the command of Kafka that gives a topic these settings, each NAME=VALUE."""
    return (
        f"`kafka-configs --bootstrap-server {bootstrap} --alter --entity-type topics"
        f" --entity-name {topic} --add-config {','.join(settings)}`"
    )


def require_broker(
    bootstrap: str, timeout_s: float = 10, *, may_tell: bool = True
) -> ClusterMetadata:
    """Return the cluster's brokers and topics; raises NotLetInError if one refuses this client, and
    another SlidestatError if none answers in `timeout_s`, or none can be reached under the
    addresses that they give of themselves. After two seconds it says so, if it `may_tell`.
    """
    kafka_errors: list[KafkaError] = []
    admin = admin_client(bootstrap, kafka_errors.append)
    began = time.monotonic()
    deadline = began + timeout_s
    is_told = not may_tell
    while True:
        remaining_s = deadline - time.monotonic()
        try:
            # Without a topic's name: asking for one by name would create it on many brokers.
            found = admin.list_topics(timeout=max(0.1, min(_ATTEMPT_S, remaining_s)))
            _check_addresses(bootstrap, found)
            return found
        except KafkaException as error:
            admin.poll(0)
            _raise_refusal(bootstrap, kafka_errors)
            if not is_told and time.monotonic() - began >= _SILENT_S:
                is_told = True
                tell("waiting for a broker", f"waiting for a broker at {bootstrap} ...")
            if remaining_s <= _ATTEMPT_S:
                hint = _hint(kafka_errors)
                raise SlidestatError(
                    f"No Kafka broker answers at {bootstrap}{hint}.",
                    f"Check the port, {PROTOCOL}, {CA_FILE} and {CERTIFICATE_FILE}."
                    if hint
                    else "Start one with `slidestat broker`, or say where one is with --bootstrap "
                    f"or {BOOTSTRAP_VARIABLE}; one with TLS or passwords needs {PROTOCOL}.",
                ) from error


def _check_addresses(bootstrap: str, found: ClusterMetadata) -> None:
    """Raise SlidestatError if this machine can resolve none of the addresses that brokers
    advertise: clients use these, and would wait for ever.
    """
    for broker in found.brokers.values():
        with suppress(OSError):
            socket.getaddrinfo(broker.host, broker.port)
            return
    if found.brokers:
        told = ", ".join(f"{broker.host}:{broker.port}" for broker in found.brokers.values())
        raise SlidestatError(
            f"A broker answers at {bootstrap}, and says that the brokers are at {told}, which this"
            " machine does not know.",
            "Set `advertised.listeners` of the brokers to an address that is known here; of a"
            " container (KAFKA_ADVERTISED_LISTENERS) one for each network that clients are in.",
        )


def _raise_refusal(bootstrap: str, kafka_errors: list[KafkaError]) -> None:
    """Raise for a broker that is there and does not let us in: waiting would not help."""
    for kafka_error in kafka_errors:
        reason = _REPORTED_BY.sub("", kafka_error.str()).rstrip(".")
        if kafka_error.code() == KafkaError._AUTHENTICATION:
            raise _not_let_in(bootstrap, reason)
        if kafka_error.code() == KafkaError._SSL:
            raise NotLetInError(
                f"There is no TLS connection with the broker at {bootstrap}: {reason}.",
                f"Check {CA_FILE} and {CERTIFICATE_FILE}, and the port: each has one protocol.",
            )


def _not_let_in(bootstrap: str, reason: str) -> NotLetInError:
    security = broker_security()
    endpoint = without_user(security.token_endpoint or "")
    if security.has_oauth and _NOT_ACQUIRED in reason:
        return NotLetInError(
            f"No token for the client {security.client_id!r} came from {endpoint}:"
            f" {reason.partition(_NOT_ACQUIRED)[2].strip(': ') or reason}.",
            f"Check {TOKEN_ENDPOINT}, {CLIENT_ID}, {CLIENT_SECRET}, {SCOPE} and {OAUTH_CA_FILE}"
            " against the server of tokens.",
        )
    if _NO_MECHANISM in reason:
        return NotLetInError(
            f"The broker at {bootstrap} does not offer {security.wire_mechanism}: {reason}.",
            f"Check {MECHANISM}, and the port: each listener has mechanisms of its own.",
        )
    if security.has_msk:
        return NotLetInError(
            f"AWS's identity of this process is not let in by {bootstrap}: {reason}.",
            f"Check whose it is (`aws sts get-caller-identity`), that it may"
            f" kafka-cluster:Connect, that {REGIONS[0]} ({security.region}) is that of the brokers,"
            " this machine's clock, and the port (9098, or 9198 from outside).",
        )
    if security.has_oauth:
        return NotLetInError(
            f"The client {security.client_id!r} of {endpoint} is not let in by"
            f" {bootstrap}: {reason}.",
            f"Check {TOKEN_ENDPOINT}, {CLIENT_ID}, {CLIENT_SECRET}, {SCOPE} and {OAUTH_CA_FILE}"
            " against the server of tokens, and whether the brokers trust its tokens.",
        )
    return NotLetInError(
        f"The broker at {bootstrap} refuses the user {security.username!r}: {reason}.",
        f"Check {USERNAME}, {PASSWORD} and {MECHANISM} against the broker's users.",
    )


def _hint(kafka_errors: list[KafkaError]) -> str:
    """Return the client's guess about a broker that hangs up, where it has one."""
    reasons = [
        kafka_error.str()
        for kafka_error in kafka_errors
        if "SSL" in kafka_error.str() or "SASL" in kafka_error.str()
    ]
    return f" ({_REPORTED_BY.sub('', reasons[-1]).rstrip('.')})" if reasons else ""


def require_topic(bootstrap: str, topic: str, create_command: str | None = None) -> int:
    """Return the partition count of a topic; raises SlidestatError if there is no such topic.

    `create_command` is for a topic whose name the user did not give: the command that makes it.
    """
    topics = require_broker(bootstrap).topics
    found = topics.get(topic)
    if found is None or not found.partitions:
        raise SlidestatError(
            f"There is no topic {topic!r} on {bootstrap}.",
            f"`{create_command}` makes it."
            if create_command
            else missing_topic_advice(topic, topics),
        )
    return len(found.partitions)


def missing_topic_advice(topic: str, topics: Iterable[str]) -> str:
    """Return advice on a topic that does not exist; with the name of one that may be meant."""
    command = f"slidestat topics create {topic} --partitions 4"
    near = near_name(topic, (name for name in topics if not name.startswith("__")))
    if near:
        return f"Did you mean {near}? If you mean a new topic, create it: `{command}`."
    return (
        "Check its name against `slidestat topics list`, or the brokers; if you mean a new topic,"
        f" create it: `{command}`."
    )


def produce_with(
    producer: Producer,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, str | bytes | None]],
    timestamp: int = 0,
) -> None:
    """Queue a record with a librdkafka client; waits while its queue is full. KafkaException."""
    named = list(headers)
    while True:
        try:
            producer.produce(topic, value, key, partition, headers=named, timestamp=timestamp)
        except BufferError:
            producer.poll(0.1)
        else:
            return
