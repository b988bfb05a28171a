"""Read the keys that a compacted topic lists: those whose newest record has a value."""

from collections.abc import Iterable

from slidestat.errors import SlidestatError, shown
from slidestat.kafka.connection import require_topic
from slidestat.kafka.read.scan import offset_bounds, reading, scan


class KeyList:
    """The list of keys of a topic, which is read again only once records have come or gone."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Read the list; raises as `read` does."""
        self._bootstrap, self.topic = bootstrap, topic
        self._bounds: list[tuple[int, int]] = []
        self.keys = self.read()

    def read(self) -> list[str]:
        """Return the keys of the topic, in their order.

        Raises SlidestatError for a topic that is not there or cannot be read, and for a record
        without a key, or with one that is no text; `keys` then stay those of the previous call.
        Costs a request for each partition where nothing has changed, else all records of the topic.
        """
        partitions = range(require_topic(self._bootstrap, self.topic))
        newest: dict[bytes | None, bool] = {}
        with reading(self._bootstrap, self.topic) as consumer:
            bounds = [offset_bounds(consumer, self.topic, number) for number in partitions]
            if bounds == self._bounds:
                return self.keys
            for message in scan(consumer, self.topic, dict.fromkeys(partitions, 0)):
                newest[message.key()] = message.value() is not None
        self.keys = self._texts(key for key, has_value in newest.items() if has_value)
        self._bounds = bounds
        return self.keys

    def _texts(self, keys: Iterable[bytes | None]) -> list[str]:
        texts = []
        for key in keys:
            try:
                texts.append((key or b"").decode())
            except UnicodeDecodeError:
                texts.append("")
            if not texts[-1]:
                raise SlidestatError(
                    f"The topic {self.topic!r} has a record whose key is {shown(key)}, and lists"
                    " keys of events by theirs, as UTF-8.",
                    "Write each expected key as a record's key, with any value; a null value takes"
                    " it away.",
                )
        return sorted(texts)
