"""An AsyncAPI document of a topology: the topics that it reads and writes, and their records.

Source: AsyncAPI 3.0.0, with version 0.5.0 of its bindings for Kafka.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from slidestat.admin.topics import shared_topics, written_topics
from slidestat.declare.declared import Declared
from slidestat.declare.rows import ColumnType, RowColumn
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.schemas.publish import schema_parts
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
        channels[name] = {
            "address": topic,
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
            "source": (topology.source, "receive", self._source()),
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
        return {
            "contentType": _OCTETS,
            "summary": "a synopsis of one partition, or the partition's clock as JSON",
            "headers": self._schema(SynopsisHeaders),
        }

    def _output(self) -> Message:
        counted = self._topology.counted
        message: Message = {"contentType": _CONTENT[self._topology.output_format]}
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
