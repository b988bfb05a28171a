"""Format the memory of a key for people."""

from collections.abc import Iterable

from slidestat.declare.topology import Topology
from slidestat.engine.footprint import Footprint

_UNITS = ("bytes", "kB", "MB", "GB")


def footprint_line(topology: Topology, measured: Iterable[Footprint]) -> str:
    """Return one line on the memory of a key, for the one who starts a worker."""
    sizes = ", ".join(
        f"{bytes_text(footprint.state_bytes)} with {footprint.events:,}" for footprint in measured
    )
    kept = "" if topology.sees_span_alone else f"; keys are kept {keeping_text(topology)}"
    return f"{topology.name}: memory of a key by its events in the span, measured: {sizes}{kept}"


def keeping_text(topology: Topology) -> str:
    """Return how long the state of a key is kept, and why, if that is for ever."""
    if topology.forget_ms is not None:
        return f"until the last event is {topology.forget_after or topology.span} old"
    if topology.span_length.of_events:
        return f"for ever: the last {topology.span} of a key never leave its window"
    labelled = zip(topology.labels, topology.statistics, strict=True)
    landmarks = ", ".join(label for label, statistic in labelled if statistic.is_landmark)
    return f"for ever: {landmarks} tells of all events since the first"


def bytes_text(count: int) -> str:
    """Return a size to two or three digits: 285 bytes, 4.2 kB, 354 kB."""
    size = float(count)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            break
        size /= 1_000
    digits = 1 if unit != _UNITS[0] and size < 9.95 else 0
    return f"{size:.{digits}f} {unit}"
