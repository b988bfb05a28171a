"""Set a topology's state and offsets back to where a replay begins.

The changelog is not deleted: each of its keys gets a tombstone, and each partition a checkpoint at
its start, so that every copy of the tables, wherever it is, follows when it restores. Until that is
whole, a checkpoint that no topology has made is there: a worker started meanwhile is refused.
"""

from collections.abc import Mapping

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    BEING_RESET,
    CHECKPOINT_KEY,
    Checkpoint,
    encode_checkpoint,
)
from slidestat.errors import SlidestatError
from slidestat.faust.fencing import FENCE_KEY, NO_EPOCH, epoch_header, epoch_of, next_epoch
from slidestat.kafka.connection import admin_client
from slidestat.kafka.groups import count_workers
from slidestat.kafka.read.scan import reading, scan
from slidestat.kafka.settings import client_config
from slidestat.kafka.topic_identity import topic_id
from slidestat.options import COMPRESSION

_TIMEOUT_S = 30.0
# What a worker writes that sleeps through a reset is older than it, in whatever generation.
_BEYOND_ALL_GENERATIONS = 2**32


def require_no_workers(bootstrap: str, topology: Topology) -> None:
    """Raise SlidestatError while a worker is a member of the topology's group."""
    group = topology.application_id
    workers = count_workers(bootstrap, group)
    if workers:
        raise SlidestatError(
            f"The group {group} has {workers} running worker{'s' if workers > 1 else ''}.",
            "Stop them (one that was killed is forgotten after 10 s), or replay beside them with"
            " --into.",
        )


def reset_state(bootstrap: str, topology: Topology, starts: Mapping[int, int]) -> int:
    """Empty the state, let it begin at these offsets by partition, and return how many keys it had.

    The changelog must exist and no worker run. Takes time in proportion to the changelog. A reset
    that was broken off is completed by the next one. Raises SlidestatError if the broker fails.
    """
    identity = topic_id(bootstrap, topology.events_topic)
    sender = ChangelogWriter(bootstrap, topology.changelog_topic)
    under_way = encode_checkpoint(Checkpoint(0), BEING_RESET)
    for partition in starts:
        sender.send(partition, CHECKPOINT_KEY, under_way)
    sender.flush()
    keys = 0
    epochs = {}
    for partition in starts:
        live, newest = _live_keys(bootstrap, topology.changelog_topic, partition)
        epochs[partition] = newest + _BEYOND_ALL_GENERATIONS
        for key in live - {CHECKPOINT_KEY, FENCE_KEY}:
            sender.send(partition, key, None, epochs[partition])
            keys += 1
    sender.flush()
    for partition, start in starts.items():
        begun = Checkpoint(start, topic_id=identity)
        checkpoint = encode_checkpoint(begun, topology.state_label)
        sender.send(partition, CHECKPOINT_KEY, checkpoint, epochs[partition])
    sender.flush()
    _set_offsets(bootstrap, topology, starts)
    return keys


def begin_anew(
    bootstrap: str, topology: Topology, starts: Mapping[int, int], newest: Mapping[int, int]
) -> None:
    """Have partitions that have no state begin at these offsets, of which `newest` are the largest
    epochs that were seen.

    A worker that took one over since then has a larger epoch, so what is written here counts for
    nothing there, and it writes its own again. Broken off, it is completed by the next start.
    Raises SlidestatError if the broker fails.
    """
    identity = topic_id(bootstrap, topology.events_topic)
    sender = ChangelogWriter(bootstrap, topology.changelog_topic)
    for partition, epoch in newest.items():
        begun = encode_checkpoint(
            Checkpoint(starts[partition], topic_id=identity), topology.state_label
        )
        sender.send(partition, CHECKPOINT_KEY, begun, next_epoch(epoch, 0))
    sender.flush()
    _set_offsets(bootstrap, topology, starts)


def _set_offsets(bootstrap: str, topology: Topology, starts: Mapping[int, int]) -> None:
    """Set the group's offsets, for those who look at its lag: where a partition is read from, its
    checkpoint decides. A group that has members again keeps its own.
    """
    group = topology.application_id
    wanted = [TopicPartition(topology.events_topic, p, start) for p, start in starts.items()]
    request = ConsumerGroupTopicPartitions(group, wanted)
    try:
        admin = admin_client(bootstrap)
        admin.alter_consumer_group_offsets([request])[group].result(_TIMEOUT_S)
    except KafkaException as error:
        raise _refused(error) from error


def _live_keys(bootstrap: str, topic: str, partition: int) -> tuple[set[bytes], int]:
    """Return the keys of the records that compaction would keep, and the largest epoch."""
    live: set[bytes] = set()
    newest = NO_EPOCH
    with reading(bootstrap, topic) as consumer:
        for message in scan(consumer, topic, {partition: 0}):
            newest = max(newest, epoch_of(message.headers()))
            key = message.key()
            if not isinstance(key, bytes):
                continue
            if message.value() is None:
                live.discard(key)
            else:
                live.add(key)
    return live, newest


class ChangelogWriter:
    """A producer whose errors are raised by `flush`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                **client_config(bootstrap),
                "enable.idempotence": True,
                "compression.type": COMPRESSION.value,
                "on_delivery": self._delivered,
            }
        )

    def send(self, partition: int, key: bytes, value: bytes | None, epoch: int = NO_EPOCH) -> None:
        headers = epoch_header(epoch) if epoch else []
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, headers=dict(headers))
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise _refused(error) from error
            else:
                return

    def flush(self) -> None:
        missing = self._producer.flush(_TIMEOUT_S)
        if self._failure is not None:
            raise _refused(KafkaException(self._failure))
        if missing:
            raise SlidestatError(
                f"{missing} records of the changelog were not acknowledged.",
                "Check that the broker is up, and try again: it goes on where this one stopped.",
            )

    def _delivered(self, kafka_error: KafkaError | None, _message: object) -> None:
        self._failure = self._failure or kafka_error


def _refused(error: KafkaException) -> SlidestatError:
    return SlidestatError(
        f"The broker does not allow the state to be reset: {error.args[0].str().rstrip('.')}.",
        "Check that it is up and what this user may do, and try again.",
    )
