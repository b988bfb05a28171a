"""The topics of a worker: those that exist are checked before it starts, the others are made."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from confluent_kafka import KafkaException

from slidestat.admin.other_groups import check_no_other_group, last_meanings
from slidestat.admin.topics import (
    CHANGELOG_CONFIG,
    CREATE_TIME,
    CREATED,
    create_synopsis_topic,
    create_topic,
    topic_configs,
    written_topics,
)
from slidestat.declare.declared import Declared
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import FORESEEN_EVENTS, Footprint, largest_state
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import (
    ANY_TIME,
    MAX_MESSAGE_BYTES,
    admin_client,
    require_broker,
    require_topic,
    set_command,
)
from slidestat.kafka.groups import group_offsets
from slidestat.kafka.letter_record import AROUND_BYTES, LETTER_BYTES
from slidestat.log import log_event
from slidestat.repartition.moved_from import Move, moved_before, sources_of, topics_now
from slidestat.text import bytes_text, counted, human_duration

# The topic that a topology's records are moved to by their key: made like the source, and checked
# to be the topology's own.

# Records stay for as long as on the source: each is older than there when it is moved.
_BYTES = "retention.bytes"
_LIKE_THE_SOURCE = ("retention.ms", _BYTES, "segment.ms")


def make_repartition_topic(bootstrap: str, topology: Topology) -> None:
    """Make the repartition topic if it is missing, with as many partitions as the source has; of
    several, as the one that has most.

    Raises SlidestatError for sources that are missing or compacted, and for a topic of another
    program, or with records of another source or by another key.
    """
    topic = topology.events_topic
    admin = admin_client(bootstrap)
    topics = require_broker(bootstrap).topics
    sources = {
        it: require_events(bootstrap, it) for it in found_sources(bootstrap, topology, topics)
    }
    if topic not in topics:
        require_sources(bootstrap, topology, topics)
        config = _repartition_config(bootstrap, sources)
        create_topic(bootstrap, topic, max(sources.values()), config)
    elif topic_configs(admin, [topic])[topic][CREATED] != CREATE_TIME:
        raise SlidestatError(
            f"The topic {topic!r} has timestamps of its own: those of the source would be lost.",
            f"Set {CREATED}={CREATE_TIME} for it with Kafka's kafka-configs.sh, before"
            " anything is moved to it.",
        )
    try:
        # The notes are what counts: a mover that was killed may have left a transaction open.
        now = topics_now(admin, topology)
        before = moved_before(Move(bootstrap, topology), admin, now, waits=False)
    except KafkaException as error:
        raise SlidestatError(
            f"The brokers did not say how far {topology.sources_text!r} was moved to {topic!r}:"
            f" {error.args[0].str().rstrip('.')}.",
            "Check that they are up and what this user may do, and try again.",
        ) from error
    if not before:  # With a pattern whose topics were deleted, others are waited for.
        require_sources(bootstrap, topology, topics)


def require_sources(bootstrap: str, topology: Topology, topics: Collection[str]) -> list[str]:
    """Return the sources among the topics that there are, one at least; `require_events` raises for
    a named one that is missing.
    """
    found = found_sources(bootstrap, topology, topics)
    if not found:
        raise SlidestatError(
            f"There is no topic yet that matches {topology.sources_text!r} and is neither"
            " compacted nor written by workers.",
            "Check the pattern against `slidestat topics list`; the first one must be there when"
            " the first worker starts, others may come later.",
        )
    return found


def found_sources(bootstrap: str, topology: Topology, topics: Collection[str]) -> list[str]:
    """Return the sources: existing topics, and named ones that do not exist. A pattern does not
    match compacted topics, nor those that workers of other topologies write.
    """
    try:
        return sources_of(admin_client(bootstrap), topology, topics).topics
    except KafkaException as error:
        raise SlidestatError(
            f"The brokers did not say whether topics of {topology.sources_text!r} are compacted:"
            f" {error.args[0].str().rstrip('.')}.",
            "Check what this user may do (DescribeConfigs on each of them), and try again.",
        ) from error


def _repartition_config(bootstrap: str, sources: Iterable[str]) -> dict[str, str]:
    """Return the settings of the topic: records stay as long as in the sources, and may be as large
    as letters, or as in the sources.
    """
    configs = topic_configs(admin_client(bootstrap), sources).values()
    kept = {}
    for name in _LIKE_THE_SOURCE:
        limits = [int(config[name]) for config in configs if name in config]
        if limits:
            # A negative limit means none.
            most = sum(limits) if name == _BYTES else max(limits)
            kept[name] = str(-1 if min(limits) < 0 else most)
    largest = max(int(config["max.message.bytes"]) for config in configs)
    return {
        **kept,
        "cleanup.policy": "delete",
        CREATED: CREATE_TIME,
        **ANY_TIME,
        "max.message.bytes": str(max(MAX_MESSAGE_BYTES, largest)),
    }


_COMPACT = "compact"


def prepare_topics(bootstrap: str, topology: Declared) -> int:
    """Make the topics that a worker writes and lacks; return its source's number of partitions.

    A referee's topic is made too, if the topic of its parties exists.

    Raises SlidestatError for a source that is missing or compacted, for a written topic with fewer
    partitions than the source, for a changelog that is not one of this source's states, and for a
    topology of this name in another group.
    """
    source = topology.events_topic
    if topology.counted is None:
        of = topology.answering
        # Records are moved to their topic by the first worker, which makes it.
        made_by = f"slidestat run {of.name}.toml" if of.repartition else None
        create_synopsis_topic(bootstrap, of, require_topic(bootstrap, of.events_topic, made_by))
        partitions = require_topic(bootstrap, source)
    else:
        if topology.repartition:
            make_repartition_topic(bootstrap, topology.counted)
        partitions = require_events(bootstrap, source)
        if topology.has_referee:
            create_synopsis_topic(bootstrap, topology.counted, partitions)
    wanted = written_topics(topology)
    # Faust would make it with a single replica, whatever the cluster's default.
    wanted[topology.changelog_topic] = CHANGELOG_CONFIG
    cluster = require_broker(bootstrap)
    check_no_other_group(bootstrap, topology, cluster)
    found = {
        name: len(topic.partitions) for name, topic in cluster.topics.items() if name in wanted
    }
    cleanup = _cleanup_policies(bootstrap, found)
    for name in found.keys() & written_topics(topology).keys():
        if found[name] < partitions:
            raise SlidestatError(
                f"The topic {name!r} has {counted(found[name], 'partition')}, and the source"
                f" {source!r} has {partitions}: figures of its partition n go to partition n.",
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
        # The topic of alerts may be missing because the alerts are new.
        if has_written and name != topology.alert_topic:
            log_event(
                "topic made anew",
                f"{topology.name}: the topic {name!r} was deleted, and is made anew: what it had is"
                " gone; `slidestat replay` writes again what follows from the source",
                topology=topology.name,
                topic=name,
            )
    if topology.changelog_topic in missing and _has_committed(bootstrap, topology, partitions):
        log_event(
            "changelog made anew",
            f"{topology.name}: the changelog {topology.changelog_topic!r} was deleted, and is made"
            " anew: states of what the group has read are gone, and without tables what the source"
            " still has is counted anew",
            topology=topology.name,
            topic=topology.changelog_topic,
        )
    return partitions


def _has_committed(bootstrap: str, topology: Declared, partitions: int) -> bool:
    """Return whether the group has read records, as far as it is known."""
    places = [(topology.events_topic, partition) for partition in range(partitions)]
    try:
        committed = group_offsets(bootstrap, topology.application_id, places)
    except KafkaException:  # The worker asks for them again, and ends of it.
        return False
    return any(it.offset for it in committed.values())


def _has_written(bootstrap: str, topology: Declared, partitions: int) -> bool:
    """Return whether the states, by their changelog, are of the output's present topic."""
    output = topology.output_topic
    return any(
        meaning.get("name") == topology.name and meaning.get("output", output) == output
        for meaning in last_meanings(bootstrap, topology.changelog_topic, partitions)
    )


