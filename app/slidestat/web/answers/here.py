"""Look at the topologies of this worker, on the loop of the work."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from aiohttp import web

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.live.live_topology import LiveTopology, View
from slidestat.live.looks import Looks
from slidestat.web.errors import HttpError, bad_request, unavailable
from slidestat.web.peers import WORKER_HEADER

Parsed = TypeVar("Parsed")
Seen = TypeVar("Seen")


class Here:
    """The topologies of one worker, whose partitions are read by `looks`."""

    def __init__(self, topologies: Mapping[str, LiveTopology], looks: Looks, worker: str) -> None:
        self.topologies = topologies
        self.looks = looks
        self._worker = worker

    def topology(self, request: web.Request) -> LiveTopology:
        """Return the topology that a request names; raises HttpError where it is not here."""
        name = request.match_info["name"]
        live = self.topologies.get(name)
        if live is None:
            here = ", ".join(sorted(self.topologies))
            raise HttpError(404, f"There is no topology {name!r} here.", f"There is {here}.")
        return live

    def is_for_here(self, request: web.Request) -> bool:
        """Return whether another worker asks; raises HttpError if it means another worker than this
        one.
        """
        meant = request.headers.get(WORKER_HEADER)
        if meant not in (None, self._worker):
            raise HttpError(
                421,
                "Another worker is meant.",
                f"Ask again; or leave the header {WORKER_HEADER} out.",
            )
        return meant is not None

    async def see(self, live: LiveTopology, read: Callable[[View], Seen]) -> tuple[int, list[Seen]]:
        """Read each partition that is here, and return the epoch and what was read; raises
        HttpError while they are being restored.
        """

        def look() -> tuple[int, list[Seen]]:
            require_ready(live)
            return live.epoch, [read(view) for view in live.views()]

        return await self.looks.take(look)


def answering(live: LiveTopology) -> Topology:
    """Return the topology whose figures are in the answers: for a referee, the one whose synopses
    it merges.
    """
    declared = live.topology
    return declared.answering if isinstance(declared, Referee) else declared


def checked(parse: Callable[[str], Parsed], request: web.Request) -> Parsed:
    """Return the query of a request; raises HttpError for one that cannot be parsed."""
    try:
        return parse(request.rel_url.raw_query_string)
    except SlidestatError as error:
        raise bad_request(error) from error


def require_ready(live: LiveTopology) -> None:
    """Raise HttpError while the partitions of a topology are being restored."""
    if not live.is_ready:
        raise unavailable(f"The partitions of {live.topology.name!r} are being restored.")
