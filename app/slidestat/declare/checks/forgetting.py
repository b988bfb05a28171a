"""The check of the time after which a key is forgotten."""

from slidestat.declare.derived.figures import KeptFigures
from slidestat.errors import SlidestatError


def check_forgetting(topology: KeptFigures) -> None:
    """Check `forget_after`: keys that leave the span have no other length."""
    if topology.forget_after == "":
        return
    after = topology.duration(topology.forget_after, "forget_after")
    given = f"forget_after is {topology.forget_after!r}"
    if topology.sees_span_alone:
        raise SlidestatError(
            f"{given}, but all windows are of time: a key is forgotten when its last event has left"
            f" the span {topology.span!r}.",
            "Leave forget_after out.",
        )
    if after == 0:
        raise SlidestatError(f"{given}.", 'Give a length such as "7d".')
    span = topology.span_length
    if not span.of_events and after < span.length:
        raise SlidestatError(
            f"{given}, less than the span {topology.span!r}, whose windows still have its events.",
            "Lengthen forget_after or shorten the span.",
        )
