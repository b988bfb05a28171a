"""The bootstrap addresses, asked again when no broker answers that the consumer knows (KIP-899).

Brokers may come back under other addresses: those of a managed cluster do so with each rolling
change. librdkafka then asks the bootstrap addresses. aiokafka's client never does: its consumer
would stand still for good.
"""

import asyncio
import time
from collections.abc import Set
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError

# A request may take 90 s, and so may a connection to an address where nothing answers.
_PATIENCE_S = 30.0
# The client asks for metadata again only when it needs them; until then nobody would know that
# brokers answer.
_AGAIN_S = 5.0


class BootstrapContact:
    """The contact of a consumer with its cluster, through the client's requests for metadata: it
    makes one whenever a connection breaks or cannot be had, and again until it is answered.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._client: Any = consumer._client
        self._ask_known = self._client._metadata_update
        self._client._metadata_update = self._update
        # Of time.monotonic; None while brokers answer.
        self.lost_since: float | None = None
        self._again: asyncio.TimerHandle | None = None

    async def _update(self, cluster: ClusterMetadata, topics: Set[str]) -> bool:
        asked = time.monotonic()
        is_answered = await self._known(cluster, topics) or await self._bootstrapped(cluster)
        self.lost_since = None if is_answered else self.lost_since or asked
        loop = asyncio.get_running_loop()
        if not is_answered and (self._again is None or self._again.when() <= loop.time()):
            self._again = loop.call_later(_AGAIN_S, self._client.force_metadata_update)
        return is_answered

    async def _known(self, cluster: ClusterMetadata, topics: Set[str]) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return bool(await self._ask_known(cluster, topics))
        except TimeoutError:
            return False

    async def _bootstrapped(self, cluster: ClusterMetadata) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._client.bootstrap()
        except (KafkaError, TimeoutError):
            return False
        return cluster is self._client.cluster
