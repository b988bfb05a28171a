"""Brokers that come back under other addresses, as a managed cluster's with each rolling change."""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import (
    MetadataRequest,
    MetadataRequest_v5,
    MetadataResponse_v1,
)
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.faust.bootstrap import BootstrapContact
from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from tests.broker.outputs.test_observed import get
from tests.broker.workers import Stage, events, produce
from tests.chaos.network import Network

BODY = 'span="10m", every="1s", windows=("10m",), lateness="1s", statistics=(Count(),)'
COUNT = 1_000


def test_a_worker_reads_on_where_the_brokers_are_now(tmp_path: Path) -> None:
    """It knows the broker by an address that is gone, and the bootstrap address leads to the new
    one: it reads on, and nothing is counted twice.
    """
    fixed, *ports = pick_free_ports(3)
    bootstrap = f"127.0.0.1:{fixed}"
    data = tmp_path / "broker"
    with ExitStack() as network, LocalBroker(data, ports[0]) as broker:
        relay = network.enter_context(Network(fixed, ports[0]))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("source", 1, 1)])["source"].result(30)
        stage = Stage(bootstrap, tmp_path, "t", "source", BODY)
        produce(bootstrap, "source", events(COUNT))
        with stage.worker().await_ready() as worker:
            stage.await_settled([worker])
            broker.stop()
            relay.lead_to(ports[1])
            with LocalBroker(data, ports[1]):
                produce(bootstrap, "source", events(COUNT, start=COUNT))
                stage.await_commit_after(COUNT + COUNT // 2)
                stage.await_settled([worker])
                status = json.loads(get(f"{worker.url}/topologies/t/status"))
                (partition,) = status["workers"][0]["partitions"]
                assert partition["counted"] == partition["end_offset"] == 2 * COUNT
                worker.stop()


def answer(*, of_topics: bool, node: int = 7) -> Any:
    """Return a broker's answer to a request for metadata, of all topics or of none."""
    partitions = [(0, partition, node, [node], [node]) for partition in range(4)]
    topics = [(0, "source", False, partitions)] if of_topics else []
    return MetadataResponse_v1([(node, "broker", 9092, None)], node, topics)


class Client:
    """aiokafka's client, as far as it asks for metadata: who answers is given."""

    def __init__(self) -> None:
        self.known = self.bootstraps = True
        self.cluster = ClusterMetadata()
        self.cluster.update_metadata(answer(of_topics=False))

    async def send(self, _broker: int, request: MetadataRequest) -> Any:
        """Answer, and make no topic that is asked for."""
        *_, makes_topics = request.build(MetadataRequest_v5).to_object().values()
        assert makes_topics is False
        if not self.known:
            raise KafkaConnectionError
        return answer(of_topics=False)

    async def _metadata_update(self, _cluster: object, _topics: object) -> bool:
        raise AssertionError("it would have brokers make topics")

    async def bootstrap(self) -> None:
        if not self.bootstraps:
            raise KafkaConnectionError
        self.known = True
        self.cluster.update_metadata(answer(of_topics=False))

    def force_metadata_update(self) -> None:
        """Called some seconds later, when no test of this waits any more."""


@pytest.mark.parametrize("bootstraps", [True, False])
def test_a_consumer_is_lost_while_no_address_answers(*, bootstraps: bool) -> None:
    """Where a bootstrap address does, it is not; and where none does, since the first time."""
    client = Client()
    contact = BootstrapContact(cast(AIOKafkaConsumer, SimpleNamespace(_client=client)))

    def asked() -> Any:
        asyncio.run(client._metadata_update(client.cluster, set()))
        return contact.lost_since

    assert asked() is None
    client.known, client.bootstraps = False, bootstraps
    since = asked()
    assert (since is None) == bootstraps
    assert asked() == since
    client.known = True
    assert asked() is None


def test_topics_stay_known_while_the_bootstrap_addresses_are_asked() -> None:
    """Their answer has no topics: a group's leader that forgot them would assign nothing to anyone,
    and would not even ask again before its metadata are five minutes old.
    """
    client = Client()
    BootstrapContact(cast(AIOKafkaConsumer, SimpleNamespace(_client=client)))
    client.cluster.update_metadata(answer(of_topics=True))
    seen: list[set[int]] = []
    client.cluster.add_listener(lambda cluster: seen.append(cluster.partitions_for_topic("source")))
    client.known = False
    asyncio.run(client._metadata_update(client.cluster, {"source"}))
    assert client.cluster.partitions_for_topic("source") == {0, 1, 2, 3}
    client.cluster.update_metadata(answer(of_topics=False, node=8))
    assert [broker.nodeId for broker in client.cluster.brokers()] == [8]
    assert not seen
    client.cluster.update_metadata(answer(of_topics=True, node=8))
    assert seen == [{0, 1, 2, 3}]
