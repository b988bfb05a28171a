"""What a worker needs to be allowed: as the documents list it, and as `doctor` finds it out.

The broker has Kafka's own authorizer, and a user who may do what the lists say and nothing else.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from slidestat.declare.forms.files import load_declaration, load_topology
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Finding, Verdict
from slidestat.doctor.permissions import cluster_permission, creation_permission, worker_permissions
from slidestat.kafka.read.scan import reading, scan
from slidestat.local.broker import LocalBroker
from slidestat.schemas.emission import Emission, Figure
from tests.broker.workers import wait_until
from tests.security.conftest import RunSecured, secured_worker

USER, PASSWORD = "clerk", "of-the-clerk"
DOCUMENT = Path(__file__).parents[2] / "docs" / "secured-brokers.md"
PROTOCOL = "SASL_PLAINTEXT"
KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
TOPOLOGY = """
name = "{name}"
source = "{name}-source"
span = "1h"
every = "1m"
[[statistics]]
kind = "count"
"""
MINUTE_MS = 60_000
TIME_MS = 1_700_000_000_000 // MINUTE_MS * MINUTE_MS

Grant = tuple[str, str, str]
"""A kind of resource, its name, and one operation, in the words of kafka-acls."""


@dataclass
class Guarded:
    """A broker on which the user may do what was granted, and nothing else."""

    broker: LocalBroker
    granted: set[Grant] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.admin = AdminClient(
            {"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0}
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.secured_servers(PROTOCOL),
            "KAFKA_SECURITY_PROTOCOL": PROTOCOL,
            "KAFKA_SASL_USERNAME": USER,
            "KAFKA_SASL_PASSWORD": PASSWORD,
        }

    def allow(self, *grants: Grant) -> None:
        """Just these, from now on."""
        wanted = set(grants)
        for grant in self.granted - wanted:
            binding = _binding(grant)
            condition = AclBindingFilter(*(getattr(binding, name) for name in _FIELDS))
            for future in self.admin.delete_acls([condition]).values():
                future.result(30)
        for grant in wanted - self.granted:
            for future in self.admin.create_acls([_binding(grant)]).values():
                future.result(30)
        self.granted = wanted
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # as the client documents it
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        # The controller answers before the broker's authorizer has heard of it.
        wait_until(
            lambda: len(self.admin.describe_acls(every).result(30)) == len(wanted), "the lists", 30
        )

    def make(self, *topics: str) -> None:
        """Create topics of two partitions, by who runs the broker."""
        config = {"retention.ms": "-1", "max.message.bytes": "8388608"}
        compact = {"cleanup.policy": "compact", "max.message.bytes": "8388608"}
        new = [
            NewTopic(name, 2, 1, config=compact if name.endswith("-changelog") else config)
            for name in topics
        ]
        for future in self.admin.create_topics(new).values():
            future.result(30)
        wait_until(lambda: set(topics) <= self._led(), "leaders", 30)

    def _led(self) -> set[str]:
        topics = self.admin.list_topics(timeout=10).topics
        return {
            name
            for name, topic in topics.items()
            if topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
        }


_FIELDS = (
    *("restype", "name", "resource_pattern_type", "principal", "host"),
    *("operation", "permission_type"),
)


def _binding(grant: Grant) -> AclBinding:
    kind, name, operation = grant
    return AclBinding(
        KINDS[kind],
        name,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
        AclPermissionType.ALLOW,
    )


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """Whoever comes without a password runs the broker; the user comes with one."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{login} required user_{USER}="{PASSWORD}";'
        ),
    }
    with LocalBroker(secured_protocols=(PROTOCOL,), secured_settings=settings) as broker:
        yield Guarded(broker)


@pytest.fixture
def topology(tmp_path: Path, topic_name: str, guarded: Guarded) -> Path:
    """A topology's file, and its source."""
    file = tmp_path / "t.toml"
    file.write_text(TOPOLOGY.format(name=topic_name))
    guarded.make(f"{topic_name}-source")
    return file


def documented(name: str) -> set[Grant]:
    """What the table of the document lists, for a topology of this name that does not publish."""
    found = set()
    table = DOCUMENT.read_text("utf-8").split("| on | operations |")[1]
    for on, operations in re.findall(r"^\| (the .*|`.*) \| (.*) \|$", table, re.M):
        kind = "group" if on.startswith("the group") else "topic"
        named = re.findall(r"`([^`]+)`", on) or ["NAME-source"]
        found |= {
            (kind, resource.replace("NAME", name), operation)
            for resource in named
            for operation in operations.split(", ")
            if resource != "NAME-synopses"
        }
    return found


