"""The bootstrap addresses, asked again when no broker answers that the consumer knows (KIP-899).

Brokers may come back under other addresses: those of a managed cluster do so with each rolling
change. librdkafka then asks the bootstrap addresses. aiokafka's client never does: its consumer
would stand still for good.

Where auto.create.topics.enable is true, as by default, its requests would also have brokers make a
topic anew that was deleted, with one partition and their own settings.

The answer of a bootstrap address has brokers and no topics, and aiokafka would forget all that it
knows of them. A group's leader that knows no partition assigns none: one request for metadata that
a reset connection broke made a whole group idle, until its metadata were five minutes old.
"""

import asyncio
import random
import time
from collections.abc import Set
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

# A request may take 90 s, and so may a connection to an address where nothing answers.
_PATIENCE_S = 30.0
# The client asks for metadata only when it needs them: nobody would know that brokers answer.
_AGAIN_S = 5.0


class BootstrapContact:
    """The contact of a consumer with its cluster, through the client's requests for metadata: it
    makes one whenever a connection breaks or cannot be had, and again until it is answered.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._client: Any = consumer._client
        self._client._metadata_update = self._update
        _keep_topics(self._client.cluster)
        # By time.monotonic(); None while brokers answer.
        self.lost_since: float | None = None
        self._again: asyncio.TimerHandle | None = None

    async def _update(self, cluster: ClusterMetadata, topics: Set[str]) -> bool:
        asked = time.monotonic()
        is_answered = await self._known(cluster, topics)
        if not is_answered and await self._bootstrapped(cluster):
            is_answered = await self._known(cluster, topics)
        self.lost_since = None if is_answered else self.lost_since or asked
        loop = asyncio.get_running_loop()
        if not is_answered and (self._again is None or self._again.when() <= loop.time()):
            self._again = loop.call_later(_AGAIN_S, self._client.force_metadata_update)
        return is_answered

    async def _known(self, cluster: ClusterMetadata, topics: Set[str]) -> bool:
        request = MetadataRequest(list(topics or ()) or None, allow_auto_topic_creation=False)
        brokers = [broker.nodeId for broker in self._client.cluster.brokers()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                for broker in random.sample(brokers, len(brokers)):
                    try:
                        metadata = await self._client.send(broker, request)
                    except KafkaError:
                        continue
                    if metadata.brokers:
                        cluster.update_metadata(metadata)
                        return True
                cluster.failed_update(None)
        return False

    async def _bootstrapped(self, cluster: ClusterMetadata) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._client.bootstrap()
        except (KafkaError, TimeoutError):
            return False
        return cluster is self._client.cluster


def _keep_topics(cluster: Any) -> None:
    """Have an answer without topics change the brokers alone, and tell nobody of it."""
    take_in = cluster.update_metadata

    def update_metadata(metadata: Any) -> None:
        if metadata.topics:
            take_in(metadata)
            return
        kept = cluster._partitions, cluster._broker_partitions, cluster._listeners
        cluster._listeners = set()
        try:
            take_in(metadata)
        finally:
            cluster._partitions, cluster._broker_partitions, cluster._listeners = kept

    cluster.update_metadata = update_metadata
