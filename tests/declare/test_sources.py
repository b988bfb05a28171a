"""Several sources of one topology, as names and patterns of names."""

import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.topology import Topology, without_move
from slidestat.errors import SlidestatError
from slidestat.repartition.keyed_records import KeyReader

DECLARED = {"name": "t", "span": "1h", "every": "1m", "lateness": "5s"}


def declare(**changes: Any) -> Topology:
    return Topology(**{**DECLARED, **changes})


NAMES = st.text("ab.-_", min_size=1, max_size=6)
PATTERNS = st.text("ab.-_*", min_size=1, max_size=5).filter(lambda it: "*" in it)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(NAMES, PATTERNS, st.sets(NAMES, max_size=8))
def test_a_star_is_any_characters_and_all_else_is_itself(
    named: str, pattern: str, topics: set[str]
) -> None:
    """Kafka's own topics, which begin with two underscores, are in no pattern."""
    try:
        found = declare(sources=[named, pattern]).sources_among(topics)
    except SlidestatError:
        assert pattern.strip(
            "*"
        ) in "t-statistics t-dead-letters t-late t-repartition" or re.search("^[*]|[*]$", pattern)
        return
    wanted = re.compile(".*".join(re.escape(part) for part in pattern.split("*")))
    assert found == sorted(
        topic
        for topic in topics
        if topic == named or (wanted.fullmatch(topic) and not topic.startswith("__"))
    )


def test_three_forms_are_one() -> None:
    """They are moved, as by `repartition`, and counted from one topic of the group's."""
    of_toml = topology_of({**DECLARED, "sources": ["eu", "us-*"]})
    of_flags = topology_of_flags({**DECLARED, "sources": "eu, us-*"})
    assert of_toml == of_flags == declare(sources=("eu", "us-*"), repartition=True)
    assert of_toml.events_topic == "t-repartition"
    assert of_toml.sources_text == "eu, us-*"
    alone = without_move(of_toml)
    assert (alone.source, alone.sources, alone.repartition) == ("t-repartition", (), False)


def test_records_are_placed_by_the_key_that_is_declared() -> None:
    """The record's own, if that is the key."""
    value = b'{"time":1700000000000,"key":"of the value"}'
    for changes, key in (({}, "of the value"), ({"key_field": "kafka:key"}, "own")):
        reader = KeyReader(declare(sources=["eu", "us"], **changes))
        assert reader.read([value], [b"own"], [0])[0] == [key]


@pytest.mark.parametrize(
    ("changes", "message", "advice"),
    [
        ({}, "source is empty", "several in sources"),
        ({"source": "a-*"}, "source is 'a-*'", 'sources = ["orders-*"]'),
        ({"source": "a", "sources": ["b", "c"]}, "source is 'a', and sources", "one of them"),
        ({"sources": "eu"}, "sources is 'eu', which is not a list", '["eu", "us"]'),
        ({"sources": ["eu"]}, "which is one topic", 'source = "eu"'),
        ({"sources": ["eu", "eu"]}, "one is there twice", "Name it once"),
        ({"sources": ["eu", "u s"]}, "sources has 'u s'", "'*' for any"),
        ({"sources": ["eu", 7]}, "sources has 7", "'*' for any"),
        ({"sources": ["t-*"]}, "this topology writes 't-dead-letters'", "leaves it out"),
        ({"sources": ["eu", "t-repartition"]}, "writes 't-repartition'", "leaves it out"),
        ({"sources": ["eu", "us"], "lateness": "0s"}, "sources are several", "10s"),
        ({"sources": ["eu", "us"], "publish": "partition"}, "sources are several", "one source"),
        ({"sources": ["eu", "us"], "source_format": "avro"}, "sources are several", "in JSON"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str, advice: str) -> None:
    with pytest.raises(SlidestatError) as raised:
        declare(**changes)
    assert message in raised.value.message
    assert advice in raised.value.advice
