"""Alerts for an Alertmanager: firing ones, posted again and again, and resolved ones.

An Alertmanager forgets an alert that is not posted again for a while, so that its sender may die;
Prometheus posts in the same way. The changes that a topic has are taken in its order, and the
newest one of an alert and a key counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text.figure_text import bounds_text, iso_time

AGAIN_MS = 60_000
"""The interval at which a firing alert is posted again."""

LASTS_MS = 4 * AGAIN_MS
"""The time after which Alertmanager resolves an alert that is not posted again."""


class PostableAlert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert as Alertmanager takes it, `postableAlert` of version 2 of its API: it fires from
    `starts_at` until `ends_at`, and is resolved where that is past.
    """

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str


class Identity(NamedTuple):
    """The labels of an alert, by which it is known; as sure as it was when it began to fire."""

    alert: str
    topology: str
    key: str
    certainty: Certainty


class Told(NamedTuple):
    """An alert to be posted at some time: whether it is resolved, or posted for the first time."""

    identity: Identity
    is_over: bool
    is_new: bool
    alert: PostableAlert


@dataclass
class _Relayed:
    change: AlertChange
    starts_ms: int
    told_ms: int | None = None


class RelayedAlerts:
    """The alerts that fire, and those that Alertmanager still takes for firing.

    Memory: a change for each of them.
    """

    def __init__(self) -> None:
        self._firing: dict[Identity, _Relayed] = {}
        self._over: dict[Identity, _Relayed] = {}

    def take(self, change: AlertChange, now_ms: int) -> None:
        """Take in the next change that the topic has, at `now_ms` by the clock."""
        for certainty in Certainty:
            identity = Identity(change.alert, change.topology, change.key, certainty)
            before = self._firing.pop(identity, None)
            # An alert that was never posted need not be resolved.
            if before is not None and before.told_ms is not None:
                self._over[identity] = before
        if change.state is AlertState.FIRING:
            identity = Identity(change.alert, change.topology, change.key, change.certainty)
            again = self._over.pop(identity, None)
            if again is not None and again.change == change:
                self._firing[identity] = again  # The topic is read once more.
                return
            # Of a sequence there are no times, and an early clock's lie ahead.
            end = change.window_end_ms
            starts = end if EARLIEST_TIME_MS <= end < now_ms else now_ms - 1
            self._firing[identity] = _Relayed(change, starts, None if again is None else 0)

    def due(self, now_ms: int) -> list[Told]:
        """Return the alerts that are resolved, new, or were posted too long ago."""
        over = [
            Told(identity, True, False, _postable(identity, relayed, now_ms))
            for identity, relayed in self._over.items()
        ]
        return over + [
            Told(
                identity,
                False,
                not relayed.told_ms,
                _postable(identity, relayed, now_ms + LASTS_MS),
            )
            for identity, relayed in self._firing.items()
            # A clock may be put back.
            if relayed.told_ms is None or abs(now_ms - relayed.told_ms) >= AGAIN_MS
        ]

    def told(self, all_told: Iterable[Told], now_ms: int) -> None:
        """Note that Alertmanager has accepted these, of a moment ago."""
        for told in all_told:
            if told.is_over:
                self._over.pop(told.identity, None)
            else:
                self._firing[told.identity].told_ms = now_ms


def _postable(identity: Identity, relayed: _Relayed, ends_ms: int) -> PostableAlert:
    change = relayed.change
    figures = "; ".join(map(bounds_text, change.figures))
    return PostableAlert(
        {
            "alertname": identity.alert,
            "topology": identity.topology,
            "key": identity.key,
            "certainty": str(identity.certainty),
        },
        {
            "summary": f"{identity.alert} of {identity.key}: {figures}",
            "figures": figures,
            "window_end": iso_time(change.window_end_ms),
        },
        _rfc3339(relayed.starts_ms),
        _rfc3339(max(ends_ms, relayed.starts_ms + 1)),
    )


def _rfc3339(time_ms: int) -> str:
    seconds, ms = divmod(time_ms, 1_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1_000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
