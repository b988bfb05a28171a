"""Look at the topologies of this worker, on the loop of the work."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import web

from slidestat.live.live_topology import LiveTopology, View
from slidestat.live.looks import Looks
from slidestat.schemas.query import KeyPage, KeyRow, KeyTable, RankingPart
from slidestat.web.address import WORKER_HEADER
from slidestat.web.errors import HttpError, parsing, too_many, unavailable
from slidestat.web.peers import ANSWER_S, Peers, Reply

Parsed = TypeVar("Parsed")
Seen = TypeVar("Seen")


class ThisWorker:
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
        """Return whether another worker asks; HttpError if it means another one than this."""
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


def checked(parse: Callable[[str], Parsed], request: web.Request) -> Parsed:
    """Return the query of a request; raises HttpError for one that cannot be parsed."""
    with parsing():
        return parse(request.rel_url.raw_query_string)


def require_ready(live: LiveTopology) -> None:
    """Raise HttpError while the partitions of a topology are being restored."""
    if not live.is_ready:
        raise unavailable(f"The partitions of {live.topology.name!r} are being restored.")


# Ask the other workers of the group for what is not here.

_page_decoder = msgspec.json.Decoder(KeyPage)
_table_decoder = msgspec.json.Decoder(KeyTable)
_part_decoder = msgspec.json.Decoder(RankingPart)

RANKING_S = 30.0
"""Within so many seconds a worker looks at all of its keys, or refuses."""


class OtherWorkers:
    """The answers of the other workers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def answered(
        self, live: LiveTopology, request: web.Request, key: str, epoch: int, *, is_for_here: bool
    ) -> web.Response:
        """Return the answer of the worker that has the key, which was not here in an epoch."""
        found = [] if is_for_here else await self._found(live, request, epoch)
        if len(found) > 1:
            raise in_two_places(key, [f"worker {reply.worker.url}" for reply in found])
        if found:
            return web.Response(body=found[0].body, content_type="application/json")
        raise HttpError(
            404,
            f"The topology {live.topology.name!r} has no key {key!r}.",
            "A key is there from its first event until its last one has left the span; in a"
            " referee, from its first answer on.",
        )

    async def pages(self, live: LiveTopology, request: web.Request, epoch: int) -> list[KeyPage]:
        """Return the other workers' pages of keys; raises HttpError if one does not answer."""
        replies = await self._ask(live, request.rel_url.raw_path_qs, epoch)
        return _decoded(replies, _page_decoder)

    async def rows(self, live: LiveTopology, request: web.Request, epoch: int) -> list[KeyRow]:
        """Return the rows of keys that the other workers have; HttpError if one does not answer."""
        replies = await self._ask(live, request.rel_url.raw_path_qs, epoch)
        return [row for table in _decoded(replies, _table_decoder) for row in table.rows]

    async def ranking_parts(self, live: LiveTopology, query: str, epoch: int) -> list[RankingPart]:
        """Return the other workers' parts of a ranking; raises HttpError if one does not answer."""
        path = f"/topologies/{quote(live.topology.name, safe='')}/ranking?{query}"
        replies = await self._ask(live, path, epoch, RANKING_S + ANSWER_S)
        return _decoded(replies, _part_decoder)

    async def _found(self, live: LiveTopology, request: web.Request, epoch: int) -> list[Reply]:
        """Return the answers of workers that have the key; HttpError if that is not certain."""
        replies = await self._ask(live, request.rel_url.raw_path_qs, epoch)
        found = [reply for reply in replies if reply.status == 200]
        if not found:
            for reply in replies:
                if reply.status != 404:
                    raise _no_answer(reply)
        return found

    async def _ask(
        self, live: LiveTopology, path: str, epoch: int, timeout_s: float = ANSWER_S
    ) -> list[Reply]:
        replies = await self._peers.ask(live.topology.events_topic, path, timeout_s)
        require_same(live, epoch)
        return replies


def require_same(live: LiveTopology, epoch: int) -> None:
    """Raise HttpError if partitions moved since an epoch: one may be seen never, or twice."""
    if live.epoch != epoch:
        raise unavailable("Partitions moved between the workers meanwhile.")


def _decoded(replies: Sequence[Reply], decoder: msgspec.json.Decoder[Parsed]) -> list[Parsed]:
    """Return what all workers answered; raises HttpError if one did not."""
    return [answer_of(reply, decoder) for reply in replies]


def answer_of(reply: Reply, decoder: msgspec.json.Decoder[Parsed]) -> Parsed:
    """Return what a worker answered; raises HttpError if it did not."""
    try:
        if reply.status == 200:
            return decoder.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # Something else has its address now.
    raise _no_answer(reply)


def _no_answer(reply: Reply) -> HttpError:
    url = reply.worker.url
    if reply.status in (0, 421):
        return HttpError(
            503,
            f"The worker at {url} cannot be reached from here.",
            "Ask again in a moment; workers on several machines need --web-host.",
            {"Retry-After": "1"},
        )
    if reply.status == 429:
        return too_many()
    if reply.status == 503:
        return unavailable(f"The worker at {url} is restoring its partitions.")
    return HttpError(
        502,
        f"The worker at {url} answered with status {reply.status}.",
        "Give all workers of the group the same token and the same version.",
    )


def in_two_places(key: str, places: Sequence[str]) -> HttpError:
    """Return the error of a key that is held more than once."""
    return HttpError(
        409,
        f"The key {key!r} is in several places: {', '.join(places)}.",
        "Have the producers partition the source by this key.",
    )
