"""The other workers of the group: which there are, and what they answer for themselves.

Which partition a key is on cannot be told from the key: producers partition by the records' Kafka
keys, and ours is a field of their values. So a worker that does not have a key asks the others.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from app.web.address import WebAddress

# On a request: which worker is meant, and that it is to answer for itself alone. On a response:
# which worker answered.
WORKER_HEADER = "Slidestat-Worker"

_TIMEOUT = aiohttp.ClientTimeout(total=5, sock_connect=2)
_NAME = "worker"


@dataclass(frozen=True)
class Worker:
    """A worker of the group: where it answers, its name, and its partitions of a topic."""

    url: str
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Reply:
    """What a worker answered; status 0 if it did not."""

    worker: Worker
    status: int
    body: bytes


class Peers:
    """The workers as the group's last assignment has them."""

    def __init__(self, app: Any, address: WebAddress) -> None:
        self._app = app
        self._address = address

    def workers(self, topic: str) -> list[Worker]:
        """All that hold partitions of `topic`, this one as well."""
        distribution: Mapping[str, Mapping[str, list[int]]]
        distribution = self._app.assignor.external_topic_distribution
        return sorted(_workers(distribution, topic), key=lambda worker: worker.partitions)

    async def ask(self, topic: str, path_and_query: str) -> list[Reply]:
        """The answers of all other workers to a GET of what is encoded already; at most 5 s."""
        others = [w for w in self.workers(topic) if w.name != self._address.worker]
        return list(await asyncio.gather(*(self._ask(w, path_and_query) for w in others)))

    async def _ask(self, worker: Worker, path_and_query: str) -> Reply:
        headers = {WORKER_HEADER: worker.name}
        if self._address.token is not None:
            headers["Authorization"] = f"Bearer {self._address.token}"
        session: aiohttp.ClientSession = self._app.http_client
        try:
            async with session.get(
                URL(worker.url + path_and_query, encoded=True),
                headers=headers,
                timeout=_TIMEOUT,
                allow_redirects=False,
            ) as response:
                return Reply(worker, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return Reply(worker, 0, b"")


def _workers(distribution: Mapping[str, Mapping[str, list[int]]], topic: str) -> Iterator[Worker]:
    for text, topics in distribution.items():
        partitions = tuple(sorted(topics.get(topic, ())))
        if partitions:
            url = URL(text)
            yield Worker(str(url.origin()), url.query.get(_NAME, ""), partitions)
