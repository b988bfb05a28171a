"""The topic that a topology's records are moved to by their key: made like the source, and checked
to be the topology's own.
"""

from confluent_kafka import KafkaException

from slidestat.admin.topics import create_topic, topic_configs
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client, require_broker
from slidestat.kafka.producer import MAX_MESSAGE_BYTES
from slidestat.repartition.moved_from import check_note, is_unwritten, topics_now
from slidestat.repartition.starts import Move, committed_offsets

# How long records stay, and which timestamps they may have: as they were taken by the source.
_LIKE_THE_SOURCE = (
    "retention.ms",
    "retention.bytes",
    "segment.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
_TIMESTAMPS, _OF_THE_SOURCE = "message.timestamp.type", "CreateTime"


def make_repartition_topic(bootstrap: str, topology: Topology, partitions: int) -> None:
    """Make the repartition topic, with as many partitions as the source has, if it is missing;
    raise SlidestatError for one of another program, or with records of another source or by another
    key.
    """
    topic = topology.events_topic
    admin = admin_client(bootstrap)
    if topic not in require_broker(bootstrap).topics:
        create_topic(bootstrap, topic, partitions, repartition_config(bootstrap, topology))
    elif topic_configs(admin, [topic])[topic][_TIMESTAMPS] != _OF_THE_SOURCE:
        raise SlidestatError(
            f"The topic {topic!r} has timestamps of its own: those of the source would be lost.",
            f"Set {_TIMESTAMPS}={_OF_THE_SOURCE} for it with Kafka's kafka-configs.sh, before"
            " anything is moved to it.",
        )
    try:
        now = topics_now(admin, topology)
        # Before notes are read: who moves notes it before there is a record.
        is_empty = is_unwritten(admin, topic, now.note.partitions)
        # The notes are what counts: a mover that was killed may have left a transaction open.
        committed = committed_offsets(Move(bootstrap, topology), now, waits=False)
    except KafkaException as error:
        raise SlidestatError(
            f"The brokers do not tell how far {topology.source!r} was moved to {topic!r}:"
            f" {error.args[0].str().rstrip('.')}.",
            "Check that they are up and what this user may do, and try again.",
        ) from error
    check_note(topology, now.note, committed, is_empty=is_empty)


def repartition_config(bootstrap: str, topology: Topology) -> dict[str, str]:
    """Return the settings of the topic: records stay as long as in the source, and may be as large
    as letters, or as in the source.
    """
    source = topic_configs(admin_client(bootstrap), [topology.source])[topology.source]
    return {
        **{name: source[name] for name in _LIKE_THE_SOURCE if name in source},
        "cleanup.policy": "delete",
        _TIMESTAMPS: _OF_THE_SOURCE,
        "max.message.bytes": str(max(MAX_MESSAGE_BYTES, int(source["max.message.bytes"]))),
    }
