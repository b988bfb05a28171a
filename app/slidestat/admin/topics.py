"""Topics: create the ones that a topology needs, and list what there is."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from slidestat.declare.declared import Declared
from slidestat.declare.times.lengths import duration_ms
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import ANY_TIME, MAX_MESSAGE_BYTES, admin_client, require_broker
from slidestat.kafka.retries import broker_pauses
from slidestat.options import FOREVER
from slidestat.text import counted, human_duration

_TIMEOUT_S = 30.0
_REFUSED_SETTINGS = frozenset(
    {KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION}
)

# Whether records keep the times that they were sent with.
CREATED, CREATE_TIME = "message.timestamp.type", "CreateTime"


SYNOPSIS_CONFIG = {
    "cleanup.policy": "compact",
    # A synopsis has its tick there, whatever the broker's default.
    CREATED: CREATE_TIME,
    **ANY_TIME,
    # Ticks may jump by weeks: a segment ends by its size alone, soon enough to be compacted.
    "segment.ms": str(2**63 - 1),
    "segment.bytes": str(64 << 20),
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
# A part of a ranking is of its tick alone, and none may be missing: what is gone before it is read
# stops a referee, what was compacted would not.
_RANKED_CONFIG = {
    **SYNOPSIS_CONFIG,
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": str(1 << 30),
}
CHANGELOG_CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(MAX_MESSAGE_BYTES)}


@dataclass(frozen=True)
class TopicOutcome:
    """The outcome of a request for a topic: created now, or found as it was."""

    name: str
    partitions: int
    retention: str
    created: bool

    def __str__(self) -> str:
        partitions = counted(self.partitions, "partition")
        verb = "created" if self.created else "exists already"
        return f"{self.name}: {verb}, {partitions}, retention {self.retention}"


@dataclass(frozen=True)
class TopicRow:
    """A topic in a listing; `records` is the sum of high less low watermarks, and so also counts
    the markers of transactions, and what compaction has removed.
    """

    name: str
    partitions: int
    records: int
    retention: str
    cleanup_policy: str


def create_topic(
    bootstrap: str, name: str, partitions: int, config: Mapping[str, str]
) -> TopicOutcome:
    """Create a topic, or find it with the same partition count.

    Returns once each partition has a leader. Raises SlidestatError if it exists with another
    count, if the broker refuses the name or the configuration, or if no broker answers.
    """
    found = require_broker(bootstrap).topics.get(name)
    admin = admin_client(bootstrap)
    created = False
    if found is None:
        created = _create(admin, name, partitions, config)
        _wait_for_leaders(admin, name)
        found = require_broker(bootstrap).topics[name]
    if len(found.partitions) != partitions:
        raise SlidestatError(
            f"The topic {name!r} exists with {len(found.partitions)} partitions, not {partitions}.",
            f"Ask for {len(found.partitions)} with --partitions, or take another name; with more "
            "partitions, keys would move, and their history would be split.",
        )
    retention = _retention(topic_configs(admin, [name])[name])
    return TopicOutcome(name, partitions, retention, created)


def create_topology_topics(
    bootstrap: str, topology: "Topology", partitions: int, retention: str = FOREVER
) -> list[TopicOutcome]:
    """Create a topology's topics: source, output, dead letters, late; each with `partitions`. A
    pattern of sources is left out.

    With the same number everywhere, what partition n of the source gives stays on partition n.
    Create the topic of synopses, too, if the topology publishes, and that of moved records if it
    has `repartition`. Raises as `create_topic`.
    """
    wanted = {
        **dict.fromkeys(topology.named_sources, retention_config(retention)),
        **written_topics(topology, retention),
    }
    if topology.repartition:
        wanted[topology.events_topic] = moved_config(retention)
    made = [create_topic(bootstrap, name, partitions, config) for name, config in wanted.items()]
    if topology.has_referee:
        made.append(create_synopsis_topic(bootstrap, topology, partitions))
    return made


def create_synopsis_topic(bootstrap: str, topology: "Topology", partitions: int) -> TopicOutcome:
    """Create the topic of what `partitions` partitions of a topology publish; as `create_topic`."""
    count = topology.synopsis_partitions(partitions)
    return create_topic(bootstrap, topology.synopsis_topic, count, _published_config(topology))


def _published_config(topology: "Topology") -> dict[str, str]:
    return _RANKED_CONFIG if topology.rankings else SYNOPSIS_CONFIG


def written_topics(topology: "Declared", retention: str = FOREVER) -> dict[str, dict[str, str]]:
    """Return the settings of the topics that a topology writes for others: output, dead letters,
    late, alerts if it has any, and the synopses of keys.
    """
    keep, letters = retention_config(retention), letters_config(retention)
    topics = {
        topology.output_topic: keep,
        topology.dead_letter_topic: letters,
        topology.late_topic: letters,
    }
    if topology.alert_topic is not None:
        topics[topology.alert_topic] = keep
    if topology.counted is not None and topology.counted.synopses:
        topics[topology.counted.synopsis_topic] = moved_config(retention)
    return topics


def moved_config(retention: str = FOREVER) -> dict[str, str]:
    """Return the settings of a topic of moved records, or of synopses that are kept: timestamps are
    those that are written, whatever the broker's default.
    """
    return letters_config(retention) | {CREATED: CREATE_TIME}


def shared_topics(topology: "Declared") -> dict[str, dict[str, str]]:
    """Return the settings of the topics that workers write for each other, and for a referee:
    moved records, and published synopses.
    """
    topics = {}
    if topology.repartition:
        topics[topology.events_topic] = moved_config()
    if topology.counted is not None and topology.has_referee:
        topics[topology.counted.synopsis_topic] = _published_config(topology.counted)
    return topics


def letters_config(retention: str) -> dict[str, str]:
    """Return the settings of a topic that takes any record of the source."""
    return {**retention_config(retention), "max.message.bytes": str(MAX_MESSAGE_BYTES)}


def list_topics(bootstrap: str, *, internal: bool = False) -> list[TopicRow]:
    """Return the topics by name; those of Kafka itself (named `__…`) only with `internal`."""
    topics = require_broker(bootstrap).topics
    names = sorted(name for name in topics if internal or not name.startswith("__"))
    if not names:
        return []
    admin = admin_client(bootstrap)
    partitions = [TopicPartition(name, p) for name in names for p in topics[name].partitions]
    records = dict.fromkeys(names, 0)
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    for sign, spec in ((-1, earliest), (1, latest)):
        offsets = admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=_TIMEOUT_S)
        for partition, future in offsets.items():
            records[partition.topic] += sign * _answer(future).offset
    configs = topic_configs(admin, names)
    return [
        TopicRow(
            name,
            len(topics[name].partitions),
            records[name],
            _retention(configs[name]),
            configs[name]["cleanup.policy"],
        )
        for name in names
    ]


def retention_config(retention: str) -> dict[str, str]:
    """Return the settings of a topic of events of any time, for "forever" or a duration ("7d")."""
    if retention == FOREVER:
        # A broker also begins a new segment by these timestamps: by default once for every week
        # that events jump. With nothing to delete there is no need to.
        return {**ANY_TIME, "retention.ms": "-1", "segment.ms": str(2**63 - 1)}
    retention_ms = duration_ms(retention, "retention")
    if retention_ms == 0:
        raise SlidestatError(
            "retention is 0: the broker would delete every record.",
            f'Give a duration such as "7d", or "{FOREVER}".',
        )
    return {**ANY_TIME, "retention.ms": str(retention_ms)}


def topic_configs(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics that exist, by the topic's name."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
    return {
        resource.name: {key: entry.value for key, entry in _answer(future).items()}
        for resource, future in futures.items()
    }


def _create(admin: AdminClient, name: str, partitions: int, config: Mapping[str, str]) -> bool:
    """Create a topic, and return whether it was created here: False if another client was first."""
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config))
    try:
        admin.create_topics([topic], request_timeout=_TIMEOUT_S)[name].result()
    except KafkaException as error:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        others = {name: value for name, value in config.items() if name not in ANY_TIME}
        if kafka_error.code() in _REFUSED_SETTINGS and len(others) < len(config):
            # Brokers before Kafka 3.6 do not have them, nor limits of times unless one was set; and
            # services set them themselves. What is found then is said (`worker_topics.py`).
            return _create(admin, name, partitions, others)
        raise SlidestatError(
            f"The broker refuses the topic {name!r}: {kafka_error.str().rstrip('.')}.",
            "Change its name or its settings; a name has 1 to 249 of letters, digits, "
            "'.', '_' and '-'.",
        ) from error
    return True


def _wait_for_leaders(admin: AdminClient, name: str) -> None:
    """Return when clients can write to every partition of a topic just made."""
    deadline, pauses = time.monotonic() + _TIMEOUT_S, broker_pauses()
    while time.monotonic() < deadline:
        with suppress(KafkaException):  # It may come back.
            topic = admin.list_topics(timeout=_TIMEOUT_S).topics.get(name)
            if topic is not None and topic.partitions:
                leaders = [partition.leader for partition in topic.partitions.values()]
                if min(leaders) >= 0:
                    return
        time.sleep(pauses.begin())
    raise SlidestatError(
        f"The topic {name!r} has no leader after {_TIMEOUT_S:.0f} s.", "Look at the broker's log."
    )


def _answer(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except KafkaException as error:
        raise SlidestatError(
            f"The broker does not describe a topic: {error.args[0].str().rstrip('.')}.",
            "Try again; a topic may just have been deleted.",
        ) from error


def _retention(config: Mapping[str, str]) -> str:
    retention_ms = int(config["retention.ms"])
    return FOREVER if retention_ms < 0 else human_duration(retention_ms)
