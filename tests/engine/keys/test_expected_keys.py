"""Keys that count as silent although they never came."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from slidestat import Alert, Count, Topology, TopologyDriver
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.engine.footprint import measure
from slidestat.errors import SlidestatError
from slidestat.kafka.partitioner import default_partition
from slidestat.repartition.keyed_records import KeyReader
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.emission import Figure
from tests.engine.cases import laws

START, TICK = 1_764_072_000_000, 1_000
WATCHED = Topology(
    name="law",
    source="events",
    span="10s",
    every="1s",
    windows=("3s", "10s"),
    statistics=(Count(),),
    alerts=(Alert(name="silent", when="count = 0", window="3s", for_=2),),
    expected=("checkout", "search"),
)
Change = tuple[str, int, str]


def told(changes: Sequence[AlertChange]) -> list[Change]:
    return [(it.key, (it.window_end_ms - START) // TICK, str(it.state)) for it in changes]


def send(driver: TopologyDriver, key: str, *seconds: float, partition: int | None = None) -> None:
    events = [{"key": key, "time": START + round(at * TICK), "value": 1} for at in seconds]
    driver.send(*events, partition=partition)


def test_a_key_that_never_came_is_silent_from_the_first_tick_on() -> None:
    """It fires once `for` ticks have passed, and nothing is emitted; it is resolved when an event
    comes, and fires again when its window has emptied, and for as long as it stays silent.
    """
    driver = TopologyDriver(WATCHED)
    send(driver, "busy", *(at / 2 for at in range(12)))
    assert told(driver.alerts) == [("checkout", 2, "firing"), ("search", 2, "firing")]
    assert {emission.key for emission in driver.emissions} == {"busy"}
    send(driver, "search", 6.2)
    send(driver, "busy", *(6.5 + at / 2 for at in range(60)))
    later = [("search", 7, "resolved"), ("search", 11, "firing")]
    assert [it for it in told(driver.alerts)[2:] if it[0] == "search"] == later
    assert not [it for it in told(driver.alerts)[2:] if it[0] == "checkout"]
    ends = [e.window_end_ms - START for e in driver.emissions if e.key == "search"]
    assert ends == [7 * TICK, 10 * TICK, 17 * TICK]


def test_a_key_is_expected_where_kafka_sends_it_by_default() -> None:
    """On its partition alone; on another one it is refused before anything is emitted of it."""
    driver = TopologyDriver(WATCHED, partitions=3)
    place = default_partition(b"checkout", 3)
    others = [number for number in range(3) if number != place]
    for number in range(3):
        send(driver, f"busy{number}", *range(4), partition=number)
    firing = [it for it in driver.alerts if it.key == "checkout"]
    assert [it.source_partition for it in firing] == [place]
    with pytest.raises(SlidestatError, match=f"'checkout'.* is expected on partition {place}"):
        send(driver, "checkout", 4, *range(4, 8), partition=others[0])


def test_keys_that_are_expected_later_are_silent_from_then_on() -> None:
    """A running topology may expect others, with a restart."""
    driver = TopologyDriver(replace(WATCHED, expected=()))
    send(driver, "busy", *range(8))
    driver.commit()
    driver.change_statistics(WATCHED)
    send(driver, "busy", *range(8, 14))
    assert told(driver.alerts) == [("checkout", 9, "firing"), ("search", 9, "firing")]


def test_a_silent_key_that_is_no_longer_expected_is_forgotten() -> None:
    """With a record that its alert is over, at the next tick; one that is not silent stays."""
    driver = TopologyDriver(WATCHED)
    send(driver, "busy", *range(20))
    send(driver, "search", 19.5)
    send(driver, "busy", 20)
    driver.commit()
    before = len(driver.alerts)
    driver.change_statistics(replace(WATCHED, expected=()))
    send(driver, "busy", 21, 22)
    later = driver.alerts[before:]
    assert told(later) == [("checkout", 21, "resolved")]
    assert later[0].forgotten
    assert not [emission for emission in driver.emissions if emission.key == "checkout"]
    send(driver, "busy", *range(23, 40))
    silent = [("search", 24, "firing"), ("search", 30, "resolved")]
    assert told(driver.alerts[before + 1 :]) == silent


def figures_of(driver: TopologyDriver) -> dict[tuple[str, int], list[Figure]]:
    return {(it.key, it.window_end_ms): it.figures for it in driver.emissions}


@settings(laws, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([{}, {"lateness": "2s"}, {"emit": "change"}]))
def test_crashes_and_batches_leave_no_trace(seed: int, fields: dict[str, Any]) -> None:
    """The same alerts and emissions, whatever batches the events come in and whenever a worker is
    killed; those of other keys are those without expected ones.
    """
    random = Random(seed)
    at, events = 0.0, []
    for _ in range(random.randint(2, 60)):
        at += random.choice([0, 0.1, 0.4, 0.9, 5])
        events.append(
            {
                "key": random.choice(["busy", "busy", "search"]),
                "time": START + round((at - random.choice([0, 0, 1.5])) * TICK),
                "value": 1,
            }
        )
    asked = replace(WATCHED, **fields)

    def run(asked: Topology, *, disturbed: bool) -> TopologyDriver:
        driver, left = TopologyDriver(asked), events
        while left:
            size = random.randint(1, 20) if disturbed else 1
            driver.send(*left[:size])
            left = left[size:]
            if disturbed and random.random() < 0.3:
                driver.commit()
            if disturbed and random.random() < 0.3:
                driver.restart()
        driver.close_windows()
        return driver

    whole, disturbed = run(asked, disturbed=False), run(asked, disturbed=True)
    assert [*map(repr, disturbed.alerts)] == [*map(repr, whole.alerts)]
    assert disturbed.emissions == whole.emissions
    plain = run(replace(asked, expected=()), disturbed=False)
    # A key that is expected has a state, and so its place within a tick, before its first event.
    assert figures_of(plain) == figures_of(whole)


def test_an_idle_partition_tells_of_a_key_that_never_came() -> None:
    """Provisionally, once its clock has begun."""
    driver = TopologyDriver(replace(WATCHED, idle="5s"))
    send(driver, "busy", 0.1, 0.2)
    assert driver.alerts == []
    driver.idle_until(START + 6 * TICK)
    silent = [it for it in driver.alerts if it.key == "checkout"]
    assert [(it.window_end_ms - START, it.provisional) for it in silent] == [(2 * TICK, True)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expected": "checkout"}, "expected is 'checkout'"),
        ({"expected": ("",)}, "expected is ('',)"),
        ({"expected": ("a", "a")}, "expected is ('a', 'a')"),
        ({"expected": ("\ud800",)}, "no Unicode text"),
        ({"alerts": ()}, "and there are no alerts"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SlidestatError) as refused:
        replace(WATCHED, **fields)
    assert words in refused.value.message
    assert refused.value.advice


def test_an_alert_over_the_span_can_fire_for_what_is_expected() -> None:
    """Such a key is not forgotten with the span."""
    over_the_span = (Alert(name="silent", when="count = 0", window="10s"),)
    with pytest.raises(SlidestatError):
        replace(WATCHED, alerts=over_the_span, expected=())
    driver = TopologyDriver(replace(WATCHED, alerts=over_the_span))
    send(driver, "busy", *range(4))
    assert told(driver.alerts) == [("checkout", 2, "firing"), ("search", 2, "firing")]


def test_they_are_given_in_a_flag() -> None:
    given = {"name": "law", "source": "events", "span": "10s", "every": "1s", "windows": "3s,10s"}
    alert = ["silent:count = 0:window=3s"]
    found = topology_of_flags(
        {**given, "windows": ("3s", "10s"), "alerts": alert, "expected": "checkout,search"}
    )
    assert found.expected == ("checkout", "search")


def test_what_is_made_of_a_topology_without_alerts_expects_nothing() -> None:
    """Its footprint, as a worker measures it at its start, and the repartition of its source."""
    assert measure(WATCHED)
    assert KeyReader(replace(WATCHED, repartition=True, lateness="1s"))
