"""The brokers: whether they answer, let this user in, and do what workers ask of them."""

from collections.abc import Iterator

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Finding, Verdict
from slidestat.doctor.permissions import cluster_permission, creation_permission, worker_permissions
from slidestat.doctor.source_records import declared_names, unread_records
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import require_broker
from slidestat.kafka.settings import broker_security


def brokers(
    bootstrap: str, topology: Topology | Referee | None, registry: str
) -> Iterator[Finding]:
    """Yield the findings about the connection, then about the permissions, those of a worker of
    `topology` if there is one.
    """
    try:
        security = broker_security()
        found = security.protocol
        if security.username:
            found += f", user {security.username}, {security.mechanism}"
        yield Finding("security", Verdict.GOOD, found)
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
        yield from unread_records(bootstrap, topology, cluster)
        if isinstance(topology, Topology):
            yield from declared_names(bootstrap, topology, cluster, registry)
