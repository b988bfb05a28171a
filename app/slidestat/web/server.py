"""The web server of a worker: Faust's, with our routes and none of its own.

It runs in a thread and on a loop of its own, and looks at the states between two steps of the work
(live/looks.py): so it sees them as a batch left them, and the work does not wait for requests.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from faust.assignor.partition_assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.web.drivers.aiohttp import Web

from slidestat.faust.delivery import BatchApp
from slidestat.live.live_topology import LiveTopology
from slidestat.live.looks import Looks
from slidestat.web.access import guard
from slidestat.web.address import WebAddress
from slidestat.web.answers.history import History
from slidestat.web.connections import LimitedSite
from slidestat.web.errors import answer_errors
from slidestat.web.page import Page
from slidestat.web.peers import WORKER_HEADER, Peers
from slidestat.web.routes import Routes

# Logs only that a client sent what is no HTTP, with a trace each time.
_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.CRITICAL)

# Bytes: a key of 256 characters, percent-encoded, and as many of a cursor, fit well.
_LONGEST_LINE = 32_768
# A question under way when the worker ends has this long.
_SHUTDOWN_S = 1.0
# A connection may be without a whole header for so long: a new one, and one between two questions.
IDLE_S = 15.0
# What is left of a request that was answered before it was read, such as a body.
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
) -> web.Application:
    """Return the application with its routes, the page, access control and error responses.

    `remaining` returns the number of changelog records the worker still has to read, `history` what
    was emitted of a key; `looks` sees the states.
    """

    async def sign(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers[WORKER_HEADER] = address.worker

    made = web.Application(middlewares=[answer_errors, guard(address.token)])
    made.on_response_prepare.append(sign)
    made.cleanup_ctx.append(peers.open)
    Routes(topologies, peers, address, remaining, history, looks).add_to(made)
    Page().add_to(made)
    return made


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
