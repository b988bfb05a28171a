"""Whether what a topology writes fits its topics: found out before anything is read.

A record that a broker refuses stops a worker, and every worker after it: its states could not be
kept, or a letter about a record could not be sent.
"""

from collections.abc import Sequence

from slidestat.admin.topics import topic_configs
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import FORESEEN_EVENTS, Footprint, largest_state
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.letter_record import AROUND_BYTES, LETTER_BYTES
from slidestat.kafka.producer import MAX_MESSAGE_BYTES
from slidestat.text.footprint_text import bytes_text

_LIMIT = "max.message.bytes"


def check_sizes(bootstrap: str, topology: Topology, measured: Sequence[Footprint]) -> int:
    """Return how many bytes of a record a letter may have; `measured` are the topology's
    footprints.

    Raises SlidestatError if a state that is foreseen does not fit the changelog, or a letter topic
    takes less than the source. All topics must exist.
    """
    letters = (topology.dead_letter_topic, topology.late_topic)
    names = (topology.events_topic, topology.changelog_topic, *letters)
    limits = {
        name: int(config[_LIMIT])
        for name, config in topic_configs(admin_client(bootstrap), names).items()
    }
    # Of what is larger, letters have the beginning.
    source_bytes = min(limits[topology.events_topic], LETTER_BYTES)
    for name in letters:
        if limits[name] < source_bytes:
            raise SlidestatError(
                f"The topic {name!r} takes records of {bytes_text(limits[name])}, and the source"
                f" {topology.events_topic!r} of {bytes_text(source_bytes)}: a letter might not"
                " fit.",
                _set_limit(bootstrap, name, source_bytes + AROUND_BYTES),
            )
    needed = largest_state(topology, measured) + AROUND_BYTES
    _check_state(bootstrap, topology, needed, limits[topology.changelog_topic])
    least = min(limits[name] for name in letters)
    return min(LETTER_BYTES, max(least - AROUND_BYTES, least // 2))


def _check_state(bootstrap: str, topology: Topology, needed: int, limit: int) -> None:
    if needed <= min(limit, MAX_MESSAGE_BYTES):
        return
    foreseen = (
        f"The state of a key with {FORESEEN_EVENTS:,} events in the span is foreseen to have"
        f" {bytes_text(needed)}"
    )
    if needed > MAX_MESSAGE_BYTES:
        raise SlidestatError(
            f"{foreseen}, and a record at most {bytes_text(MAX_MESSAGE_BYTES)}.",
            "Give the statistics larger errors (`slidestat topology show` tells what each takes),"
            " or divide them among several topologies.",
        )
    raise SlidestatError(
        f"{foreseen}, and the changelog {topology.changelog_topic!r} takes records of"
        f" {bytes_text(limit)}.",
        _set_limit(bootstrap, topology.changelog_topic, MAX_MESSAGE_BYTES)
        + " Or give the statistics larger errors.",
    )


def _set_limit(bootstrap: str, topic: str, limit: int) -> str:
    return (
        f"Set it: `kafka-configs --bootstrap-server {bootstrap} --alter --entity-type topics"
        f" --entity-name {topic} --add-config {_LIMIT}={limit}`."
    )
