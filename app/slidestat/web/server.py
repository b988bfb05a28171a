"""The web server of a worker: Faust's, with our routes and none of its own.

It runs in a thread and on a loop of its own, and looks at the states between two steps of the work
(live/looks.py): so it sees them as a batch left them, and the work does not wait for requests.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import cast

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.web.drivers.aiohttp import Web
from prometheus_client import CollectorRegistry
from yarl import URL

from slidestat.faust.delivery import BatchApp
from slidestat.faust.worker.resources import open_files
from slidestat.live.batch_traces import BatchTraces
from slidestat.live.live_topology import LiveTopology
from slidestat.live.looks import Looks
from slidestat.options import TOKEN_VARIABLE
from slidestat.schemas.query import Fault
from slidestat.web.address import WORKER_HEADER, WebAddress, ip_of
from slidestat.web.answers.history import History
from slidestat.web.errors import HttpError, answer_errors
from slidestat.web.metrics import worker_registry
from slidestat.web.otlp import sending, wanted_traces
from slidestat.web.peers import Peers
from slidestat.web.routes import Routes

# The live page: a few files, open to every client of the worker: they have no data.
#
# The page asks the API's routes, with the token if there is one. It may load nothing from
# elsewhere, run no script but these files, and be shown inside no other page.

PAGE_PATH = "/"
STATIC_PATH = "/static/"

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Asked for each time, and sent only when it has changed: a new version is there at once.
    "Cache-Control": "no-cache",
}


class Page:
    """The files of the page, read once; no other file is served."""

    def __init__(self) -> None:
        self._files = dict(_files(files("slidestat.web") / "static"))

    def add_to(self, app: web.Application) -> None:
        """Route to the files."""
        paths = PAGE_PATH, STATIC_PATH + "{path:.+}"
        app.add_routes([web.get(path, self.serve) for path in paths])

    async def serve(self, request: web.Request) -> web.Response:
        """Serve the page itself, or a file that it loads."""
        path = request.match_info.get("path", "index.html")
        body = self._files.get(path)
        if body is None:
            raise web.HTTPNotFound
        tag = hashlib.sha256(body).hexdigest()
        response = web.Response(
            body=body, content_type=_TYPES[path[path.rindex(".") :]], charset="utf-8"
        )
        if any(known.value == tag for known in request.if_none_match or ()):
            response = web.Response(status=304)
        response.headers.update(_HEADERS)
        response.etag = tag
        return response


def is_page(path: str) -> bool:
    """Return whether a request for this path is one for the page or its files."""
    return path == PAGE_PATH or path.startswith(STATIC_PATH)


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(tuple(_TYPES)):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


# Access: the bearer of a token, or, without a token, anybody on this machine. With the token for
# looking one may GET what there is, and not speak as a worker of the group.

# For probes, which carry no token; their answers show no data.
_OPEN_PATHS = frozenset(("/healthz", "/readyz"))
_LOOKS = frozenset(("GET", "HEAD"))


def guard(token: str | None, view_token: str | None = None) -> Middleware:
    """Return a middleware that lets only permitted requests through."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is None:
            _check_host(request)
        elif request.path not in _OPEN_PATHS and not is_page(request.path):
            is_view = view_token is not None and _bears(request, view_token)
            if not is_view and not _bears(request, token):
                raise HttpError(
                    401,
                    "The request does not carry the worker's token.",
                    "Send the header `Authorization: Bearer TOKEN`.",
                    {"WWW-Authenticate": 'Bearer realm="slidestat"'},
                )
            if is_view and (request.method not in _LOOKS or WORKER_HEADER in request.headers):
                raise HttpError(
                    403,
                    "The request carries the token for looking, and asks for more.",
                    f"Send the token of {TOKEN_VARIABLE}.",
                )
        return await handler(request)

    return check


def _bears(request: web.Request, token: str) -> bool:
    """Return whether a request carries a token."""
    shown = request.headers.get("Authorization", "")
    scheme, _, rest = shown.partition(" ")
    # The scheme's name may be written in any case.
    given = f"{scheme.capitalize()} {rest.strip()}".encode("utf-8", "replace")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def _check_host(request: web.Request) -> None:
    """Refuse a request that names another host than this machine.

    A page of a strange site can have its own name resolve to this machine, and a browser would give
    it the answers as its own: only callers that use one of this machine's own names get them.
    """
    try:
        host = URL.build(scheme="http", authority=request.host).host
    except ValueError:
        host = None
    if host is None or ip_of(host) != "loopback":
        raise HttpError(
            403,
            f"The worker answers to names of its own machine, not to {request.host!r}.",
            "Call it as 127.0.0.1, or set a token, as for use from elsewhere.",
        )


# Connections to a worker at once: each takes a descriptor, and a table of RocksDB that gets none
# ends the worker.
#
# aiohttp closes a connection that has sent nothing, or half a header, for its keep-alive time; it
# has no limit of their number. One beyond ours gets an error and is closed before anything of it is
# read.