def require_events(bootstrap: str, source: str) -> int:
    """Return how many partitions a source has; raises SlidestatError if missing or compacted."""
    partitions = require_topic(bootstrap, source)
    if _COMPACT in _cleanup_policies(bootstrap, [source])[source]:
        raise SlidestatError(
            f"The source {source!r} is compacted: events that are not the newest of their key are"
            " deleted before they are counted.",
            f"Turn it off: {set_command(bootstrap, source, 'cleanup.policy=delete')}.",
        )
    return partitions


def _cleanup_policies(bootstrap: str, topics: Iterable[str]) -> dict[str, set[str]]:
    return {
        name: {policy.strip() for policy in config["cleanup.policy"].split(",")}
        for name, config in topic_configs(admin_client(bootstrap), topics).items()
    }


def _check_changelog(
    bootstrap: str,
    topology: Declared,
    partitions: int,
    found: dict[str, int],
    cleanup: dict[str, set[str]],
) -> None:
    changelog = topology.changelog_topic
    if changelog not in found:
        return
    if found[changelog] != partitions:
        raise SlidestatError(
            f"The changelog {changelog!r} has {counted(found[changelog], 'partition')}, and the"
            f" source {topology.events_topic!r} has {partitions}: keys are no longer in the"
            " partitions that have their states.",
            "Give the topology another name, to count from the start of its source.",
        )
    if cleanup[changelog] != {_COMPACT}:
        raise SlidestatError(
            f"The changelog {changelog!r} has cleanup.policy"
            f" {','.join(sorted(cleanup[changelog]))}: states would be deleted with time.",
            f"Change it: {set_command(bootstrap, changelog, f'cleanup.policy={_COMPACT}')}.",
        )


