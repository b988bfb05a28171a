"""Lengths that can be declared together, and are seldom meant so."""

from collections.abc import Iterator

from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Finding, Verdict
from slidestat.text.durations import human_duration


def unlikely_lengths(topology: Topology) -> Iterator[Finding]:
    """Yield a finding where windows do not reach each other: events between them are in no
    figure.
    """
    if topology.windows_of_events or topology.is_sequence:
        return
    shortest, every = min(topology.window_lengths), topology.every_ms
    if every > shortest:
        yield Finding(
            "lengths",
            Verdict.MISSING,
            f"every is {human_duration(every)}, and a window {human_duration(shortest)}: events"
            " between two of its windows are in none",
            "If all events should be in it, emit more often, or lengthen the window.",
        )
