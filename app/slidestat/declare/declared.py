"""A declaration that a worker runs: a topology or a referee."""

from collections.abc import Sequence
from typing import Protocol

from slidestat.declare.alerts import Alert
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError


class Declared(Protocol):
    """A `Topology` or a `Referee`: its names, its topics, and what its workers do."""

    @property
    def name(self) -> str:
        """The name, with which its topics and states begin."""

    @property
    def group_name(self) -> str:
        """The consumer group, which declarations of one worker share."""

    @property
    def application_id(self) -> str:
        """The consumer group, and the prefix of the changelog and of the data folder."""

    @property
    def transactional_prefix(self) -> str:
        """The transactional ids of its partitions, without their numbers."""

    @property
    def table_name(self) -> str:
        """The name of the table of its states."""

    @property
    def sources_text(self) -> str:
        """The topics that are declared: of events or, of a referee, of synopses."""

    @property
    def source_topics(self) -> tuple[str, ...]:
        """These topics, or patterns of their names."""

    @property
    def read_topics(self) -> tuple[str, ...]:
        """All topics that its workers read but for the changelog, or patterns of their names."""

    @property
    def written_topics(self) -> tuple[str, ...]:
        """All topics that its workers write."""

    @property
    def events_topic(self) -> str:
        """The topic that its workers read."""

    @property
    def changelog_topic(self) -> str:
        """The changelog of its table."""

    @property
    def output_topic(self) -> str:
        """The topic of emissions or answers."""

    @property
    def dead_letter_topic(self) -> str:
        """The topic of records that cannot be read."""

    @property
    def late_topic(self) -> str:
        """The topic of records behind the watermark."""

    @property
    def alert_topic(self) -> str | None:
        """The topic of changes of its alerts; None if it has none."""

    @property
    def alerts(self) -> Sequence[Alert]:
        """The alerts; a referee has none."""

    @property
    def alert_headers(self) -> str:
        """The further headers of its alerts' records, "cloudevents" or none."""

    @property
    def output_format(self) -> str:
        """The format of the output."""

    @property
    def is_sequence(self) -> bool:
        """Return whether event times are numbers of a global sequence."""

    @property
    def idle_ms(self) -> int:
        """The time without records after which a partition is looked ahead of; 0 for never."""

    @property
    def publish(self) -> str | Sequence[str]:
        """The keys whose synopses are published, or "partition"; a referee publishes nothing."""

    @property
    def has_referee(self) -> bool:
        """Return whether its partitions publish for a referee: synopses, or what leads in
        rankings.
        """

    @property
    def repartition(self) -> bool:
        """Return whether its workers move the source's records."""

    @property
    def exactly_once(self) -> bool:
        """Return whether outputs are committed with the states that they come from."""

    @property
    def marks_losses(self) -> bool:
        """Return whether emissions are marked that may lack records; else none may be lost."""

    @property
    def writes_rows(self) -> bool:
        """Return whether the output is a row for each window."""

    @property
    def counted(self) -> Topology | None:
        """The topology whose events its workers count: itself; None of a referee."""

    @property
    def answering(self) -> Topology:
        """The topology whose figures are in its answers; of a referee, the one that it is of."""

    @property
    def state_meaning(self) -> dict[str, str]:
        """Return the fields that stored states depend on."""


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


# Which topologies may share a worker.

# By what the records are moved that topologies of one group count.
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
            told = ", ".join(f"{name!r} has {value!r}" for value, name in found.items())
            raise SlidestatError(
                f"The topologies of a worker move records to {moved[0].events_topic!r}, and differ"
                f" in their {what}: {told}.",
                "Give each a group and a worker of its own.",
            )
    names = [topology.name for topology in topologies]
    if len(set(names)) != len(names):
        raise SlidestatError(
            f"The topologies of a worker are named {', '.join(names)}.",
            "Name each once: topics and state are named after it.",
        )
