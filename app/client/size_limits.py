"""Whether what a topology writes fits its topics: found out before anything is read.

A record that a broker refuses stops a worker, and every worker after it: its states could not be
kept, or a letter about a record could not be sent.
"""

from app.client.connection import admin_client
from app.client.footprint_text import bytes_text
from app.client.topics import topic_configs
from app.errors import SlidestatError
from app.streaming.footprint import FORESEEN_EVENTS, largest_state
from app.streaming.producer import MAX_MESSAGE_BYTES
from app.streaming.topology import Topology

_LIMIT = "max.message.bytes"
# Key, headers and what Kafka puts around a record.
_AROUND_BYTES = 8 * 2**10


def check_sizes(bootstrap: str, topology: Topology) -> None:
    """Raise SlidestatError if a state that is foreseen does not fit the changelog, or a record of
    the source a letter.

    All topics must exist. Loads the topology's kernels.
    """
    letters = (topology.dead_letter_topic, topology.late_topic)
    names = (topology.source, topology.changelog_topic, *letters)
    limits = {
        name: int(config[_LIMIT])
        for name, config in topic_configs(admin_client(bootstrap), names).items()
    }
    source_bytes = limits[topology.source]
    if source_bytes > MAX_MESSAGE_BYTES - _AROUND_BYTES:
        raise SlidestatError(
            f"The source {topology.source!r} takes records of {bytes_text(source_bytes)}, and a"
            f" letter about one has at most {bytes_text(MAX_MESSAGE_BYTES - _AROUND_BYTES)}.",
            _set_limit(bootstrap, topology.source, MAX_MESSAGE_BYTES - _AROUND_BYTES),
        )
    for name in letters:
        if limits[name] < source_bytes:
            raise SlidestatError(
                f"The topic {name!r} takes records of {bytes_text(limits[name])}, and the source"
                f" {topology.source!r} of {bytes_text(source_bytes)}: a letter might not fit.",
                _set_limit(bootstrap, name, source_bytes + _AROUND_BYTES),
            )
    _check_states(bootstrap, topology, limits[topology.changelog_topic])


def _check_states(bootstrap: str, topology: Topology, limit: int) -> None:
    needed = largest_state(topology) + _AROUND_BYTES
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
