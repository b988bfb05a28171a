"""States and letters that would not fit their topics are found out before a worker starts."""

import pytest

from slidestat.admin.topics import create_topic
from slidestat.admin.worker_topics import check_sizes, prepare_topics
from slidestat.declare.statistics import Count, RankQuantiles, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import largest_state, measure
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import MAX_MESSAGE_BYTES
from slidestat.kafka.letter_record import LETTER_BYTES
from tests.conftest import MakeTopic


@pytest.fixture
def topology(topic_name: str) -> Topology:
    return Topology(
        name=topic_name,
        source=f"{topic_name}-source",
        span="1h",
        every="1m",
        statistics=(Count(epsilon=0.01), Sum(epsilon=0.01)),
    )


def test_what_a_topology_makes_fits(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Topics that the worker makes itself are large enough for its states and letters."""
    make_topic("source")
    prepare_topics(bootstrap_servers, topology)
    check_sizes(bootstrap_servers, topology, measure(topology))


def test_a_state_larger_than_the_changelog_takes(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """It is foreseen from the statistics' parameters, larger than what 100,000 events make, and
    the advice names the command that lets it in.
    """
    make_topic("source")
    measured = measure(topology)
    limit = 8 * 2**10 + measured[-1].state_bytes
    assert largest_state(topology, measured) > limit - 8 * 2**10
    create_topic(
        bootstrap_servers,
        topology.changelog_topic,
        1,
        {"cleanup.policy": "compact", "max.message.bytes": str(limit)},
    )
    prepare_topics(bootstrap_servers, topology)
    with pytest.raises(SlidestatError, match="changelog") as raised:
        check_sizes(bootstrap_servers, topology, measure(topology))
    assert f"max.message.bytes={MAX_MESSAGE_BYTES}" in raised.value.advice


def test_a_state_larger_than_any_record(
    bootstrap_servers: str, make_topic: MakeTopic, topic_name: str
) -> None:
    """Quantiles of eight fields: larger errors are advised, no setting
    of a topic.
    """
    topology = Topology(
        name=topic_name,
        source=f"{topic_name}-source",
        span="1h",
        every="1m",
        statistics=tuple(
            RankQuantiles(field=f"f{i}", quantiles=(0.5,), epsilon=0.002) for i in range(8)
        ),
    )
    make_topic("source")
    prepare_topics(bootstrap_servers, topology)
    with pytest.raises(SlidestatError, match="foreseen") as raised:
        check_sizes(bootstrap_servers, topology, measure(topology))
    assert "larger errors" in raised.value.advice
    assert "kafka-configs" not in raised.value.advice


def test_a_source_whose_records_do_not_fit_a_letter(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """A source may take larger records than a producer sends: letters have the beginning then, of
    as much as the topics of letters take, however little that is.
    """
    make_topic("source", config={"max.message.bytes": str(16 * 2**20)})
    prepare_topics(bootstrap_servers, topology)
    assert (
        check_sizes(bootstrap_servers, topology, measure(topology))
        == LETTER_BYTES
        == MAX_MESSAGE_BYTES - 8 * 2**10
    )


def test_letters_have_as_much_as_their_topic_takes(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """A topic of letters that was there before says how much, also if that is very little."""
    make_topic("source", config={"max.message.bytes": "2000"})
    create_topic(bootstrap_servers, topology.late_topic, 1, {"max.message.bytes": "4000"})
    prepare_topics(bootstrap_servers, topology)
    assert check_sizes(bootstrap_servers, topology, measure(topology)) == 2_000


def test_a_letter_topic_smaller_than_its_source(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """It is refused before anything is read, with the command that corrects it."""
    make_topic("source")
    create_topic(bootstrap_servers, topology.dead_letter_topic, 1, {"max.message.bytes": "1000"})
    prepare_topics(bootstrap_servers, topology)
    with pytest.raises(SlidestatError, match="might not fit") as raised:
        check_sizes(bootstrap_servers, topology, measure(topology))
    assert f"--entity-name {topology.dead_letter_topic}" in raised.value.advice
