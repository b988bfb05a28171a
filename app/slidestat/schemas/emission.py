"""An emission: what the windows of one key came to, each figure with bounds that hold.

One Kafka record for each (topology, key, window end), with all of the topology's statistics and
windows in it. The Kafka key is those three, so a record that is sent again replaces itself under
compaction or an upsert sink; the Kafka timestamp is the windows' end, or of a
sequence the time of writing. A header, `declaration`, says by which declaration it was computed.
"""

from typing import Annotated

import msgspec

from slidestat.schemas import doc

DECLARATION_HEADER = "declaration"
"""The header of an emission's record with the fingerprint of its declaration, UTF-8."""


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statistic of one window: lower <= exact <= upper.

    |estimate - exact| <= relative_error * |exact| + absolute_error
    + share_error * (the window's events)
    + deviation_error * (the standard deviation of the values that the figure is of)
    + magnitude_error * (the sum of their magnitudes); a term that is left out is 0.

    A quantile's share_error is of its rank, and what else it has is of its value:
    |estimate - y| <= relative_error * |y| + absolute_error for a y of which at least a share q of
    the window's events are up to it, and at most that share below, |q - quantile| being at most
    share_error. Estimate and bounds are null where the exact figure does not exist: the mean of no
    events.
    """

    statistic: Annotated[str, doc("name of the statistic, such as count")]
    estimate: Annotated[float | None, doc("the estimate")]
    lower: Annotated[float | None, doc("the exact figure is not below this")]
    upper: Annotated[float | None, doc("the exact figure is not above this")]
    window_ms: Annotated[int | None, doc("length n of a window of time; it starts at end - n")] = (
        None
    )
    window_events: Annotated[
        int | None,
        doc(
            "length n of a window of the key's last n events; of a sequence, of the"
            " last n numbers before the end"
        ),
    ] = None
    quantile: Annotated[float | None, doc("which quantile, from 0 to 1")] = None
    item: Annotated[str | None, doc("which item")] = None
    at_least: Annotated[float | None, doc("only events whose value is not below this")] = None
    below: Annotated[float | None, doc("only events whose value is below this")] = None
    relative_error: Annotated[float, doc("promised, as a share of the figure")] = 0.0
    absolute_error: Annotated[float, doc("promised, in the figure's unit")] = 0.0
    share_error: Annotated[float, doc("promised, as a share of the window's events")] = 0.0
    deviation_error: Annotated[
        float, doc("promised, in standard deviations of the values that the figure is of")
    ] = 0.0
    confidence: Annotated[
        float, doc("probability with which bounds and errors hold; 1 is always")
    ] = 1.0
    magnitude_error: Annotated[
        float, doc("promised, as a share of the sum of the values' magnitudes")
    ] = 0.0
    counted_from_ms: Annotated[
        int | None,
        doc(
            "of a statistic that was added while the topology ran, while its window may"
            " begin before that: it is of the events from this time on alone. A list of items that"
            " has none since then is one figure without an item"
        ),
    ] = None
    derived: Annotated[
        bool,
        doc(
            "whether it is computed from other figures. Then it has no window and no"
            " promised error: the exact one is within its bounds where it exists. A bound is null"
            " where there is none, and all three are where the estimate is"
        ),
    ] = False
    window: Annotated[
        str | None,
        doc(
            "name of a window of the calendar, such as today: window_ms is how long it"
            " is until this end"
        ),
    ] = None


class AbsentParty(msgspec.Struct, frozen=True):
    """A party whose events are not in an answer over many parties."""

    party: Annotated[str, doc("its name: source topic/partition")]
    since_ms: Annotated[
        int | None, doc("up to where it has published, before the windows' end; null if never")
    ]


class LostRecords(msgspec.Struct, frozen=True):
    """Records of the source that were gone before they were read: deleted by retention, or by hand.

    The window [end - n, end) may lack events among them if end > from_ms and, unless until_ms is
    null, end - n <= until_ms; others lack none. A window without such a length always may.
    """

    records: Annotated[int, doc("how many at most: the offsets between")]
    from_ms: Annotated[
        int, doc("earliest time of an event among them that would have been counted")
    ]
    until_ms: Annotated[
        int | None, doc("its latest time; null until a record on time has come behind them")
    ]


class Emission(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of a key over windows that end at window_end_ms, events before it inside.

    A figure without a window length is of all events since the key's first, or tells how long ago
    one of them was. A provisional emission comes when a partition brings nothing new and its
    watermark stands still: more events may belong to its windows. The one that replaces it, under
    the same key, comes when the watermark passes.

    An emission of a referee is of the events of all `parties` together, and of theirs alone. While
    others are absent, or some are idle, it is provisional; the one that replaces it comes when all
    have come. Its source is the topic of the synopses.
    """

    topology: Annotated[str, doc("name of the topology that computed it")]
    key: Annotated[str, doc("the events' key")]
    window_end_ms: Annotated[
        int, doc("first millisecond after the windows; of a sequence, the first number")
    ]
    figures: Annotated[list[Figure], doc("by statistic, short windows first")]
    source_topic: Annotated[str, doc("topic of the events")]
    source_partition: Annotated[int, doc("partition of the events")]
    source_offset: Annotated[
        int,
        doc(
            "offset of the record that moved the watermark past the windows' end;"
            " of a provisional emission, of the last record"
        ),
    ]
    provisional: Annotated[
        bool, doc("whether another emission will replace this one; left out if not")
    ] = False
    parties: Annotated[
        list[str] | None, doc("whose events are in it; of a referee's answers alone")
    ] = None
    absent: Annotated[
        list[AbsentParty] | None,
        doc("parties whose events are not in it; left out if there are none"),
    ] = None
    lost: Annotated[
        LostRecords | None, doc("records that its windows may lack; left out if they lack none")
    ] = None


def emission_key(topology: str, key: str, window_end_ms: int) -> bytes:
    """Return the Kafka key of an emission: a JSON array, so that no name needs escaping by hand."""
    return msgspec.json.encode((topology, key, window_end_ms))
