"""Send the alerts of a topic to an Alertmanager, as they come, until it is ended."""

import http.client
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from slidestat.addresses import checked_address, secret
from slidestat.errors import SlidestatError
from slidestat.kafka.read.topic_reader import AlertReader
from slidestat.kafka.settings import file_of, trusting
from slidestat.pauses import Pauses
from slidestat.redaction import without_user
from slidestat.schemas.alert import AlertChange, AlertState
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text import bounds_text, change_text, iso_time, printable, rfc3339

# Alerts for an Alertmanager: firing ones, posted again and again, and resolved ones.
#
# An Alertmanager forgets an alert that is not posted again for a while, so that its sender may die;
# Prometheus posts in the same way. The changes that a topic has are taken in its order, and the
# newest one of an alert and a key counts.

AGAIN_MS = 60_000
"""The interval at which a firing alert is posted again."""

LASTS_MS = 4 * AGAIN_MS
"""The time after which Alertmanager resolves an alert that is not posted again."""

OVER_MS = 15 * AGAIN_MS
"""The time for which a resolved alert is posted again, as Prometheus does: Alertmanager tells its
receivers some minutes later, and forgets it if it is started again meanwhile.
"""


class PostableAlert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert as Alertmanager takes it, `postableAlert` of version 2 of its API: it fires from
    `starts_at` until `ends_at`, and is resolved where that is past.
    """

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str


Labels = tuple[tuple[str, str], ...]
"""The labels of an alert, by which it is known; as sure as it was when it began to fire."""


@dataclass
class _Relayed:
    change: AlertChange
    labels: Labels
    starts_ms: int
    posted_ms: int | None = None
    is_refused: bool = False


@dataclass
class _Resolved:
    relayed: _Relayed
    ends_ms: int
    posted_ms: int | None = None


class DueAlert(NamedTuple):
    """An alert to be posted at some time: whether resolved, or new as what it is now."""

    relayed: _Relayed
    is_over: bool
    is_new: bool
    alert: PostableAlert


class RelayedAlerts:
    """The alerts that fire, and those that Alertmanager takes for firing: a change of each."""

    def __init__(self) -> None:
        self._firing: dict[tuple[str, str, str], _Relayed] = {}
        self._over: dict[Labels, _Resolved] = {}

    def take(self, change: AlertChange, now_ms: int) -> None:
        """Take in the next change that the topic has, at `now_ms` by the clock."""
        is_firing = change.state is AlertState.FIRING
        labels = _labels(change)
        place = (change.topology, change.alert, change.key)
        known = self._firing.get(place)
        if is_firing and known is not None and known.labels == labels:
            # A provisional alert that is confirmed is posted at once.
            if known.change.provisional and not change.provisional and known.posted_ms:
                known.posted_ms = 0
            known.change = change  # Written again: it fires since its first one.
            return
        before = self._firing.pop(place, None)
        # An alert that was never posted need not be resolved. With other labels it is another one.
        if before is not None and before.posted_ms is not None:
            self._over[before.labels] = _Resolved(before, now_ms)
        if is_firing:
            over = self._over.pop(labels, None)
            # A resolution that was never posted: Alertmanager still takes it for firing.
            again = over.relayed if over is not None and over.posted_ms is None else None
            if again is not None and again.change == change:
                self._firing[place] = again  # The topic is read once more.
                return
            # The ends of windows of a sequence are no times, and an event clock that runs early
            # lies ahead.
            end = change.window_end_ms
            starts = end if EARLIEST_TIME_MS <= end < now_ms else now_ms - 1
            self._firing[place] = _Relayed(change, labels, starts, None if again is None else 0)

    def due(self, now_ms: int) -> list[DueAlert]:
        """Return the alerts that are resolved, new, or were posted too long ago."""
        over = [
            DueAlert(it.relayed, True, it.posted_ms is None, _postable(it.relayed, it.ends_ms))
            for it in self._over.values()
            if _is_due(it.posted_ms, now_ms)
        ]
        return over + [
            DueAlert(relayed, False, not relayed.posted_ms, _postable(relayed, now_ms + LASTS_MS))
            for relayed in self._firing.values()
            if _is_due(relayed.posted_ms, now_ms)
        ]

    def posted(self, posted: Iterable[DueAlert], now_ms: int) -> None:
        """Note that Alertmanager has accepted these, of a moment ago."""
        for one in posted:
            if not one.is_over:
                one.relayed.posted_ms = now_ms
            elif (over := self._over.get(one.relayed.labels)) is not None:
                over.posted_ms = now_ms
                if abs(now_ms - over.ends_ms) >= OVER_MS:
                    del self._over[one.relayed.labels]


def _is_due(posted_ms: int | None, now_ms: int) -> bool:
    # A clock may be put back.
    return posted_ms is None or abs(now_ms - posted_ms) >= AGAIN_MS


def _labels(change: AlertChange) -> Labels:
    severity = {"severity": change.severity} if change.severity else {}
    own = {
        "alertname": change.alert,
        "topology": change.topology,
        "key": change.key,
        "certainty": str(change.certainty),
    }
    return tuple({**own, **severity, **change.labels}.items())


def _postable(relayed: _Relayed, ends_ms: int) -> PostableAlert:
    change = relayed.change
    figures = "; ".join(map(bounds_text, change.figures))
    return PostableAlert(
        dict(relayed.labels),
        {
            "summary": f"{change.alert} of {change.key}: {figures}",
            **change.annotations,
            "figures": figures,
            "window_end": iso_time(change.window_end_ms),
            **({} if change.change is None else {"change": change_text(change.change)}),
            # No label: an alert that is confirmed is the same one.
            **({"provisional": "true"} if change.provisional else {}),
            **({"runbook_url": change.runbook} if change.runbook else {}),
        },
        rfc3339(relayed.starts_ms),
        rfc3339(max(ends_ms, relayed.starts_ms + 1)),
    )


_PATH = "/api/v2/alerts"
_TIMEOUT_S = 10.0
_MOST_AT_ONCE = 256
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
# The server is there, and can do nothing now.
_LATER = frozenset((408, 429))
# The server may have taken alerts before, and its token is being renewed.
_UNKNOWN_USER = frozenset((401, 403))
# One alert may be refused, or too many at once. A server that refuses this many refuses all.
_OF_ALERTS = frozenset((400, 413, 422))
_MOST_REFUSED = 16

USERNAME = "ALERTMANAGER_USERNAME"
PASSWORD = "ALERTMANAGER_PASSWORD"  # noqa: S105  a variable's name
TOKEN = "ALERTMANAGER_TOKEN"  # noqa: S105  a variable's name
CA_FILE = "ALERTMANAGER_CA_FILE"

_CHECK_URL = "Check that --url is that of an Alertmanager, with its path if it has one."

Say = Callable[[str], None]


class _AwayError(Exception):
    """An error of an Alertmanager that does not answer, or cannot now."""


class _RefusedError(SlidestatError):
    """An error of an Alertmanager that refuses what is posted, and would again."""

    is_of_alerts = False


def authorization() -> str | None:
    """Return the header `Authorization` from the variables, or from what their files hold now; None
    without them. Raises SlidestatError for variables that contradict each other.
    """
    user = os.environ.get(USERNAME)
    password, token = secret(os.environ, PASSWORD), secret(os.environ, TOKEN)
    if token and (user or password):
        raise SlidestatError(
            f"{TOKEN} is set, and so is {USERNAME if user else PASSWORD}.",
            "Unset one of them: it is not clear which holds.",
        )
    if bool(user) != bool(password):
        given, missing = (USERNAME, PASSWORD) if user else (PASSWORD, USERNAME)
        raise SlidestatError(
            f"{given} is set, and {missing} is not.", f"Set both, or {TOKEN} or {TOKEN}_FILE."
        )
    if token:
        return f"Bearer {token}"
    return _basic(f"{user}:{password}") if user else None


def _basic(user: str) -> str:
    return f"Basic {b64encode(user.encode()).decode()}"


class _Alertmanager:
    """An Alertmanager at a URL, and the alerts that it was sent."""

    def __init__(
        self, url: str, context: ssl.SSLContext, say: Say, *, has_credentials: bool
    ) -> None:
        address, user = _address(url)
        self.url = address.rstrip("/") + _PATH
        if user and has_credentials:
            raise SlidestatError(
                f"The URL of {address} has a user, and {TOKEN} or {USERNAME} is set.",
                "Leave one of them out: it is not clear which holds.",
            )
        self._user = user
        # A redirect would be followed without what is posted.
        self._open = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=context)
        ).open
        self._say = say
        self._pause = Pauses(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S)
        self._has_taken = False
        self.alerts = RelayedAlerts()
        self.refusal: _RefusedError | None = None

    def tell(self) -> None:
        """Post what is due, unless it is to be left alone for a while."""
        if not self._pause.is_over:
            return
        now = _now_ms()
        # Alerts that were refused before come last, so that they hold up no others.
        due = sorted(self.alerts.due(now), key=lambda one: one.relayed.is_refused)
        try:
            self._post_all(
                [due[i : i + _MOST_AT_ONCE] for i in range(0, len(due), _MOST_AT_ONCE)], now
            )
        except _RefusedError as error:
            self.refusal = error
            self._pause.begin()
        except _AwayError as error:
            pause = self._pause.begin()
            self._say(f"{self.url} does not take alerts: {error}. Trying again in {pause:.1f} s.")

    def _post_all(self, parts: list[list[DueAlert]], now: int) -> None:
        """Post the parts. If one is refused for what is in it, post its halves, and so on, down to
        the alert that is refused; this one is left out until it is due again.
        """
        refused: list[_RefusedError] = []
        has_taken = False
        while parts:
            some = parts.pop(0)
            try:
                self._post(some)
                self._pause.reset()
                has_taken = self._has_taken = True
                self.refusal = None
            except _RefusedError as error:
                is_enough = len(refused) == _MOST_REFUSED
                if is_enough and has_taken:
                    return  # The refused ones come last in the next round.
                if is_enough or not error.is_of_alerts:
                    raise
                if half := len(some) // 2:
                    parts[:0] = [some[:half], some[half:]]
                    continue
                (one,) = some
                refused.append(error)
                one.relayed.is_refused = True
                if one.is_new:
                    self._say(f"{error.message} It is left out: {_line(one)}")
            self.alerts.posted(some, now)
        if refused and not self._has_taken:
            raise refused[0]

    def _request(self, body: bytes) -> urllib.request.Request:
        headers = {"Content-Type": "application/json"}
        try:
            # Files are read each time: tokens in them are renewed.
            known = _basic(self._user) if self._user else authorization()
        except SlidestatError as error:
            raise _AwayError(error.message.rstrip(".")) from error
        if known:
            headers["Authorization"] = known
        return urllib.request.Request(self.url, body, headers, method="POST")  # noqa: S310  its scheme is checked

    def _post(self, some: Sequence[DueAlert]) -> None:
        request = self._request(msgspec.json.encode([one.alert for one in some]))
        try:
            with self._open(request, timeout=_TIMEOUT_S) as response:
                if response.read() and response.headers.get_content_type() == "text/html":
                    # A proxy that wants a login, or another server.
                    raise _RefusedError(
                        f"{self.url} answers alerts with a page, as no Alertmanager does.",
                        _CHECK_URL,
                    )
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace").strip()
            is_unknown = error.code in _UNKNOWN_USER
            if error.code >= 500 or error.code in _LATER or (is_unknown and self._has_taken):
                raise _AwayError(f"HTTP status {error.code}") from error
            refusal = _RefusedError(
                f"{self.url} refuses alerts, HTTP status {error.code}: {said or error.reason}.",
                f"Set {TOKEN}, or {USERNAME} and {PASSWORD}, to what it wants."
                if is_unknown
                else _CHECK_URL,
            )
            refusal.is_of_alerts = error.code in _OF_ALERTS
            raise refusal from error
        except (OSError, http.client.HTTPException) as error:
            raise _AwayError(str(getattr(error, "reason", error))) from error
        for one in some:
            if one.is_new:
                self._say(_line(one))


def _line(one: DueAlert) -> str:
    state = "resolved" if one.is_over else "firing"
    summary = printable(one.alert.annotations["summary"])
    return f"{state} {one.alert.labels['certainty']} {summary}"


class AlertRelay:
    """A relay that posts to the Alertmanagers at `urls` what fires by a topic of alerts.

    Once begun it continues when Alertmanagers or the brokers are away, trying again after 1 s, 2 s
    and so on up to a minute; firing alerts are posted again each minute meanwhile. Raises
    SlidestatError for a URL that is none, for credentials that cannot be, once every Alertmanager
    refuses what is posted, and where the topic cannot be read at the start.
    """

    def __init__(
        self,
        urls: Sequence[str],
        reader: Callable[[], AlertReader],
        say: Say,
        alerts: Collection[str],
    ) -> None:
        """Create the relay; `alerts` are the names of those that are posted."""
        authority = file_of(os.environ, CA_FILE)
        has_credentials = authorization() is not None
        context = trusting(CA_FILE, authority, "Alertmanager's")
        self._managers = [
            _Alertmanager(
                url,
                context,
                partial(_say_of, say, url) if len(urls) > 1 else say,
                has_credentials=has_credentials,
            )
            for url in dict.fromkeys(urls)
        ]
        if authority and not any(it.url.startswith("https:") for it in self._managers):
            raise SlidestatError(
                f"{CA_FILE} is set, and no Alertmanager has an https address.",
                f"Write https in --url, or unset {CA_FILE}.",
            )
        self._reader = reader
        self._say = say
        self._names = alerts
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
        """Read the topic from its first record: only all of it shows which alerts fire now."""
        reader = self._reader()
        for records in reader.batches():
            for record in records:
                if record.change.alert in self._names:
                    for manager in self._managers:
                        manager.alerts.take(record.change, _now_ms())
            if reader.is_at_end:
                self._has_begun = True
                self._read_pause.reset()
                self._tell()

    def _tell(self) -> None:
        for manager in self._managers:
            before = manager.refusal
            manager.tell()
            refusals = [it.refusal for it in self._managers if it.refusal is not None]
            if len(refusals) == len(self._managers):
                raise refusals[0]
            if manager.refusal is not None and manager.refusal is not before:
                self._say(f"{manager.refusal.message} It is tried again, at least each minute.")


def _say_of(say: Say, url: str, line: str) -> None:
    say(f"{without_user(url)}: {line}")


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
