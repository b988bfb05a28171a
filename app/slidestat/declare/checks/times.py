"""Lengths: of windows, of lateness, of a sequence."""

from collections.abc import Sequence

from slidestat.declare.derived.times import EventTimes
from slidestat.errors import SlidestatError


def check_times(topology: EventTimes) -> None:
    """Check the span, the windows and all lengths of event time."""
    if topology.every_ms < 1:
        raise SlidestatError("every is 0.", 'Give a length such as "1m".')
    span = topology.span_length
    if isinstance(topology.windows, str) or not isinstance(topology.windows, Sequence):
        raise SlidestatError(
            f"windows is {topology.windows!r}, which is not a list.",
            'Write the windows as a list, also a single one: ["1h"].',
        )
    for text in topology.windows:
        window = topology.window(text, "windows")
        if window.of_events != span.of_events:
            raise SlidestatError(
                f"windows has {text!r}, but the span is {topology.span!r}.",
                "Give both as durations, or both as numbers of events.",
            )
        if window > span:
            raise SlidestatError(
                f"windows has {text!r}, which is longer than the span {topology.span!r}.",
                "Lengthen the span or shorten the window.",
            )
    # Read here, so that their errors are raised now.
    _ = (topology.lateness_ms, topology.ahead_ms, topology.idle_ms)
    if topology.is_sequence:
        _check_sequence(topology)
    if not span.of_events and topology.lateness_ms > span.length:
        raise SlidestatError(
            f"lateness is {topology.lateness!r}, more than the span {topology.span!r}.",
            "Lengthen the span or shorten the lateness.",
        )


def _check_sequence(topology: EventTimes) -> None:
    if topology.span_length.length >= topology.times.latest:
        raise SlidestatError(
            f"span is {topology.span!r}, longer than a sequence may be.",
            f"Give less than {topology.times.latest:_} events.",
        )
    for field in ("ahead", "idle"):
        if getattr(topology, field) != getattr(type(topology), field):
            raise SlidestatError(
                f"{field} is {getattr(topology, field)!r}, but event times are numbers of a"
                " sequence, which no clock on the wall can be compared with.",
                "Leave it out.",
            )
