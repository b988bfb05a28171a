"""A proxy in front of a broker which holds a request back, and lets it arrive late."""

import socket
import struct
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

END_TRANSACTION, COMMIT_OFFSETS_IN_TRANSACTION = 26, 28


class Front:
    """Listens at a free port of loopback, and passes on to `broker_port`.

    The next request of the kind that `hold` names is held back. Its client's connection is closed
    at once, as by a network that lost it; the broker gets it when `release` is called.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._kind: int | None = None
        # By the connection that it came on, which stays open.
        self._held: dict[socket.socket, bytes] = {}
        self.has_held = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def hold(self, kind: int) -> None:
        """Hold back the next request of a kind."""
        self.has_held.clear()
        self._kind = kind

    def release(self) -> None:
        """Have the broker get it now."""
        for link, request in self._held.items():
            link.sendall(request)
            self._held[link] = b""

    def __enter__(self) -> Self:
        Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._listener.close()
        for link in self._held:
            link.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._requests, args=(client,), daemon=True).start()

    def _requests(self, client: socket.socket) -> None:
        with (
            suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self._broker_port)) as link,
        ):
            Thread(target=_answers, args=(link, client), daemon=True).start()
            while size := client.recv(4, socket.MSG_WAITALL):
                body = client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                if struct.unpack(">h", body[:2])[0] == self._kind:
                    self._kind = None
                    self._held[link.dup()] = size + body
                    self.has_held.set()
                    return
                link.sendall(size + body)


def _answers(link: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while some := link.recv(65_536):
            client.sendall(some)
        client.shutdown(socket.SHUT_RDWR)
