"""A declaration that a worker runs: a topology or a referee."""

from collections.abc import Sequence

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError

Declared = Topology | Referee


def require_emissions(declared: Declared, what: str, *, or_rankings: bool = False) -> None:
    """Raise SlidestatError, for something that reads emissions, or rankings if it knows these,
    unless they are the output.
    """
    if declared.writes_rows:
        raise SlidestatError(
            f"{declared.name} writes rows, and {what} reads emissions.",
            "Leave output_shape out, in a topology of another name beside this one if need be.",
        )
    if declared.counted is None and declared.answering.rankings and not or_rankings:
        raise SlidestatError(
            f"{declared.name} writes rankings, and {what} reads emissions.",
            f"Read {declared.output_topic} with any consumer: its records are JSON.",
        )


# Topologies that may share a worker.

# For each field by which records are moved: its word in errors. Topologies of one group must agree.
_MOVED_BY = {
    "sources_text": "source",
    "key_name": "key",
    "key_expression": "key",
    "time_name": "time",
    "time_format": "time format",
}


def require_one_worker(topologies: Sequence[Declared]) -> None:
    """Raise SlidestatError unless these can share a worker: one group, one source, other names."""
    for field, what in (("group_name", "group"), ("events_topic", "source")):
        found = {str(getattr(topology, field)): topology.name for topology in topologies}
        if len(found) > 1:
            differences = ", ".join(f"{name!r} has {value!r}" for value, name in found.items())
            raise SlidestatError(
                f"The topologies of a worker differ in their {what}: {differences}.",
                f"Give them the same {what}, or a worker each.",
            )
    moved = [it.answering for it in topologies if it.repartition]
    for field, what in _MOVED_BY.items():
        found = {str(getattr(topology, field)): topology.name for topology in moved}
        if len(found) > 1:
            differences = ", ".join(f"{name!r} has {value!r}" for value, name in found.items())
            raise SlidestatError(
                f"The topologies of a worker move records to {moved[0].events_topic!r}, and differ"
                f" in their {what}: {differences}.",
                "Give each a group and a worker of its own.",
            )
    names = [topology.name for topology in topologies]
    if len(set(names)) != len(names):
        raise SlidestatError(
            f"The topologies of a worker are named {', '.join(names)}.",
            "Name each once: topics and state are named after it.",
        )
