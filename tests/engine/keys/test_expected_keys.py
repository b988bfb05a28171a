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


def test_an_expected_key_may_have_the_first_event() -> None:
    """It is emitted at the tick of that event, which lies before the clock's first one."""
    asked = replace(WATCHED, alerts=(Alert(name="busy", when="count > 0", window="3s"),))
    driver = TopologyDriver(asked)
    send(driver, "search", 0.9)
    send(driver, "busy", 1.1, 2.2)
    ends = [it.window_end_ms - START for it in driver.emissions if it.key == "search"]
    assert ends == [TICK]
    assert told(driver.alerts)[0] == ("search", 1, "firing")


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


@settings(laws, max_examples=24)
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

    def run(asked: Topology, *, disturbed: bool, most: int = 20) -> TopologyDriver:
        driver, left = TopologyDriver(asked), events
        while left:
            size = random.randint(1, most) if disturbed else most
            driver.send(*left[:size])
            left = left[size:]
            if disturbed and random.random() < 0.3:
                driver.commit()
            if disturbed and random.random() < 0.3:
                driver.restart()
        driver.close_windows()
        return driver

    whole, disturbed = run(asked, disturbed=False, most=1), run(asked, disturbed=True)
    assert [*map(repr, disturbed.alerts)] == [*map(repr, whole.alerts)]
    assert disturbed.emissions == whole.emissions
    plain = run(replace(asked, expected=()), disturbed=False, most=len(events))
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


LISTED = replace(WATCHED, expected=(), expected_topic="services")


def test_keys_that_a_topic_lists_are_expected_as_those_of_a_declaration() -> None:
    """From the clock's first tick on, or from then on when they are listed later; one that is no
    longer listed is forgotten as any key, and its alert resolved.
    """
    driver = TopologyDriver(LISTED)
    driver.expect("checkout", "search")
    send(driver, "busy", *range(8))
    assert told(driver.alerts) == [("checkout", 3, "firing"), ("search", 3, "firing")]
    driver.expect("checkout", "busy", "login")
    before = len(driver.alerts)
    send(driver, "busy", 8, 9, 10)
    assert told(driver.alerts[before:]) == [("login", 9, "firing")]
    driver.expect("busy")
    send(driver, "other", *range(11, 40))
    # The span after they began to be silent.
    ends = [it for it in told(driver.alerts) if it[2] == "resolved"]
    assert ends == [
        ("checkout", 12, "resolved"),
        ("search", 12, "resolved"),
        ("login", 18, "resolved"),
    ]
    silent = [it for it in told(driver.alerts) if it[0] == "busy"]
    assert silent == [("busy", 15, "firing")]
    driver.expect()
    send(driver, "other", 40, 41)
    assert told(driver.alerts)[-1] == ("busy", 40, "resolved")


def test_a_key_that_is_listed_after_it_was_forgotten_is_silent_again() -> None:
    driver = TopologyDriver(LISTED)
    send(driver, "search", 0, 0.1)
    send(driver, "busy", *range(20))
    assert told(driver.alerts) == [("search", 5, "firing"), ("search", 11, "resolved")]
    driver.expect("search")
    send(driver, "busy", *range(20, 40))
    assert told(driver.alerts)[2:] == [("search", 21, "firing")]


def test_a_key_that_is_listed_must_be_where_it_is_expected() -> None:
    """Also if it had come before it was listed."""
    place = default_partition(b"checkout", 3)
    driver = TopologyDriver(LISTED, partitions=3)
    send(driver, "checkout", 0, 1, partition=(place + 1) % 3)
    with pytest.raises(SlidestatError, match=f"'checkout'.* is expected on partition {place}"):
        driver.expect("checkout")


def changing(asked: Topology, seed: int, *, by_restart: bool) -> TopologyDriver:
    """A course in which other keys are expected now and then."""
    random, driver, at = Random(seed), TopologyDriver(asked), 0.0
    names = ["busy", "search", "checkout", "login"]
    for _ in range(random.randint(2, 60)):
        at += random.choice([0, 0.1, 0.4, 0.9, 5])
        send(driver, random.choice(["busy", "busy", "search"]), at)
        if random.random() < 0.2:
            listed = tuple(name for name in names if random.random() < 0.5)
            if by_restart:
                driver.change_statistics(replace(asked, expected=listed, expected_topic=""))
            else:
                driver.expect(*listed)
            # A restarted worker expects them at the next tick.
            at += 1
            send(driver, "busy", at)
    driver.close_windows()
    return driver


@settings(laws, max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from([{}, {"emit": "change"}]))
def test_a_change_is_what_a_restart_with_another_list_is(seed: int, fields: dict[str, Any]) -> None:
    asked = replace(LISTED, **fields)
    live = changing(asked, seed, by_restart=False)
    restarted = changing(replace(asked, expected_topic=""), seed, by_restart=True)
    assert [*map(repr, live.alerts)] == [*map(repr, restarted.alerts)]
    assert live.emissions == restarted.emissions


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expected_topic": "no topic"}, "expected_topic is 'no topic', which is no topic's name"),
        ({"expected_topic": "events"}, "expected_topic is 'events', a topic of this topology's"),
        ({"expected_topic": "law-alerts"}, "a topic of this topology's own"),
        ({"expected_topic": "s", "expected": (), "alerts": ()}, "expected_topic is 's', and there"),
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