@pytest.fixture
def examined(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> "Examined":
    return Examined(guarded, monkeypatch)


class Examined:
    """What `doctor` finds of a topology's worker, by check."""

    def __init__(self, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in guarded.environment.items():
            monkeypatch.setenv(name, value)
        self._bootstrap = guarded.environment["KAFKA_BOOTSTRAP_SERVERS"]

    def __call__(self, topology: Topology | Referee) -> dict[str, Finding]:
        return {found.check: found for found in worker_permissions(self._bootstrap, topology)}

    def cluster(self) -> dict[str, Finding]:
        found = (cluster_permission(self._bootstrap), creation_permission(self._bootstrap))
        return {finding.check: finding for finding in found}


def bad(found: dict[str, Finding]) -> list[str]:
    return [check for check, finding in found.items() if finding.verdict is Verdict.BAD]


def test_each_permission_that_is_lacking_is_found(
    guarded: Guarded, topology: Path, topic_name: str, examined: Examined
) -> None:
    """With all that the document lists nothing is bad; without any one of it exactly one line is,
    which names it; and what that line says to do corrects it.
    """
    declared = load_topology(str(topology))
    guarded.make(*declared.written_topics)
    needed = documented(topic_name)
    assert len(needed) == 2 + 3 * 2 + 3 + 1
    guarded.allow(*needed)
    found = examined(declared)
    assert not bad(found), found
    assert found["source"].found == f"{declared.source}: this user may Read and DescribeConfigs"
    assert found["history"].verdict is Verdict.MISSING  # needed by `watch`, not by a worker
    for lacking in sorted(needed):
        kind, name, operation = lacking
        guarded.allow(*(needed - {lacking}))
        found = examined(declared)
        (check,) = bad(found)
        assert found[check].found.startswith(f"{name}: this user may not ")
        (advised,) = re.findall(
            rf"`kafka-acls .* User:{USER} ((?:--operation \w+ )+)--{kind} {name}`",
            found[check].advice,
        )
        operations = re.findall(r"--operation (\w+)", advised)
        assert operation in operations
        guarded.allow(*(needed - {lacking}), *((kind, name, word) for word in operations))
        assert not bad(examined(declared))


def test_what_may_not_be_created_is_an_error_where_it_is_missing(
    guarded: Guarded, topology: Path, topic_name: str, examined: Examined
) -> None:
    """Each missing topic that a worker writes is bad without Create, and good with it, or once
    somebody has made it; that no other topic can be created is no error. A source that is missing
    is one in any case.
    """
    declared = load_topology(str(topology))
    needed = documented(topic_name)
    guarded.allow(*needed)
    assert bad(examined(declared)) == ["output", "dead letters", "late events", "changelog"]
    assert "may not create it" in examined(declared)["late events"].found
    creation = [("topic", name, "Create") for name in declared.written_topics]
    guarded.allow(*needed, *creation)
    found = examined(declared)
    assert not bad(found)
    assert (
        found["late events"].found == f"{declared.late_topic}: missing, and this user may create it"
    )
    guarded.allow(*needed)
    guarded.make(*declared.written_topics)
    assert not bad(examined(declared))
    assert examined.cluster()["topics"].verdict is Verdict.MISSING
    assert not bad(examined.cluster())
    nowhere = replace(declared, source=f"{topic_name}-nowhere")
    guarded.allow(*needed, ("topic", nowhere.source, "Read"))
    assert examined(nowhere)["source"].found == f"{nowhere.source}: there is no such topic"


def test_a_topic_that_may_not_be_seen(guarded: Guarded, topology: Path, examined: Examined) -> None:
    """Without any permission on it a broker does not tell whether a topic exists: that is said, and
    what it needs; the same of a group.
    """
    declared = load_topology(str(topology))
    guarded.make(*declared.written_topics)
    guarded.allow()
    found = examined(declared)
    assert bad(found) == [
        *("source", "output", "dead letters", "late events", "changelog"),
        "group",
    ]
    assert found["source"].found == f"{declared.source}: this user may not see it, if it exists"
    assert "--operation Read --operation DescribeConfigs --topic" in found["source"].advice
    assert examined.cluster()["cluster"].verdict is Verdict.MISSING


def test_a_referee(guarded: Guarded, examined: Examined) -> None:
    """It reads what its parties publish, and only looks at what they read."""
    referee = load_declaration("flights_global")
    assert isinstance(referee, Referee)
    guarded.make(referee.of.source, referee.source)
    guarded.allow(
        ("topic", referee.of.source, "Describe"),
        ("topic", referee.source, "Read"),
        ("topic", referee.source, "DescribeConfigs"),
    )
    found = examined(referee)
    assert found["parties"].verdict is Verdict.GOOD
    assert found["source"].verdict is Verdict.GOOD
    assert "output" in bad(found)


def test_the_command(
    guarded: Guarded, topology: Path, topic_name: str, run_secured: RunSecured
) -> None:
    """`slidestat doctor TOPOLOGY` ends with 1 for one permission that is lacking, and tells it in a
    line with what to do.
    """
    declared = load_topology(str(topology))
    guarded.make(*declared.written_topics)
    lacking = ("topic", declared.changelog_topic, "Write")  # Read lets it be seen
    guarded.allow(*(documented(topic_name) - {lacking}))
    run = run_secured(guarded.environment, "doctor", str(topology))
    assert run.returncode == 1, run.stdout + run.stderr
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("BAD"))
    assert line == f"BAD   changelog: {declared.changelog_topic}: this user may not Write"
    assert "what to do: Allow it: `kafka-acls --bootstrap-server" in run.stdout


@pytest.mark.long
def test_the_documents_list_is_enough(
    guarded: Guarded,
    topology: Path,
    topic_name: str,
    tmp_path: Path,
    run_secured: RunSecured,
) -> None:
    """A worker with the listed permissions, and Create, makes its topics, emits, writes letters and
    commits; one that may no longer create, with an empty folder, restores the first one's states
    and goes on: its count is of both. Who may read the output may watch it, in no group.
    """
    declared = load_topology(str(topology))
    needed = documented(topic_name)
    guarded.allow(*needed, *(("topic", name, "Create") for name in declared.written_topics))
    produced(guarded, declared.source, range(5 * 60))
    first = last_count(guarded, topology, declared, tmp_path / "first", 4)
    assert holds(first, 4 * 60)
    guarded.allow(*needed)
    produced(guarded, declared.source, range(5 * 60, 15 * 60))
    second = last_count(guarded, topology, declared, tmp_path / "second", 14)
    assert holds(second, 14 * 60)
    for letters in (declared.dead_letter_topic, declared.late_topic):
        assert len(list(records(guarded, letters))) == 2
    guarded.allow(("topic", declared.output_topic, "Read"))
    watch = ("watch", "--topic", declared.output_topic, "--once", "--json", "--from-beginning")
    watched = run_secured(guarded.environment, *watch)
    assert watched.stdout.count("window_end_ms") == 14, watched.stderr


def holds(count: Figure, exact: int) -> bool:
    assert count.lower is not None
    assert count.upper is not None
    return count.lower <= exact <= count.upper


def produced(guarded: Guarded, source: str, seconds: range) -> None:
    """An event a second, then one that is late, and one that is none."""
    producer = Producer({"bootstrap.servers": guarded.broker.bootstrap_servers})
    for second in (*seconds, seconds[0] - 1):
        event = {"key": "k", "time": TIME_MS + 1_000 * second, "value": 1}
        producer.produce(source, json.dumps(event), partition=0)
    producer.produce(source, "{", partition=0)
    assert producer.flush(60) == 0


def records(guarded: Guarded, topic: str) -> Iterator[bytes]:
    """The values on a topic's first partition now."""
    with reading(guarded.broker.bootstrap_servers, topic) as consumer:
        yield from (message.value() or b"" for message in scan(consumer, topic, {0: 0}))


def last_count(guarded: Guarded, file: Path, declared: Topology, data: Path, minute: int) -> Figure:
    """The count of the span at that minute, by a worker of the user's that ends well."""
    said = data.with_suffix(".said")
    found: list[Figure] = []

    def emitted() -> bool:
        assert worker.poll() is None, said.read_text()
        if ": ready, " not in said.read_text():
            return False  # Its topics may be in the making.
        emissions = [
            msgspec.json.decode(value, type=Emission)
            for value in records(guarded, declared.output_topic)
        ]
        end = TIME_MS + minute * MINUTE_MS
        found[:] = [e.figures[0] for e in emissions if e.window_end_ms == end]
        return bool(found)

    with secured_worker(guarded.environment, file, data, said) as worker:
        wait_until(emitted, "an emission", 240)
        worker.terminate()
        assert worker.wait(60) == 0, said.read_text()
    return found[0]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "which", "operation"),
    [
        ("topic", "source", "Read"),
        ("topic", "output_topic", "Write"),
        ("topic", "changelog_topic", "Write"),
        ("group", "application_id", "Read"),
    ],
)
def test_a_permission_that_is_taken_back(
    guarded: Guarded,
    topology: Path,
    topic_name: str,
    tmp_path: Path,
    kind: str,
    which: str,
    operation: str,
) -> None:
    """A worker from which it is taken ends within a minute, and says what it may not."""
    declared = load_topology(str(topology))
    name = getattr(declared, which)
    needed = documented(topic_name)
    guarded.allow(*needed, *(("topic", one, "Create") for one in declared.written_topics))
    said = tmp_path / "said"
    with secured_worker(guarded.environment, topology, tmp_path / "data", said) as worker:
        wait_until(lambda: ": ready, " in said.read_text(), "a worker that is ready", 240)
        assert (kind, name, operation) in guarded.granted
        guarded.allow(*(guarded.granted - {(kind, name, operation)}))
        produced(guarded, declared.source, range(5 * 60))
        assert worker.wait(120) in (1, 2), said.read_text()
    told = said.read_text()
    assert "Traceback" not in told
    _, is_told, reason = told.rpartition("error: ")
    assert is_told
    assert name in reason
    assert "uthoriz" in reason
