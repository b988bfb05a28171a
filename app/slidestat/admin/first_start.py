"""Look at the source before the first start of a topology, and read again what was refused before
it was mended.

A topology that has taken in a record is never judged by a sample: it is right for some records, and
those that come meanwhile may be others. One that has counted nothing has no state, so it loses
nothing by starting again, and the records that were refused because of a slip are counted.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    ClusterMetadata,
)

from slidestat.admin.other_groups import checkpoints_in, last_records
from slidestat.admin.state_reset import begin_anew
from slidestat.admin.worker_topics import found_sources
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    BEING_RESET,
    BEING_SEEDED,
    CHECKPOINT_KEY,
    Counters,
    stored_counters,
    stored_meaning,
)
from slidestat.engine.decoding.formats.source_schemas import Registry, framed_by_headers
from slidestat.errors import SlidestatError
from slidestat.faust.fencing import FENCE_KEY, NO_EPOCH, Restored
from slidestat.infer.judgement import Judgement, judge
from slidestat.infer.sampling import sample_ends
from slidestat.kafka.connection import require_broker
from slidestat.kafka.groups import count_workers
from slidestat.kafka.read.scan import headers_of, offset_bounds, reading, scan
from slidestat.log import log_event

SAMPLED = 200
# A look at one takes some tens of milliseconds.
_MOST_SOURCES = 32


class NoRegistryError(SlidestatError):
    """An error of a schema registry that does not give the schemas of records out."""


class StoredBefore(NamedTuple):
    """The stored past of a topology that never took in a record: how many records it has read, and
    whether its declaration was another one then; the largest epoch of each partition that has a
    checkpoint; and the end of the changelog when it was read.
    """

    read: int = 0
    is_other: bool = False
    newest: Mapping[int, int] = {}
    ends: Mapping[int, int] = {}


def stored_before(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata
) -> StoredBefore | None:
    """Return what is stored of a topology that never took in a record; None for any other topology.
    None also for one that, as declared now, passes over what it reads: it may be waiting for a rare
    record.
    """
    topic = topology.changelog_topic
    changelog = cluster.topics.get(topic)
    if changelog is None:
        return StoredBefore()
    last = last_records(bootstrap, topic, len(changelog.partitions))
    checkpoints = checkpoints_in(last)
    if len(checkpoints) < len(last) or _past(topology, checkpoints) is None:
        return None
    # A zombie may have written last. As far as all is well, there is little to read.
    with reading(bootstrap, topic) as consumer:
        ends = _ends(consumer, topic, changelog.partitions)
        owned = {partition: Restored(NO_EPOCH) for partition in ends}
        checkpoints, keys = {}, set()
        for message in scan(consumer, topic, dict.fromkeys(ends, 0)):
            partition, key = message.partition() or 0, message.key()
            if not owned[partition].counts(headers_of(message)) or key == FENCE_KEY:
                continue
            if key == CHECKPOINT_KEY:
                checkpoints[partition] = message.value() or b""
            elif message.value() is None:
                keys.discard((partition, key))
            else:
                keys.add((partition, key))
    past = _past(topology, checkpoints)
    if past is None or keys:
        return None
    newest = {partition: owned[partition].newest for partition in checkpoints}
    return past._replace(newest=newest, ends=ends)


def _past(topology: Topology, checkpoints: Mapping[int, bytes]) -> StoredBefore | None:
    """Return what checkpoints say of the past of a topology; None if it has taken in a record."""
    read, is_other = Counters(), False
    for stored in checkpoints.values():
        counters, meaning = stored_counters(stored), stored_meaning(stored)
        if counters is None or meaning in (BEING_RESET, BEING_SEEDED):
            return None
        read += counters
        is_other |= not topology.state_meaning.items() <= meaning.items()
    taken_in = read.counted or read.late or read.lost or (read.passed_over and not is_other)
    return None if taken_in else StoredBefore(read.read, is_other)


def _ends(consumer: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    return {number: offset_bounds(consumer, topic, number)[1] for number in partitions}


def look_at_source(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, registry: Registry | None
) -> Judgement | None:
    """Judge a topology by the first and the newest records of its sources. If all records of one
    source would be refused, that source decides, else all of them together. Return None if there
    are no records. `registry` has their schemas, if they take any.

    Raises NoRegistryError if it gives no schemas out.
    """
    sources = [
        it for it in found_sources(bootstrap, topology, cluster.topics) if it in cluster.topics
    ]
    counts = {it: len(cluster.topics[it].partitions) for it in sources[:_MOST_SOURCES]}
    samples = {
        it: sample_ends(bootstrap, it, count, SAMPLED) for it, count in counts.items() if count
    }
    found = list(chain.from_iterable(samples.values()))
    schemas = None
    if registry is not None:
        schemas = registry.schemas
        values = [record.value for record in found]
        headers = [record.headers for record in found]
        for number in schemas.unknown(framed_by_headers(values, headers)):
            if (trouble := registry.look_up(number)) is not None:
                raise NoRegistryError(
                    f"Schemas of {topology.sources_text} cannot be had: {trouble}.",
                    "Mend that: workers count nothing until they have them.",
                )
    if topology.sources:
        for source, own in samples.items():
            alone = judge(replace(topology, source=source, sources=()), own, schemas)
            if alone.refuses_all:
                return alone
    return judge(topology, found, schemas) if found else None


def prepare_first_start(bootstrap: str, topology: Topology, registry: Registry | None) -> bool:
    """Look at the source of a topology that never took in a record, and have what was refused
    before read again. Return whether it is such a topology.

    Raises SlidestatError for a declaration that does not fit its source.
    """
    cluster = require_broker(bootstrap)
    before = stored_before(bootstrap, topology, cluster)
    if before is None:
        return False
    judgement = None
    with suppress(NoRegistryError):  # A worker waits until it answers, and says so.
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
    if topology.repartition or topology.has_referee:
        return True
    return _begin_anew(bootstrap, topology, cluster, before)


def _begin_anew(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, before: StoredBefore | None
) -> bool:
    """Reset a topology that has read records but counted none, so that it starts over; return
    whether it had still counted none by then.

    Other processes may do the same at this time, or begin to count. So its states are looked at
    twice: before it is known that no worker runs, and after. If they have not changed, no running
    worker wrote them.
    """
    source, changelog = (
        cluster.topics.get(name) for name in (topology.source, topology.changelog_topic)
    )
    if source is None or changelog is None or len(source.partitions) != len(changelog.partitions):
        return True  # The start is refused later, with what to do.
    while before is not None and (before.read or before.is_other):
        workers = count_workers(bootstrap, topology.application_id)
        with reading(bootstrap, topology.source) as consumer:
            starts = {
                number: offset_bounds(consumer, topology.source, number)[0]
                for number in source.partitions
            }
            ends = _ends(consumer, topology.changelog_topic, changelog.partitions)
        if ends != before.ends:
            before = stored_before(bootstrap, topology, cluster)
        elif not workers:
            begin_anew(bootstrap, topology, starts, before.newest)
            _log_begun(topology, before.read)
            return True
        elif before.is_other:
            raise SlidestatError(
                f"{topology.name} has counted nothing yet, and its declaration was changed: it"
                " would begin anew, but workers of its group are running.",
                "Stop them (one that was killed is forgotten after 10 s), and start it again.",
            )
        else:
            return True  # It shares their work.
    return before is not None


def _log_begun(topology: Topology, read: int) -> None:
    log_event(
        "begun anew",
        f"{topology.name}: begins anew, as none of {read:,} records up to now was counted:"
        f" they are read again. If there are letters of them on {topology.dead_letter_topic}, send"
        " none again whose record is counted now",
        topology=topology.name,
        read=read,
    )
