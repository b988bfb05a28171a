"""A schema registry as far as Confluent's client needs one: schemas get numbers, and are given out.

A stand-in: the real ones take Docker. What is on the socket is what their documentation says.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from uuid import NAMESPACE_URL, uuid5


class StandIn(ThreadingHTTPServer):
    """Listens on a port of this machine, a free one unless it is told which. `asked` are the
    requests that came, `users` their headers of authorization, `versions` the numbers of each
    subject's schemas; with `refuse`, an HTTP status, it takes no schema; with `fail`, it gives none
    out. Without `has_guids` it is as those before Confluent's version 8.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.schemas: list[dict[str, object]] = []
        self.versions: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.users: list[str | None] = []
        self.refuse: int | None = None
        self.fail: int | None = None
        self.has_guids = True

    def guid(self, number: int) -> str:
        """The GUID of the schema of this number."""
        return str(uuid5(NAMESPACE_URL, json.dumps(self.schemas[number - 1])))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        """POST /subjects/SUBJECT/versions"""
        path = self._asked()
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refuse is not None:
            self._answer(self.server.refuse, {"error_code": 40901, "message": "incompatible"})
            return
        assert path.split("/")[0] == "subjects"
        assert path.split("/")[2] == "versions"
        if schema not in self.server.schemas:
            self.server.schemas.append(schema)
        number = self.server.schemas.index(schema) + 1
        self._answer(200, {"id": number, "guid": self.server.guid(number)})

    def do_GET(self) -> None:
        """GET /schemas/ids/NUMBER, /schemas/guids/GUID and /subjects/SUBJECT/versions/VERSION"""
        parts = self._asked().split("/")
        if self.server.fail is not None:
            self._answer(
                self.server.fail, {"error_code": self.server.fail, "message": "in the backend"}
            )
            return
        if parts[0] == "subjects":
            self._answer_version(parts[1], int(parts[3]))
            return
        kind, what, number = parts
        assert kind == "schemas"
        if what == "guids":
            self._answer_guid(number)
            return
        assert what == "ids"
        if not 1 <= int(number) <= len(self.server.schemas):
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})
            return
        self._answer(200, self.server.schemas[int(number) - 1])

    def _answer_guid(self, guid: str) -> None:
        if not self.server.has_guids:
            self._answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
            return
        for number, schema in enumerate(self.server.schemas, 1):
            if self.server.guid(number) == guid:
                self._answer(200, schema | {"id": number, "guid": guid})
                return
        self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _answer_version(self, subject: str, version: int) -> None:
        numbers = self.server.versions.get(subject, [])
        if not 1 <= version <= len(numbers):
            self._answer(404, {"error_code": 40402, "message": "Version not found"})
            return
        named = {"subject": subject, "version": version, "id": numbers[version - 1]}
        self._answer(200, self.server.schemas[numbers[version - 1] - 1] | named)

    def _asked(self) -> str:
        path = self.path.partition("?")[0].strip("/")
        self.server.asked.append(f"{self.command} {path}")
        self.server.users.append(self.headers["Authorization"])
        return path

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def stand_in(port: int = 0) -> Iterator[StandIn]:
    """One that answers while the context lasts."""
    with StandIn(port) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
