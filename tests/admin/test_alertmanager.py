"""An Alertmanager is told what fires: what it takes for firing is what the topic's changes say."""

import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Thread
from typing import Any

import msgspec
import pytest
import trustme
from confluent_kafka import Producer
from hypothesis import given, strategies as st

from slidestat.admin.alertmanager import (
    AGAIN_MS,
    LASTS_MS,
    OVER_MS,
    AlertRelay,
    RelayedAlerts,
)
from slidestat.errors import SlidestatError
from slidestat.kafka.read.topic_reader import AlertReader, ChangeRecord
from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.emission import Figure
from tests.admin.alertmanager import Alerts, Labels, alertmanager, labels
from tests.commands import RunCli
from tests.conftest import MakeTopic

NOW_MS = 1_800_000_000_000
P99 = Figure("quantile", 605.5, 600.0, 611.5, window_ms=300_000, quantile=0.99)


def change(
    key: str, state: str, certainty: str = "certain", end_ms: int = NOW_MS - 10_000, **texts: Any
) -> AlertChange:
    return AlertChange(
        *("latency", "slow", key, end_ms),
        *(AlertState(state), Certainty(certainty), end_ms, [P99]),
        *("requests", 0, 7),
        **texts,
    )


def labels_of(key: str, certainty: str = "certain", **others: str) -> Labels:
    own = {"alertname": "slow", "topology": "latency", "key": key, "certainty": certainty}
    return labels(own | others)


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


@dataclass
class Model:
    """What fires by the changes, each alert with the certainty of its beginning."""

    firing: dict[str, Labels] = field(default_factory=dict)

    def take(self, it: AlertChange) -> None:
        self.firing.pop(it.key, None)
        if it.state == "firing":
            self.firing[it.key] = labels_of(it.key, it.certainty, **it.labels)

    def labels(self) -> set[Labels]:
        return set(self.firing.values())


def tell(relayed: RelayedAlerts, manager: Alerts, now: int) -> int:
    """Tell what is due as a POST does; how many alerts that were."""
    due = relayed.due(now)
    body = msgspec.json.encode([told.alert for told in due])
    if due and manager.take(body) == 200:
        relayed.posted(due, now)
    return len(due)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_what_it_takes_for_firing_is_what_the_changes_say(seed: int, steps: int) -> None:
    """Whatever comes in one go, is sent twice or is read again from the first record, however often
    it answers with an error: once it has taken what is due, it knows each alert that fires, and no
    other. It is told of none that fired and was over while nobody told it.
    """
    random = Random(seed)
    relayed, manager, model = RelayedAlerts(), Alerts(), Model()
    log: list[AlertChange] = []
    now = NOW_MS
    ever: set[Labels] = set()
    for _ in range(steps):
        now += random.choice([0, 300, 30_000])
        many = [
            change(
                random.choice("abc"),
                random.choice(["firing", "resolved"]),
                random.choice(["certain", "likely"]),
                random.choice([5, NOW_MS - 1, NOW_MS + 10**9]),
                labels=random.choice([{}, {"team": "a"}, {"team": "b"}]),
            )
            for _ in range(random.choice([0, 1, 4]))
        ]
        log += many
        for it in log if random.random() < 0.1 else many + many:
            relayed.take(it, now)
        for it in many:
            model.take(it)
        before = len(manager.posts)
        manager.answers = random.choice([[], [503]])
        tell(relayed, manager, now)
        manager.answers = []
        tell(relayed, manager, now)
        assert tell(relayed, manager, now) == 0
        assert manager.firing(moment(now)) == model.labels()
        ever |= model.labels()
        assert {labels(alert.labels) for post in manager.posts[before:] for alert in post} <= ever


def test_a_provisional_alert_is_annotated_until_it_is_confirmed() -> None:
    """It is one alert: the same labels, sent again at once."""
    relayed, manager = RelayedAlerts(), Alerts()
    final = change("a", "firing")
    relayed.take(msgspec.structs.replace(final, provisional=True), NOW_MS)
    assert tell(relayed, manager, NOW_MS) == 1
    relayed.take(final, NOW_MS + 1)
    assert tell(relayed, manager, NOW_MS + 1) == 1
    (first,), (second,) = manager.posts
    assert first.labels == second.labels
    assert first.annotations["provisional"] == "true"
    assert "provisional" not in second.annotations
    relayed.take(change("a", "resolved"), NOW_MS + 2)
    assert tell(relayed, manager, NOW_MS + 2) == 1
    assert manager.firing(moment(NOW_MS + 2)) == set()


