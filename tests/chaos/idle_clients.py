"""Clients of a worker's web port that send a part of a header, and never the rest."""

import socket
from contextlib import ExitStack, suppress
from threading import Event

from yarl import URL

from tests.broker.away.test_idle_connections import HALF_A_HEADER

_AGAIN_S = 10.0


def keep_asking(url: str, clients: int, is_over: Event) -> None:
    """Have so many clients connected until it is over; those that were sent away come again."""
    at = URL(url)
    while not is_over.is_set():
        with ExitStack() as sockets:
            for number in range(clients):
                one = sockets.enter_context(socket.socket())
                one.settimeout(10)
                # A worker that is frozen takes none.
                with suppress(OSError):
                    one.connect((at.host, at.port))
                    one.sendall(HALF_A_HEADER[: number % len(HALF_A_HEADER)])
                if is_over.is_set():
                    return
            is_over.wait(_AGAIN_S)
