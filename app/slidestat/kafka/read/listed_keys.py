"""Read the keys that a compacted topic lists: those whose newest record has a value."""

from slidestat.errors import SlidestatError, shown
from slidestat.kafka.connection import require_topic
from slidestat.kafka.read.scan import reading, scan


def listed_keys(bootstrap: str, topic: str) -> list[str]:
    """Return the keys of a topic, which is read from its first record to its end, in their order.

    Raises SlidestatError for a topic that is not there or cannot be read, and for a record without
    a key, or with one that is no text.
    """
    partitions = require_topic(bootstrap, topic)
    newest: dict[bytes | None, bool] = {}
    with reading(bootstrap, topic) as consumer:
        for message in scan(consumer, topic, dict.fromkeys(range(partitions), 0)):
            newest[message.key()] = message.value() is not None
    keys = []
    for key in (key for key, has_value in newest.items() if has_value):
        try:
            keys.append((key or b"").decode())
        except UnicodeDecodeError:
            keys.append("")
        if not keys[-1]:
            raise SlidestatError(
                f"The topic {topic!r} has a record whose key is {shown(key)}, and lists keys of"
                " events by theirs, as UTF-8.",
                "Write each expected key as a record's key, with any value; a null value takes it"
                " away.",
            )
    return sorted(keys)
