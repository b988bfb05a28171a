"""The brokers: whether they answer, let this user in, and do what workers ask of them."""

from collections.abc import Iterator

from app.client.connection import require_broker
from app.doctor.finding import Finding, Verdict
from app.doctor.permissions import cluster_permission, creation_permission, worker_permissions
from app.errors import SlidestatError
from app.security.settings import broker_security
from app.streaming.referee import Referee
from app.streaming.topology import Topology


def brokers(bootstrap: str, topology: Topology | Referee | None) -> Iterator[Finding]:
    """The connection, then what is allowed, to a worker of `topology` if there is one."""
    try:
        security = broker_security()
        told = security.protocol
        if security.username:
            told += f", user {security.username}, {security.mechanism}"
        yield Finding("security", Verdict.GOOD, told)
        cluster = require_broker(bootstrap)
    except SlidestatError as error:
        yield Finding("broker", Verdict.BAD, error.message, error.advice)
        return
    count = len(cluster.brokers)
    yield Finding(
        "broker",
        Verdict.GOOD,
        f"{bootstrap}: cluster {cluster.cluster_id}, {count} broker{'s' if count != 1 else ''},"
        f" {len(cluster.topics)} topics",
    )
    yield cluster_permission(bootstrap)
    if topology is None:
        yield creation_permission(bootstrap)
    else:
        yield from worker_permissions(bootstrap, topology)
