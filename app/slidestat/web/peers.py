"""The other workers of the group: which there are, and what they answer for themselves.

The partition of a key does not follow from the key: producers partition by the records' Kafka keys,
and ours is a field of their values. So a worker that does not have a key asks the others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from yarl import URL

from slidestat.web.address import WORKER_HEADER, WebAddress
from slidestat.web.turns import Turns

# The partitions of each topic that each worker holds, by the worker's canonical URL.
Distribution = Mapping[str, Mapping[str, list[int]]]

# Questions that are passed on at once, and the time that others wait for it.
_AT_ONCE = 16
_WAIT_S = 0.1

ANSWER_S = 5.0
"""Within so many seconds other workers answer a question for a key."""
_CONNECT_S = 2.0
_NAME = "worker"


@dataclass(frozen=True)
class Worker:
    """A worker of the group: where it answers, its name, and its partitions of a topic."""

    url: str
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Reply:
    """The answer of a worker; status 0 if there was none."""

    worker: Worker
    status: int
    body: bytes


class Peers:
    """The workers as the group's last assignment has them."""

    def __init__(self, address: WebAddress, distribution: Callable[[], Distribution]) -> None:
        self._address = address
        self._distribution = distribution
        self._turns = Turns(_AT_ONCE, _WAIT_S)
        self._session: aiohttp.ClientSession

    async def open(self, _app: web.Application) -> AsyncIterator[None]:
        """Keep connections to others while the web side runs."""
        async with aiohttp.ClientSession() as self._session:
            yield

    def workers(self, topic: str) -> list[Worker]:
        """Return all workers that hold partitions of `topic`, this one as well."""
        return sorted(_workers(self._distribution(), topic), key=lambda w: w.partitions)

    async def ask(
        self, topic: str, path_and_query: str, timeout_s: float = ANSWER_S
    ) -> list[Reply]:
        """Return the answers of all other workers to a GET of a path and query, which are encoded
        already, within a time.

        Raises HttpError where too many others ask them through this worker.
        """
        others = [w for w in self.workers(topic) if w.name != self._address.worker]
        if not others:
            return []
        async with self._turns.one():
            asked = (self._ask(worker, path_and_query, timeout_s) for worker in others)
            return list(await asyncio.gather(*asked))

    async def _ask(self, worker: Worker, path_and_query: str, timeout_s: float) -> Reply:
        headers = {WORKER_HEADER: worker.name}
        if self._address.token is not None:
            headers["Authorization"] = f"Bearer {self._address.token}"
        try:
            async with self._session.get(
                URL(worker.url + path_and_query, encoded=True),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S),
                allow_redirects=False,
            ) as response:
                return Reply(worker, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return Reply(worker, 0, b"")


def _workers(distribution: Distribution, topic: str) -> Iterator[Worker]:
    for text, topics in distribution.items():
        partitions = tuple(sorted(topics.get(topic, ())))
        if partitions:
            url = URL(text)
            yield Worker(str(url.origin()), url.query.get(_NAME, ""), partitions)
