"""Which topologies may share a worker."""

from collections.abc import Sequence

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError


def require_one_worker(topologies: Sequence[Topology | Referee]) -> None:
    """Raise SlidestatError unless these can share a worker: one group, one source, other names."""
    for field, what in (("group_name", "group"), ("events_topic", "source")):
        found = {str(getattr(topology, field)): topology.name for topology in topologies}
        if len(found) > 1:
            differences = ", ".join(f"{name!r} has {value!r}" for value, name in found.items())
            raise SlidestatError(
                f"The topologies of a worker differ in their {what}: {differences}.",
                f"Give them the same {what}, or a worker each.",
            )
    names = [topology.name for topology in topologies]
    if len(set(names)) != len(names):
        raise SlidestatError(
            f"The topologies of a worker are named {', '.join(names)}.",
            "Name each once: its topics and its state go by the name.",
        )
