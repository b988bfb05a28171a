"""A network that resets connections: a TCP proxy in front of a broker, in a thread."""

import asyncio
import socket
import struct
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

_CHUNK = 64 * 1024
_ASK_AGAIN_S = 0.05
# Closed with this, a socket sends RST, not FIN.
_ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


class Network:
    """Listens at `port` of loopback, and passes on to `broker_port`."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._links: set[asyncio.StreamWriter] = set()
        # The loop itself holds tasks weakly: one would be collected while it closes its links.
        self._passing: set[asyncio.Task[None] | None] = set()
        self._thread = Thread(target=self._run, daemon=True)

    def lead_to(self, broker_port: int) -> None:
        """Pass later connections on to another port."""
        self._broker_port = broker_port

    def reset(self) -> None:
        """Reset all connections, in the middle of whatever they carry."""
        self._loop.call_soon_threadsafe(self._reset)

    def __enter__(self) -> Self:
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._pass_on, "127.0.0.1", self._port)
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_forever()

    def _reset(self) -> None:
        for link in self._links:
            # The other side may have closed it a moment ago.
            with suppress(OSError):
                link.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE
                )
            link.transport.abort()

    async def _close(self) -> None:
        # First no more are accepted: a server that is closed leaks what it is just accepting.
        for listener in self._server.sockets:
            self._loop.remove_reader(listener)
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._reset()
            await asyncio.wait(others, timeout=_ASK_AGAIN_S)
        self._server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        self._passing.add(passing)
        links = {writer}
        self._links.add(writer)
        # A broker that is down, and connections that are reset: the clients see it, and try again.
        with suppress(OSError):
            broker_reader, broker_writer = await asyncio.open_connection(
                "127.0.0.1", self._broker_port
            )
            links.add(broker_writer)
            self._links.add(broker_writer)
            await asyncio.gather(_copy(reader, broker_writer), _copy(broker_reader, writer))
        self._links -= links
        for link in links:
            link.transport.abort()
        self._passing.remove(passing)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(_CHUNK):
            target.write(chunk)
            await target.drain()
    target.transport.abort()
