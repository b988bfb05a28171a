"""A topology: what is computed from one topic, declared and nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import SlidestatError
from app.streaming.statistics import Count, Statistic

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d)")
# A century, as in the times that an event may have; far from the limits of what is computed.
_LONGEST_DAYS = 36_525
# Kafka allows 249 characters in a topic's name; the longest suffix and a changelog's name must fit.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def duration_ms(text: str, field: str) -> int:
    """Milliseconds of a duration such as "250ms", "90s", "5m", "1h" or "7d"; 0 is allowed."""
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise SlidestatError(
            f"{field} is {text!r}, which is not a duration.",
            'Write a whole number and a unit: "250ms", "90s", "5m", "1h" or "7d".',
        )
    milliseconds = int(match[1]) * _UNIT_MS[match[2]]
    if milliseconds > _LONGEST_DAYS * _UNIT_MS["d"]:
        raise SlidestatError(
            f"{field} is {text!r}, more than a century.", f'Give at most "{_LONGEST_DAYS}d".'
        )
    return milliseconds


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Statistics of a keyed topic over sliding windows of event time.

    `span` is the longest window kept (N); `windows` are the lengths emitted (each n <= N, the span
    itself by default); an emission follows each time the watermark passes a multiple of `every`.
    Records behind the partition's watermark (its largest event time less `lateness`) are late.
    Raises SlidestatError, naming the field, for a topology that cannot be.
    """

    name: str
    source: str
    span: str
    every: str
    windows: Sequence[str] = ()
    statistics: Sequence[Statistic] = (Count(),)
    lateness: str = "0s"
    key_field: str = "key"
    time_field: str = "time"
    value_field: str = "value"

    def __post_init__(self) -> None:
        self._check_topics()
        self._check_times()
        self._check_statistics()
        fields = (self.key_field, self.time_field, self.value_field)
        named = all(isinstance(field, str) and field for field in fields)
        if not named or len(set(fields)) != len(fields):
            raise SlidestatError(
                f"the fields {fields} are not three names.",
                "Give key_field, time_field and value_field a name each.",
            )

    def _check_topics(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise SlidestatError(
                f"name is {self.name!r}, which cannot stand in a topic's name.",
                "Use 1 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit.",
            )
        if not self.source:
            raise SlidestatError("source is empty.", "Name the topic that the events are on.")
        if not isinstance(self.source, str) or not _TOPIC.fullmatch(self.source):
            raise SlidestatError(
                f"source is {self.source!r}, which is no topic's name.",
                "Use 1 to 249 letters, digits, '.', '_' and '-', as Kafka does.",
            )
        if self.source in (self.output_topic, self.dead_letter_topic, self.late_topic):
            raise SlidestatError(
                f"source is {self.source!r}, which this topology writes.",
                "Name the topic that the events are on, or give the topology another name.",
            )

    def _check_times(self) -> None:
        for field in ("span", "every"):
            if duration_ms(getattr(self, field), field) < 1:
                raise SlidestatError(f"{field} is 0.", 'Give a duration such as "1h".')
        if isinstance(self.windows, str) or not isinstance(self.windows, Sequence):
            raise SlidestatError(
                f"windows is {self.windows!r}, which is not a list.",
                'Write the windows as a list, also a single one: ["1h"].',
            )
        for window in self.windows:
            if not 1 <= duration_ms(window, "windows") <= self.span_ms:
                raise SlidestatError(
                    f"windows has {window!r}, which is not between 1ms and the span {self.span!r}.",
                    "Lengthen the span or shorten the window.",
                )
        if self.lateness_ms > self.span_ms:
            raise SlidestatError(
                f"lateness is {self.lateness!r}, more than the span {self.span!r}.",
                "Lengthen the span or shorten the lateness.",
            )

    def _check_statistics(self) -> None:
        statistics = self.statistics
        if not isinstance(statistics, Sequence) or not all(
            isinstance(statistic, Statistic) for statistic in statistics
        ):
            raise SlidestatError(
                f"statistics is {statistics!r}, which is not a list of statistics.",
                "Write them as [Count(), Sum()], also a single one as a list.",
            )
        names = [statistic.name for statistic in statistics]
        if not names or len(set(names)) != len(names):
            raise SlidestatError(
                f"statistics has {names}.", "Give at least one statistic, and each one once."
            )

    @property
    def span_ms(self) -> int:
        return duration_ms(self.span, "span")

    @property
    def every_ms(self) -> int:
        return duration_ms(self.every, "every")

    @property
    def lateness_ms(self) -> int:
        return duration_ms(self.lateness, "lateness")

    @property
    def windows_ms(self) -> tuple[int, ...]:
        """Lengths of the emitted windows, shortest first."""
        windows = self.windows or (self.span,)
        return tuple(sorted({duration_ms(window, "windows") for window in windows}))

    @property
    def application_id(self) -> str:
        """The consumer group, and the prefix of the changelog and of the data folder."""
        return f"slidestat-{self.name}"

    @property
    def table_name(self) -> str:
        return f"{self.name}-state"

    @property
    def changelog_topic(self) -> str:
        """As Faust names the changelog of the application's table."""
        return f"{self.application_id}-{self.table_name}-changelog"

    @property
    def output_topic(self) -> str:
        return f"{self.name}-statistics"

    @property
    def dead_letter_topic(self) -> str:
        return f"{self.name}-dead-letters"

    @property
    def late_topic(self) -> str:
        return f"{self.name}-late"
