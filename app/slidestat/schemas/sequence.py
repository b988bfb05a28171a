"""Records of topologies whose event times are numbers of a sequence: version 2 of their schemas.

They are the records of version 1 but for the names: what version 1 calls `..._ms` is a number of
the sequence here, and is called `..._seq`. Each struct derives from that of version 1 and has its
attributes, so that readers take both versions. Workers wrote version 1 for sequences, too, before
there was this one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from slidestat.schemas import doc
from slidestat.schemas.alert import AlertChange, FoundChange
from slidestat.schemas.emission import AbsentParty, Emission, LostRecords
from slidestat.schemas.query import KeyAlert, KeyAnswer, KeyHistory, RankedKey, RankingAnswer
from slidestat.schemas.synopsis import PartyClock

Record = TypeVar("Record", bound=msgspec.Struct)


class SequenceAbsentParty(AbsentParty, frozen=True):
    """A party whose events are not in an answer over many parties."""

    since_ms: Annotated[int | None, doc("up to which number it has published; null if never")] = (
        msgspec.field(name="since_seq")
    )


class SequenceLostRecords(LostRecords, frozen=True):
    """Records of the source that were gone before they were read: deleted by retention, or by hand.

    The window [end - n, end) may lack events among them if end > from_seq and, unless until_seq is
    null, end - n <= until_seq; others lack none. A window without such a length always may.
    """

    from_ms: Annotated[
        int, doc("smallest number of an event among them that would have been counted")
    ] = msgspec.field(name="from_seq")
    until_ms: Annotated[
        int | None, doc("its largest number; null until a record on time has come behind them")
    ] = msgspec.field(name="until_seq")


class SequenceEmission(Emission, frozen=True):
    """The figures of a key over windows that end at window_end_seq, numbers before it inside.

    A figure without a window length is of all events since the key's first, or tells how long ago
    one of them was. An emission of a referee is of the events of all `parties` together, and of
    theirs alone. While others are absent, or some are idle, it is provisional; the one that
    replaces it, under the same key, comes when all have come. Its source is the topic of the
    synopses.
    """

    window_end_ms: Annotated[int, doc("first number of the sequence after the windows")] = (
        msgspec.field(name="window_end_seq")
    )
    absent: Annotated[
        list[SequenceAbsentParty] | None,
        doc("parties whose events are not in it; left out if there are none"),
    ] = None  # type: ignore[assignment]
    lost: Annotated[
        SequenceLostRecords | None,
        doc("records that its windows may lack; left out if they lack none"),
    ] = None


class SequenceFoundChange(FoundChange, frozen=True):
    """A change within a window: what came last differs from the window by more than chance alone
    makes it, but with a small probability.
    """

    since_ms: Annotated[
        int, doc("where the window is cut so that its parts differ most surely")
    ] = msgspec.field(name="since_seq")


class SequenceAlertChange(AlertChange, frozen=True):
    """An alert of a key that fires, or is resolved, by the figures of one tick.

    It is certain if the condition holds whatever the exact figures are between their bounds; of one
    that had to hold several times in a row, each time. What a key that is forgotten had firing is
    resolved with it.
    """

    window_end_ms: Annotated[int, doc("end of the window that decided it, as in the emission")] = (
        msgspec.field(name="window_end_seq")
    )
    since_ms: Annotated[
        int,
        doc(
            "firing: the window end from which on the condition held; resolved: that at"
            " which it began to fire"
        ),
    ] = msgspec.field(name="since_seq")
    lost: Annotated[
        SequenceLostRecords | None,
        doc("records that the figures may lack; left out if they lack none"),
    ] = None
    change: Annotated[
        SequenceFoundChange | None,
        doc("of an alert that fires on a change: which one, and since when"),
    ] = None


class SequencePartyClock(PartyClock, frozen=True):
    """The clock of a party: it has published its synopses of all numbers before tick_seq.

    A provisional one gives the tick that an idle party would reach if no records came.
    """

    tick_ms: Annotated[int, doc("a multiple of the topology's `every`")] = msgspec.field(
        name="tick_seq"
    )
    ranked_after_ms: Annotated[int | None, doc("none: it has no rankings")] = msgspec.field(
        name="ranked_after_seq", default=None
    )


class SequenceKeyAlert(KeyAlert, frozen=True):
    """An alert of a key that fires, or waits for more ticks to do so, as of the last one.

    It is certain if the figures' bounds say so, likely if only their estimates do.
    """

    since_ms: Annotated[
        int,
        doc(
            "firing: the window end at which it began to fire; pending: the first at"
            " which the condition held"
        ),
    ] = msgspec.field(name="since_seq")


class SequenceKeyAnswer(KeyAnswer, frozen=True):
    """A key's figures now, over windows that end at window_end_seq, numbers before it inside.

    The end is the watermark of the key's partition + 1; of a referee, the newest tick that it
    answers for.
    """

    window_end_ms: Annotated[int, doc("first number of the sequence after the windows")] = (
        msgspec.field(name="window_end_seq")
    )
    absent: Annotated[
        list[SequenceAbsentParty] | None, doc("of a referee: whose events are not, if any")
    ] = None  # type: ignore[assignment]
    lost: Annotated[
        SequenceLostRecords | None,
        doc("records that its windows may lack; left out if they lack none"),
    ] = None
    alerts: Annotated[
        list[SequenceKeyAlert] | None,
        doc("alerts of the key that fire or are pending; left out if there are none"),
    ] = None  # type: ignore[assignment]


class SequenceKeyHistory(KeyHistory, frozen=True):
    """The newest emissions of a key on the output topic, which is read from its end.

    All that the topic has, unless it is cut off.
    """

    emissions: Annotated[  # type: ignore[assignment]
        list[SequenceEmission], doc("by window end, one for each")
    ]
    complete_after_ms: Annotated[
        int | None,
        doc(
            "if it is cut off: the emissions of all windows that end after this are"
            " here; left out if none is known to be"
        ),
    ] = msgspec.field(name="complete_after_seq", default=None)


class SequenceRankedKey(RankedKey, frozen=True):
    """A key at a place of a ranking.

    Whatever the exact figures of all keys are within their bounds, its place is from first_place to
    last_place. Equal figures are in the order of their keys.
    """

    window_end_ms: Annotated[int, doc("first number of the sequence after its windows")] = (
        msgspec.field(name="window_end_seq")
    )


class SequenceRankingAnswer(RankingAnswer, frozen=True):
    """The keys with the largest, or the smallest, values of a figure, in order.

    Each key's windows end at the watermark of its partition + 1, when it was looked at. Keys whose
    figure does not exist have no place.
    """

    places: Annotated[list[SequenceRankedKey], doc("in order")]  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """The structs of one version."""

    emission: type[Emission]
    absent_party: type[AbsentParty]
    lost_records: type[LostRecords]
    alert_change: type[AlertChange]
    found_change: type[FoundChange]
    party_clock: type[PartyClock]
    key_alert: type[KeyAlert]
    key_answer: type[KeyAnswer]
    key_history: type[KeyHistory]
    ranked_key: type[RankedKey]
    ranking: type[RankingAnswer]


_OF_TIMES = Kinds(
    emission=Emission,
    absent_party=AbsentParty,
    lost_records=LostRecords,
    alert_change=AlertChange,
    found_change=FoundChange,
    party_clock=PartyClock,
    key_alert=KeyAlert,
    key_answer=KeyAnswer,
    key_history=KeyHistory,
    ranked_key=RankedKey,
    ranking=RankingAnswer,
)
_OF_SEQUENCES = Kinds(
    emission=SequenceEmission,
    absent_party=SequenceAbsentParty,
    lost_records=SequenceLostRecords,
    alert_change=SequenceAlertChange,
    found_change=SequenceFoundChange,
    party_clock=SequencePartyClock,
    key_alert=SequenceKeyAlert,
    key_answer=SequenceKeyAnswer,
    key_history=SequenceKeyHistory,
    ranked_key=SequenceRankedKey,
    ranking=SequenceRankingAnswer,
)


def kinds(*, is_sequence: bool) -> Kinds:
    """Return the structs that a topology writes: of sequence numbers or of event times."""
    return _OF_SEQUENCES if is_sequence else _OF_TIMES


def _decoder(of_times: type[Record], of_sequences: type[Record]) -> Callable[[bytes], Record]:
    """Return a decoder of JSON records of either version; it raises msgspec's error for others."""
    of_times_first = msgspec.json.Decoder(of_times).decode
    of_sequences_then = msgspec.json.Decoder(of_sequences).decode

    def decode(data: bytes) -> Record:
        try:
            return of_times_first(data)
        except msgspec.ValidationError as error:
            try:
                return of_sequences_then(data)
            except msgspec.ValidationError:
                raise error from None

    return decode


decode_emission = _decoder(Emission, SequenceEmission)
decode_alert_change = _decoder(AlertChange, SequenceAlertChange)
decode_clock = _decoder(PartyClock, SequencePartyClock)
decode_ranking = _decoder(RankingAnswer, SequenceRankingAnswer)
decode_key_answer = _decoder(KeyAnswer, SequenceKeyAnswer)
decode_key_history = _decoder(KeyHistory, SequenceKeyHistory)
