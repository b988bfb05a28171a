"""What a replay would do is said before it does it."""

import pytest
from confluent_kafka import Producer

from slidestat.admin.replay_plan import plan_replay
from slidestat.cli.display.lines import plan_lines
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from tests.conftest import MakeTopic

FROM = "2025-11-25T11:00:00Z"


def test_timestamps_in_seconds_leave_nothing_to_replay(
    bootstrap_servers: str, make_topic: MakeTopic, topic_name: str
) -> None:
    """It says that no record has a timestamp from then on, and why that may be."""
    source = make_topic("source", 1)
    topology = Topology(name=topic_name, source=source, span="1h", every="1m")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for second in range(9):
        producer.produce(source, b"{}", timestamp=1_764_072_072 + second)
    producer.flush()
    lines = list(plan_lines(plan_replay(bootstrap_servers, topology, FROM, "latest", None)))
    assert (
        "beware      no record of partition 0 has a timestamp from then on: its last one has"
        " 1764072080 ms, 1970-01-21T10:01:12Z: it seems to be in seconds, 2025-11-25T12:01:20Z"
    ) in lines
    producer.produce(source, b"{}", timestamp=1_764_072_072_000)
    producer.flush()
    lines = list(plan_lines(plan_replay(bootstrap_servers, topology, FROM, "latest", None)))
    assert not any("beware" in line for line in lines)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("1764072000000", "If it is a time, write 2025-11-25T12:00:00Z."),
        ("1764072000", "If it is a time, write 2025-11-25T12:00:00Z."),
        ("10", "Give an offset up to 9, or a time"),
    ],
)
def test_an_offset_behind_all_ends_is_no_place(
    bootstrap_servers: str, make_topic: MakeTopic, topic_name: str, given: str, advice: str
) -> None:
    """A time as a number was taken for an offset: a replay in place would have set all states back,
    and read nothing again; or would have gone on beyond the time that it was to end at.
    """
    source = make_topic("source", 2)
    topology = Topology(name=topic_name, source=source, span="1h", every="1m")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(9):
        producer.produce(source, b"{}", partition=1)
    producer.flush()
    for begin, end in ((given, "latest"), ("earliest", given)):
        with pytest.raises(SlidestatError, match=f"is the offset {given}") as refused:
            plan_replay(bootstrap_servers, topology, begin, end, None)
        assert refused.value.advice.startswith(advice)
    assert plan_replay(bootstrap_servers, topology, "9", "9", None).records == 0
