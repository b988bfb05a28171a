"""A watch for transactions that stay open: readers of committed records read no further."""

import time
from collections.abc import Mapping

from slidestat.log import log_event

_TELL_S = 30.0


class OpenTransactions:
    """A log of the records that wait behind an open transaction, for each half minute in which none
    of a partition could be read.
    """

    def __init__(self) -> None:
        # For each partition that waits: up to where it can be read, and since when that is so or
        # when it was last logged.
        self._stuck: dict[tuple[str, int], tuple[int, float]] = {}

    def look(self, ends: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Return up to which offset each partition, with its topic, can be read, and its end."""
        now = time.monotonic()
        before, self._stuck = self._stuck, {}
        for place, (readable, end) in ends.items():
            if readable >= end:
                continue
            at, since = before.get(place, (readable, now))
            since = since if at == readable else now
            if now - since >= _TELL_S:
                self._log(*place, end - readable)
                since = now
            self._stuck[place] = readable, since

    def _log(self, topic: str, partition: int, waiting: int) -> None:
        log_event(
            "records wait",
            f"{waiting:,} records of {topic}/{partition} wait behind a transaction that its"
            " producer has not ended",
            topic=topic,
            partition=partition,
            records=waiting,
        )
