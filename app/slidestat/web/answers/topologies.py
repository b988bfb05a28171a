"""Answer for topologies: what they are, and how their workers are."""

import time
from collections.abc import Callable

import msgspec
from aiohttp import web

from slidestat.live.live_ranking import figures_to_rank_by
from slidestat.live.live_topology import LiveTopology
from slidestat.schemas.query import (
    RepartitionStatus,
    StatisticDescription,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
    WorkerDescription,
    WorkerStatus,
)
from slidestat.web.answers.parameters import no_query
from slidestat.web.answers.workers import Here, answering, checked
from slidestat.web.errors import json_response
from slidestat.web.peers import Peers
from slidestat.web.turns import Turns

_status_decoder = msgspec.json.Decoder(TopologyStatus)


class TopologyAnswers:
    """The handlers that name a topology alone."""

    def __init__(
        self, here: Here, peers: Peers, url: str, remaining: Callable[[], int], watchers: Turns
    ) -> None:
        """Create the answers; this worker answers at `url`, and `remaining` returns the number of
        records still to be restored; `watchers` limits the requests for a status that are answered
        at once.
        """
        self._here = here
        self._peers = peers
        self._url = url
        self._remaining = remaining
        self._watchers = watchers

    async def list_topologies(self, request: web.Request) -> web.Response:
        """Return the topologies of this worker."""
        checked(no_query, request)
        lives = [self._here.topologies[name] for name in sorted(self._here.topologies)]
        return json_response(TopologyList([self._describe(live) for live in lives]))

    async def show_topology(self, request: web.Request) -> web.Response:
        """Return one topology."""
        live = self._here.topology(request)
        checked(no_query, request)
        return json_response(self._describe(live))

    async def show_status(self, request: web.Request) -> web.Response:
        """Return the status of a topology's workers, also those that cannot be reached."""
        live = self._here.topology(request)
        checked(no_query, request)
        async with self._watchers.one():
            workers = [await self._here.looks.take(lambda: self._status(live))]
        if not self._here.is_for_here(request):
            for reply in await self._peers.ask(
                live.topology.events_topic, request.rel_url.raw_path_qs
            ):
                if reply.status == 200:
                    workers += _status_decoder.decode(reply.body).workers
                else:
                    workers.append(WorkerStatus(reply.worker.url, "unreachable", 0, []))
        workers.sort(key=lambda worker: worker.url)
        return json_response(TopologyStatus(live.topology.name, int(time.time() * 1000), workers))

    def _status(self, live: LiveTopology) -> WorkerStatus:
        """Return the status of this worker."""
        if not live.is_ready:
            return WorkerStatus(self._url, "restoring", self._remaining(), [])
        behind = live.held.behind()
        moves: RepartitionStatus | msgspec.UnsetType = msgspec.UNSET
        if behind is not None:
            moves = RepartitionStatus(behind.records, behind.seconds(time.time()))
        return WorkerStatus(self._url, "ready", 0, live.status(), live.held.firing(), moves)

    def _describe(self, live: LiveTopology) -> TopologyDescription:
        declared, topology = live.topology, answering(live)
        return TopologyDescription(
            name=declared.name,
            source=declared.events_topic,
            output=declared.output_topic,
            late_topic=declared.late_topic,
            dead_letter_topic=declared.dead_letter_topic,
            table=declared.table_name,
            span=topology.span,
            span_ms=None if topology.windows_of_events else topology.span_length.length,
            span_events=topology.span_length.length if topology.windows_of_events else None,
            windows=list(topology.windows or (topology.span,)),
            every=topology.every,
            every_ms=None if topology.is_sequence else topology.every_ms,
            every_seq=topology.every_ms if topology.is_sequence else None,
            lateness=topology.lateness,
            statistics=[
                StatisticDescription(label, statistic.kind)
                for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            ],
            figures=list(figures_to_rank_by(declared)),
            workers=[
                WorkerDescription(worker.url, list(worker.partitions))
                for worker in self._peers.workers(declared.events_topic)
            ],
        )
