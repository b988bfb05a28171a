"""The brokers: whether they answer, let this user in, and do what workers ask of them."""

import uuid
from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    NewTopic,
)

from app.client.connection import admin_client, require_broker
from app.doctor.finding import Finding, Verdict
from app.errors import SlidestatError
from app.security.settings import broker_security

_TIMEOUT_S = 30.0


def brokers(bootstrap: str) -> Iterator[Finding]:
    """The connection, then what is allowed: a topic is asked for, and not made."""
    try:
        security = broker_security()
        told = security.protocol
        if security.username:
            told += f", user {security.username}, {security.mechanism}"
        yield Finding("security", Verdict.GOOD, told)
        cluster = require_broker(bootstrap)
    except SlidestatError as error:
        yield Finding("broker", Verdict.BAD, error.message, error.advice)
        return
    count = len(cluster.brokers)
    yield Finding(
        "broker",
        Verdict.GOOD,
        f"{bootstrap}: cluster {cluster.cluster_id}, {count} broker{'s' if count != 1 else ''},"
        f" {len(cluster.topics)} topics",
    )
    yield _may_create(admin_client(bootstrap))


def _may_create(admin: AdminClient) -> Finding:
    name = f"slidestat-doctor-{uuid.uuid4().hex[:8]}"
    topic = NewTopic(name, num_partitions=1, replication_factor=-1)
    try:
        asked = admin.create_topics([topic], validate_only=True, request_timeout=_TIMEOUT_S)
        asked[name].result()
    except KafkaException as error:
        return Finding(
            "topics",
            Verdict.BAD,
            f"this user may create none: {error.args[0].str().rstrip('.')}",
            "Allow it, or have the topics made that `slidestat topology show` names.",
        )
    return Finding("topics", Verdict.GOOD, "this user may create them")
