"""An AsyncAPI document of a topology: its topics, and schemas that its records keep."""

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from slidestat.admin.topics import written_topics
from slidestat.cli.display.documents import asyncapi_document
from slidestat.declare.alerts import Alert
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Distinct, Quantiles
from slidestat.declare.topology import Topology
from slidestat.testing.driver import TopologyDriver
from tests.commands import RunCli

START_MS = 1_764_072_000_000
ALERTS = (Alert(name="busy", when="count > 5", window="1m"),)


def declare(**changes: Any) -> Topology:
    fields = {"source": "s", "span": "1h", "every": "1m", "windows": ["1m"], "name": "t"}
    return Topology(**{**fields, "statistics": [Count(), Quantiles()], **changes})


def payload(document: dict[str, Any], channel: str) -> Draft202012Validator:
    """What a channel's records are held against, its references those of the document."""
    (message,) = document["channels"][channel]["messages"].values()
    return Draft202012Validator({**message["payload"], "components": document["components"]})


def references(of: Any) -> set[str]:
    if isinstance(of, list):
        return set().union(*map(references, of))
    if not isinstance(of, dict):
        return set()
    own = {of["$ref"]} if isinstance(of.get("$ref"), str) else set()
    return own.union(*map(references, of.values()))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"alerts": ALERTS, "derived": ["count_1m / 60 as rate"]},
        {"output_shape": "rows", "statistics": [Count()]},
        {
            "time_format": "sequence",
            "span": "1000 events",
            "every": "10 events",
            "windows": ["100 events"],
        },
    ],
    ids=["plain", "alerts", "rows", "sequence"],
)
def test_records_keep_their_schemas(changes: dict[str, Any]) -> None:
    """What a worker writes is what the document has of its topic."""
    topology = declare(**changes)
    document = asyncapi_document(topology)
    driver = TopologyDriver(topology)
    for at in range(300):
        time = at if topology.is_sequence else START_MS + 1_000 * at
        driver.send({"key": "k", "time": time, "value": 1.5})
    written = driver.rows if topology.writes_rows else driver.emissions
    for channel, records in (("output", written), ("alerts", driver.alerts)):
        if channel == "output" or topology.alerts:
            assert records
            schema = payload(document, channel)
            for record in records:
                schema.validate(json.loads(msgspec.json.encode(record)))


RANKED = ("rankings", "ranked")


@pytest.mark.parametrize("declared", ["topology", "referee", "repartition", *RANKED])
def test_channels_are_the_topics(declared: str) -> None:
    """Each topic that workers write has a channel, and each reference leads somewhere."""
    topology = declare(statistics=[Distinct()], publish=["*"], alerts=())
    ranked = declare(rankings=(Ranking(name="most", by="count_1m", largest=1),), alerts=())
    asked, others = {
        "rankings": (ranked, {"t-synopses"}),
        "ranked": (Referee(name="all", of=ranked, patience="1m"), set[str]()),
        "topology": (topology, {"t-synopses"}),
        "referee": (Referee(name="all", of=topology, patience="1m"), set[str]()),
        "repartition": (moved := declare(repartition=True, lateness="10s"), {moved.events_topic}),
    }[declared]
    document = asyncapi_document(asked)
    sent = {
        document["channels"][operation["channel"]["$ref"].rpartition("/")[2]]["address"]
        for operation in document["operations"].values()
        if operation["action"] == "send"
    }
    assert sent == written_topics(asked).keys() | others
    assert ("all-rankings" in sent) == (declared == "ranked")
    for reference in references(document):
        found = document
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]


def test_each_source_is_read() -> None:
    """A pattern has no address, for it is of several topics."""
    document = asyncapi_document(declare(source="", sources=["eu", "us-*"], lateness="10s"))
    channels = [document["channels"][name] for name in ("source", "source_2")]
    assert [channel["address"] for channel in channels] == ["eu", None]
    assert channels[1]["description"] == "each topic named us-*"
    assert "topic" not in channels[1]["bindings"]["kafka"]
    assert document["operations"]["receive_source_2"]["action"] == "receive"


def test_a_topic_of_expected_keys_is_read() -> None:
    """It has a channel like the source, and none if keys are declared alone."""
    silent = (Alert(name="silent", when="count = 0", window="1m"),)
    document = asyncapi_document(declare(alerts=silent, expected_topic="services"))
    assert document["channels"]["expected_keys"]["address"] == "services"
    assert document["operations"]["receive_expected_keys"]["action"] == "receive"
    assert "expected_keys" not in asyncapi_document(declare(alerts=silent))["channels"]


def test_the_command(run_cli: RunCli) -> None:
    """One document, and not two at once."""
    found = run_cli("topology", "show", "flights", "--asyncapi")
    assert json.loads(found.stdout)["channels"]["output"]["address"] == "flights-statistics"
    both = run_cli("topology", "show", "flights", "--asyncapi", "--json")
    assert (both.returncode, "what to do: Give one of them." in both.stderr) == (2, True)