# Whether topics take, and keep, records with the event times of what is written to them.
#
# Emissions and alerts have the ends of their windows as timestamps, letters those of their records:
# consumers join and partition by them, and a letter that is sent again is judged by its own. With
# the time of writing (LogAppendTime), a replay would date last year's figures to today. So the
# timestamps stay, and what a topic makes of them is said before anything is written.

_NEVER = 2**62


def remarks_on_times(bootstrap: str, topology: Declared) -> list[SlidestatError]:
    """Return an error for each setting by which topics that exist refuse, or soon delete, records
    with event times that the topology may write.
    """
    there = require_broker(bootstrap).topics
    names = [name for name in written_topics(topology) if name in there]
    moved = topology.events_topic
    if topology.repartition and moved in there:
        names.append(moved)
    configs = topic_configs(admin_client(bootstrap), names)
    if topology.counted is not None and moved in configs:
        sources = found_sources(bootstrap, topology.counted, there)
        longest = _repartition_config(bootstrap, sources)[_RETENTION] if sources else "-1"
        if _is_as_long(configs[moved][_RETENTION], longest):
            # It keeps what its sources keep, by the same timestamps.
            configs[moved] = {**configs[moved], _RETENTION: "-1"}
    ahead = 0 if topology.is_sequence or topology.counted is None else topology.counted.ahead_ms
    found: dict[tuple[str, int], list[str]] = {}
    for name, config in configs.items():
        for setting in _limits_of_times(config, ahead):
            found.setdefault((setting, int(config[setting])), []).append(name)
    return [
        SlidestatError(
            f"{', '.join(names)}: {setting} is {value} ({human_duration(value)}), and records have"
            f" event times: {_WHAT_FOLLOWS[setting]}.",
            f"If such events may come, or are replayed, set it:"
            f" {set_command(bootstrap, names[0], f'{setting}={_UNLIMITED[setting]}')}"
            f"{', and so on' if len(names) > 1 else ''}.",
        )
        for (setting, value), names in found.items()
    ]


_RETENTION = "retention.ms"
_BEFORE, _AFTER = ANY_TIME
_WHAT_FOLLOWS = {
    _RETENTION: "what belongs to older events is deleted soon after it is written",
    _BEFORE: "what belongs to older events is refused, and ends the worker",
    _AFTER: "what belongs to events further ahead is refused, and ends the worker",
}
_UNLIMITED = {_RETENTION: "-1", **ANY_TIME}


def _is_as_long(retention: str, other: str) -> bool:
    return int(retention) < 0 or 0 <= int(other) <= int(retention)


def _limits_of_times(config: Mapping[str, str], ahead_ms: int) -> Iterator[str]:
    """Yield a topic's settings that limit event times, of events up to `ahead_ms` ahead."""
    if config[CREATED] != CREATE_TIME:
        return
    if int(config[_RETENTION]) >= 0 and config["cleanup.policy"] != _COMPACT:
        yield _RETENTION
    if int(config.get(_BEFORE, _NEVER)) < _NEVER:
        yield _BEFORE
    if int(config.get(_AFTER, _NEVER)) < ahead_ms:
        yield _AFTER


# Whether what a topology writes fits its topics: found out before anything is read.
#
# A record that a broker refuses stops a worker, and every worker after it: its states could not be
# kept, or a letter about a record could not be sent.

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
    # A letter keeps only the beginning of a larger record.
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
            "Give the statistics larger errors (`slidestat topology show` prints what each takes),"
            " or divide them among several topologies.",
        )
    raise SlidestatError(
        f"{foreseen}, and the changelog {topology.changelog_topic!r} takes records of"
        f" {bytes_text(limit)}.",
        _set_limit(bootstrap, topology.changelog_topic, MAX_MESSAGE_BYTES)
        + " Or give the statistics larger errors.",
    )


def _set_limit(bootstrap: str, topic: str, limit: int) -> str:
    return f"Set it: {set_command(bootstrap, topic, f'{_LIMIT}={limit}')}."
