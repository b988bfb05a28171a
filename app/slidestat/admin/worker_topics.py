"""The topics of a worker: those that exist are checked before it starts, the others are made."""

from collections.abc import Iterable

from slidestat.admin.other_groups import check_no_other_group, last_meanings
from slidestat.admin.repartition_topic import make_repartition_topic
from slidestat.admin.topics import (
    create_synopsis_topic,
    create_topic,
    topic_configs,
    written_topics,
)
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client, require_broker, require_topic
from slidestat.kafka.producer import MAX_MESSAGE_BYTES
from slidestat.log import log_event

_COMPACT = "compact"


def prepare_topics(bootstrap: str, topology: Topology | Referee) -> int:
    """Make the missing ones of the topics that a worker writes; return the partition count of its
    source.

    That of a referee is made too, if the topic of its parties is there.

    Raises SlidestatError for a source that is missing or compacted, for a written topic with fewer
    partitions than the source, for a changelog that is not one of this source's states, and for a
    topology of this name in another group.
    """
    source = topology.events_topic
    if isinstance(topology, Referee):
        parties = require_topic(bootstrap, topology.of.source)
        create_synopsis_topic(bootstrap, topology.of, parties)
        partitions = require_topic(bootstrap, source)
    else:
        if topology.repartition:
            moved = require_events(bootstrap, topology.source)
            make_repartition_topic(bootstrap, topology, moved)
        partitions = require_events(bootstrap, source)
        if topology.publish:
            create_synopsis_topic(bootstrap, topology, partitions)
    wanted = written_topics(topology)
    # Faust would make it with a single replica, whatever the cluster's default.
    wanted[topology.changelog_topic] = {
        "cleanup.policy": _COMPACT,
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
    }
    cluster = require_broker(bootstrap)
    check_no_other_group(bootstrap, topology, cluster)
    found = {
        name: len(topic.partitions) for name, topic in cluster.topics.items() if name in wanted
    }
    cleanup = _cleanup_policies(bootstrap, found)
    for name in found.keys() & written_topics(topology).keys():
        if found[name] < partitions:
            raise SlidestatError(
                f"The topic {name!r} has {_counted(found[name])}, and the source {source!r} has"
                f" {partitions}: figures of its partition n go to partition n.",
                f"Add some: `kafka-topics --bootstrap-server {bootstrap} --alter --topic {name}"
                f" --partitions {partitions}`.",
            )
    _check_changelog(bootstrap, topology, partitions, found, cleanup)
    missing = [name for name in wanted if name not in found]
    has_written = (
        bool(missing)
        and topology.changelog_topic in found
        and _has_written(bootstrap, topology, partitions)
    )
    for name in missing:
        create_topic(bootstrap, name, partitions, wanted[name])
        # That of alerts may be new, as they are.
        if has_written and name != topology.alert_topic:
            log_event(
                "topic made anew",
                f"{topology.name}: the topic {name!r} was deleted, and is made anew: what it had is"
                " gone; `slidestat replay` writes again what follows from the source",
                topology=topology.name,
                topic=name,
            )
    return partitions


def _has_written(bootstrap: str, topology: Topology | Referee, partitions: int) -> bool:
    """Return whether the states, by their changelog, are from a time when the output had the topic
    that it has now.
    """
    output = topology.output_topic
    return any(
        meaning.get("name") == topology.name and meaning.get("output", output) == output
        for meaning in last_meanings(bootstrap, topology.changelog_topic, partitions)
    )


def require_events(bootstrap: str, source: str) -> int:
    """Return the partition count of a topic of events; raises SlidestatError if it is missing, or
    compacted.
    """
    partitions = require_topic(bootstrap, source)
    if _COMPACT in _cleanup_policies(bootstrap, [source])[source]:
        raise SlidestatError(
            f"The source {source!r} is compacted: events that are not the newest of their key are"
            " deleted before they are counted.",
            f"Turn it off: {_alter_policy(bootstrap, source, 'delete')}.",
        )
    return partitions


def _cleanup_policies(bootstrap: str, topics: Iterable[str]) -> dict[str, set[str]]:
    return {
        name: {policy.strip() for policy in config["cleanup.policy"].split(",")}
        for name, config in topic_configs(admin_client(bootstrap), topics).items()
    }


def _check_changelog(
    bootstrap: str,
    topology: Topology | Referee,
    partitions: int,
    found: dict[str, int],
    cleanup: dict[str, set[str]],
) -> None:
    changelog = topology.changelog_topic
    if changelog not in found:
        return
    if found[changelog] != partitions:
        raise SlidestatError(
            f"The changelog {changelog!r} has {_counted(found[changelog])}, and the source"
            f" {topology.events_topic!r} has {partitions}: keys are no longer in the partitions"
            " that have their states.",
            "Give the topology another name, to count from the start of its source.",
        )
    if cleanup[changelog] != {_COMPACT}:
        raise SlidestatError(
            f"The changelog {changelog!r} has cleanup.policy"
            f" {','.join(sorted(cleanup[changelog]))}: states would be deleted with time.",
            f"Change it: {_alter_policy(bootstrap, changelog, _COMPACT)}.",
        )


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions != 1 else ''}"


def _alter_policy(bootstrap: str, topic: str, policy: str) -> str:
    return (
        f"`kafka-configs --bootstrap-server {bootstrap} --alter --entity-type topics"
        f" --entity-name {topic} --add-config cleanup.policy={policy}`"
    )
