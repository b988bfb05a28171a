"""Checks of the fields of key, time and value, and of the records that they are in."""

from slidestat.declare.derived.reading import SOURCE_FORMATS, TOMBSTONES, ReadFields
from slidestat.declare.fields import RECORD_TIMESTAMP, field_text
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.errors import SlidestatError


def check_fields(topology: ReadFields) -> None:
    """Check the fields of key, time and value, and what a record without a value is."""
    if topology.tombstones not in TOMBSTONES:
        raise SlidestatError(
            f"tombstones is {topology.tombstones!r}.", 'Give "pass-over" or "dead-letter".'
        )
    if topology.source_format not in SOURCE_FORMATS:
        formats = ", ".join(f'"{name}"' for name in SOURCE_FORMATS)
        raise SlidestatError(
            f"source_format is {topology.source_format!r}.", f"Give one of {formats}."
        )
    if topology.source_schema and not topology.reads_binary:
        raise SlidestatError(
            f"source_schema is given, and source_format is {topology.source_format!r}.",
            'Give source_format = "avro" or "protobuf" too, or leave the schema out.',
        )
    if not isinstance(topology.source_schema, str):
        raise SlidestatError(
            f"source_schema is {topology.source_schema!r}, which is no text.",
            "Give the schema as the text that its file has.",
        )
    has_message = topology.source_format == "protobuf" and topology.source_schema
    if topology.source_message and not has_message:
        raise SlidestatError(
            f"source_message is {topology.source_message!r}, but no source_schema is given:"
            " with a schema registry, each record says itself which message it is.",
            'Give source_format = "protobuf" and source_schema too, or leave it out.',
        )
    if not isinstance(topology.source_message, str):
        raise SlidestatError(
            f"source_message is {topology.source_message!r}, which is no text.",
            'Give the full name of a message: "shop.Order".',
        )
    all_paths = topology.key_path, topology.time_path, topology.value_path
    paths = [path for path in all_paths if path is not None]
    if len(set(paths)) != len(paths):
        raise SlidestatError(
            f"key_field, time_field and value_field are {topology.key_name!r},"
            f" {topology.time_name!r} and {field_text(topology.value_path)!r}.",
            "Name three different fields.",
        )
    if topology.time_format not in tuple(TIME_FORMATS):  # It may be anything, also unhashable.
        formats = ", ".join(f'"{name}"' for name in TIME_FORMATS)
        raise SlidestatError(f"time_format is {topology.time_format!r}.", f"Give one of {formats}.")
    if topology.time_path is None and topology.time_format != "ms":
        raise SlidestatError(
            f"time_format is {topology.time_format!r}, but the time is {RECORD_TIMESTAMP!r}.",
            "Leave time_format out: Kafka's timestamps are milliseconds.",
        )
