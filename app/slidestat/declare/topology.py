"""A topology: what is computed from one topic, declared and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from slidestat.declare.alerts import Alert
from slidestat.declare.checks import check_events, check_figures, check_sources
from slidestat.declare.derived import EMIT_WINDOWS, PARTITION, KeptFigures
from slidestat.declare.fields import Field
from slidestat.declare.kinds import DEFAULT
from slidestat.declare.rankings import Ranking
from slidestat.declare.slos import Slo, with_slos
from slidestat.declare.statistics import Statistic
from slidestat.declare.values import check_values
from slidestat.errors import SlidestatError
from slidestat.options import JSON, KEY_FIELD, TIME_FIELD, TIME_UNIT, VALUE_FIELD

__all__ = ["PARTITION", "Topology", "require_times"]


@dataclass(frozen=True, kw_only=True)
class Topology(KeptFigures):
    """Statistics of a keyed topic over sliding windows of event time, or of each key's last events.

    name: begins the names of its group, its state and the topics that it writes. 1 to 100 letters,
    digits, '.', '_' and '-', the first a letter or digit.
    source: the topic that the events are on.
    sources: in place of `source`, several topics whose events are counted together, as names, or
    patterns in which "*" stands for any characters: "orders-*". Topics that match later are read
    from their beginning. Sources may differ in their partitions: their records are always moved, as
    with `repartition`. Each is then on one topic, with a header `moved_from`:
    "topic/partition/offset".
    span: the longest window kept (N): of event time, "1h", or of a key's last events, "100000
    events".
    every: an emission follows each time the watermark passes a multiple of it. Where windows are of
    a key's last events, also "10 events": one follows the 10th event of the key, the 20th, and so
    on, once the watermark has passed it. Events of one millisecond are in it together.
    windows: the lengths emitted, each n <= N; without any, the span itself. Others, up to the span,
    can be asked for at any time. "this_hour", "today" and "this_week" begin with an hour, a day or
    a Monday of `time_zone`, and end at the tick.
    time_zone: whose hours and days "this_hour", "today" and "this_week" are, such as
    "Europe/Berlin" or "UTC": a name of the IANA database, by the rules of the package tzdata.
    statistics: what is computed over each window, each once; `name` tells two of a kind apart.
    derived: figures that are computed from others, as SQL, each name with its window: "errors_5m /
    count_5m as error_rate". They have bounds that hold, and are figures like any other.
    lateness: how far a record may lie behind the event time that its partition has reached. The
    watermark is that time less the lateness; records behind it are late, and not counted. An event
    that jumps ahead of those around it does not move it: it waits until most of 16 records have
    come as far, and is a dead letter where they do not.
    ahead: how far an event time may lie after the Kafka timestamp of its record. One that lies
    further comes from a clock that is wrong, and makes a dead letter.
    idle: when a partition has brought no record for so long, of real time, its open windows are
    emitted provisionally; with "0s" never.
    forget_after: when a key of last events, or of statistics since its first event, has brought
    nothing for so long, of event time, it is forgotten: it is emitted once more, and what comes
    later starts from nothing. Without it such keys are kept for ever; those of windows of time
    alone are forgotten after the span.
    emit: when a key is emitted: "windows", at the ticks after its events, and at the first tick at
    which any of the windows, or the span, has none of them any more; "events", the same for the
    span alone; "always", at every tick as long as the span has one; "change", at those at which its
    newest record is no longer true: a figure's bounds are not within those that were written.
    Windows of last events lose none in a silence: for them "windows" is the same as "events", and
    there is no "always".
    tolerance: with emit = "change", how far the bounds of a figure may pass those that were written
    last, as a share of them: "5%".
    having: the condition for a key to be emitted, as SQL over its figures, each with its window:
    "count_5m >= 100 and p99_1h > 500", "count_1h > 2 * ago(count_1h, '24h')". A key is written
    unless the condition certainly does not hold, and once when it ceases to hold.
    key_field: the path of the key in the JSON records, a text or a whole number; "kafka:key" is the
    key that Kafka keeps of the record, UTF-8 text.
    time_field: the path of the event time; "kafka:timestamp" is the one that Kafka keeps of the
    record, in milliseconds.
    time_format: how times are written: "ms", "s", "us" or "ns" since 1970, "iso8601" with a time
    zone, or "iso8601-utc", which is UTC where it has none; or that they are numbers of a global
    "sequence". Then all lengths are numbers of events ("1000 events"),
    attributes called `..._ms` too; emissions have `window_end_seq`, and there is no `ahead` and no
    `idle`.
    value_field: the path of what statistics read that name no field of their own.
    where: the condition on an event to be counted, as SQL: "status >= 500 and path like '/api/%'".
    Other events move event time, and make no dead letter.
    computed: fields that are computed from those of an event, as SQL: "latency_ms / 1000 as
    latency_s", "country || '+' || merchant as who". The key and what statistics read may be such
    fields.
    tombstones: what a record without a value is: "pass-over", nothing that is counted, as in a
    compacted topic, or a "dead-letter".
    source_format: the format of the events: "json"; or "avro", "protobuf" or "json-schema", as
    clients of a schema registry write them.
    source_schema: the schema of a source in Avro or Protobuf that takes no registry, as JSON or as
    the text of a .proto file (or a set of descriptors in base64); in TOML and in flags the file
    that has it.
    source_message: which message of a Protobuf schema the events are, where its file has several.
    envelope: what the events are wrapped in: "debezium", changes of rows as Debezium writes them.
    Their fields are those of the row after the change, or before it where it was deleted, and the
    envelope's own: op, before, after, source.ts_ms, ts_ms. Changes without a row are passed over.
    group: the consumer group of the workers is slidestat-GROUP; without one, the topology's name is
    taken. Topologies of one source and group share a worker.
    output_format: the format of the output, "json" or "avro"; for rows also "protobuf", or
    "connect-json": JSON with the schema that Kafka Connect asks for.
    output_shape: "emissions", a record for each key and window end with all figures in a list; or
    "rows", one for each window as well, with plain columns.
    output: begins the names of the topics that are written, in place of `name`: two versions of a
    topology, in groups of their own, can run side by side.
    publish: has the partitions publish their synopses at each tick, for a referee: those of the
    keys that it lists, which may be spread over partitions because they are too hot for one, and
    are emitted by the referee alone; or, with "partition", one state a partition over all of its
    events, which need no key. Windows of last events then have the last events of each partition.
    synopses: has the synopses of each key written to the topic NAME-synopses at this interval, such
    as "1h": at its first multiple after events of the key, as they were before it. Rollups of a
    lake merge them into windows of any length and groups of keys, and so they do those of a
    backfill. A multiple of `every`, at most the span.
    alerts: conditions on the figures of a key, evaluated at ticks, with or without events; each
    change is a record on the topic NAME-alerts.
    alert_headers: "cloudevents" gives the records of alerts the headers of CloudEvents 1.0.
    rankings: the keys with the largest, or the smallest, values of a figure; the partitions publish
    at each tick which of their keys may have a place, and a referee writes who has it.
    slos: service-level objectives, each the share of events that is to be good. They become
    windows, statistics, derived figures and alerts behind those above, and none is left here;
    without `statistics`, there are no others.
    expected: keys that count as silent although they never came: an alert on missing events fires
    for them, too, and they are never forgotten. Such a key must be on the partition that Kafka's
    clients choose for it by default (murmur2 of its UTF-8 text).
    expected_topic: a compacted topic whose record keys are expected, too: each with a value, until
    a tombstone takes it away. Workers read it at their start, and every ten seconds.
    repartition: for a source whose records are not partitioned by the key. The workers move them to
    the topic GROUP-repartition by their key, each once, in the order of event time over all
    partitions, and count what is there. It needs a lateness: for how much later than others a
    partition of the source may get its records.

    exactly_once: has each flush write one Kafka transaction a partition: emissions, alerts,
    letters, states and the position in the source. A reader with isolation.level=read_committed
    sees each record once after any crash, up to a second later than without.

    Raises SlidestatError, naming the field, for a topology that cannot be.
    """

    name: str
    source: str = ""
    sources: Sequence[str] = ()
    span: str
    every: str
    windows: Sequence[str] = ()
    time_zone: str = ""
    statistics: Sequence[Statistic] = DEFAULT
    derived: Sequence[str] = ()
    lateness: str = "0s"
    ahead: str = "5m"
    idle: str = "0s"
    forget_after: str = ""
    emit: str = EMIT_WINDOWS
    tolerance: str = "0%"
    having: str = ""
    key_field: Field = KEY_FIELD
    time_field: Field = TIME_FIELD
    time_format: str = TIME_UNIT.value
    value_field: Field = VALUE_FIELD
    where: str = ""
    computed: Sequence[str] = ()
    tombstones: str = "pass-over"
    source_format: str = JSON
    source_schema: str = ""
    source_message: str = ""
    envelope: str = ""
    group: str = ""
    output_format: str = JSON
    output_shape: str = "emissions"
    output: str = ""
    publish: str | Sequence[str] = ()
    synopses: str = ""
    alerts: Sequence[Alert] = ()
    alert_headers: str = ""
    rankings: Sequence[Ranking] = ()
    slos: Sequence[Slo] = ()
    expected: Sequence[str] = ()
    expected_topic: str = ""
    repartition: bool = False
    exactly_once: bool = False

    def __post_init__(self) -> None:
        check_values(self)
        check_events(self)
        for name, values in with_slos(self, self.slos).items():
            object.__setattr__(self, name, values)
        check_sources(self)
        if self.sources:
            object.__setattr__(self, "repartition", True)
        check_figures(self)


WITHOUT_READERS: Mapping[str, Any] = MappingProxyType(
    {
        "derived": (),
        "having": "",
        "alerts": (),
        "alert_headers": "",
        "rankings": (),
        "expected": (),
        "expected_topic": "",
        "forget_after": "",
        "output_shape": "emissions",
        "output_format": JSON,
    }
)
"""Fields of a topology that do not change how records are read, and that other statistics than its
own may refuse, with their values where its statistics are replaced.
"""


def without_move(topology: Topology, **changes: Any) -> Topology:
    """Return the topology with what its records are moved to as the source, and these changes."""
    source = topology.events_topic
    return replace(topology, source=source, sources=(), repartition=False, **changes)


def require_json(topology: Topology, what: str) -> None:
    """Raise SlidestatError, for something that reads JSON alone, unless the source has that."""
    if topology.envelope:
        raise SlidestatError(
            f"{topology.name} has envelope = {topology.envelope!r}, and {what} reads events as they"
            " are.",
            "Give it a topology of the rows that the connector extracts (ExtractNewRecordState).",
        )
    if topology.source_format != "json":
        raise SlidestatError(
            f"{topology.name} has source_format = {topology.source_format!r}, and {what} reads JSON"
            " alone.",
            "Give it a topology of the same events in JSON, without a source_format.",
        )


def require_times(topology: Topology, what: str) -> None:
    """Raise SlidestatError, for something that needs times, unless event times are such."""
    if topology.is_sequence:
        raise SlidestatError(
            f"{topology.name} has numbers of a sequence for event times, and {what} goes by times.",
            "Give it a topology of the same events with a time_field of times.",
        )
