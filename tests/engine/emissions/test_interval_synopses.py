"""The synopses of keys at each multiple of an interval, for rollups."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from slidestat import TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.rankings import Ranking
from slidestat.declare.statistics import Count, LandmarkCount, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.publishing import Publication
from slidestat.errors import SlidestatError
from slidestat.schemas.synopsis import SynopsisHeaders, SynopsisKey, decode_key
from tests.engine.cases import Case, cases_of, laws, topology
from tests.engine.memory import Output, Partition
from tests.engine.model import Model
from tests.engine.partition.test_partition_crash import same_end, undisturbed

_ALERT = Alert(name="often", when="count >= 3", window="100ms")
TOPOLOGIES = {
    "plain": topology(synopses="300ms"),
    "late": topology(synopses="200ms", lateness="150ms"),
    "each tick": topology(synopses="100ms", every="100ms"),
    "the span": topology(synopses="1s", emit="windows", lateness="30ms"),
    "always": topology(synopses="500ms", emit="always"),
    "figures": topology(synopses="300ms", having="count_1s > 2"),
    "change": topology(synopses="300ms", emit="change", lateness="70ms"),
    "alerts": topology(synopses="300ms", alerts=(_ALERT,)),
    "landmarks": topology(
        synopses="300ms", statistics=(Count(epsilon=0.1), LandmarkCount()), forget_after="1s"
    ),
}


def outputs_of(topology: Topology, case: Case) -> list[Output]:
    """What a worker of a topology writes, undisturbed, whatever its batches are."""
    partition = Partition(topology, case.records, case.random)
    partition.live()
    return partition.outputs


def published(outputs: list[Output]) -> list[Publication]:
    """The synopses among outputs, in their order."""
    return [item for kind, _, item in outputs if kind == "published" and len(item) == 6]


# Few, as the laws of what is published and of partitions that crash try the same on many.
_few = settings(laws, max_examples=25)


@_few
@given(cases_of(TOPOLOGIES))
def test_they_are_what_keys_that_are_published_for_a_referee_have(case: Case) -> None:
    """Of each key, at each tick of the interval that has events before it: the bytes that a
    topology that is emitted at this interval publishes of the key, and at no other tick. All else
    that is written is what it is without, each kind in its order.
    """
    own = case.topology
    found = outputs_of(own, case)
    without = outputs_of(replace(own, synopses=""), case)
    for kind in ("emission", "dead letter", "late", "alert"):
        assert [it for it in found if it[0] == kind] == [it for it in without if it[0] == kind]
    synopses = published(found)
    assert synopses == sorted(synopses, key=lambda it: (it.tick, it.stream))
    if own.forget_after:
        return  # No referee can answer for landmarks.
    keys = tuple(Model(own, case.records).of_key()) or ("a",)
    of_referee = replace(
        own, synopses="", every=own.synopses, publish=keys, alerts=(), emit="events", having=""
    )
    assert sorted(synopses) == sorted(published(outputs_of(of_referee, case)))


@_few
@given(cases_of(TOPOLOGIES), st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_crashes_after_any_step_leave_no_trace(case: Case, crashes: list[int]) -> None:
    """Each synopsis is written, and one that is written again is the same to the byte."""
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.3)
    partition.live()
    same_end(partition, undisturbed(case))


def test_an_expected_key_that_never_came_has_none() -> None:
    """Neither from the start nor after a restart; one that came has its events."""
    alert = Alert(name="gone", when="count_100ms = 0")
    own = topology(synopses="300ms", alerts=(alert,))
    driver = TopologyDriver(replace(own, expected=("a", "never")))
    for time in (50, 310, 650, 1_000):
        driver.send({"key": "a", "time": 1_600_000_000_000 + time, "value": 1.0})
        driver.restart()
    keys = [decode_key(record.key) for record in driver.published]
    assert {key.key for key in keys if isinstance(key, SynopsisKey)} == {"a"}
    headers = [SynopsisHeaders.decode(record.headers) for record in driver.published]
    assert {it.interval_ms for it in headers} == {300}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"synopses": "2h"}, "the span alone"),
        ({"synopses": "0s"}, "the span alone"),
        ({"synopses": "90s"}, "no multiple"),
        ({"synopses": "1h", "span": "100 events", "windows": ()}, "not of time"),
        ({"synopses": "1h", "publish": ("a",)}, "has publish"),
        (
            {"synopses": "1h", "rankings": (Ranking(name="most", by="count_1h", largest=2),)},
            "has rankings",
        ),
    ],
)
def test_what_would_not_hold_all_events_is_refused(fields: dict, message: str) -> None:
    """Before anything runs, with what to do."""
    known = {"name": "kept", "source": "s", "span": "1h", "every": "1m", "statistics": (Sum(),)}
    statistics = (Count(), Sum())
    with pytest.raises(SlidestatError, match=message) as raised:
        Topology(**{**known, "statistics": statistics, **fields})
    assert raised.value.advice
