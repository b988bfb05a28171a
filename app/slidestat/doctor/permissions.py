"""Ask the brokers which operations of a worker this user may do; nothing is created or written.

The brokers report it themselves (KIP-430): with what is asked about a topic, a group or the cluster
comes what the asking user may do with it. For a topic that does not exist they report only whether
it may be created.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AclOperation,
    AdminClient,
    NewTopic,
)

from slidestat.declare.declared import Declared
from slidestat.doctor.finding import Finding, Verdict
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import (
    MAX_MESSAGE_BYTES,
    admin_client,
    missing_topic_advice,
    require_broker,
)
from slidestat.kafka.retries import ask_again
from slidestat.kafka.settings import broker_security
from slidestat.repartition.moved_from import mover_id

_TIMEOUT_S = 30.0
_CHANGELOG = "changelog"
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_DESCRIBE, _SETTINGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
_MISSING = KafkaError.UNKNOWN_TOPIC_OR_PART
_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True)
class Use:
    """The operations of a worker on a topic, and whether it creates a missing one."""

    check: str
    topic: str
    operations: tuple[AclOperation, ...]
    makes: bool = True


def cluster_permission(bootstrap: str) -> Finding:
    """Return the finding about the cluster's permission for this user to write idempotently."""
    return _idempotent_writes(admin_client(bootstrap))


def creation_permission(bootstrap: str) -> Finding:
    """Return the finding about the permission to create a topic of any name; none is needed where
    topics exist.
    """
    admin = admin_client(bootstrap)
    refusal = _refusal_to_create(admin, f"slidestat-doctor-{uuid.uuid4().hex[:8]}")
    if refusal is None:
        return Finding("topics", Verdict.GOOD, "this user may create them")
    return Finding(
        "topics",
        Verdict.MISSING,
        f"this user may not create one of any name: {refusal}",
        "Name a topology, `slidestat doctor TOPOLOGY`, to see whether it needs to.",
    )


def worker_permissions(bootstrap: str, topology: Declared) -> Iterator[Finding]:
    """Yield the permissions that a worker of this topology needs: its topics, then its group."""
    admin = admin_client(bootstrap)
    sources: Sequence[str] = topology.source_topics
    if topology.counted is not None and topology.counted.has_pattern:
        # This import loads kernels, which only doctor needs of those who import this module.
        from slidestat.admin.worker_topics import require_sources

        try:
            topics = require_broker(bootstrap).topics
            sources = require_sources(bootstrap, topology.counted, topics)
        except SlidestatError as error:
            yield Finding("source", Verdict.BAD, error.message, error.advice)
            sources = ()
    used = list(uses(topology, sources))
    described = admin.describe_topics(
        TopicCollection([use.topic for use in used]),
        include_authorized_operations=True,
        request_timeout=_TIMEOUT_S,
    )
    for use in used:
        try:
            allowed = described[use.topic].result().authorized_operations
        except KafkaException as error:
            yield _unseen_topic(admin, bootstrap, use, error.args[0])
        else:
            yield _allowed(bootstrap, use.check, "topic", use.topic, use.operations, allowed)
            if use.topic == topology.output_topic and _lacking((_READ,), allowed):
                yield Finding(
                    "history",
                    Verdict.MISSING,
                    f"{use.topic}: this user may not Read it, as the live page and"
                    " `slidestat watch` do",
                    _grant(bootstrap, (_READ,), "topic", use.topic),
                )
    yield _group(admin, bootstrap, topology.application_id)
    if topology.repartition:
        yield _group(admin, bootstrap, mover_id(topology.answering), "mover's group")


def uses(topology: Declared, sources: Sequence[str]) -> Iterator[Use]:
    """Yield the topics that a worker uses, with what it does there."""
    if topology.counted is None:
        yield Use("parties", topology.answering.events_topic, (_DESCRIBE,), makes=False)
        yield Use("source", topology.events_topic, (_READ, _SETTINGS))
    else:
        for source in sources:
            yield Use("source", source, (_READ, _SETTINGS), makes=False)
        if topology.repartition:
            yield Use("repartition", topology.events_topic, (_READ, _WRITE, _SETTINGS))
        if topology.counted.expected_topic:
            topic = topology.counted.expected_topic
            yield Use("expected keys", topic, (_READ,), makes=False)
        if topology.has_referee or topology.counted.synopses:
            yield Use("synopses", topology.answering.synopsis_topic, (_WRITE, _SETTINGS))
    yield Use("output", topology.output_topic, (_WRITE, _SETTINGS))
    yield Use("dead letters", topology.dead_letter_topic, (_WRITE, _SETTINGS))
    yield Use("late events", topology.late_topic, (_WRITE, _SETTINGS))
    if topology.alert_topic is not None:
        yield Use("alerts", topology.alert_topic, (_WRITE, _SETTINGS))
    yield Use(_CHANGELOG, topology.changelog_topic, (_READ, _WRITE, _SETTINGS))


