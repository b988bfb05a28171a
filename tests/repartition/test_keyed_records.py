"""By what a record is moved: the key that the topology counts it under."""

import json

import pytest

from slidestat import Alert, Count, LandmarkCount, Ranking, Slo, Sum, Topology, TopologyDriver
from slidestat.engine.records import NO_TIME
from slidestat.errors import SlidestatError
from slidestat.repartition.keyed_records import KeyReader

NOON = 1_700_000_000_000


def topology(**changes: object) -> Topology:
    declared = {
        "name": "t",
        "source": "s",
        "span": "10m",
        "every": "1m",
        "lateness": "5s",
        "repartition": True,
        "statistics": (Count(epsilon=0.001),),
    }
    return Topology(**{**declared, **changes})  # type: ignore[arg-type]


TWO = {
    "key_field": "who",
    "computed": ["country || '+' || merchant as who", "a / 2 as half"],
    "statistics": (Sum(field="half"),),
}


NAMED = (Count(name="errors", where="status >= 500"), Sum(field="bytes"))
READERS: dict[str, dict[str, object]] = {
    "derived": {"derived": ["errors_10m / sum_bytes_10m as each"]},
    "having": {"having": "errors_10m > 3"},
    "the past": {"windows": ["1m"], "having": "errors_1m > ago(errors_1m, '5m')"},
    "objectives": {"span": "7d", "slos": [Slo(name="up", good="status < 500", objective=0.999)]},
    "totals": {"statistics": (*NAMED, LandmarkCount()), "forget_after": "1h"},
    "rankings": {"rankings": [Ranking(name="most", by="errors_10m", largest=3)]},
    "alerts": {"alerts": [Alert(name="many", when="errors > 3")], "alert_headers": "cloudevents"},
}


@pytest.mark.parametrize("changes", READERS.values(), ids=[*READERS])
def test_what_reads_figures_has_no_part_in_it(changes: dict[str, object]) -> None:
    """The reader of keys has no figures, and refuses nothing that needs some."""
    reader = KeyReader(topology(**{"statistics": NAMED, **changes}))
    keys, _ = reader.read([json.dumps({"key": "a", "time": NOON}).encode()], [None], [NOON])
    assert keys == ["a"]


@pytest.mark.parametrize(
    ("changes", "value", "kafka_key", "key"),
    [
        ({}, {"key": "a", "time": NOON}, None, "a"),
        ({}, {"key": 7, "time": NOON}, b"other", "7"),
        ({}, {"key": "a", "time": "noon"}, None, None),
        ({}, {"time": NOON}, b"other", None),
        ({"where": "status > 5"}, {"key": "a", "time": NOON, "status": 1}, None, "a"),
        ({"where": "status > 5"}, {"key": "a", "time": NOON, "status": "b"}, None, "a"),
        (TWO, {"country": "DE", "merchant": "x", "time": NOON}, None, "DE+x"),
        (TWO, {"country": "DE", "time": NOON}, None, None),
        ({"key_field": "kafka:key"}, {"time": NOON}, "ä".encode(), "ä"),
        ({"key_field": "kafka:key"}, {"time": NOON}, None, None),
        ({"key_field": "user.id"}, {"user": {"id": "é" * 256}, "time": NOON}, None, "é" * 256),
        ({"key_field": "user.id"}, {"user": {"id": "é" * 257}, "time": NOON}, None, None),
    ],
)
def test_the_key_is_the_topology_s(
    changes: dict[str, object], value: object, kafka_key: bytes | None, key: str | None
) -> None:
    """Whatever its statistics or conditions read of a record, it goes where its key is counted."""
    reader = KeyReader(topology(**changes))
    keys, times = reader.read([json.dumps(value).encode(), None], [kafka_key, b"k"], [NOON, NOON])
    assert keys[0] == key
    assert times[0] == (NO_TIME if key is None else NOON)
    assert (keys[1], times[1]) == (None, NO_TIME)


def test_a_time_too_far_ahead_is_none() -> None:
    """Its key is known, and its letter is written where that is counted."""
    value = b'{"key":"a","time":%d}' % (NOON + 300_001)
    keys, times = KeyReader(topology()).read([value] * 2, [None] * 2, [NOON, NOON + 1])
    assert keys == ["a", "a"]
    assert times.tolist() == [NO_TIME, NOON + 300_001]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repartition": "yes"}, "repartition is 'yes'"),
        ({"lateness": "0s"}, "repartition is true, and lateness is '0s'"),
        ({"publish": "partition"}, "repartition is true, and publish is 'partition'"),
        ({"publish": ["a"]}, "repartition is true, and publish is ['a']"),
        ({"source": "t-repartition"}, "source is 't-repartition', which this topology writes"),
    ],
)
def test_declarations_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SlidestatError) as raised:
        topology(**changes)
    assert raised.value.message.startswith(message)
    assert raised.value.advice


def test_what_is_counted_is_another_topic() -> None:
    """States of the one are of no use for the other; output and names stay."""
    moved, plain = topology(), topology(repartition=False)
    assert (moved.events_topic, plain.events_topic) == ("t-repartition", "s")
    assert moved.state_meaning == {**plain.state_meaning, "source": "t-repartition"}
    assert moved.output_topic == plain.output_topic


def test_the_driver_brings_a_key_s_records_together() -> None:
    """Wherever they come from; without `repartition` that is refused."""
    events = [{"key": f"k{i % 10}", "time": NOON + 100 * i} for i in range(1_000)]
    driver, plain = TopologyDriver(topology(), 3), TopologyDriver(topology(repartition=False), 3)
    for place, event in enumerate(events):
        driver.send(event, partition=place % 3)
    driver.send_bytes(b"none", partition=1)
    driver.close_windows()
    figures = [driver.figure(f"k{key}", "count", "10m", at=NOON + 100_000) for key in range(10)]
    assert [(figure.lower, figure.upper) for figure in figures] == [(100, 100)] * 10
    assert len(driver.dead_letters) == 1
    plain.send(*events, partition=0)
    with pytest.raises(SlidestatError, match="repartition = true"):
        plain.send(*events, partition=1)
