"""Read a topic's changes of alerts as they come, or those that are there."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from slidestat.kafka.read.topic_reader import TopicReader
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.sequence import decode_alert_change


class ChangeRecord(NamedTuple):
    """A change of an alert, and the record's own bytes."""

    change: AlertChange
    json: bytes


@dataclass
class AlertReader(TopicReader[ChangeRecord]):
    """A reader of alert changes."""

    def _decoded(self, value: bytes, headers: list[tuple[str, bytes]]) -> ChangeRecord | None:
        try:
            change = decode_alert_change(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._set_aside(headers)
            return None
        return ChangeRecord(change, value) if self._wants(change.key) else None
