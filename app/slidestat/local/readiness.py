"""Wait until a broker answers a real client."""

import logging
import socket
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from slidestat.local.supervised import SupervisedProcess

_LOOK_AGAIN_S = 0.05
_CONNECT_TIMEOUT_S = 1.0
_ANSWER_TIMEOUT_S = 5.0

# the client's complaints while the broker does not answer yet are expected
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class BrokerEndedError(Exception):
    """An error of a broker whose process ended before it answered; `status` is negative for a
    signal.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


def await_broker(
    process: SupervisedProcess, bootstrap_servers: str, cluster_id: str, timeout_s: float
) -> None:
    """Return once a client sees the cluster with this id, and its broker, at the address.

    The id is compared because another broker may listen there, while ours is failing to.
    Raises BrokerEndedError when the process ends first, TimeoutError when the time is up.
    """
    until = time.monotonic() + timeout_s
    while not _answers(bootstrap_servers, cluster_id):
        status = process.wait(_LOOK_AGAIN_S)
        if status is not None:
            raise BrokerEndedError(status)
        if time.monotonic() > until:
            raise TimeoutError


def _answers(bootstrap_servers: str, cluster_id: str) -> bool:
    # a plain connection first: a client made too early pauses longer and longer between tries
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}, logger=_silent)
    try:
        cluster = client.list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return bool(cluster.cluster_id == cluster_id and cluster.brokers)
