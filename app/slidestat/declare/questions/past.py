"""A question to stored states: what were the figures of windows that ended so long before?

It is asked (`live_query.py`), never declared. What the answer is, and why its bounds hold:
synopses/past/past.py.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from slidestat.declare.statistics.base import Statistic
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure


def past_statistics(ago: str, declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can be asked of the past.

    Raises SlidestatError where none can be.
    """
    asked = {label: statistic for label, statistic in declared.items() if statistic.has_past}
    if not asked:
        raise SlidestatError(
            f"ago is {ago!r}, but of what the topology keeps nothing can be asked of the past.",
            "It needs counts, sums, means, histograms, quantiles by value or top items. Of others,"
            " read the emissions of that time.",
        )
    return asked


def past_windows(ago: str, windows: Sequence[str], topology: Topology) -> tuple[int, Sequence[str]]:
    """Return how long ago the windows ended, and which are asked for: those given, or all of the
    topology's that the span covers.

    Raises SlidestatError for windows of events, and for what is longer than the span.
    """
    span = topology.span_length
    if span.of_events:
        raise SlidestatError(
            f"ago is {ago!r}, but the windows of {topology.name} are a key's last events.",
            "How many there were by then is not kept: leave it out, or read the emissions of that"
            " time.",
        )
    before = topology.duration(ago, "ago")
    lengths = {
        text: topology.window(text, "window").length
        for text in windows or topology.windows or (topology.span,)
    }
    of_calendar = [it for it, length in lengths.items() if isinstance(length, CalendarWindow)]
    if windows and of_calendar:
        raise SlidestatError(
            f"window is {of_calendar[0]!r}, and ago is {ago!r}: of a window of the calendar, only"
            " the one that ends now is kept.",
            "Ask for a length such as 24h, or read the emissions of that time.",
        )
    covered = [
        text
        for text, length in lengths.items()
        if text not in of_calendar and length + before <= span.length
    ]
    missing = [text for text in windows if text not in covered]
    if missing or not covered:
        asked = f"window is {missing[0]!r}, and ago" if missing else "ago"
        raise SlidestatError(
            f"{asked} is {ago!r}: the windows begin before the {topology.span!r} that are kept.",
            f"Window and ago together are at most {topology.span!r}: ask for less, or declare a"
            " longer span, which is kept from then on.",
        )
    return before, covered


def past_figure(figure: Figure) -> Figure:
    """Return a figure of the past with the error that its bounds leave: what is promised of a
    window that ends now is not promised of it.
    """
    error = 0.0
    estimate, lower, upper = figure.estimate, figure.lower, figure.upper
    if estimate is not None and lower is not None and upper is not None and lower < upper:
        error = math.nextafter(max(upper - estimate, estimate - lower), math.inf)
    return msgspec.structs.replace(
        figure,
        relative_error=0.0,
        absolute_error=error,
        share_error=0.0,
        deviation_error=0.0,
        magnitude_error=0.0,
    )
