"""Rows in Protobuf, through a schema registry.

Needs the packages of the extra `protobuf`: imported only where Protobuf is asked for.
"""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any
from zlib import crc32

from confluent_kafka.schema_registry import Schema
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from slidestat.declare.rows import ColumnType, RowColumn
from slidestat.engine.decoding.formats.proto_files import registered_files
from slidestat.engine.decoding.formats.source_schemas import framed
from slidestat.engine.schema_registry import OutputRegistry
from slidestat.errors import SlidestatError
from slidestat.schemas.avro import NAMESPACE, record_name

_TYPES = {
    ColumnType.TEXT: "string",
    ColumnType.WHOLE: "int64",
    ColumnType.NUMBER: "double",
    ColumnType.TRUTH: "bool",
}
# Figures have the 2^24 field numbers from here on, beyond those that Protobuf reserves.
_FIRST_OF_FIGURES = 20_000
_FIGURES = 2**24
# The index of a schema's message: the first one.
_FIRST_MESSAGE = b"\0"


class ProtobufRowWriter(OutputRegistry):
    """A writer of rows in Protobuf in Confluent's framing, by the schema of their columns, which is
    registered at once, under the topic's subject.
    """

    def __init__(self, topic: str, registry: str, columns: Sequence[RowColumn]) -> None:
        """Create the writer; raises SlidestatError if the registry does not take the schema."""
        super().__init__("Protobuf", topic, registry)
        text = row_proto(topic, columns)
        pool = DescriptorPool()
        for file in registered_files(text, ()).file:
            pool.AddSerializedFile(file.SerializeToString())
        self._message = GetMessageClass(
            pool.FindMessageTypeByName(f"{NAMESPACE}.{record_name(topic)}")
        )
        with self._asking():
            self._schema = self._client.register_schema(f"{topic}-value", Schema(text, "PROTOBUF"))

    def write(self, row: dict[str, Any]) -> bytes:
        """Return the framed bytes of a row; a number that does not exist is not set."""
        plain = {
            name: value
            for name, value in row.items()
            if value is not None and not (isinstance(value, float) and not isfinite(value))
        }
        content = self._message(**plain).SerializeToString()
        return framed(self._schema, _FIRST_MESSAGE + content)


def row_proto(topic: str, columns: Sequence[RowColumn]) -> str:
    """Return the .proto file of the rows of a topic.

    A figure's column gets its number from its name, whatever other columns there are: so the rows
    of a topology with more statistics, or fewer, can be read by an earlier schema. Raises
    SlidestatError where two names have one number.
    """
    lines = ['syntax = "proto3";', f"package {NAMESPACE};", f"message {record_name(topic)} {{"]
    taken: dict[int | str, str] = {}
    others = 0
    for column in columns:
        if column.is_figure:
            number = _FIRST_OF_FIGURES + crc32(column.name.encode()) % _FIGURES
        else:
            others += 1
            number = others
        # Protobuf compares the names that fields would have in JSON, whatever they are given there.
        in_json = re.sub("_+(.?)", lambda found: found[1].upper(), column.name)
        for what, own in (("number", number), ("name", in_json)):
            if own in taken:
                raise SlidestatError(
                    f"The columns {taken[own]!r} and {column.name!r} have one {what} in Protobuf.",
                    "Give one of the figures another name.",
                )
            taken[own] = column.name
        presence = "optional " if column.is_figure else ""
        # Its own name in JSON, too: p9_9 would become p99 there.
        named = f'[json_name = "{column.name}"]'
        lines.append(f"  {presence}{_TYPES[column.type]} {column.name} = {number} {named};")
    return "\n".join([*lines, "}", ""])
