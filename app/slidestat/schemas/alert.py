"""A change of an alert: it fires for a key, or is resolved, and how sure that is.

One Kafka record for each (topology, alert, key, window end) at which an alert changes, on the topic
NAME-alerts. The Kafka key is those four, so a record that is sent again replaces itself; the
timestamp is the window's end, or of a sequence the time of writing. Records are JSON.
"""

import hashlib
from enum import StrEnum
from typing import Annotated

import msgspec

from slidestat.schemas import doc
from slidestat.schemas.emission import Figure, LostRecords


class AlertState(StrEnum):
    """The state of an alert for a key: it fires, or no longer."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Certainty(StrEnum):
    """The certainty of an alert: its figures' bounds decide it, or only their estimates."""

    CERTAIN = "certain"
    LIKELY = "likely"


class Measured(msgspec.Struct, frozen=True):
    """A mean, a share, or a rate a second, of some events; null where nothing is known."""

    estimate: Annotated[float | None, doc("between the bounds")]
    lower: Annotated[float | None, doc("the exact one is not below it")]
    upper: Annotated[float | None, doc("the exact one is not above it")]


# The fields that an alert declares: in its records, and in a key's answer.
Severity = Annotated[str, doc("how urgent it is, as declared; left out if nothing is")]
Labels = Annotated[dict[str, str], doc("further labels, as declared; left out if there are none")]
Annotations = Annotated[dict[str, str], doc("texts for people, as declared; left out likewise")]
Runbook = Annotated[str, doc("address of what to do, as declared; left out likewise")]


class FoundChange(msgspec.Struct, frozen=True):
    """A change within a window: what came last differs from the window by more than chance alone
    makes it, but with a small probability.
    """

    since_ms: Annotated[int, doc("where the window is cut so that its parts differ most surely")]
    before: Annotated[Measured, doc("from the start of the window until then")]
    after: Annotated[Measured, doc("from then on")]
    delta: Annotated[
        float, doc("the probability, at most, with which chance alone shows one at a tick")
    ]


class AlertChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert of a key that fires, or is resolved, by the figures of one tick.

    It is certain if the condition holds whatever the exact figures are between their bounds; of one
    that had to hold several times in a row, each time. What a key that is forgotten had firing is
    resolved with it.
    """

    topology: Annotated[str, doc("name of the topology")]
    alert: Annotated[str, doc("name of the alert")]
    key: Annotated[str, doc("the events' key")]
    window_end_ms: Annotated[int, doc("end of the window that decided it, as in the emission")]
    state: Annotated[AlertState, doc("firing or resolved")]
    certainty: Annotated[Certainty, doc("certain if the bounds say so, likely if the estimates do")]
    since_ms: Annotated[
        int,
        doc(
            "firing: the window end from which on the condition held; resolved: that at"
            " which it began to fire"
        ),
    ]
    figures: Annotated[list[Figure], doc("those that the alert reads, as in the emission")]
    source_topic: Annotated[str, doc("topic of the events")]
    source_partition: Annotated[int, doc("partition of the events")]
    source_offset: Annotated[
        int, doc("offset of the record that moved the watermark past the window's end")
    ]
    forgotten: Annotated[
        bool, doc("whether it is resolved because the key's last event has left the span")
    ] = False
    confidence: Annotated[
        float, doc("probability with which the figures' bounds hold; 1 is always")
    ] = 1.0
    provisional: Annotated[
        bool,
        doc(
            "whether it is what would become of it if no record came: a final one with"
            " the same key confirms it or takes it back"
        ),
    ] = False
    lost: Annotated[
        LostRecords | None, doc("records that the figures may lack; left out if they lack none")
    ] = None
    severity: Severity = ""
    change: Annotated[
        FoundChange | None, doc("of an alert that fires on a change: which one, and since when")
    ] = None
    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Annotations = msgspec.field(default_factory=dict)
    runbook: Runbook = ""


def alert_key(topology: str, alert: str, key: str, window_end_ms: int) -> bytes:
    """Return the Kafka key of a change: a JSON array, so that no name needs escaping by hand."""
    return msgspec.json.encode((topology, alert, key, window_end_ms))


CLOUD_EVENTS = "cloudevents"
"""The headers of CloudEvents 1.0 in the binary mode of its binding to Kafka."""


def cloud_event_headers(
    topology: str, state: AlertState, key: bytes, value: bytes, time: str | None
) -> list[tuple[str, bytes]]:
    """Return the headers of a change; `time` is the window's end, None of a sequence.

    The id follows from the record's bytes: one that is written again, after a crash or by a replay,
    is the same event, and a final one after a provisional one another.
    """
    texts = {
        "ce_specversion": "1.0",
        "ce_id": hashlib.blake2b(key + value, digest_size=16).hexdigest(),
        "ce_source": f"/topologies/{topology}",
        "ce_type": f"slidestat.alert.{state}",
        # Without it readers take the value for an event in itself.
        "content-type": "application/json",
        **({} if time is None else {"ce_time": time}),
    }
    return [(name, text.encode()) for name, text in texts.items()]