def _idempotent_writes(admin: AdminClient) -> Finding:
    older = (
        "Nothing, with brokers from Kafka 2.8 on: there Write on a topic is enough. Older ones ask"
        " for IdempotentWrite on the cluster."
    )
    try:
        described = admin.describe_cluster(
            include_authorized_operations=True, request_timeout=_TIMEOUT_S
        ).result()
    except KafkaException:
        allowed = None
    else:
        allowed = described.authorized_operations
    if allowed is None:
        found = "the brokers do not say whether this user may write idempotently"
    elif _lacking((AclOperation.IDEMPOTENT_WRITE,), allowed):
        found = "this user has no IdempotentWrite"
    else:
        return Finding("cluster", Verdict.GOOD, "this user may write idempotently")
    return Finding("cluster", Verdict.MISSING, found, older)


def _unseen_topic(admin: AdminClient, bootstrap: str, use: Use, kafka_error: KafkaError) -> Finding:
    """Return the finding about a topic that is missing, or that this user may not even see: the
    brokers distinguish the two only for users who may see it, or create it.
    """
    name = use.topic
    if kafka_error.code() not in (_MISSING, *_REFUSED):
        found = f"{name}: the brokers do not say: {kafka_error.str().rstrip('.')}"
        return Finding(use.check, Verdict.BAD, found, "Try again; look at the brokers' log.")
    if kafka_error.code() != _MISSING:
        found = f"{name}: this user may not see it, if it exists"
        return Finding(
            use.check, Verdict.BAD, found, _grant(bootstrap, use.operations, "topic", name)
        )
    if not use.makes:
        found = f"{name}: there is no such topic"
        advice = missing_topic_advice(name, admin.list_topics(timeout=_TIMEOUT_S).topics)
        return Finding(use.check, Verdict.BAD, found, advice)
    refusal = _refusal_to_create(admin, name)
    how = (
        f"compacted, with the source's partitions and max.message.bytes {MAX_MESSAGE_BYTES}"
        if use.check == _CHANGELOG
        else "with `slidestat topics create --topology`"
    )
    if refusal is None:
        found = f"{name}: missing, and this user may create it"
        return Finding(use.check, Verdict.GOOD, found)
    return Finding(
        use.check,
        Verdict.BAD,
        f"{name}: missing, and this user may not create it: {refusal}",
        f"{_grant(bootstrap, (AclOperation.CREATE,), 'topic', name)} Or have it made beforehand,"
        f" {how}.",
    )


def _group(admin: AdminClient, bootstrap: str, group: str, check: str = "group") -> Finding:
    def ask() -> list[AclOperation]:
        asked = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=_TIMEOUT_S
        )
        operations: list[AclOperation] = asked[group].result().authorized_operations
        return operations

    try:
        allowed = ask_again(ask, _TIMEOUT_S)
    except KafkaException as error:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            found = f"{group}: the brokers do not say: {kafka_error.str().rstrip('.')}"
            return Finding(check, Verdict.BAD, found, "Try again; look at the brokers' log.")
        allowed = []
    return _allowed(bootstrap, check, "group", group, (_READ,), allowed)


def _allowed(
    bootstrap: str,
    check: str,
    kind: str,
    name: str,
    needed: tuple[AclOperation, ...],
    allowed: "list[AclOperation] | None",
) -> Finding:
    if allowed is None:
        found = f"{name}: these brokers do not report what this user may do"
        return Finding(check, Verdict.MISSING, found, "Kafka reports it from 2.3 on.")
    lacking = _lacking(needed, allowed)
    if not lacking:
        return Finding(check, Verdict.GOOD, f"{name}: this user may {_listed(needed)}")
    return Finding(
        check,
        Verdict.BAD,
        f"{name}: this user may not {_listed(lacking, 'or')}",
        _grant(bootstrap, lacking, kind, name),
    )


def _lacking(
    needed: tuple[AclOperation, ...], allowed: "list[AclOperation] | None"
) -> tuple[AclOperation, ...]:
    if allowed is None or AclOperation.ALL in allowed:
        return ()
    return tuple(operation for operation in needed if operation not in allowed)


def _refusal_to_create(admin: AdminClient, name: str) -> str | None:
    """Return the reason why the brokers would not create a topic; None if they would."""
    topic = NewTopic(name, num_partitions=1, replication_factor=-1)
    try:
        asked = admin.create_topics([topic], validate_only=True, request_timeout=_TIMEOUT_S)
        asked[name].result()
    except KafkaException as error:
        return str(error.args[0].str()).rstrip(".")
    return None


def _grant(bootstrap: str, operations: tuple[AclOperation, ...], kind: str, name: str) -> str:
    """Return the advice for the administrator of the brokers on how to allow it."""
    user = broker_security().user or "NAME"
    flags = " ".join(f"--operation {word(operation)}" for operation in operations)
    return (
        f"Allow it: `kafka-acls --bootstrap-server {bootstrap} --add --allow-principal User:{user}"
        f" {flags} --{kind} {name}`."
    )


def _listed(operations: tuple[AclOperation, ...], joint: str = "and") -> str:
    *first, last = map(word, operations)
    return f"{', '.join(first)} {joint} {last}" if first else last


def word(operation: AclOperation) -> str:
    """Return an operation as Kafka's own tools write it: DescribeConfigs."""
    return operation.name.title().replace("_", "")
