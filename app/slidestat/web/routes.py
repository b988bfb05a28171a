"""The routes of a worker: its topologies, their keys, and the figures of a key.

States are looked at on the loop of the work, which gives looks a share of its time; all else is
done beside it. A few questions are answered at once, others wait for their turn, and are refused if
it does not come soon.

A request that names this worker in the header `Slidestat-Worker` comes from another one, and is
answered from what is here alone: that is what ends the search for a key.
"""

import time
from collections.abc import Callable, Mapping
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from slidestat.declare.referee import Referee
from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.live.live_topology import LiveTopology, View
from slidestat.live.looks import Looks
from slidestat.schemas.query import (
    Health,
    KeyHistory,
    KeyPage,
    StatisticDescription,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
    WorkerDescription,
    WorkerStatus,
)
from slidestat.web.address import WebAddress
from slidestat.web.errors import HttpError, bad_request, json_response, too_many, unavailable
from slidestat.web.figure_gauges import registry_of
from slidestat.web.history import History
from slidestat.web.metrics import worker_registry
from slidestat.web.openapi import openapi_document
from slidestat.web.parameters import (
    key_in_query,
    key_of,
    key_query,
    keys_in_query,
    no_query,
    page_query,
)
from slidestat.web.peers import WORKER_HEADER, Peers, Reply
from slidestat.web.turns import Turns

Parsed = TypeVar("Parsed")
Seen = TypeVar("Seen")

# How many are served at once, and how many seconds others wait: so an answer that is given comes
# soon, and who watches a worker is not in the queue of those who ask.
_QUESTIONS = (2, 0.05)
_HISTORIES = (1, 5.0)
_WATCHERS = (1, 2.0)

_page_decoder = msgspec.json.Decoder(KeyPage)
_status_decoder = msgspec.json.Decoder(TopologyStatus)


