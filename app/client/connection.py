"""Configuration of Kafka clients, and the check that a broker answers."""

import re
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ClusterMetadata,
)

from app.client.options import BOOTSTRAP_VARIABLE
from app.errors import SlidestatError

# One request's wait. Short, so that Ctrl-C, which Python sees between requests only, acts soon.
_ATTEMPT_S = 1.0

_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:[^\s:\[\]]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


def client_config(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Settings that every client shares, from a "host:port,host:port" string.

    librdkafka writes each refused connection to standard error by itself; errors that matter
    reach the user as exceptions and delivery reports, so its own log is off.
    """
    return {"bootstrap.servers": bootstrap, "client.id": "slidestat", "log_level": 0}


def admin_client(bootstrap: str) -> AdminClient:
    """An administration client; raises SlidestatError for an address that cannot be one."""
    # librdkafka itself takes anything, and then waits for a broker that cannot be.
    if not all(_ADDRESS.fullmatch(address.strip()) for address in bootstrap.split(",")):
        raise SlidestatError(
            f"{bootstrap!r} is not the address of a Kafka broker.",
            'Write it as "host:port", several with commas between them.',
        )
    return AdminClient(client_config(bootstrap))


def require_broker(bootstrap: str, timeout_s: float = 10) -> ClusterMetadata:
    """The cluster's brokers and topics; raises SlidestatError if none answers in `timeout_s`."""
    admin = admin_client(bootstrap)
    deadline = time.monotonic() + timeout_s
    while True:
        remaining_s = deadline - time.monotonic()
        try:
            # Without a topic's name: asking for one by name would create it on many brokers.
            return admin.list_topics(timeout=max(0.1, min(_ATTEMPT_S, remaining_s)))
        except KafkaException as error:
            if remaining_s <= _ATTEMPT_S:
                raise SlidestatError(
                    f"No Kafka broker answers at {bootstrap}.",
                    "Start one with `slidestat broker`, or say where one is with --bootstrap "
                    f"or {BOOTSTRAP_VARIABLE}.",
                ) from error


def require_topic(bootstrap: str, topic: str, create_command: str | None = None) -> int:
    """The partition count of a topic; raises SlidestatError if there is no such topic.

    `create_command` is the command to advise where it is not `slidestat topics create TOPIC`.
    """
    found = require_broker(bootstrap).topics.get(topic)
    if found is None or not found.partitions:
        command = create_command or f"slidestat topics create {topic} --partitions 4"
        raise SlidestatError(
            f"There is no topic {topic!r} on {bootstrap}.", f"Create it: `{command}`."
        )
    return len(found.partitions)
