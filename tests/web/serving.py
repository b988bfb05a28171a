"""Workers' web sides without Kafka: real servers on real sockets, over partitions in memory."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_topology import LiveTopology, View, partition_status
from slidestat.live.looks import Looks
from slidestat.live.observed import Observed
from slidestat.options import LOOPBACK
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.repartition.moved_from import Behind
from slidestat.schemas.emission import Emission
from slidestat.schemas.query import KeyHistory, PartitionStatus
from slidestat.schemas.sequence import kinds
from slidestat.web.address import WebAddress, listen
from slidestat.web.answers.history import History
from slidestat.web.peers import Peers
from slidestat.web.server import LimitedSite, application, runner
from tests.engine.memory import MemoryStore, batch_of, rows_of
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode

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


class Held:
    """Partitions in memory, as a pipeline holds them."""

    def __init__(self, topology: Topology | Referee, partitions: Collection[int]) -> None:
        self.topology = topology
        self.observed = Observed(topology.name)
        self.output: list[Emission] = []
        self.cut_at: int | None = None
        self.refusal: SlidestatError | None = None
        self.moves: Mapping[str, Behind] | None = None
        self._stores = {number: MemoryStore() for number in partitions}
        self.processors = {
            number: self._processor(number, store) for number, store in self._stores.items()
        }

    def _processor(
        self, number: int, store: MemoryStore, *, change: bool = False
    ) -> PartitionProcessor | RefereeProcessor:
        topology = self.topology
        if isinstance(topology, Referee):
            return RefereeProcessor(topology, topology.source, number, store)
        work = self.observed.partition(number)
        return PartitionProcessor(
            topology, topology.source, number, store, work=work, change_statistics=change
        )

    def change_statistics(self, topology: Topology) -> None:
        """Go on as this topology, as a worker with --change-statistics does."""
        self.flush()
        self.topology = topology
        self.processors = {
            number: self._processor(number, store, change=True)
            for number, store in self._stores.items()
        }
        self.flush()

    def take(self, partition: int, records: Sequence[Record]) -> None:
        """What one fetch brings."""
        processor = self.processors[partition]
        batch = replace(batch_of(records), topic=self.topology.source, partition=partition)
        started = time.monotonic()
        repeated = len(batch) - len(batch.since(processor.next_offset))
        before = processor.reached.counters
        effects = processor.process(batch)
        letters = (*effects.dead_letters, *effects.late)
        taken = processor.reached.counters.since(before)
        self.observed.processed(batch, letters, taken, repeated, started)
        self.observed.emitted(partition, effects.emissions, started)
        self.output += [JsonCodec().decode(value) for _, value, _ in effects.emissions]

    async def history(self, topology: Topology | Referee, _partition: int, key: str) -> KeyHistory:
        """Return what the output topic has of a key, but windows that end up to `cut_at`."""
        if self.refusal is not None:
            raise self.refusal
        found = [
            emission
            for emission in self.output
            if emission.key == key and emission.window_end_ms > (self.cut_at or 0)
        ]
        kind = kinds(is_sequence=topology.is_sequence).key_history
        cut = None if self.cut_at is None else "older records were not read"
        return kind(topology.name, key, found, self.cut_at, cut)

    def flush(self) -> None:
        """As each second."""
        self.observed.acknowledged()
        for number, processor in self.processors.items():
            snapshot = processor.snapshot()
            if snapshot is not None:
                self._stores[number].write(rows_of(snapshot))
                processor.written()

    def view(self, partition: int) -> View:
        return self.processors[partition].view()

    def status(self, partition: int) -> PartitionStatus:
        view = self.view(partition)
        return partition_status(
            view,
            self.processors[partition].checkpoint,
            is_sequence=False,
            next_offset=view.next_offset,
            end_offset=view.next_offset,
            emissions=self.observed.partition(partition).emissions,
            state_bytes=0,
        )

    def behind(self) -> Mapping[str, Behind] | None:
        return self.moves

    def firing(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for processor in self.processors.values():
            found.update(processor.firing)
        return found

    def changelog_written(self) -> tuple[int, int]:
        return 7, 700


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def one_event_each(keys: Sequence[str]) -> list[Record]:
    """An event of each key; of a single one two, as a partition's first waits for a second."""
    keys = list(keys) * 2 if len(keys) == 1 else keys
    return [Record(i, None, encode(key, START_MS + i, i), 0) for i, key in enumerate(keys)]


@asynccontextmanager
async def serving(*workers: Mapping[int, Sequence[str]]) -> AsyncIterator[list[Served]]:
    """A server for each worker, which has these keys in these partitions."""
    records = [{n: one_event_each(keys) for n, keys in held.items()} for held in workers]
    async with serving_of(TOPOLOGY, *records) as served:
        yield served


@asynccontextmanager
async def serving_of(
    topology: Topology | Referee, *workers: Mapping[int, Sequence[Record]]
) -> AsyncIterator[list[Served]]:
    """A server for each worker, which has read these records of these partitions."""
    served: list[Served] = []
    distribution: dict[str, dict[str, list[int]]] = {}
    for held in workers:
        partitions = Held(topology, held)
        for number, records in held.items():
            if records:
                partitions.take(number, records)
        live = LiveTopology(topology, partitions)
        live.ready(list(held))
        address = listen(LOOPBACK, 0)
        served.append(await start(address, live, Peers(address, lambda: distribution)))
        distribution[address.canonical_url] = {topology.source: list(held)}
    try:
        yield served
    finally:
        for worker in served:
            await worker.runner.cleanup()


async def start(
    address: WebAddress, live: LiveTopology, peers: Peers, history: History | None = None
) -> Served:
    """Serve at an address; histories are what was emitted here, unless others are given."""
    held = live.held
    assert isinstance(held, Held)
    looks = Looks()
    looks.open(asyncio.get_running_loop())
    topologies = {live.topology.name: live}
    made = application(topologies, peers, address, lambda: 0, history or held.history, looks)
    served = Served(address, live, runner(made))
    await served.runner.setup()
    await LimitedSite(served.runner, address.listener).start()
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
