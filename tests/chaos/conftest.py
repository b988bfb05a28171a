"""The broker of these tests, whose clients reach it through a network that can be reset."""

from collections.abc import Iterator

import pytest

from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from tests.chaos.network import Network


@pytest.fixture
def network() -> Iterator[tuple[LocalBroker, Network]]:
    """A broker and the network in front of it."""
    ours, brokers = pick_free_ports(2)
    with (
        Network(ours, brokers) as network,
        LocalBroker(
            port=brokers, secured_settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{ours}"}
        ) as broker,
    ):
        yield broker, network
