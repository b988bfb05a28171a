"""A worker's web side in a thread of its own, for a browser; its partitions are in memory."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count, Distinct, Histogram, Mean, Quantiles, TopItems
from slidestat.declare.topology import Topology
from slidestat.live.live_topology import LiveTopology
from slidestat.options import LOOPBACK
from slidestat.web.address import listen
from slidestat.web.peers import Peers
from tests.engine.model import Record
from tests.engine.streams import START_MS
from tests.web.serving import Held, start

Result = TypeVar("Result")

SHOP = Topology(
    name="shop",
    source="requests",
    span="1h",
    every="10s",
    windows=("1m", "1h"),
    where="page is null or page <> 'robots'",
    statistics=(
        Count(),
        Mean(),
        Quantiles(epsilon=0.05),
        Distinct(field="user", epsilon=0.3),
        TopItems(field="page", limit=3),
        Histogram(edges=(0, 10)),
    ),
    alerts=(
        Alert(
            name="busy",
            when="count > 30",
            window="1m",
            severity="page",
            labels={"team": "shop"},
            annotations={"description": "<b>Open</b> a till."},
            runbook="https://wiki.example.com/busy",
        ),
        Alert(name="many", when="count > 30", window="1h", for_=1000),
    ),
)


@dataclass
class Shop:
    """The worker that a browser looks at."""

    url: str
    held: Held
    live: LiveTopology
    loop: asyncio.AbstractEventLoop
    now_ms: int = START_MS

    def do(self, action: Callable[[], Result]) -> Result:
        """Run something on the worker's event loop, as between two batches."""

        async def run() -> Result:
            return action()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(30)

    def sell(self, keys: Sequence[str], *, items: Sequence[str] = ("home",)) -> None:
        """An event of each key, a second after the other, on both partitions by turns; flushed."""
        values = []
        for i, key in enumerate(keys):
            self.now_ms += 1_000
            item = items[i % len(items)]
            event = {"key": key, "time": self.now_ms, "value": i % 20, "user": key, "page": item}
            values.append((sum(key.encode()) % 2, msgspec.json.encode(event)))
        for partition in (0, 1):
            own = [value for place, value in values if place == partition]
            if len(own) == 1 and not self.held.processors[partition].next_offset:
                own *= 2  # A partition's first record waits for the second.
            self.bring(partition, own)

    def bring(self, partition: int, values: Sequence[bytes]) -> None:
        """Records of any bytes."""

        def take() -> None:
            first = self.held.processors[partition].next_offset
            records = [Record(first + i, None, value, 0) for i, value in enumerate(values)]
            if records:
                self.held.take(partition, records)
            self.held.flush()

        self.do(take)


@contextmanager
def shop(topology: Topology = SHOP) -> Iterator[Shop]:
    """A worker of SHOP, or of another topology, with two empty partitions."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="worker", daemon=True)
    thread.start()
    held = Held(topology, (0, 1))
    live = LiveTopology(topology, held)
    live.ready((0, 1))
    address = listen(LOOPBACK, 0)
    distribution = {address.canonical_url: {topology.source: [0, 1]}}
    ended = asyncio.Event()
    served = threading.Event()

    async def serve() -> None:
        worker = await start(address, live, Peers(address, lambda: distribution))
        served.set()
        await ended.wait()
        await worker.runner.cleanup()

    serving = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        assert served.wait(30), serving
        yield Shop(address.url, held, live, loop)
    finally:
        loop.call_soon_threadsafe(ended.set)
        serving.result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
