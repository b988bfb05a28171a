"""Documents of a topology in the forms of others: an AsyncAPI document of its topics and their
records; resources of Strimzi, the operator of Kafka on Kubernetes, for its topics and its user.

Sources: AsyncAPI 3.0.0, with version 0.5.0 of its bindings for Kafka; Strimzi's API
kafka.strimzi.io/v1, which is there from 0.49 on, and alone from 1.0 on.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from slidestat.admin.topics import CHANGELOG_CONFIG, shared_topics, written_topics
from slidestat.declare.declared import Declared
from slidestat.declare.derived import ANY
from slidestat.declare.rows import ColumnType, RowColumn
from slidestat.doctor.permissions import uses, word
from slidestat.repartition.moved_from import mover_id
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.schemas.publish import schema_parts
from slidestat.schemas.ranking import Ranking
from slidestat.schemas.sequence import kinds
from slidestat.schemas.synopsis import SynopsisHeaders

_VERSION = "3.0.0"
_BINDING = "0.5.0"
_SCHEMAS = "#/components/schemas/"
_JSON, _OCTETS, _AVRO = "application/json", "application/octet-stream", "avro/binary"
_TYPES = {
    ColumnType.TEXT: "string",
    ColumnType.WHOLE: "integer",
    ColumnType.NUMBER: "number",
    ColumnType.TRUTH: "boolean",
}
_CONTENT = {
    "json": _JSON,
    "connect-json": _JSON,
    "avro": _AVRO,
    "protobuf": "application/x-protobuf",
}

Message = dict[str, Any]


def asyncapi_document(topology: Declared) -> dict[str, Any]:
    """Return the document. Records in JSON have their schemas; those in Avro and Protobuf are named
    as such, as a schema registry has theirs.
    """
    parts = _Parts(topology)
    messages = parts.messages()
    channels, operations = {}, {}
    configs = {**written_topics(topology), **shared_topics(topology)}
    for name, (topic, action, message) in messages.items():
        binding: dict[str, Any] = {"topic": topic, "bindingVersion": _BINDING}
        if topic in configs:
            binding["topicConfiguration"] = _configuration(configs[topic])
        if ANY in topic:
            binding.pop("topic")
        channels[name] = {
            # Several topics, by a pattern, have none.
            "address": None if ANY in topic else topic,
            **({"description": f"each topic named {topic}"} if ANY in topic else {}),
            "messages": {name: message},
            "bindings": {"kafka": binding},
        }
        operations[f"{action}_{name}"] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{name}"},
        }
    return {
        "asyncapi": _VERSION,
        "info": {
            "title": topology.name,
            # A reader of the records of one version can read those of the others of it.
            "version": f"{2 if topology.is_sequence else 1}.0.0",
            "description": "Statistics of a keyed topic over sliding windows, with their bounds.",
        },
        "defaultContentType": _JSON,
        "channels": channels,
        "operations": operations,
        "components": {"schemas": parts.schemas},
    }


def _configuration(config: dict[str, str]) -> dict[str, Any]:
    """Return what the binding has names for."""
    found: dict[str, Any] = {}
    if "cleanup.policy" in config:
        found["cleanup.policy"] = config["cleanup.policy"].split(",")
    for name in ("retention.ms", "max.message.bytes"):
        if name in config:
            found[name] = int(config[name])
    return found


class _Parts:
    """The messages of a topology, and the schemas that they refer to."""

    def __init__(self, topology: Declared) -> None:
        self._topology = topology
        self._kinds = kinds(is_sequence=topology.is_sequence)
        self.schemas: dict[str, Any] = {}

    def messages(self) -> dict[str, tuple[str, str, Message]]:
        """Return the topic, the action and the message of each channel, by its name."""
        topology = self._topology
        letter = {
            "contentType": _OCTETS,
            "summary": "the record as it was; the headers say why it was not counted",
            "headers": self._schema(DeadLetterHeaders),
        }
        found = {
            **{
                f"source_{place}" if place > 1 else "source": (topic, "receive", self._source())
                for place, topic in enumerate(topology.source_topics, 1)
            },
            "output": (topology.output_topic, "send", self._output()),
            "dead_letters": (topology.dead_letter_topic, "send", letter),
            "late": (topology.late_topic, "send", letter),
        }
        if topology.alert_topic is not None:
            alert = {"contentType": _JSON, "payload": self._schema(self._kinds.alert_change)}
            found["alerts"] = (topology.alert_topic, "send", alert)
        for topic in shared_topics(topology):
            if topic == topology.events_topic:
                found["moved"] = (topic, "send", self._source())
            else:
                found["synopses"] = (topic, "send", self._synopsis())
        counted = topology.counted
        if counted is not None and counted.expected_topic:
            keys = {
                "contentType": _OCTETS,
                "summary": "an expected key, as the record's key; a tombstone takes it away",
            }
            found["expected_keys"] = (counted.expected_topic, "receive", keys)
        return found

    def _source(self) -> Message:
        counted = self._topology.counted
        if counted is None:
            return self._synopsis()
        return {
            "contentType": _CONTENT.get(counted.source_format, _OCTETS),
            "summary": f"an event, with its key in {counted.key_field} and its time in"
            f" {counted.time_field}",
        }

    def _synopsis(self) -> Message:
        if self._topology.answering.rankings:
            what, content = "the keys of one partition that lead in a ranking", _JSON
        else:
            what, content = "a synopsis of one partition", _OCTETS
        return {
            "contentType": content,
            "summary": f"{what}, or the partition's clock as JSON",
            "headers": self._schema(SynopsisHeaders),
        }

    def _output(self) -> Message:
        counted = self._topology.counted
        message: Message = {"contentType": _CONTENT[self._topology.output_format]}
        if counted is None and self._topology.answering.rankings:
            message["summary"] = "who has the places of a ranking at one time, over all partitions"
            message["payload"] = self._schema(Ranking)
            return message
        if counted is not None and counted.writes_rows:
            message["summary"] = "the figures of a key over one window"
            if self._topology.output_format == "json":
                message["payload"] = _row(counted.row_columns)
        else:
            message["summary"] = "the figures of a key over windows that end at one time"
            if self._topology.output_format == "json":
                message["payload"] = self._schema(self._kinds.emission)
        return message

    def _schema(self, struct: type[msgspec.Struct]) -> dict[str, str]:
        """Add the schema of a struct and of those in it, and return the reference to it."""
        reference, parts = schema_parts(struct, _SCHEMAS + "{name}")
        self.schemas |= parts
        return reference


def _row(columns: Sequence[RowColumn]) -> dict[str, Any]:
    def kind(column: RowColumn) -> dict[str, Any]:
        name = _TYPES[column.type]
        return {"type": [name, "null"] if column.is_figure else name}

    return {
        "type": "object",
        "properties": {column.name: kind(column) for column in columns},
        "required": [column.name for column in columns],
    }


_API = "kafka.strimzi.io/v1"
_CLUSTER = {"strimzi.io/cluster": "my-cluster"}
# The longest name by RFC 1123, and the length of a digest for names that Kubernetes cannot tell
# apart.
_LONGEST, _DIGEST = 253, 8
_NAMELESS = "topic"


def strimzi_resources(topology: Declared, partitions: int) -> dict[str, Any]:
    """Return a list of resources for `kubectl apply`: a KafkaTopic for each topic that workers
    write, for a source with so many partitions, and a KafkaUser that may do what workers do.
    """
    topics = [_topic(*one) for one in _topics(topology, partitions)]
    return {"apiVersion": "v1", "kind": "List", "items": [*topics, _user(topology)]}


def _topics(topology: Declared, partitions: int) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield the name, the partitions and the settings of each topic."""
    for name, config in written_topics(topology).items():
        yield name, partitions, config
    yield topology.changelog_topic, partitions, CHANGELOG_CONFIG
    for name, config in shared_topics(topology).items():
        count = partitions
        if topology.counted is not None and name != topology.events_topic:
            count = topology.counted.synopsis_partitions(partitions)
        yield name, count, config


