"""Send the alerts of a topic to an Alertmanager, as they come, until it is ended."""

import http.client
import re
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from slidestat.addresses import checked_address
from slidestat.errors import SlidestatError
from slidestat.kafka.read.topic_reader import AlertReader
from slidestat.pauses import Pauses
from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text import bounds_text, change_text, iso_time, printable

# Alerts for an Alertmanager: firing ones, posted again and again, and resolved ones.
#
# An Alertmanager forgets an alert that is not posted again for a while, so that its sender may die;
# Prometheus posts in the same way. The changes that a topic has are taken in its order, and the
# newest one of an alert and a key counts.

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
        is_firing = change.state is AlertState.FIRING
        now = Identity(change.alert, change.topology, change.key, change.certainty)
        if is_firing and now in self._firing:
            known = self._firing[now]
            # One that is confirmed is posted at once.
            if known.change.provisional and not change.provisional and known.told_ms:
                known.told_ms = 0
            known.change = change  # Written again: it fires since its first one.
            return
        for certainty in Certainty:
            identity = now._replace(certainty=certainty)
            before = self._firing.pop(identity, None)
            # An alert that was never posted need not be resolved.
            if before is not None and before.told_ms is not None:
                self._over[identity] = before
        if is_firing:
            again = self._over.pop(now, None)
            if again is not None and again.change == change:
                self._firing[now] = again  # The topic is read once more.
                return
            # Of a sequence there are no times, and an early clock's lie ahead.
            end = change.window_end_ms
            starts = end if EARLIEST_TIME_MS <= end < now_ms else now_ms - 1
            self._firing[now] = _Relayed(change, starts, None if again is None else 0)

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
            **({"severity": change.severity} if change.severity else {}),
        },
        {
            "summary": f"{identity.alert} of {identity.key}: {figures}",
            "figures": figures,
            "window_end": iso_time(change.window_end_ms),
            **({} if change.change is None else {"change": change_text(change.change)}),
            # No label: an alert that is confirmed is the same one.
            **({"provisional": "true"} if change.provisional else {}),
        },
        _rfc3339(relayed.starts_ms),
        _rfc3339(max(ends_ms, relayed.starts_ms + 1)),
    )


def _rfc3339(time_ms: int) -> str:
    seconds, ms = divmod(time_ms, 1_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1_000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_PATH = "/api/v2/alerts"
_TIMEOUT_S = 10.0
_MOST_AT_ONCE = 256
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
# Of a server that is there and can do nothing now.
_LATER = frozenset((408, 429))

Say = Callable[[str], None]


class _AwayError(Exception):
    """An error of an Alertmanager that does not answer, or cannot now."""


class AlertRelay:
    """A relay that posts to the Alertmanager at `url` what fires by a topic of alerts.

    Once begun it continues when the Alertmanager or the brokers are away, trying again after 1 s, 2
    s and so on up to a minute; firing alerts are posted again each minute meanwhile. Raises
    SlidestatError for a URL that is none, for an Alertmanager that refuses what is posted, and
    where the topic cannot be read at the start.
    """

    def __init__(
        self, url: str, reader: Callable[[], AlertReader], say: Say, alerts: Collection[str]
    ) -> None:
        """Create the relay; `alerts` are the names of those that are posted."""
        address, user = _address(url)
        self._url = address.rstrip("/") + _PATH
        self._headers = {"Content-Type": "application/json"}
        if user:
            self._headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        # A redirect would be followed without what is posted.
        self._open = urllib.request.build_opener(_NoRedirects).open
        self._reader = reader
        self._say = say
        self._names = alerts
        self._alerts = RelayedAlerts()
        self._post_pause = Pauses(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S)
        self._read_pause = Pauses(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S)
        self._has_begun = False

    def run(self) -> None:
        """Run until an error, or KeyboardInterrupt."""
        while True:
            try:
                self._follow()
            except SlidestatError as error:
                if not self._has_begun or isinstance(error, _RefusedError):
                    raise
                self._say(f"{error.message} Trying again in {self._read_pause.begin():.1f} s.")
            while not self._read_pause.is_over:
                self._tell()
                time.sleep(0.25)

    def _follow(self) -> None:
        """Read the topic from its first record: which alerts fire now follows only from all of
        it.
        """
        reader = self._reader()
        for records in reader.batches():
            for record in records:
                if record.change.alert in self._names:
                    self._alerts.take(record.change, _now_ms())
            if reader.is_at_end:
                self._has_begun = True
                self._read_pause.reset()
                self._tell()

    def _tell(self) -> None:
        if not self._post_pause.is_over:
            return
        now = _now_ms()
        due = self._alerts.due(now)
        try:
            for start in range(0, len(due), _MOST_AT_ONCE):
                some = due[start : start + _MOST_AT_ONCE]
                self._post(some)
                self._alerts.told(some, now)
                self._post_pause.reset()
        except _AwayError as error:
            pause = self._post_pause.begin()
            self._say(f"{self._url} does not take alerts: {error}. Trying again in {pause:.1f} s.")

    def _post(self, some: Sequence[Told]) -> None:
        body = msgspec.json.encode([told.alert for told in some])
        request = urllib.request.Request(  # noqa: S310  its scheme is checked
            self._url, body, self._headers, method="POST"
        )
        try:
            with self._open(request, timeout=_TIMEOUT_S) as response:
                response.read()
        except urllib.error.HTTPError as error:
            if error.code >= 500 or error.code in _LATER:
                raise _AwayError(f"HTTP status {error.code}") from error
            said = error.read(500).decode(errors="replace").strip()
            raise _RefusedError(
                f"{self._url} refuses alerts, HTTP status {error.code}: {said or error.reason}.",
                "Check that --url is that of an Alertmanager, with its path if it has one.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise _AwayError(str(getattr(error, "reason", error))) from error
        for told in some:
            if told.is_over or told.is_new:
                state = "resolved" if told.is_over else "firing"
                summary = printable(told.alert.annotations["summary"])
                self._say(f"{state} {told.identity.certainty} {summary}")


class _RefusedError(SlidestatError):
    """An error of an Alertmanager that refuses what is posted, and would again."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: the redirect is the answer."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Follow none."""


def _address(url: str) -> tuple[str, str]:
    """Split a URL into its address without a user, and "user:password", "" without one; raises
    SlidestatError for what is no URL.
    """
    checked_address(url, "Alertmanager", "http://127.0.0.1:9093")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        is_one = parts.scheme in ("http", "https") and host and not re.search(r"\s", url)
        _ = parts.port
    except ValueError:
        is_one = False
    if not is_one:
        raise SlidestatError(
            "The URL of the Alertmanager is not valid.", "Write it as http://127.0.0.1:9093."
        )
    user, _, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=place)), unquote(user)


def _now_ms() -> int:
    return int(time.time() * 1_000)
