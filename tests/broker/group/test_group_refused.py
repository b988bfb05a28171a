"""A worker that its group does not take ends, and says why."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from tests.broker.conftest import BODY
from tests.broker.workers import Stage

pytestmark = pytest.mark.long


def test_a_session_that_is_too_short_for_the_brokers(topic_name: str, tmp_path: Path) -> None:
    """It stood still, and was never ready: aiokafka tells of the error when records are fetched,
    and nobody fetches before there are partitions.
    """
    (port,) = pick_free_ports(1)
    settings = {"group.min.session.timeout.ms": "15000"}
    with LocalBroker(port=port, secured_settings=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        source = f"{topic_name}-source"
        admin.create_topics([NewTopic(source, 1, 1)])[source].result()
        stage = Stage(broker.bootstrap_servers, tmp_path, topic_name, source, BODY)
        with stage.worker() as worker:
            assert worker.await_end() == 1
            assert "InvalidSessionTimeoutError" in worker.said()
            assert "group.min.session.timeout.ms" in worker.said()