def _topic(name: str, partitions: int, config: dict[str, str]) -> dict[str, Any]:
    # Without `replicas`, of which the brokers' default makes as many as the cluster can have.
    spec: dict[str, Any] = {"partitions": partitions, "config": config}
    resource_name = _resource_name(name)
    if resource_name != name:
        spec["topicName"] = name
    return _resource("KafkaTopic", resource_name, spec)


def _user(topology: Declared) -> dict[str, Any]:
    acls = []
    for use in uses(topology, topology.source_topics):
        operations = [word(operation) for operation in use.operations]
        # Kafka's own patterns are prefixes, and "*" for all.
        name, is_pattern, _ = use.topic.partition(ANY)
        kind = "prefix" if is_pattern and name else "literal"
        acls.append(_acl("topic", name or ANY, operations, kind))
    # The live page and `slidestat watch` read the figures of the past.
    acls.append(_acl("topic", topology.output_topic, ["Read"]))
    acls.append(_acl("group", topology.application_id, ["Read"]))
    in_transactions = ["Write", "Describe"]
    if topology.counted is not None and topology.repartition:
        moving = mover_id(topology.counted)
        acls.append(_acl("group", moving, ["Read"]))
        acls.append(_acl("transactionalId", moving, in_transactions))
    if topology.exactly_once:
        prefix = topology.transactional_prefix
        acls.append(_acl("transactionalId", prefix, in_transactions, "prefix"))
    spec = {
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"type": "simple", "acls": acls},
    }
    # Another topology of the group has another user: it would take the rights away from this one.
    is_shared = topology.group_name != topology.name
    name = topology.application_id + f"/{topology.name}" * is_shared
    return _resource("KafkaUser", _resource_name(name), spec)


def _resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": _CLUSTER}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}


def _acl(
    kind: str, name: str, operations: list[str], pattern_type: str = "literal"
) -> dict[str, Any]:
    resource = {"type": kind, "name": name, "patternType": pattern_type}
    return {"resource": resource, "operations": operations, "host": "*"}


def _resource_name(name: str) -> str:
    """Return a name as Kubernetes takes it, another one for each name of Kafka's."""
    labels = (re.sub(r"[^a-z0-9]", "-", part).strip("-") for part in name.lower().split("."))
    found = ".".join(filter(None, labels)) or _NAMELESS
    if found == name and len(name) <= _LONGEST:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{found[: _LONGEST - _DIGEST - 1].rstrip('-.')}-{digest}"
