"""The routes of a worker: its topologies, their keys, and the figures of a key.

States are looked at on the loop of the work, which gives looks a share of its time; all else is
done in another thread. A few questions are answered at once, others wait for their turn, and are
refused if it does not come soon.

A request that names this worker in the header `Slidestat-Worker` comes from another one, and is
answered from what is here alone: that is what ends the search for a key.
"""

from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from slidestat.live.live_topology import LiveTopology
from slidestat.live.looks import Looks
from slidestat.schemas.query import Health
from slidestat.web.address import WebAddress
from slidestat.web.answers.history import History
from slidestat.web.answers.keys import KeyAnswers, TopologyAnswers
from slidestat.web.answers.parameters import no_query
from slidestat.web.answers.ranking import RankingAnswers
from slidestat.web.answers.workers import Elsewhere, Here, checked, require_ready
from slidestat.web.errors import json_response, unavailable
from slidestat.web.metrics import worker_registry
from slidestat.web.openapi import OPERATIONS, openapi_document
from slidestat.web.peers import Peers
from slidestat.web.turns import Turns

# As of `answers/keys.py`: who watches a worker is not in the queue of those who ask.
_WATCHERS = (1, 2.0)


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
        here = Here(topologies, looks, address.worker)
        self._keys = KeyAnswers(here, Elsewhere(peers), history)
        self._rankings = RankingAnswers(here, Elsewhere(peers))
        self._watchers = Turns(*_WATCHERS)
        self._of_topologies = TopologyAnswers(here, peers, address.url, remaining, self._watchers)
        self._topologies = topologies
        self._looks = looks
        self._metrics = worker_registry(topologies, remaining)
        self._openapi = msgspec.json.encode(openapi_document())

    def add_to(self, app: web.Application) -> None:
        """Route to the handlers."""
        keys, topologies = self._keys, self._of_topologies
        handlers = {
            "health": self.health,
            "ready": self.ready,
            "openapi": self.openapi,
            "metrics": self.metrics,
            "listTopologies": topologies.list_topologies,
            "showTopology": topologies.show_topology,
            "showStatus": topologies.show_status,
            "figureMetrics": keys.figure_metrics,
            "listKeys": keys.list_keys,
            "rankingMetrics": self._rankings.ranking_metrics,
            "showRanking": self._rankings.show_ranking,
            "showAnyKey": keys.show_key,
            "showAnyHistory": keys.show_history,
            "showKey": keys.show_key,
            "showHistory": keys.show_history,
        }
        app.add_routes(
            [web.get(it.path.replace("}", ":[^/]+}"), handlers[it.name]) for it in OPERATIONS]
        )

    async def health(self, request: web.Request) -> web.Response:
        """Answer the liveness probe."""
        checked(no_query, request)
        return json_response(Health("ok"))

    async def ready(self, request: web.Request) -> web.Response:
        """Answer the readiness probe: ready once the worker has its partitions, and while brokers
        answer it.
        """
        checked(no_query, request)
        for live in self._topologies.values():
            require_ready(live)
            if not live.is_up_to_date:
                raise unavailable(
                    f"The brokers do not answer: {live.topology.name!r} has what was read before."
                )
        return json_response(Health("ready"))

    async def openapi(self, request: web.Request) -> web.Response:
        """Return the OpenAPI description of these routes."""
        checked(no_query, request)
        return web.Response(body=self._openapi, content_type="application/json")

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with the metrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with self._watchers.one():
            body = await self._looks.take(lambda: encode(self._metrics))
        return web.Response(body=body, headers={"Content-Type": content_type})
