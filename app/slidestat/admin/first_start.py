"""Look at the source before the first start of a topology, and read again what was refused before
it was mended.

A topology that has taken in a record is never judged by a sample: it is right for some records, and
those that come meanwhile may be others. One that has counted nothing has no state, so it loses
nothing by starting again, and the records that were refused because of a slip are counted.
"""

from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    ClusterMetadata,
)

from slidestat.admin.other_groups import last_records
from slidestat.admin.state_reset import reset_state
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    BEING_RESET,
    CHECKPOINT_KEY,
    Counters,
    stored_counters,
    stored_meaning,
)
from slidestat.engine.decoding.formats.source_schemas import Registry
from slidestat.errors import SlidestatError
from slidestat.infer.judgement import Judgement, judge
from slidestat.infer.sampling import sample_ends
from slidestat.kafka.connection import require_broker
from slidestat.kafka.groups import count_workers
from slidestat.kafka.read.offset_bounds import offset_bounds
from slidestat.kafka.read.reading import reading
from slidestat.log import log_event

SAMPLED = 200


class StoredBefore(NamedTuple):
    """The past of a topology that never took in a record: how many it has read, and whether it was
    declared in another way then.
    """

    read: int
    is_other: bool


def stored_before(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata
) -> StoredBefore | None:
    """Return the past of a topology that never took in a record; None of any other. One that passes
    over what it reads, as declared now, may wait for a rare record.
    """
    changelog = cluster.topics.get(topology.changelog_topic)
    if changelog is None:
        return StoredBefore(0, is_other=False)
    read, is_other = Counters(), False
    partitions = len(changelog.partitions)
    for last in last_records(bootstrap, topology.changelog_topic, partitions).values():
        stored = last.value() or b""
        counters = stored_counters(stored) if last.key() == CHECKPOINT_KEY else None
        meaning = stored_meaning(stored)
        if counters is None or meaning == BEING_RESET:
            return None
        read += counters
        is_other |= not topology.state_meaning.items() <= meaning.items()
    taken_in = read.counted or read.late or read.lost or (read.passed_over and not is_other)
    return None if taken_in else StoredBefore(read.read, is_other)


def look_at_source(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, registry: Registry | None
) -> Judgement | None:
    """Judge a topology by the first and the newest records of its source; None if it has none, or
    none that can be read now. `registry` has their schemas, if they take any.
    """
    source = cluster.topics.get(topology.source)
    if source is None or not source.partitions:
        return None
    found = sample_ends(bootstrap, topology.source, len(source.partitions), SAMPLED)
    if registry is None:
        return judge(topology, found) if found else None
    for number in registry.schemas.unknown([record.value for record in found]):
        if registry.look_up(number) is not None:
            return None  # It does not answer: a worker waits until it does.
    return judge(topology, found, registry.schemas) if found else None


def prepare_first_start(bootstrap: str, topology: Topology, registry: Registry | None) -> bool:
    """Look at the source of a topology that never took in a record, and have what was refused
    before read again. Return whether it is such a topology.

    Raises SlidestatError for a declaration that does not fit its source.
    """
    cluster = require_broker(bootstrap)
    before = stored_before(bootstrap, topology, cluster)
    if before is None:
        return False
    judgement = look_at_source(bootstrap, topology, cluster, registry)
    if judgement is not None:
        error = judgement.error()
        if error is not None:
            raise error
        for note in judgement.notes:
            log_event(
                "source looked at",
                f"{topology.name}: {judgement.records:,} records were looked at: {note}",
                topology=topology.name,
            )
    # Moved records lie as they were moved, and a referee has the clocks that were published.
    if (before.read or before.is_other) and not (topology.repartition or topology.publish):
        _begin_anew(bootstrap, topology, cluster, before)
    return True


def _begin_anew(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, before: StoredBefore
) -> None:
    source, changelog = (
        cluster.topics.get(name) for name in (topology.source, topology.changelog_topic)
    )
    if source is None or changelog is None or len(source.partitions) != len(changelog.partitions):
        return  # Which is refused, with what to do.
    if count_workers(bootstrap, topology.application_id):
        if not before.is_other:
            return  # It shares their work.
        raise SlidestatError(
            f"{topology.name} has counted nothing yet, and its declaration was changed: it would"
            " begin anew, but workers of its group are running.",
            "Stop them (one that was killed is forgotten after 10 s), and start it again.",
        )
    with reading(bootstrap, topology.source) as consumer:
        starts = {
            number: offset_bounds(consumer, topology.source, number)[0]
            for number in source.partitions
        }
    reset_state(bootstrap, topology, starts)
    log_event(
        "begun anew",
        f"{topology.name}: begins anew, as none of {before.read:,} records up to now was counted:"
        f" they are read again. If there are letters of them on {topology.dead_letter_topic}, send"
        " none again whose record is counted now",
        topology=topology.name,
        read=before.read,
    )
