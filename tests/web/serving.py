"""Workers' web sides without Kafka: real servers on real sockets, over partitions in memory."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from app.client.options import LOOPBACK
from app.streaming.live import LiveTopology
from app.streaming.live_query import PartitionView
from app.streaming.partition import PartitionProcessor
from app.streaming.statistics import Count, Quantiles
from app.streaming.topology import Topology
from app.web.address import WebAddress, listen
from app.web.peers import Peers
from app.web.server import application, runner
from tests.streaming.memory import MemoryStore, batch_of
from tests.streaming.model import Record
from tests.streaming.streams import START_MS, encode

TOPOLOGY = Topology(
    name="orders",
    source="events",
    span="1h",
    every="1m",
    windows=("1m", "1h"),
    statistics=(Count(), Quantiles(epsilon=0.05)),
)


@dataclass(frozen=True)
class Served:
    """A worker's web side."""

    address: WebAddress
    live: LiveTopology
    runner: web.AppRunner

    @property
    def url(self) -> str:
        return self.address.url


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def partition(keys: Sequence[str]) -> PartitionProcessor:
    """A partition with one event of each key."""
    processor = PartitionProcessor(TOPOLOGY, TOPOLOGY.source, 0, MemoryStore())
    records = [Record(i, None, encode(key, START_MS + i, i), 0) for i, key in enumerate(keys)]
    if records:
        processor.process(batch_of(records))
    return processor


@asynccontextmanager
async def serving(*workers: Mapping[int, Sequence[str]]) -> AsyncIterator[list[Served]]:
    """A server for each worker, which has these keys in these partitions."""
    served: list[Served] = []
    distribution: dict[str, dict[str, list[int]]] = {}
    async with aiohttp.ClientSession() as session:
        for held in workers:
            processors = {number: partition(keys) for number, keys in held.items()}

            def view(
                number: int, processors: Mapping[int, PartitionProcessor] = processors
            ) -> PartitionView:
                view = processors[number].view()
                return PartitionView(number, view.watermark, view.next_offset, view.cache)

            live = LiveTopology(TOPOLOGY, view)
            live.ready(list(held))
            address = listen(LOOPBACK, 0)
            peers = Peers(address, lambda: distribution, lambda: session)
            served.append(await start(address, live, peers))
            distribution[address.canonical_url] = {TOPOLOGY.source: list(held)}
        try:
            yield served
        finally:
            for worker in served:
                await worker.runner.cleanup()


async def start(address: WebAddress, live: LiveTopology, peers: Peers) -> Served:
    """Serve at an address."""
    served = Served(address, live, runner(application({TOPOLOGY.name: live}, peers, address)))
    await served.runner.setup()
    await web.SockSite(served.runner, address.listener).start()
    return served


async def get(
    url: str, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> Answer:
    """The response to a request whose path is encoded already."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, URL(url + path, encoded=True), headers=headers) as response,
    ):
        return Answer(response.status, response.headers, await response.read())