MOST_CONNECTIONS = 256
# Connections may have a quarter of the open files; 128 more, as many as wait to be accepted, may be
# open for a moment.
_SHARE = 4

_FULL = msgspec.json.encode(
    Fault("The worker has as many connections as it takes.", "Ask again in a moment.")
)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)


def most_connections() -> int:
    """Return how many connections this process takes: 256, fewer where it may open few files."""
    return min(MOST_CONNECTIONS, open_files() // _SHARE)


class LimitedSite(web.SockSite):
    """A site on a socket that listens already, with a limit of connections."""

    async def start(self) -> None:
        """Accept connections."""
        await web.BaseSite.start(self)
        most = most_connections()
        server = cast(web.Server, self._runner.server)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Entrance(server, most), sock=self._sock, backlog=self._backlog
        )


class _Entrance(asyncio.Protocol):
    """A protocol that hands a connection on to aiohttp, or refuses it."""

    def __init__(self, server: web.Server, most: int) -> None:
        self._server = server
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        if len(self._server.connections) >= self._most:
            stream.write(_REFUSAL)
            stream.close()
            return
        protocol = self._server()
        stream.set_protocol(protocol)
        protocol.connection_made(stream)


# Logs only that a client sent what is no HTTP, with a trace each time.
_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.CRITICAL)

# Bytes: a key of 256 characters, percent-encoded, and as many of a cursor, fit well.
_LONGEST_LINE = 32_768
# A question under way when the worker ends has this long.
_SHUTDOWN_S = 1.0
# A connection may be without a whole header for so long: a new one, and one between two questions.
IDLE_S = 15.0
# Time for the rest of a request that was answered before all of it was read, such as its body.
_LINGER_S = 1.0


@dataclass(frozen=True)
class QueryServer:
    """A server at an address."""

    address: WebAddress
    history: History

    @property
    def canonical_url(self) -> str:
        """The URL by which the workers of the group know it."""
        return self.address.canonical_url

    def server(self, app: BatchApp, topologies: Mapping[str, LiveTopology]) -> Web:
        """Return the server of these topologies, by name."""
        app.traces = wanted_traces()
        return _Server(app, self.address, topologies, self.history)


class _Server(Web):
    """A server like Faust's on a socket that listens already."""

    # Faust's own pages would show tables to anyone.
    default_blueprints = ()
    production_blueprints = ()
    debug_blueprints = ()
    optional_blueprints = ()

    def __init__(
        self,
        app: BatchApp,
        address: WebAddress,
        topologies: Mapping[str, LiveTopology],
        history: History,
    ) -> None:
        super().__init__(app)
        self._address = address
        self._looks = Looks()
        peers = Peers(
            address, lambda: cast(PartitionAssignor, app.assignor).external_topic_distribution
        )
        self.web_app = application(
            topologies,
            peers,
            address,
            lambda: cast(TableManager, app.tables).recovery.active_remaining_total(),
            history,
            self._looks,
            app.traces,
        )
        self._runner = runner(self.web_app)

    async def on_start(self) -> None:
        """Start on the loop of the work: the thread comes with it (`web_in_thread`)."""
        self._looks.open(asyncio.get_running_loop())
        await super().on_start()

    def _create_site(self) -> web.BaseSite:
        return LimitedSite(self._runner, self._address.listener)


def application(
    topologies: Mapping[str, LiveTopology],
    peers: Peers,
    address: WebAddress,
    remaining: Callable[[], int],
    history: History,
    looks: Looks,
    traces: BatchTraces | None = None,
) -> web.Application:
    """Return the application with its routes, the page, access control and error responses.

    `remaining` returns the number of changelog records the worker still has to read, `history` what
    was emitted of a key; `looks` sees the states; `traces` are those of batches, to be sent.
    """

    async def sign(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers[WORKER_HEADER] = address.worker

    made = web.Application(middlewares=[answer_errors, guard(address.token, address.view_token)])
    made.on_response_prepare.append(sign)
    made.cleanup_ctx.append(peers.open)
    metrics = worker_registry(topologies, remaining)
    made.cleanup_ctx.append(partial(_sending, metrics, address.worker, looks, traces))
    Routes(topologies, peers, address, remaining, history, looks, metrics).add_to(made)
    Page().add_to(made)
    return made


async def _sending(
    metrics: CollectorRegistry,
    worker: str,
    looks: Looks,
    traces: BatchTraces | None,
    _app: web.Application,
) -> AsyncIterator[None]:
    async with sending(metrics, worker, looks, traces):
        yield


def runner(made: web.Application) -> web.AppRunner:
    """Return the runner that serves it."""
    return web.AppRunner(
        made,
        access_log=None,
        logger=_protocol_log,
        shutdown_timeout=_SHUTDOWN_S,
        max_line_size=_LONGEST_LINE,
        keepalive_timeout=IDLE_S,
        lingering_time=_LINGER_S,
    )
