"""Free loopback ports for a server that is still to be started."""

import random
import socket

from slidestat.errors import SlidestatError

HOST = "127.0.0.1"

# Below what Linux (32768) and macOS (49152) hand out to outgoing connections: a client that
# retries a stopped broker's port could otherwise be given that very port and connect to itself.
_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES = 200


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # as the JVM does, or connections that ended a moment ago would count as a server
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def pick_free_ports(count: int) -> list[int]:
    """Return `count` different ports that are free now; random, so that two callers hardly clash.

    Another process may still take one before it is used: a caller tries again then.
    Raises SlidestatError when none can be had.
    """
    candidates = random.sample(range(_LOWEST, _HIGHEST), _TRIES)
    free = [port for port, _ in zip(filter(is_free, candidates), range(count), strict=False)]
    if len(free) < count:
        raise SlidestatError(
            f"No free port between {_LOWEST} and {_HIGHEST} was found on {HOST}.",
            "End some of the servers on this machine, or name a free port.",
        )
    return free
