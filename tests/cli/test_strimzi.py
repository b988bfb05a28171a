"""Strimzi's resources for a topology: names, settings, and what its user may do."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from slidestat.admin.topics import written_topics
from slidestat.cli.display.documents import strimzi_resources
from slidestat.declare.naming import NAME
from slidestat.declare.statistics import Count, Distinct
from slidestat.declare.topology import Topology
from tests.commands import RunCli
from tests.security.test_permissions import documented

# RFC 1123, as Kubernetes' API server has it.
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def declare(name: str = "t", **changes: Any) -> Topology:
    fields = {"source": "s", "span": "1h", "every": "1m", "statistics": [Count()]}
    return Topology(**{"name": name, **fields, **changes})


def of_kind(topology: Topology, kind: str) -> list[dict[str, Any]]:
    return [it for it in strimzi_resources(topology, 12)["items"] if it["kind"] == kind]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.from_regex(NAME, fullmatch=True), min_size=2, max_size=2, unique=True))
def test_names_are_those_of_kubernetes(names: list[str]) -> None:
    """Of topics with names that differ in case or signs alone, too; each resource has its topic."""
    seen: dict[str, str] = {}
    for name in names:
        for one in strimzi_resources(declare(name), 12)["items"]:
            found = one["metadata"]["name"]
            assert SUBDOMAIN.fullmatch(found)
            assert len(found) <= 253
            meant = one["spec"].get("topicName", found)
            assert seen.setdefault(f"{one['kind']} {found}", meant) == meant
        assert written_topics(declare(name)).keys() < {*seen.values()}


def test_topics_are_made_as_by_a_worker() -> None:
    """With the source's partitions, but one of synopses; the source is another's."""
    topology = declare(publish=["*"], statistics=[Distinct()], alerts=())
    made = {it["metadata"]["name"]: it["spec"] for it in of_kind(topology, "KafkaTopic")}
    assert {name: spec["partitions"] for name, spec in made.items()} == {
        "t-statistics": 12,
        "t-dead-letters": 12,
        "t-late": 12,
        "slidestat-t-t-state-changelog": 12,
        "t-synopses": 12,
    }
    for name, config in written_topics(topology).items():
        assert made[name]["config"] == config
    assert made["slidestat-t-t-state-changelog"]["config"]["cleanup.policy"] == "compact"


def grants(topology: Topology) -> set[tuple[str, str, str]]:
    (user,) = of_kind(topology, "KafkaUser")
    return {
        (acl["resource"]["type"], acl["resource"]["name"], operation)
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }


def test_the_user_may_do_what_documents_list() -> None:
    """That list is tried on a real broker; the output is read by the live page as well."""
    assert grants(declare(source="t-source")) == {
        *documented("t"),
        ("topic", "t-statistics", "Read"),
    }


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"repartition": True, "lateness": "5s"}, "slidestat-t-repartition"),
        ({"exactly_once": True}, "slidestat-t-"),
    ],
)
def test_the_user_may_write_in_transactions(changes: dict[str, Any], name: str) -> None:
    """Those of the mover of records, or of each partition."""
    more = grants(declare(**changes)) - grants(declare())
    assert {it for it in more if it[0] == "transactionalId"} == {
        ("transactionalId", name, "Write"),
        ("transactionalId", name, "Describe"),
    }


def test_the_user_may_read_all_sources() -> None:
    """Those of a pattern by what their names begin with, as Kafka's own patterns do."""
    topology = declare(source="", sources=["eu", "us-*-orders", "*-ap"], lateness="5s")
    (user,) = of_kind(topology, "KafkaUser")
    resources = [acl["resource"] for acl in user["spec"]["authorization"]["acls"]]
    assert [(it["name"], it["patternType"]) for it in resources[:3]] == [
        ("eu", "literal"),
        ("us-", "prefix"),
        ("*", "literal"),
    ]


def test_topologies_of_a_group_leave_each_other_their_rights() -> None:
    """A resource of the same name would be replaced by `kubectl apply`, without a word."""
    declared = [declare("a", group="g"), declare("b", group="g"), declare("g"), declare("g-a")]
    users = [of_kind(it, "KafkaUser")[0]["metadata"]["name"] for it in declared]
    assert len({*users}) == 4
    assert users[2:] == ["slidestat-g", "slidestat-g-a"]


def test_the_command_prints_what_kubectl_takes(run_cli: RunCli) -> None:
    """One list, in JSON."""
    run = run_cli("topology", "show", "flights", "--strimzi", "3")
    found = json.loads(run.stdout)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert {it["apiVersion"] for it in found["items"]} == {"kafka.strimzi.io/v1"}
