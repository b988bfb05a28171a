"""Resources of Strimzi, the operator of Kafka on Kubernetes: a topology's topics and its user.

Source: Strimzi's API kafka.strimzi.io/v1, which is there from 0.49 on, and alone from 1.0 on.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from slidestat.admin.topics import (
    CHANGELOG_CONFIG,
    shared_topics,
    written_topics,
)
from slidestat.declare.declared import Declared
from slidestat.doctor.permissions import uses, word
from slidestat.engine.publishing import synopsis_partitions
from slidestat.faust.exactly_once import transactional_id
from slidestat.repartition.moved_from import mover_id

_API = "kafka.strimzi.io/v1"
_CLUSTER = {"strimzi.io/cluster": "my-cluster"}
# Of a name, RFC 1123, and of the digest that tells apart what Kubernetes cannot.
_LONGEST, _DIGEST = 253, 8
_NAMELESS = "topic"


def strimzi_resources(topology: Declared, partitions: int) -> dict[str, Any]:
    """Return a list of resources for `kubectl apply`: a KafkaTopic for each topic that workers
    write, for a source with so many partitions, and a KafkaUser that may do what workers do.
    """
    topics = [_topic(*one) for one in _topics(topology, partitions)]
    return {"apiVersion": "v1", "kind": "List", "items": [*topics, _user(topology)]}


def _topics(topology: Declared, partitions: int) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield the name, the partitions and the settings of each topic."""
    for name, config in written_topics(topology).items():
        yield name, partitions, config
    yield topology.changelog_topic, partitions, CHANGELOG_CONFIG
    for name, config in shared_topics(topology).items():
        count = partitions
        if topology.counted is not None and name != topology.events_topic:
            count = synopsis_partitions(topology.counted, partitions)
        yield name, count, config


def _topic(name: str, partitions: int, config: dict[str, str]) -> dict[str, Any]:
    # Without `replicas`, of which the brokers' default makes as many as the cluster can have.
    spec: dict[str, Any] = {"partitions": partitions, "config": config}
    resource_name = _resource_name(name)
    if resource_name != name:
        spec["topicName"] = name
    return _resource("KafkaTopic", resource_name, spec)


def _user(topology: Declared) -> dict[str, Any]:
    acls = [
        _acl("topic", use.topic, [word(operation) for operation in use.operations])
        for use in uses(topology)
    ]
    # The live page and `slidestat watch` read the figures of the past.
    acls.append(_acl("topic", topology.output_topic, ["Read"]))
    acls.append(_acl("group", topology.application_id, ["Read"]))
    in_transactions = ["Write", "Describe"]
    if topology.counted is not None and topology.repartition:
        moving = mover_id(topology.counted)
        acls.append(_acl("group", moving, ["Read"]))
        acls.append(_acl("transactionalId", moving, in_transactions))
    if topology.exactly_once:
        ids = transactional_id(topology.name, 0).removesuffix("0")
        acls.append(_acl("transactionalId", ids, in_transactions, "prefix"))
    spec = {
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"type": "simple", "acls": acls},
    }
    return _resource("KafkaUser", _resource_name(topology.application_id), spec)


def _resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": _CLUSTER}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}


def _acl(
    kind: str, name: str, operations: list[str], pattern_type: str = "literal"
) -> dict[str, Any]:
    resource = {"type": kind, "name": name, "patternType": pattern_type}
    return {"resource": resource, "operations": operations, "host": "*"}


def _resource_name(name: str) -> str:
    """Return a name as Kubernetes takes it, another one for each name of Kafka's."""
    labels = (re.sub(r"[^a-z0-9]", "-", part).strip("-") for part in name.lower().split("."))
    found = ".".join(filter(None, labels)) or _NAMELESS
    if found == name and len(name) <= _LONGEST:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{found[: _LONGEST - _DIGEST - 1].rstrip('-.')}-{digest}"
