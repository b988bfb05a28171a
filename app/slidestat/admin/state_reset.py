"""Set a topology's state and offsets back to where a replay begins, or to what a seed has counted.

The changelog is not deleted: each of its keys gets a tombstone, and each partition a checkpoint at
its start, so that every copy of the tables, wherever it is, follows when it restores. Until that is
whole, a checkpoint that no topology has made is there: a worker started meanwhile is refused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import NamedTuple

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
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
from slidestat.faust.fencing import (
    FENCE_KEY,
    NO_EPOCH,
    epoch_header,
    epoch_of,
    next_epoch,
    replacing_epoch,
)
from slidestat.kafka.connection import MAX_MESSAGE_BYTES, admin_client, produce_with
from slidestat.kafka.groups import count_workers
from slidestat.kafka.read.scan import headers_of, reading, scan
from slidestat.kafka.settings import client_config
from slidestat.kafka.topic_identity import topic_id
from slidestat.options import COMPRESSION
from slidestat.text import counted

_TIMEOUT_S = 30.0


def require_no_workers(bootstrap: str, topology: Topology, otherwise: str) -> None:
    """Raise SlidestatError while a worker is a member of the topology's group; `otherwise` is what
    else may be done than to stop it.
    """
    group = topology.application_id
    workers = count_workers(bootstrap, group)
    if workers:
        raise SlidestatError(
            f"The group {group} has {counted(workers, 'running worker')}.",
            f"Stop them (one that was killed is forgotten after 10 s), or {otherwise}.",
        )


def reset_state(bootstrap: str, topology: Topology, starts: Mapping[int, int]) -> int:
    """Empty the state, let it begin at these offsets by partition, and return how many keys it had.

    The changelog must exist and no worker run. Takes time in proportion to the changelog. A reset
    that was broken off is completed by the next one. Raises SlidestatError if the broker fails.
    """
    identity = topic_id(bootstrap, topology.events_topic)
    checkpoints = {
        partition: encode_checkpoint(Checkpoint(start, topic_id=identity), topology.state_label)
        for partition, start in starts.items()
    }
    return replace_state(bootstrap, topology, checkpoints, starts, BEING_RESET)


Row = tuple[bytes, bytes]


def replace_state(
    bootstrap: str,
    topology: Topology,
    checkpoints: Mapping[int, bytes],
    starts: Mapping[int, int],
    under_way: dict[str, str],
    rows: Callable[[int], Iterable[Row]] = lambda _: (),
) -> int:
    """Replace the state of all partitions by these `rows` and `checkpoints`, set the group's
    offsets to `starts`, and return how many keys there were before.

    The changelog must exist and no worker run. Until all is there, checkpoints with the meaning
    `under_way` refuse every worker. Raises SlidestatError if the broker fails, if a worker runs
    after all, or if anyone else writes to the changelog from the first record on: then the state
    stays under way.
    """
    sender = ChangelogWriter(bootstrap, topology.changelog_topic)
    begun = encode_checkpoint(Checkpoint(0), under_way)
    for partition in checkpoints:
        sender.send(partition, CHECKPOINT_KEY, begun)
    sender.flush()
    # A worker that was there before the marks may have restored what they replace; others see the
    # marks.
    workers = count_workers(bootstrap, topology.application_id)
    if workers:
        raise _disturbed(f"{workers} of {topology.name}'s workers began meanwhile")
    keys = 0
    epochs = {}
    for partition in checkpoints:
        found = changelog_contents(bootstrap, topology.changelog_topic, partition)
        epochs[partition] = replacing_epoch(found.newest)
        # A table drops all that it has at the first record of this epoch, and with it the mark.
        sender.send(partition, CHECKPOINT_KEY, begun, epochs[partition])
        for key in found.keys:
            sender.send(partition, key, None, epochs[partition])
            keys += 1
    sender.flush()
    for partition in checkpoints:
        for key, value in rows(partition):
            sender.send(partition, key, value, epochs[partition])
        sender.flush()
    # Other workers are then seen on each partition before it is whole, also on one without a row.
    for partition in checkpoints:
        sender.send(partition, CHECKPOINT_KEY, begun, epochs[partition])
    sender.flush()
    for partition, checkpoint in checkpoints.items():
        sender.send(partition, CHECKPOINT_KEY, checkpoint, epochs[partition])
    sender.flush()
    _set_offsets(bootstrap, topology, starts)
    return keys


def begin_anew(
    bootstrap: str, topology: Topology, starts: Mapping[int, int], newest: Mapping[int, int]
) -> None:
    """Let partitions that have no state begin at these offsets; `newest` are the largest epochs
    that were seen. A worker that took a partition over since then has a larger epoch, so what is
    written here is ignored there, and the worker writes its own again. If it is interrupted, the
    next start completes it. Raises SlidestatError if the broker fails.
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
    checkpoint decides. A group that has members again, which have read that, keeps its own.
    """
    group = topology.application_id
    wanted = [TopicPartition(topology.events_topic, p, start) for p, start in starts.items()]
    request = ConsumerGroupTopicPartitions(group, wanted)
    try:
        admin = admin_client(bootstrap)
        found = admin.alter_consumer_group_offsets([request])[group].result(_TIMEOUT_S)
        errors = [place.error for place in found.topic_partitions if place.error is not None]
        for each in errors:
            if each.code() != KafkaError.UNKNOWN_MEMBER_ID:
                raise KafkaException(each)
    except KafkaException as error:
        raise _refused(error) from error


class Contents(NamedTuple):
    """The contents of a partition of a changelog: the keys of states that compaction would keep,
    the last checkpoint, and the largest epoch.
    """

    keys: set[bytes]
    checkpoint: bytes | None
    newest: int


def changelog_contents(bootstrap: str, topic: str, partition: int) -> Contents:
    """Read a partition of a changelog to its end."""
    live: set[bytes] = set()
    checkpoint = None
    newest = NO_EPOCH
    with reading(bootstrap, topic) as consumer:
        for message in scan(consumer, topic, {partition: 0}):
            newest = max(newest, epoch_of(headers_of(message)))
            key = message.key()
            if key == CHECKPOINT_KEY:
                checkpoint = message.value()
            elif not isinstance(key, bytes) or key == FENCE_KEY:
                continue
            elif message.value() is None:
                live.discard(key)
            else:
                live.add(key)
    return Contents(live, checkpoint, newest)


class ChangelogWriter:
    """A producer whose errors are raised by `flush`, as are records of others between its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._failure: KafkaError | None = None
        # The offsets from its first record to its last, and how many it has written.
        self._written: dict[int, range] = {}
        self._counts: Counter[int] = Counter()
        self._producer = Producer(
            {
                **client_config(bootstrap),
                "enable.idempotence": True,
                "compression.type": COMPRESSION.value,
                # A worker writes states as large as that.
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "on_delivery": self._delivered,
            }
        )

    def send(self, partition: int, key: bytes, value: bytes | None, epoch: int = NO_EPOCH) -> None:
        self.produce(partition, key, value, epoch_header(epoch) if epoch else [])

    def produce(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes]],
        timestamp: int = 0,
    ) -> None:
        record = self._topic, partition, key, value, headers, timestamp
        try:
            produce_with(self._producer, *record)
        except KafkaException as error:
            raise _refused(error) from error

    def flush(self) -> None:
        before, missing = inf, len(self._producer)
        # As long as some are acknowledged: what is queued may be a gigabyte.
        while missing and missing < before and self._failure is None:
            before, missing = missing, self._producer.flush(_TIMEOUT_S)
        if self._failure is not None:
            raise _refused(KafkaException(self._failure))
        if missing:
            raise SlidestatError(
                f"{missing} records of the changelog were not acknowledged.",
                "Check that the broker is up, and try again: it goes on where this one stopped.",
            )
        for partition, written in self._written.items():
            if len(written) > self._counts[partition]:
                raise _disturbed(f"Others wrote to {self._topic!r} partition {partition} meanwhile")

    def _delivered(self, kafka_error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or kafka_error
        partition, offset = message.partition() or 0, message.offset()
        self._counts[partition] += 1
        # A record that was sent again may have been there already, at an unknown offset.
        if kafka_error is None and offset is not None and offset >= 0:
            first = self._written[partition].start if partition in self._written else offset
            self._written[partition] = range(first, offset + 1)


def _disturbed(what: str) -> SlidestatError:
    return SlidestatError(
        f"{what}, and the state is only partly replaced.",
        "Stop its workers, and any such command that runs. Then run the same command again: it"
        " completes what it began, and what workers counted meanwhile is counted again. Until then"
        " no worker starts.",
    )


def _refused(error: KafkaException) -> SlidestatError:
    return SlidestatError(
        f"The broker does not allow the state to be replaced: {error.args[0].str().rstrip('.')}.",
        "Check that it is up and what this user may do, and try again.",
    )