def test_texts_that_are_declared_are_labels_and_annotations() -> None:
    """A summary of one's own takes the place of the usual one; a runbook has its usual name."""
    relayed, manager = RelayedAlerts(), Alerts()
    texts = {"summary": "Slow.", "description": "Very\nslow."}
    runbook = "https://wiki.example.com/slow"
    of_team = {"labels": {"team": "shop"}, "annotations": texts, "runbook": runbook}
    relayed.take(change("a", "firing", severity="page", **of_team), NOW_MS)
    tell(relayed, manager, NOW_MS)
    (told,) = manager.posts[0]
    assert labels(told.labels) == labels_of("a", severity="page", team="shop")
    assert told.annotations == texts | {
        "figures": "quantile 0.99 605.5 in [600, 611.5]",
        "window_end": "2027-01-15T07:59:50Z",
        "runbook_url": runbook,
    }


def test_what_fires_is_told_each_minute_and_lasts_for_four() -> None:
    """Nobody that has died keeps an alert firing; nobody that lives lets it end."""
    relayed, manager = RelayedAlerts(), Alerts()
    relayed.take(change("a", "firing"), NOW_MS)
    assert tell(relayed, manager, NOW_MS) == 1
    (told,) = manager.posts[0]
    assert told.startsAt == moment(NOW_MS - 10_000)
    assert told.annotations["summary"] == "slow of a: quantile 0.99 605.5 in [600, 611.5]"
    assert told.annotations["window_end"] == "2027-01-15T07:59:50Z"
    assert tell(relayed, manager, NOW_MS + AGAIN_MS - 1) == 0
    assert tell(relayed, manager, NOW_MS + AGAIN_MS) == 1
    assert tell(relayed, manager, NOW_MS + 2 * AGAIN_MS) == 1
    last = NOW_MS + 2 * AGAIN_MS + LASTS_MS
    assert manager.firing(moment(last - 1)) == {labels_of("a")}
    assert manager.firing(moment(last)) == set()
    assert tell(relayed, manager, NOW_MS - 3_600_000) == 1  # The clock was put back.


def test_what_is_written_again_fires_since_its_first_record() -> None:
    """It is no news, whatever its figures are now."""
    relayed, manager = RelayedAlerts(), Alerts()
    for day in range(3):
        now = NOW_MS + day * 86_400_000
        relayed.take(change("a", "firing", end_ms=now - 10_000), now)
        assert [one.is_new for one in relayed.due(now)] == [day == 0]
        assert tell(relayed, manager, now) == 1
        (told,) = manager.posts[-1]
        assert told.startsAt == moment(NOW_MS - 10_000)
        assert told.endsAt == moment(now + LASTS_MS)


