"""Names of topics, and the form of what is written to them."""

import re

from slidestat.declare.derived.topics import WrittenTopics
from slidestat.declare.naming import NAME, NAME_RULE
from slidestat.errors import SlidestatError

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OUTPUT_FORMATS = ("json", "avro", "connect-json", "protobuf")
_OF_ROWS = ("connect-json", "protobuf")
_OUTPUT_SHAPES = ("emissions", "rows")


def check_topics(topology: WrittenTopics) -> None:
    """Check the names of topics, and the form of the output."""
    topology.check_names()
    output = topology.output
    if not isinstance(output, str) or (output and not NAME.fullmatch(output)):
        raise SlidestatError(f"output is {output!r}, which cannot begin a topic's name.", NAME_RULE)
    if not topology.source:
        raise SlidestatError("source is empty.", "Name the topic that the events are on.")
    if not isinstance(topology.source, str) or not _TOPIC.fullmatch(topology.source):
        raise SlidestatError(
            f"source is {topology.source!r}, which is no topic's name.",
            "Use 1 to 249 letters, digits, '.', '_' and '-', as Kafka does.",
        )
    if topology.source in topology.written_topics:
        raise SlidestatError(
            f"source is {topology.source!r}, which this topology writes.",
            "Name the topic that the events are on, or give the topology another name.",
        )
    if topology.output_format not in _OUTPUT_FORMATS:
        raise SlidestatError(
            f"output_format is {topology.output_format!r}.",
            'Give "json" or "avro", or of rows "connect-json" or "protobuf".',
        )
    if topology.output_shape not in _OUTPUT_SHAPES:
        raise SlidestatError(
            f"output_shape is {topology.output_shape!r}.", 'Give "emissions" or "rows".'
        )
    if topology.output_format in _OF_ROWS and not topology.writes_rows:
        raise SlidestatError(
            f"output_format is {topology.output_format!r}, and the output is no rows.",
            'Give output_shape = "rows" too.',
        )
