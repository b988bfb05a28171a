"""Whether the source still has what a topology's workers have yet to read, and whether its records
have the names that are declared.
"""

from collections.abc import Iterator

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    ClusterMetadata,
)

from slidestat.admin.first_start import look_at_source, stored_before
from slidestat.admin.other_groups import last_checkpoints
from slidestat.declare.declared import Declared
from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Finding, Verdict
from slidestat.engine.checkpoints.checkpoint import Checkpoint, decode_checkpoint
from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.faust.partitions.read_order import LostRange, refusal
from slidestat.faust.source.topic_watch import require_same_source
from slidestat.kafka.read.scan import reading
from slidestat.kafka.topic_identity import topic_id

_CHECK = "source records"
_TIMEOUT_S = 10.0


def unread_records(
    bootstrap: str, topology: Declared, cluster: ClusterMetadata
) -> Iterator[Finding]:
    """Yield a finding about unread records, once workers have stored a state; what would stop them
    is bad.
    """
    source, changelog = topology.events_topic, topology.changelog_topic
    if source not in cluster.topics or changelog not in cluster.topics:
        return
    try:
        count = len(cluster.topics[changelog].partitions)
        stored = last_checkpoints(bootstrap, changelog, count)
        checkpoints = {
            partition: decode_checkpoint(value, topology.state_meaning)
            for partition, value in stored.items()
        }
        if checkpoints:
            _require_all(bootstrap, topology, checkpoints)
            yield Finding(_CHECK, Verdict.GOOD, f"{source} has all that is yet to be read")
    except SlidestatError as error:
        yield Finding(_CHECK, Verdict.BAD, error.message, error.advice)


def declared_names(
    bootstrap: str, topology: Topology, cluster: ClusterMetadata, registry: str
) -> Iterator[Finding]:
    """Find out whether records of the source have the fields that are declared; once a record was
    taken in, nothing that is missing in a sample is bad.
    """
    if topology.source not in cluster.topics:
        return
    check = "source fields"
    try:
        schemas = None
        if topology.takes_registry:
            needed = module_of_extra("slidestat.kafka.schema_registry", "A schema registry", "avro")
            schemas = needed.SchemaRegistry(registry)
        before = stored_before(bootstrap, topology, cluster)
        judgement = look_at_source(bootstrap, topology, cluster, schemas)
    except SlidestatError as error:
        yield Finding(check, Verdict.MISSING, error.message, error.advice)
        return
    if judgement is None:
        found = f"{topology.source} has no record that could be looked at"
        yield Finding(check, Verdict.MISSING, found)
        return
    if (slip := judgement.error()) is not None:
        verdict = Verdict.MISSING if before is None else Verdict.BAD
        yield Finding(check, verdict, slip.message, slip.advice)
        return
    found = f"{judgement.records:,} records of {topology.source} were looked at"
    for note in judgement.notes:
        yield Finding(check, Verdict.MISSING, f"{found}: {note}")
    if not judgement.notes:
        yield Finding(check, Verdict.GOOD, f"{found}: they have what is declared")


def _require_all(bootstrap: str, topology: Declared, checkpoints: dict[int, Checkpoint]) -> None:
    source, found = topology.events_topic, topic_id(bootstrap, topology.events_topic)
    with reading(bootstrap, source) as consumer:
        for partition, checkpoint in checkpoints.items():
            require_same_source(source, checkpoint.topic_id, found, topology.name)
            place = TopicPartition(source, partition)
            first, _ = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
            if first > checkpoint.next_offset:
                lost = LostRange(source, partition, checkpoint.next_offset, first)
                raise refusal(lost, topology)
