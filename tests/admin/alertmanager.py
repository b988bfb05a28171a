"""An Alertmanager for tests: a real HTTP server that takes alerts as its API, version 2, says."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from re import compile as pattern
from ssl import SSLContext

import msgspec

_LABEL_NAME = pattern(r"[a-zA-Z_][a-zA-Z0-9_]*")
Labels = frozenset[tuple[str, str]]


class Postable(msgspec.Struct, forbid_unknown_fields=True):
    """`postableAlert` of its published OpenAPI document: an `alert`, whose labels are required,
    with times and annotations.
    """

    labels: dict[str, str]
    annotations: dict[str, str] = {}
    startsAt: datetime | None = None  # noqa: N815  its name there
    endsAt: datetime | None = None  # noqa: N815
    generatorURL: str | None = None  # noqa: N815


_decode = msgspec.json.Decoder(list[Postable]).decode


class Alerts:
    """What it knows: of each label set the alert that was told last."""

    def __init__(self) -> None:
        self.known: dict[Labels, Postable] = {}
        self.answers: list[int] = []
        self.posts: list[list[Postable]] = []
        self.users: list[str | None] = []
        self.refused: set[str] = set()
        self.most_bytes = 1 << 20

    def take(self, body: bytes) -> int:
        """Take a POST in; the status of its answer, 200 unless `answers` has others to give. It
        takes none of the keys `refused`, and all others of the same POST; the proxy before it takes
        no body that is too long.
        """
        if len(body) > self.most_bytes:
            return 413
        told = _decode(body)
        for alert in told:
            check(alert)
        if self.answers:
            return self.answers.pop(0)
        self.posts.append(told)
        taken = [alert for alert in told if alert.labels["key"] not in self.refused]
        self.known |= {labels(alert.labels): alert for alert in taken}
        return 200 if taken == told else 400

    def firing(self, now: datetime) -> set[Labels]:
        """The label sets of the alerts that are not resolved."""
        return {
            known
            for known, alert in self.known.items()
            if alert.endsAt is not None and alert.endsAt > now
        }


def check(alert: Postable) -> None:
    """As Alertmanager does before it takes an alert."""
    assert alert.labels
    assert all(_LABEL_NAME.fullmatch(name) for name in (*alert.labels, *alert.annotations))
    assert alert.startsAt is not None
    assert alert.startsAt.tzinfo is not None
    assert alert.endsAt is not None
    assert alert.startsAt < alert.endsAt


def labels(of: Mapping[str, str]) -> Labels:
    """What an alert is known by."""
    return frozenset(of.items())


@contextmanager
def alertmanager(port: int = 0, tls: SSLContext | None = None) -> Iterator[tuple[str, Alerts]]:
    """Its URL, and what it is told."""
    alerts = Alerts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            alerts.users.append(self.headers["Authorization"])
            right = self.headers["Content-Type"] == "application/json"
            status = alerts.take(body) if right and self.path == "/api/v2/alerts" else 404
            answer = b"" if status == 200 else b"not now"
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}", alerts
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
