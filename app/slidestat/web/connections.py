"""How many may be connected to a worker at once: each connection takes a descriptor, and a table of
RocksDB that gets none ends the worker.

aiohttp closes a connection that has sent nothing, or half a header, for its keep-alive time; it has
no limit of their number. One beyond ours gets an error and is closed before anything of it is read.
"""

import asyncio
from typing import cast

import msgspec
from aiohttp import web

from slidestat.faust.worker.open_files import open_files
from slidestat.schemas.query import Fault

MOST_CONNECTIONS = 256
# Of the files that may be open, connections have a quarter; 128 more, as many as wait to be
# accepted, may be open for a moment.
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
    """A site on a socket that listens already, with so many connections at most."""

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
