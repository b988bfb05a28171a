"""The answers of a worker over HTTP, as JSON: live figures of a key, keys, topologies, errors."""

from typing import Annotated, Literal

import msgspec

from slidestat.schemas import doc
from slidestat.schemas.alert import Annotations, Certainty, Labels, Runbook, Severity
from slidestat.schemas.emission import AbsentParty, Emission, Figure, LostRecords


class Bounds(msgspec.Struct, frozen=True):
    """lower <= exact <= upper; null where the exact figure does not exist: a share of no events."""

    estimate: Annotated[float | None, doc("the estimate")]
    lower: Annotated[float | None, doc("the exact figure is not below this")]
    upper: Annotated[float | None, doc("the exact figure is not above this")]


class ValueRank(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The numbers of a window's events that are at most a value and more than it, and their shares.

    Of the two sides the one with the lower estimate, and its share, is within relative_error of
    itself of what is exact for some value w with |w - value| <= value_error * |value| + 10^-9, of
    the events that are equal to w any part. The other side is what is left.
    """

    statistic: Annotated[str, doc("name of the quantiles that were asked")]
    value: Annotated[float, doc("the value asked about")]
    at_most: Annotated[Bounds, doc("events whose value is at most this")]
    more_than: Annotated[Bounds, doc("events whose value is more")]
    share_at_most: Annotated[Bounds, doc("their share of all events, from 0 to 1")]
    share_more_than: Annotated[Bounds, doc("the same of those that are more")]
    relative_error: Annotated[float, doc("promised, of the smaller side")]
    value_error: Annotated[float, doc("promised, as a share of the value")]
    window_ms: Annotated[int | None, doc("length n of a window of time; it starts at end - n")] = (
        None
    )
    window_events: Annotated[int | None, doc("length n of a window of the key's last n events")] = (
        None
    )
    counted_from_ms: Annotated[
        int | None, doc("of a statistic that was added later: only events from here on are counted")
    ] = None
    window: Annotated[str | None, doc("name of a window of the calendar, such as today")] = None


class KeyAlert(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert of a key that fires, or waits for more ticks to do so, as of the last one.

    It is certain if the figures' bounds say so, likely if only their estimates do.
    """

    alert: Annotated[str, doc("name of the alert")]
    state: Annotated[
        Literal["firing", "pending"],
        doc("pending: its condition held, but not yet at as many ticks in a row"),
    ]
    certainty: Annotated[Certainty, doc("of all emissions at which it held")]
    since_ms: Annotated[
        int,
        doc(
            "firing: the window end at which it began to fire; pending: the first at"
            " which the condition held"
        ),
    ]
    severity: Severity = ""
    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Annotations = msgspec.field(default_factory=dict)
    runbook: Runbook = ""


class KeyAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key's figures now, over windows that end at window_end_ms, events before it inside.

    The end is the watermark of the key's partition + 1 ms. Events at or after it that have been
    read wait for the watermark, and are not in the figures. The answer of a referee is of the
    events of all `parties` together, and of theirs alone; its end is the newest tick that it
    answers for, its source the topic of the synopses.
    """

    topology: Annotated[str, doc("name of the topology")]
    key: Annotated[str, doc("the events' key")]
    window_end_ms: Annotated[int, doc("first millisecond after the windows, in event time")]
    figures: Annotated[list[Figure], doc("by statistic, short windows first")]
    source_topic: Annotated[str, doc("topic of the events")]
    source_partition: Annotated[int, doc("partition of the events")]
    next_offset: Annotated[int, doc("offset of the partition's first record that is not read yet")]
    parties: Annotated[list[str] | None, doc("of a referee: whose events are in the figures")] = (
        None
    )
    absent: Annotated[
        list[AbsentParty] | None, doc("of a referee: whose events are not, if any")
    ] = None
    where: Annotated[
        str | None, doc("FIELD=TEXT: of the items with this text in this field alone")
    ] = None
    lost: Annotated[
        LostRecords | None, doc("records that its windows may lack; left out if they lack none")
    ] = None
    ranks: Annotated[
        list[ValueRank] | None,
        doc("where values stand, if that is what was asked; there are no figures"),
    ] = None
    alerts: Annotated[
        list[KeyAlert] | None,
        doc("alerts of the key that fire or are pending; left out if there are none"),
    ] = None


class KeyHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest emissions of a key on the output topic, which is read from its end.

    All that the topic has, unless it is cut off. A key has none of the ticks before which it had no
    new events.
    """

    topology: Annotated[str, doc("name of the topology")]
    key: Annotated[str, doc("the events' key")]
    emissions: Annotated[list[Emission], doc("by window end, one for each")]
    complete_after_ms: Annotated[
        int | None,
        doc(
            "if it is cut off: the emissions of all windows that end after this are"
            " here; left out if none is known to be"
        ),
    ] = None
    cut: Annotated[str | None, doc("what was cut off, and why; left out if nothing was")] = None


class KeyPage(msgspec.Struct, frozen=True):
    """Keys that have a state, in order of their characters."""

    topology: Annotated[str, doc("name of the topology")]
    keys: Annotated[list[str], doc("the page's keys")]
    next_after: Annotated[str | None, doc("`after` of the next page, null on the last one")]


class KeyRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some figures of a key, by their names with windows, and its alerts."""

    key: Annotated[str, doc("the events' key")]
    source_partition: Annotated[int, doc("partition of its events")]
    firing: Annotated[list[str], doc("names of the alerts that fire for it")]
    figures: Annotated[dict[str, Figure], doc("by name, such as p99_5m")]
    lost: Annotated[bool, doc("whether its windows may lack records that were lost")] = False


class KeyTable(msgspec.Struct, frozen=True):
    """Figures of several keys, each over windows that end at the watermark of its partition."""

    topology: Annotated[str, doc("name of the topology")]
    rows: Annotated[list[KeyRow], doc("of the keys that are there, in their order")]


class Contender(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key that may have a place in a ranking, as workers tell each other."""

    key: str
    figure: Figure
    is_sure: bool
    source_partition: int
    window_end_ms: int
    lost: bool = False


class RankingPart(msgspec.Struct, frozen=True):
    """The contenders of one worker that decide who has a place, and how many it has in all."""

    keys: int
    contenders: list[Contender]


class RankedKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key at a place of a ranking.

    Whatever the exact figures of all keys are within their bounds, its place is from first_place to
    last_place. Equal figures are in the order of their keys.
    """

    place: Annotated[int, doc("its place by the estimates, from 1")]
    first_place: Annotated[int, doc("it is not before this place")]
    last_place: Annotated[
        int | None, doc("nor behind this one; null: it may be behind all that are listed")
    ]
    certainty: Annotated[Certainty, doc("of its place: certain if there is no other one")]
    membership: Annotated[
        Certainty, doc("of its being among so many: certain if there is a last place")
    ]
    key: Annotated[str, doc("the events' key")]
    figure: Annotated[Figure, doc("by which it is ranked")]
    window_end_ms: Annotated[int, doc("first millisecond after its windows, in event time")]
    source_partition: Annotated[int, doc("partition of its events")]
    lost: Annotated[bool, doc("whether its windows may lack records that were lost")] = False


class RankingAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keys with the largest, or the smallest, values of a figure, in order.

    Each key's windows end at the watermark of its partition + 1 ms, when it was looked at. Keys
    whose figure does not exist have no place.
    """

    topology: Annotated[str, doc("name of the topology")]
    by: Annotated[str, doc("name of the figure, with its window")]
    order: Annotated[Literal["largest", "smallest"], doc("which of them comes first")]
    size: Annotated[int, doc("how many places are asked for")]
    keys: Annotated[int, doc("how many may have a place: they have the figure, and `having` holds")]
    places: Annotated[list[RankedKey], doc("in order")]
    having: Annotated[str, doc("only keys for which this may hold; left out without one")] = ""


class StatisticDescription(msgspec.Struct, frozen=True):
    """A statistic that a topology keeps."""

    name: Annotated[str, doc("name of its figures")]
    kind: Annotated[str, doc("what it is, such as quantile")]


class WorkerDescription(msgspec.Struct, frozen=True):
    """A worker of the group."""

    url: Annotated[str, doc("where it answers")]
    partitions: Annotated[list[int], doc("the source's partitions that it holds")]


class TopologyDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a topology, and the topics it reads and writes."""

    name: Annotated[str, doc("name of the topology")]
    source: Annotated[str, doc("topic of the events")]
    output: Annotated[str, doc("topic of the emissions")]
    late_topic: Annotated[str, doc("topic of records behind the watermark")]
    dead_letter_topic: Annotated[str, doc("topic of records that cannot be counted")]
    table: Annotated[str, doc("table of the keys' states")]
    span: Annotated[str, doc("longest window that can be asked for")]
    span_ms: Annotated[int | None, doc("the same, for windows of time")]
    span_events: Annotated[int | None, doc("the same, for windows of a key's events")]
    windows: Annotated[list[str], doc("windows that are emitted")]
    every: Annotated[str, doc("between two emissions, of time or events")]
    every_ms: Annotated[int | None, doc("the same, of event times")]
    every_seq: Annotated[int | None, doc("the same, of numbers of a sequence")]
    lateness: Annotated[str, doc("how far the watermark stays behind")]
    statistics: Annotated[list[StatisticDescription], doc("what is kept")]
    figures: Annotated[list[str], doc("names of the figures by which its keys can be ranked")]
    workers: Annotated[list[WorkerDescription], doc("who has its partitions")]
    reads: Annotated[list[str], doc("all topics that it reads, or patterns")] = []
    writes: Annotated[list[str], doc("all topics that it writes")] = []


class TopologyList(msgspec.Struct, frozen=True):
    """The topologies of a worker."""

    topologies: Annotated[list[TopologyDescription], doc("by name")]


class AddedStatistic(msgspec.Struct, frozen=True):
    """A statistic that was added while the topology ran; its windows may begin before that."""

    statistic: Annotated[str, doc("its name")]
    from_ms: Annotated[int, doc("the events from this time on are counted")]
    until_ms: Annotated[
        int | None,
        doc(
            "windows that end from here on are complete; null if they may reach back over any time"
        ),
    ]


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a partition of the source in the worker that holds it.

    The counters cover the partition's whole life, up to the last batch: read = counted + dead +
    late + passed over, and lost ones are counted apart. Records that wait for the watermark are
    counted; a few that lie so far ahead of the others that they may yet be refused are in none of
    them.
    """

    partition: Annotated[int, doc("number of the source's partition")]
    next_offset: Annotated[int, doc("offset up to which all is read, markers of transactions too")]
    end_offset: Annotated[
        int | None, doc("offset after its last record; null until one was fetched")
    ]
    waiting: Annotated[
        int,
        doc(
            "records before it behind a transaction that its producer has not ended:"
            " offsets, so this many at most"
        ),
    ]
    watermark_ms: Annotated[
        int | None, doc("event time that it has reached; null before any event, and for a sequence")
    ]
    read: Annotated[int, doc("records of which it is known what they are")]
    counted: Annotated[int, doc("in the state of their key, or waiting to be")]
    dead: Annotated[int, doc("dead letters")]
    late: Annotated[int, doc("behind the watermark")]
    lost: Annotated[int, doc("gone before they were read: offsets, so this many at most")]
    passed_over: Annotated[int, doc("left out by the topology's condition")]
    left_out: Annotated[
        dict[str, int],
        doc("of the counted, those that a statistic leaves out: they lack its field"),
    ]
    emissions: Annotated[int, doc("records written out since the worker began")]
    keys: Annotated[int | None, doc("keys with a state; null until a record has come here")]
    state_bytes: Annotated[int, doc("what the states take in RocksDB")]
    watermark_seq: Annotated[
        int | msgspec.UnsetType | None,
        doc("of a sequence alone: the number that it has reached; null before any event"),
    ] = msgspec.UNSET
    incomplete: Annotated[
        list[AddedStatistic] | msgspec.UnsetType,
        doc("statistics that were added of late; left out if there are none"),
    ] = msgspec.UNSET


class SourceLag(msgspec.Struct, frozen=True):
    """The records of a source that are not moved yet."""

    records: Annotated[int, doc("not moved yet; offsets, so this many at most")]
    seconds: Annotated[
        float | None,
        doc("how long ago the oldest of those that were fetched was written; null without one"),
    ]


class RepartitionStatus(SourceLag, frozen=True):
    """The backlog of the worker that moves the records of the sources by their key, of all of them
    together.
    """

    sources: Annotated[
        dict[str, SourceLag] | msgspec.UnsetType,
        doc("by the source's name; left out for a single one"),
    ] = msgspec.UNSET


class WorkerStatus(msgspec.Struct, frozen=True):
    """The state of a worker of the group, with its partitions."""

    url: Annotated[str, doc("where it answers")]
    state: Annotated[
        Literal["ready", "restoring", "unreachable"],
        doc("restoring: its states are being read from their changelog"),
    ]
    remaining: Annotated[int, doc("changelog records that are still to be read")]
    partitions: Annotated[list[PartitionStatus], doc("by number, once it is ready")]
    firing: Annotated[
        dict[str, int], doc("for how many keys of its partitions each alert fires")
    ] = msgspec.field(default_factory=dict)
    repartition: Annotated[
        RepartitionStatus | msgspec.UnsetType,
        doc("of the worker that moves the source's records; else left out"),
    ] = msgspec.UNSET


class TopologyStatus(msgspec.Struct, frozen=True):
    """The state of the workers of a topology."""

    topology: Annotated[str, doc("name of the topology")]
    now_ms: Annotated[int, doc("the clock of the worker that was asked")]
    workers: Annotated[list[WorkerStatus], doc("by URL")]


class Health(msgspec.Struct, frozen=True):
    """The health of a worker."""

    status: Annotated[str, doc("ok: it runs; ready: it answers questions")]


class Fault(msgspec.Struct, frozen=True):
    """The reason why there is no answer."""

    error: Annotated[str, doc("what is wrong")]
    advice: Annotated[str, doc("what to do next")]
