"""Statistics, and the fields that they are of."""

from collections.abc import Sequence

from slidestat.declare.derived.figures import KeptFigures
from slidestat.declare.fields import check_apart, field_text
from slidestat.declare.statistics import Statistic
from slidestat.errors import SlidestatError


def check_statistics(topology: KeptFigures) -> None:
    """Check what is asked for, and of which fields."""
    statistics = topology.statistics
    if not isinstance(statistics, Sequence) or not all(
        isinstance(statistic, Statistic) for statistic in statistics
    ):
        raise SlidestatError(
            f"statistics is {statistics!r}, which is not a list of statistics.",
            "Write them as [Count(), Sum()], also a single one as a list.",
        )
    labels = topology.labels
    if not labels or len(set(labels)) != len(labels):
        raise SlidestatError(
            f"statistics has {list(labels)}.",
            "Give at least one statistic, and each once; `name` tells two of a kind apart.",
        )
    for statistic in statistics:
        if statistic.needs_time and topology.windows_of_events:
            raise SlidestatError(
                f"{statistic.kind} is asked for, but windows are of {topology.span!r}.",
                "Take it out, or give the span as a duration.",
            )
        most, span = statistic.most_events, topology.span_length
        if most is not None and span.of_events and span.length > most:
            raise SlidestatError(
                f"{statistic.kind} is asked for, and windows are of {topology.span!r}.",
                f"It holds {most:,} events: give a shorter span, or take it out.",
            )
    read = (column.path for column in (*topology.columns.numbers, *topology.columns.items))
    own = [path for path in (topology.key_path, topology.time_path) if path is not None]
    asked = (path for path, _ in topology.asked_fields)
    check_apart(path for path in (*own, *read, *asked) if path not in topology.computed_fields)
    for column in (*topology.columns.numbers, *topology.columns.items):
        # Different numbers of a sequence are the positions at which anybody saw an event.
        is_position = topology.is_sequence and not column.is_number
        if column.path == topology.time_path and not is_position:
            raise SlidestatError(
                f"a statistic reads {field_text(column.path)!r}, which is the time.",
                "Give it another field: the time of an event decides only which windows it is in.",
            )
    for column in topology.columns.numbers:
        if column.limits is not None and column.limits.least > column.limits.most:
            raise SlidestatError(
                f"no value of {field_text(column.path)!r} is one that all its statistics take.",
                "Give them different fields.",
            )
        if column.path == topology.key_path:
            raise SlidestatError(
                f"a statistic reads numbers from {field_text(column.path)!r}, which is the key.",
                "Give it the field of a number, or the topology another key_field.",
            )