class Routes:
    """The handlers, over the topologies of one worker."""

    def __init__(
        self,
        topologies: Mapping[str, LiveTopology],
        peers: Peers,
        address: WebAddress,
        remaining: Callable[[], int],
        history: History,
        looks: Looks,
    ) -> None:
        self._history = history
        self._looks = looks
        self._questions = Turns(*_QUESTIONS)
        self._histories = Turns(*_HISTORIES)
        self._watchers = Turns(*_WATCHERS)
        self._topologies = topologies
        self._peers = peers
        self._worker = address.worker
        self._url = address.url
        self._remaining = remaining
        self._metrics = worker_registry(topologies, remaining)
        self._openapi = msgspec.json.encode(openapi_document())

    def add_to(self, app: web.Application) -> None:
        """Route to the handlers."""
        app.add_routes(
            [
                web.get("/healthz", self.health),
                web.get("/readyz", self.ready),
                web.get("/openapi.json", self.openapi),
                web.get("/metrics", self.metrics),
                web.get("/topologies", self.list_topologies),
                web.get("/topologies/{name:[^/]+}", self.show_topology),
                web.get("/topologies/{name:[^/]+}/status", self.show_status),
                web.get("/topologies/{name:[^/]+}/metrics", self.figure_metrics),
                web.get("/topologies/{name:[^/]+}/keys", self.list_keys),
                web.get("/topologies/{name:[^/]+}/key", self.show_key),
                web.get("/topologies/{name:[^/]+}/key/history", self.show_history),
                web.get("/topologies/{name:[^/]+}/keys/{key:[^/]+}", self.show_key),
                web.get("/topologies/{name:[^/]+}/keys/{key:[^/]+}/history", self.show_history),
            ]
        )

    async def health(self, request: web.Request) -> web.Response:
        """That it runs."""
        _checked(no_query, request)
        return json_response(Health("ok"))

    async def ready(self, request: web.Request) -> web.Response:
        """That it has its partitions."""
        _checked(no_query, request)
        for live in self._topologies.values():
            _require_ready(live)
        return json_response(Health("ready"))

    async def openapi(self, request: web.Request) -> web.Response:
        """The description of all this."""
        _checked(no_query, request)
        return web.Response(body=self._openapi, content_type="application/json")

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with the metrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with self._watchers.one():
            body = await self._looks.take(lambda: encode(self._metrics))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def list_topologies(self, request: web.Request) -> web.Response:
        """The topologies of this worker."""
        _checked(no_query, request)
        lives = [self._topologies[name] for name in sorted(self._topologies)]
        return json_response(TopologyList([self._describe(live) for live in lives]))

    async def show_topology(self, request: web.Request) -> web.Response:
        """One of them."""
        live = self._topology(request)
        _checked(no_query, request)
        return json_response(self._describe(live))

    async def show_status(self, request: web.Request) -> web.Response:
        """How its workers are, also those that cannot be reached."""
        live = self._topology(request)
        _checked(no_query, request)
        async with self._watchers.one():
            workers = [await self._looks.take(lambda: self._status(live))]
        if not self._is_for_here(request):
            for reply in await self._peers.ask(
                live.topology.events_topic, request.rel_url.raw_path_qs
            ):
                if reply.status == 200:
                    workers += _status_decoder.decode(reply.body).workers
                else:
                    workers.append(WorkerStatus(reply.worker.url, "unreachable", 0, []))
        workers.sort(key=lambda worker: worker.url)
        return json_response(TopologyStatus(live.topology.name, int(time.time() * 1000), workers))

    async def list_keys(self, request: web.Request) -> web.Response:
        """A page of the keys of all workers."""
        live = self._topology(request)
        prefix, after, limit = _checked(page_query, request)
        is_for_here = self._is_for_here(request)

        def read(view: View) -> list[str]:
            # One more tells whether another page follows.
            return list(view.keys(prefix, after, limit + 1))

        async with self._questions.one():
            epoch, pages = await self._see(live, read)
        has_more = False
        if not is_for_here:
            for page in await self._pages_elsewhere(live, request, epoch):
                pages.append(page.keys)
                has_more = has_more or page.next_after is not None
        keys = list(islice((key for key, _ in groupby(merge(*pages))), limit + 1))
        has_more = has_more or len(keys) > limit
        keys = keys[:limit]
        return json_response(KeyPage(live.topology.name, keys, keys[-1] if has_more else None))

    async def show_key(self, request: web.Request) -> web.Response:
        """The figures of a key, wherever in the group it is."""
        live = self._topology(request)
        is_for_here = self._is_for_here(request)
        async with self._questions.one():
            try:
                key, query = _key_of(request, place=-1)
                question = key_query(live.topology, query)
            except SlidestatError as error:
                raise bad_request(error) from error
            epoch, found = await self._see(live, lambda view: view.alone(key))
            held = [view for view in found if view is not None]
            if len(held) > 1:
                raise _in_two_places(key, [f"partition {view.partition}" for view in held])
            if held:
                answer = question.answer(held[0], key)
                if answer is not None:
                    return json_response(answer)
        return await self._answered_elsewhere(live, request, key, epoch, is_for_here=is_for_here)

    async def figure_metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with the figures of those of some keys that are here."""
        live = self._topology(request)
        try:
            keys, query = keys_in_query(request.rel_url.raw_query_string)
            question = key_query(live.topology, query)
        except SlidestatError as error:
            raise bad_request(error) from error
        async with self._questions.one():
            _, views = await self._see(live, lambda view: [view.alone(key) for key in keys])
            found = [
                question.answer(view, key)
                for of_partition in views
                for key, view in zip(keys, of_partition, strict=True)
                if view is not None
            ]
        topology = _answering(live)
        statistics = zip(topology.labels, topology.statistics, strict=True)
        lists = {label for label, known in statistics if isinstance(known, ListStatistic)}
        gauges = registry_of([answer for answer in found if answer is not None], lists)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(gauges), headers={"Content-Type": content_type})

    async def show_history(self, request: web.Request) -> web.Response:
        """Answer with the emissions of a key at the end of the output topic."""
        live = self._topology(request)
        try:
            key, query = _key_of(request, place=-2)
            no_query(query)
        except SlidestatError as error:
            raise bad_request(error) from error
        is_for_here = self._is_for_here(request)
        async with self._questions.one():
            epoch, found = await self._see(
                live, lambda view: view.partition if view.has(key) else None
            )
        held = [partition for partition in found if partition is not None]
        if len(held) > 1:
            raise _in_two_places(key, [f"partition {partition}" for partition in held])
        if held:
            async with self._histories.one():
                emissions = await self._history(live.topology, held[0], key)
            return json_response(KeyHistory(live.topology.name, key, emissions))
        return await self._answered_elsewhere(live, request, key, epoch, is_for_here=is_for_here)

    async def _see(
        self, live: LiveTopology, read: Callable[[View], Seen]
    ) -> tuple[int, list[Seen]]:
        """Read each partition that is here, and return the epoch and what was read; raises
        HttpError while they are being restored.
        """

        def look() -> tuple[int, list[Seen]]:
            _require_ready(live)
            return live.epoch, [read(view) for view in live.views()]

        return await self._looks.take(look)

    async def _answered_elsewhere(
        self, live: LiveTopology, request: web.Request, key: str, epoch: int, *, is_for_here: bool
    ) -> web.Response:
        """The answer of the worker that has the key, which was not here in an epoch."""
        found = [] if is_for_here else await self._found_elsewhere(live, request, epoch)
        if len(found) > 1:
            raise _in_two_places(key, [f"worker {reply.worker.url}" for reply in found])
        if found:
            return web.Response(body=found[0].body, content_type="application/json")
        raise HttpError(
            404,
            f"The topology {live.topology.name!r} has no key {key!r}.",
            "A key is there from its first event until its last one has left the span; in a"
            " referee, from its first answer on.",
        )

    def _topology(self, request: web.Request) -> LiveTopology:
        name = request.match_info["name"]
        live = self._topologies.get(name)
        if live is None:
            here = ", ".join(sorted(self._topologies))
            raise HttpError(404, f"There is no topology {name!r} here.", f"There is {here}.")
        return live

    def _is_for_here(self, request: web.Request) -> bool:
        """Whether another worker asks; raises HttpError if it means another than this one."""
        meant = request.headers.get(WORKER_HEADER)
        if meant not in (None, self._worker):
            raise HttpError(
                421,
                "Another worker is meant.",
                f"Ask again; or leave the header {WORKER_HEADER} out.",
            )
        return meant is not None

    async def _found_elsewhere(
        self, live: LiveTopology, request: web.Request, epoch: int
    ) -> list[Reply]:
        """The answers of the workers that have the key; raises HttpError if that is not sure."""
        replies = await self._ask(live, request, epoch)
        found = [reply for reply in replies if reply.status == 200]
        if not found:
            for reply in replies:
                if reply.status != 404:
                    raise _no_answer(reply)
        return found

    async def _pages_elsewhere(
        self, live: LiveTopology, request: web.Request, epoch: int
    ) -> list[KeyPage]:
        pages = []
        for reply in await self._ask(live, request, epoch):
            if reply.status != 200:
                raise _no_answer(reply)
            pages.append(_page_decoder.decode(reply.body))
        return pages

    async def _ask(self, live: LiveTopology, request: web.Request, epoch: int) -> list[Reply]:
        replies = await self._peers.ask(live.topology.events_topic, request.rel_url.raw_path_qs)
        if live.epoch != epoch:
            # A partition may have been nowhere, or in two places.
            raise unavailable("Partitions moved between the workers meanwhile.")
        return replies

    def _status(self, live: LiveTopology) -> WorkerStatus:
        """How this worker is."""
        if not live.is_ready:
            return WorkerStatus(self._url, "restoring", self._remaining(), [])
        return WorkerStatus(self._url, "ready", 0, live.status(), live.held.firing())

    def _describe(self, live: LiveTopology) -> TopologyDescription:
        declared, topology = live.topology, _answering(live)
        return TopologyDescription(
            declared.name,
            declared.events_topic,
            declared.output_topic,
            declared.late_topic,
            declared.dead_letter_topic,
            declared.table_name,
            topology.span,
            None if topology.windows_of_events else topology.span_length.length,
            topology.span_length.length if topology.windows_of_events else None,
            list(topology.windows or (topology.span,)),
            topology.every,
            topology.lateness,
            [
                StatisticDescription(label, statistic.kind)
                for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            ],
            [
                WorkerDescription(worker.url, list(worker.partitions))
                for worker in self._peers.workers(declared.events_topic)
            ],
        )


def _answering(live: LiveTopology) -> Topology:
    """The topology whose figures are answered with: a referee's are those that it is of."""
    declared = live.topology
    return declared.answering if isinstance(declared, Referee) else declared


def _checked(parse: Callable[[str], Parsed], request: web.Request) -> Parsed:
    try:
        return parse(request.rel_url.raw_query_string)
    except SlidestatError as error:
        raise bad_request(error) from error


def _require_ready(live: LiveTopology) -> None:
    if not live.is_ready:
        raise unavailable(f"The partitions of {live.topology.name!r} are being restored.")


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


def _key_of(request: web.Request, place: int) -> tuple[str, str]:
    """The key that is asked for, in the path at a place or in the query, and the rest of the query.

    As it was sent: aiohttp leaves escapes that are no UTF-8 as they are.
    """
    query = request.rel_url.raw_query_string
    if "key" not in request.match_info:
        return key_in_query(query)
    return key_of(request.rel_url.raw_path.split("/")[place]), query


def _in_two_places(key: str, places: list[str]) -> HttpError:
    return HttpError(
        409,
        f"The key {key!r} is in several places: {', '.join(places)}.",
        "Have the producers partition the source by this key.",
    )
