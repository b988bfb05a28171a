"""The topics that a topology writes, and the form of what it writes."""

from collections.abc import Sequence

from slidestat.declare.alerts import Alert
from slidestat.declare.naming import Named

# A topology that publishes this keeps one state a partition, over the events of all keys.
PARTITION = "partition"


class WrittenTopics(Named):
    """The topics, by `name`, `output`, `publish`, `alerts` and `repartition`."""

    source: str
    output: str
    output_format: str
    output_shape: str
    publish: str | Sequence[str]
    alerts: Sequence[Alert]
    repartition: bool
    exactly_once: bool

    @property
    def writes_rows(self) -> bool:
        """Return whether the output is a row for each window."""
        return self.output_shape == "rows"

    @property
    def publishes_partitions(self) -> bool:
        """Return whether states are kept and published of whole partitions, not of keys."""
        return self.publish == PARTITION

    @property
    def synopsis_topic(self) -> str:
        """The topic on which the partitions publish their synopses, if they do."""
        return f"{self._output_prefix}-synopses"

    @property
    def events_topic(self) -> str:
        """The topic whose partitions are counted: the source, unless `repartition` is true."""
        return f"{self.group_name}-repartition" if self.repartition else self.source

    @property
    def alert_topic(self) -> str | None:
        return f"{self._output_prefix}-alerts" if self.alerts else None

    @property
    def written_topics(self) -> tuple[str, ...]:
        topics: tuple[str, ...]
        topics = (self.output_topic, self.dead_letter_topic, self.late_topic, self.changelog_topic)
        if self.alert_topic is not None:
            topics = (*topics, self.alert_topic)
        if self.repartition:
            topics = (*topics, self.events_topic)
        return (*topics, self.synopsis_topic) if self.publish else topics

    @property
    def _output_prefix(self) -> str:
        return self.output or self.name
