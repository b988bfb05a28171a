"""Emissions from several sources, in one order, as soon as it is sure what comes next."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from slidestat.engine.emissions.output_records import AlertRecord, OutputRecords
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.keys.key_timers import Place

# What a source gives in one go, and a place before which none of its others lies.
Given = tuple[PlacedAnswers, Place]

# Emissions that are yielded in one batch: small enough not to block their sender for long.
_AT_ONCE = 5_000
_FIRST: Place = (-(2**63), "")
LAST: Place = (2**63 - 1, "")
"""Behind all places."""


class Outputs(NamedTuple):
    """A batch of emissions and of alert changes."""

    emissions: OutputRecords
    alerts: list[AlertRecord]


def in_order(
    write: Callable[[PlacedAnswers], OutputRecords], *sources: Iterator[Given]
) -> Iterator[Outputs]:
    """Yield the answers of all sources in the order of their places, each written as soon as no
    other can come before it. One source is asked at a time; after each come outputs, maybe none, or
    several where there are many.
    """
    ends = [_FIRST] * len(sources)
    held: list[PlacedAnswers] = []
    while min(ends) < LAST:
        behind = ends.index(min(ends))
        given, ends[behind] = next(sources[behind], (NOTHING, LAST))
        parts = [part.split(min(ends)) for part in (*held, given)]
        held = [rest for _, rest in parts if not rest.is_empty]
        sure = PlacedAnswers.joined([before for before, _ in parts])
        alerts = [record for _, record in sure.alerts]
        for start in range(0, max(len(sure), 1), _AT_ONCE):
            yield Outputs(write(sure.between(start, start + _AT_ONCE)), alerts)
            alerts = []
