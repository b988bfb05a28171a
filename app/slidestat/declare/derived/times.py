"""Event time as a topology declares it: the format of times, and lengths."""

from collections.abc import Sequence
from functools import cached_property

from slidestat.declare.lengths import WindowLength, duration_ms, sequence_length, window_length
from slidestat.declare.time_format import TIME_FORMATS, TimeFormat
from slidestat.errors import SlidestatError


class EventTimes:
    """The lengths that a topology declares, as numbers."""

    span: str
    every: str
    windows: Sequence[str]
    lateness: str
    ahead: str
    idle: str
    forget_after: str
    time_format: str

    @property
    def times(self) -> TimeFormat:
        """The format in which event times are written."""
        return TIME_FORMATS[self.time_format]

    @property
    def is_sequence(self) -> bool:
        """Return whether event times are numbers of a global sequence."""
        return self.times.is_sequence

    @cached_property
    def span_length(self) -> WindowLength:
        """The span N."""
        return self.window(self.span, "span")

    @property
    def windows_of_events(self) -> bool:
        """Return whether windows are numbers of events: of each key's, or of the sequence."""
        return self.is_sequence or self.span_length.of_events

    def window(self, text: str, field: str) -> WindowLength:
        """Return the length of a window from its text; of a sequence, a length of event time."""
        if not self.is_sequence:
            return window_length(text, field)
        length = sequence_length(text, field)
        if length < 1:
            raise SlidestatError(f"{field} is 0.", 'Give a length such as "1000 events".')
        return WindowLength(length, of_events=False)

    def duration(self, text: str, field: str) -> int:
        """Return a length of event time from its text: in milliseconds, or numbers of the
        sequence.
        """
        return (sequence_length if self.is_sequence else duration_ms)(text, field)

    @cached_property
    def window_lengths(self) -> tuple[int, ...]:
        """Lengths of the emitted windows, shortest first, in what the span is measured in."""
        windows = self.windows or (self.span,)
        return tuple(sorted({self.window(window, "windows").length for window in windows}))

    @property
    def every_ms(self) -> int:
        return self.duration(self.every, "every")

    @property
    def lateness_ms(self) -> int:
        return self.duration(self.lateness, "lateness")

    @property
    def ahead_ms(self) -> int:
        return duration_ms(self.ahead, "ahead")

    @property
    def idle_ms(self) -> int:
        return duration_ms(self.idle, "idle")
