"""Whether another consumer group computes a topology now: both would write its topics."""

import re
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, Message
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    ClusterMetadata,
)

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY, stored_meaning
from slidestat.errors import SlidestatError
from slidestat.faust.fencing import FENCE_KEY
from slidestat.kafka.connection import require_broker
from slidestat.kafka.groups import count_workers
from slidestat.kafka.read.scan import offset_bounds, reading, scan

# Each begins with a fence, which may be after the last checkpoint.
_OWNERS = 50


class OtherGroups:
    """Other groups that compute the same topologies and began at the same time as this worker: each
    looked for others before any of them had written.
    """

    def __init__(self, bootstrap: str, topologies: Sequence[Declared]) -> None:
        self._bootstrap = bootstrap
        self._topologies = topologies

    def error(self) -> SlidestatError | None:
        """Return the error for another group whose name comes before this one's, as one of the two
        has to give way. None if there is no such group, and if no broker answers.
        """
        try:
            # The worker itself tells that no broker answers.
            cluster = require_broker(self._bootstrap, may_tell=False)
            for topology in self._topologies:
                group = other_group(self._bootstrap, topology, cluster)
                if group is not None and group < topology.group_name:
                    return _refusal(topology, group)
        except (KafkaException, SlidestatError):
            return None
        return None


def check_no_other_group(bootstrap: str, topology: Declared, cluster: ClusterMetadata) -> None:
    """Raise SlidestatError if another group runs a topology of this name, with the same output."""
    group = other_group(bootstrap, topology, cluster)
    if group is not None:
        raise _refusal(topology, group)


def other_group(bootstrap: str, topology: Declared, cluster: ClusterMetadata) -> str | None:
    """Return the first other group that runs a topology of this name, with the same output.

    The name of a changelog does not tell its group from its topology, as both may have hyphens. So
    the group is read from the states: the last record of a flush is a checkpoint, which has it. A
    group whose worker was killed in the middle of its last flush is not found.
    """
    changelog_name = re.compile(rf"slidestat-(.+)-{re.escape(topology.table_name)}-changelog")
    found = set()
    for topic, its in cluster.topics.items():
        if topic == topology.changelog_topic or not changelog_name.fullmatch(topic):
            continue
        for meaning in last_meanings(bootstrap, topic, len(its.partitions)):
            group = meaning.get("group")
            if (
                group is not None
                and group != topology.group_name
                and meaning.get("name") == topology.name
                and meaning.get("output", topology.output_topic) == topology.output_topic
                and count_workers(bootstrap, f"slidestat-{group}")
            ):
                found.add(group)
    return min(found, default=None)


def _refusal(topology: Declared, group: str) -> SlidestatError:
    return SlidestatError(
        f"The group {group!r} computes a topology {topology.name!r} already: both would"
        f" write to {topology.output_topic!r}.",
        f'Give this one another name or output, or group = "{group}" to share its'
        " work; or stop the other's workers, and this one takes its place.",
    )


def last_meanings(bootstrap: str, topic: str, partitions: int) -> list[dict[str, str]]:
    """Return, by partition of a changelog, the meaning of states that its last checkpoint names."""
    return list(map(stored_meaning, last_checkpoints(bootstrap, topic, partitions).values()))


def last_checkpoints(bootstrap: str, topic: str, partitions: int) -> dict[int, bytes]:
    """Return the last checkpoint of each partition of a changelog, as stored; none of one whose
    worker was killed in the middle of its last flush.
    """
    return checkpoints_in(last_records(bootstrap, topic, partitions))


def checkpoints_in(records: Mapping[int, Message]) -> dict[int, bytes]:
    """Return those of the records of partitions that are checkpoints, as stored."""
    return {
        partition: record.value() or b""
        for partition, record in records.items()
        if record.key() == CHECKPOINT_KEY
    }


def last_records(bootstrap: str, topic: str, partitions: int) -> dict[int, Message]:
    """Return the last record of each partition of a changelog that has one, fences aside."""
    with reading(bootstrap, topic) as consumer:
        bounds = {number: offset_bounds(consumer, topic, number) for number in range(partitions)}
        ends: dict[int, Message] = {}
        looked_at = _OWNERS
        left = {number for number, (low, high) in bounds.items() if high > low}
        while left:
            starts = {
                number: max(bounds[number][0], bounds[number][1] - looked_at) for number in left
            }
            for message in scan(consumer, topic, starts):
                if message.key() != FENCE_KEY:
                    ends[message.partition() or 0] = message
            left = {
                number
                for number, start in starts.items()
                if number not in ends and start > bounds[number][0]
            }
            looked_at *= 8
        return ends