def test_what_is_over_is_told_for_a_quarter_of_an_hour() -> None:
    """An Alertmanager that took it, and was started again before it told its receivers, knows of
    nothing: it is posted with the time at which it was over, each minute, and told of once.
    """
    relayed, manager = RelayedAlerts(), Alerts()
    relayed.take(change("a", "firing"), NOW_MS)
    assert tell(relayed, manager, NOW_MS) == 1
    relayed.take(change("a", "resolved", end_ms=NOW_MS), NOW_MS + 5_000)
    ends = moment(NOW_MS + 5_000)
    for minute in range(OVER_MS // AGAIN_MS + 1):
        now = NOW_MS + 5_000 + minute * AGAIN_MS
        assert [(it.is_over, it.is_new) for it in relayed.due(now)] == [(True, minute == 0)]
        assert tell(relayed, manager, now) == 1
        assert manager.posts[-1][0].endsAt == ends
        assert tell(relayed, manager, now + AGAIN_MS - 1) == 0
    assert tell(relayed, manager, NOW_MS + 86_400_000) == 0


def test_one_that_fires_again_is_not_over() -> None:
    """It is sent as what fires, at once, and no more as what is over."""
    relayed, manager = RelayedAlerts(), Alerts()
    for at, state in enumerate(["firing", "resolved", "firing"]):
        now = NOW_MS + at
        relayed.take(change("a", state, end_ms=now - 10_000), now)
        assert tell(relayed, manager, now) == 1
    assert tell(relayed, manager, NOW_MS + AGAIN_MS + 2) == 1
    assert manager.firing(moment(NOW_MS + AGAIN_MS)) == {labels_of("a")}


NO_URLS = ["", "127.0.0.1:9093", "http://", "file:///x", "http://[::1", "http://.x", "http://a:b"]


@pytest.mark.parametrize("url", [*NO_URLS, "http://a b"])
def test_a_url_that_is_none(url: str) -> None:
    """It is refused before anything is read."""

    def reader() -> AlertReader:
        raise AssertionError("nothing is to be read")

    with pytest.raises(SlidestatError, match=r"Alertmanager('s address| is not valid)"):
        AlertRelay([url], reader, print, ["slow"])


class _Login(BaseHTTPRequestHandler):
    """Sends whoever posts to a page, as a proxy does that wants a login."""

    def do_POST(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/login")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html>Log in")

    def log_message(self, *_args: object) -> None: ...


class _Page(_Login):
    """The same, which answers with the page at once."""

    def do_POST(self) -> None:
        self.do_GET()


@pytest.mark.parametrize(
    ("answer", "told"), [(_Login, "HTTP status 302"), (_Page, "answers alerts with a page")]
)
def test_a_login_is_a_refusal(answer: type[_Login], told: str) -> None:
    """To follow a redirect, or take the page for an answer, would lose what is posted, and look
    like success.
    """
    one = ChangeRecord(change("a", "firing"), b"")

    class Reader:
        is_at_end = True

        def batches(self) -> Iterator[list[ChangeRecord]]:
            yield [one]

    with HTTPServer(("127.0.0.1", 0), answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://user:secret@127.0.0.1:{server.server_port}"
        with pytest.raises(SlidestatError, match=told) as refusal:
            AlertRelay([url], Reader, print, ["slow"]).run()  # type: ignore[arg-type]
        server.shutdown()
    assert "secret" not in str(refusal.value)


class Once:
    """A topic with one alert that fires; then the command is ended."""

    is_at_end = True

    def __init__(self, again: Callable[[], object] = lambda: None) -> None:
        self._again = again

    def batches(self) -> Iterator[list[ChangeRecord]]:
        yield [ChangeRecord(change("a", "firing"), b"")]
        self._again()
        yield [ChangeRecord(change("b", "firing"), b"")]
        raise KeyboardInterrupt


def relay(urls: list[str], reader: "Once | Many", said: list[str]) -> None:
    """Run a relay until its topic ends."""
    with pytest.raises(KeyboardInterrupt):
        AlertRelay(urls, lambda: reader, said.append, ["slow"]).run()  # type: ignore[arg-type, return-value]


def test_each_of_several_is_told_whatever_the_others_do() -> None:
    """One that is away and one that refuses keep nothing from the third; all that refuse end it."""
    said: list[str] = []
    with alertmanager() as (url, manager), alertmanager() as (other, _):
        urls = ["http://127.0.0.1:9", f"{other}/elsewhere", url]
        relay(urls, Once(), said)
        with pytest.raises(SlidestatError, match="HTTP status 404"):
            AlertRelay([f"{url}/a", f"{other}/b"], Once, said.append, ["slow"]).run()  # type: ignore[arg-type]
    assert set(manager.known) == {labels_of("a"), labels_of("b")}
    assert any("elsewhere/api/v2/alerts refuses alerts, HTTP status 404" in it for it in said)
    assert any("127.0.0.1:9/api/v2/alerts does not take alerts" in it for it in said)
    assert f"{url}: firing certain slow of b: quantile 0.99 605.5 in [600, 611.5]" in said


class Many:
    """A topic with many alerts that fire; then the command is ended."""

    is_at_end = True

    def __init__(self, count: int) -> None:
        self._count = count

    def batches(self) -> Iterator[list[ChangeRecord]]:
        changes = [change(f"{i}", "firing") for i in range(self._count)]
        yield [ChangeRecord(it, b"") for it in changes]
        raise KeyboardInterrupt


def test_one_alert_that_is_refused_keeps_nothing_from_the_others() -> None:
    """Nor does a proxy that takes no long bodies. It is told of once. What refuses all is no
    Alertmanager.
    """
    said: list[str] = []
    with alertmanager() as (url, manager):
        manager.refused, manager.most_bytes = {"7"}, 20_000
        relay([url], Many(600), said)
    assert set(manager.known) == {labels_of(f"{i}") for i in range(600) if i != 7}
    (refusal,) = [line for line in said if "refuses" in line]
    assert "HTTP status 400: not now. It is left out: firing certain slow of 7: " in refusal
    with alertmanager() as (url, manager):  # So many are refused that the rest has its turn later.
        manager.refused = {f"{i}" for i in range(100, 130)}
        relay([url], Many(600), said)
    assert {labels_of(f"{i}") for i in range(100)} <= set(manager.known)
    with alertmanager() as (url, manager):
        manager.most_bytes = 10
        with pytest.raises(SlidestatError, match="HTTP status 413"):
            AlertRelay([url], lambda: Many(600), said.append, ["slow"]).run()  # type: ignore[arg-type, return-value]
        assert not manager.posts


def test_a_token_in_a_file_is_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renewed while the command runs, by a private authority's server as well."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = SSLContext(PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    token = tmp_path / "token"
    token.write_text("first-token\n")
    monkeypatch.setenv("ALERTMANAGER_TOKEN_FILE", str(token))
    monkeypatch.setenv("ALERTMANAGER_CA_FILE", str(tmp_path / "ca.pem"))
    said: list[str] = []
    with alertmanager(tls=tls) as (url, manager):
        relay([url], Once(lambda: token.write_text("second-token")), said)
        assert manager.users == ["Bearer first-token", "Bearer second-token"]
        monkeypatch.delenv("ALERTMANAGER_CA_FILE")
        relay([url], Once(), said)
    assert "certificate verify failed" in said[-1]
    assert set(manager.known) == {labels_of("a"), labels_of("b")}


def test_a_user_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a header; one that is unknown is told which variables there are."""
    monkeypatch.setenv("ALERTMANAGER_USERNAME", "alice")
    monkeypatch.setenv("ALERTMANAGER_PASSWORD", "open sesame")
    with alertmanager() as (url, manager):
        relay([url], Once(), [])
        assert set(manager.users) == {f"Basic {b64encode(b'alice:open sesame').decode()}"}
        manager.answers = [401]
        with pytest.raises(SlidestatError, match="HTTP status 401") as refusal:
            AlertRelay([url], Once, print, ["slow"]).run()  # type: ignore[arg-type]
    assert "ALERTMANAGER_TOKEN, or ALERTMANAGER_USERNAME and" in refusal.value.advice


@pytest.mark.parametrize(
    ("variables", "url", "error"),
    [
        (
            "USERNAME=a",
            "http://a",
            "USERNAME is set, and ALERTMANAGER_PASSWORD is not",
        ),
        ("PASSWORD=abcd", "http://a", "and ALERTMANAGER_USERNAME is not"),
        ("TOKEN=abcd USERNAME=a", "http://a", "TOKEN is set, and so is ALERTMANAGER_USERNAME"),
        ("TOKEN=abcd", "http://u:p@a", "The URL of http://a has a user"),
        ("TOKEN_FILE=/none", "http://a", "ALERTMANAGER_TOKEN_FILE names /none, which cannot be"),
        ("CA_FILE=/none", "https://a", "ALERTMANAGER_CA_FILE names /none, which has no cert"),
    ],
)
def test_credentials_that_cannot_be(
    variables: str, url: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused before anything is read."""
    for variable in variables.split():
        monkeypatch.setenv(*f"ALERTMANAGER_{variable}".split("=", 1))  # type: ignore[arg-type]
    with pytest.raises(SlidestatError, match=re.escape(error)):
        AlertRelay([url], Once, print, ["slow"])  # type: ignore[arg-type]


def test_an_alert_that_is_not_declared_is_not_told() -> None:
    """Nothing would ever say that it is over."""
    said: list[str] = []

    class Reader:
        is_at_end = True

        def batches(self) -> Iterator[list[ChangeRecord]]:
            yield [ChangeRecord(change("a", "firing"), b"")]
            raise KeyboardInterrupt

    with alertmanager() as (url, manager), pytest.raises(KeyboardInterrupt):
        AlertRelay([url], Reader, said.append, ["another"]).run()  # type: ignore[arg-type]
    assert not manager.posts
    assert not said


ALERTING = """
name = "{name}"
source = "requests"
span = "1h"
every = "1m"

[[alerts]]
name = "slow"
when = "p99 > 500"
"""


def until(is_so: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_an_alertmanager_is_told_of_a_topic(
    bootstrap_servers: str, make_topic: MakeTopic, topic_name: str, tmp_path: Path
) -> None:
    """From the start it knows what fires of all that was, then each change; it may be away for a
    while, or busy. Ctrl-C ends the telling.
    """
    topic = make_topic("alerts", 2)
    file = tmp_path / "latency.toml"
    file.write_text(ALERTING.format(name=topic_name))
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def send(key: str, state: str) -> None:
        it = change(key, state, end_ms=int(time.time() * 1_000) - 60_000)
        producer.produce(topic, msgspec.json.encode(it), partition=ord(key) % 2)
        producer.flush()

    for key, state in (("a", "firing"), ("b", "firing"), ("b", "resolved"), ("c", "firing")):
        send(key, state)
    said = tmp_path / "said"
    with said.open("w") as out, alertmanager() as (url, manager):
        manager.answers = [503]
        of_broker = ("--bootstrap", bootstrap_servers)
        telling = subprocess.Popen(
            [sys.executable, "-m", "slidestat", "alertmanager", file, "--url", url, *of_broker],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "app")},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            firing = lambda: manager.firing(datetime.now(UTC))  # noqa: E731
            until(lambda: firing() == {labels_of("a"), labels_of("c")}, "what fires at the start")
            assert len(manager.posts) == 1
            send("d", "firing")
            send("a", "resolved")
            until(lambda: firing() == {labels_of("c"), labels_of("d")}, "the changes")
            assert labels_of("b") not in manager.known
        except BaseException:
            telling.kill()
            raise
    try:
        send("c", "resolved")
        time.sleep(1)
        with alertmanager(int(url.rpartition(":")[2])) as (_, back):
            until(lambda: labels_of("c") in back.known, "what it missed")
            over = back.known[labels_of("c")].endsAt
            assert over is not None
            assert over <= datetime.now(UTC)
        line = "resolved certain slow of c: quantile 0.99 605.5 in [600, 611.5]\n"
        until(lambda: line in said.read_text(), "what it says")
        telling.send_signal(signal.SIGINT)
        assert telling.wait(30) == 0
    finally:
        telling.kill()
        telling.wait(30)
    assert "HTTP status 503. Trying again in" in said.read_text()
    assert said.read_text().endswith(line)


def test_an_alertmanager_that_refuses(
    bootstrap_servers: str, make_topic: MakeTopic, topic_name: str, tmp_path: Path, run_cli: RunCli
) -> None:
    """What is none, or a topology without alerts, is told with what to do."""
    topic = make_topic("alerts", 1)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, msgspec.json.encode(change("a", "firing")))
    producer.flush()
    file = tmp_path / "latency.toml"
    file.write_text(ALERTING.format(name=topic_name))
    with alertmanager() as (url, _):
        done = run_cli("alertmanager", str(file), "--url", f"{url}/elsewhere")
    assert done.returncode == 2
    assert "refuses alerts, HTTP status 404: not now" in done.stderr
    assert "Check that --url" in done.stderr
    done = run_cli("alertmanager", "flights", "--url", "http://127.0.0.1:9093")
    assert (done.returncode, "flights has no alerts" in done.stderr) == (2, True)
