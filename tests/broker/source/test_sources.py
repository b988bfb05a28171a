"""Sources that come, go and are missing."""

from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from slidestat.admin.first_start import prepare_first_start
from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.topology import Topology
from slidestat.doctor.finding import Verdict
from slidestat.doctor.permissions import worker_permissions
from slidestat.errors import SlidestatError
from slidestat.repartition import mover as mover_module
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import MOVED_FROM, Behind, Move
from tests.broker.source.test_mover import event, moved, send, until_moved
from tests.broker.workers import wait_until
from tests.conftest import MakeTopic

_NOT_FETCHED = Behind(0, None)


@pytest.fixture
def topology(topic_name: str, make_topic: MakeTopic) -> Topology:
    make_topic("in-eu", 2)
    return Topology(
        name=topic_name,
        sources=[f"{topic_name}-in-*"],
        span="1h",
        every="1m",
        lateness="5s",
    )


def test_topics_of_a_pattern_come_and_go(
    bootstrap_servers: str,
    topology: Topology,
    make_topic: MakeTopic,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that comes is read from its beginning; a compacted one is left out, and one that turns
    out to be another topology's. The move goes on without one that is deleted. One that is left
    out of the pattern, and is there, is refused.
    """
    monkeypatch.setattr(mover_module, "_LOOK_S", 0.5)
    eu, us = (f"{topology.name}-in-{name}" for name in ("eu", "us"))
    of_eu, of_us = (replace(topology, source=it, sources=()) for it in (eu, us))
    assert prepare_topics(bootstrap_servers, topology) == 2
    mover = ElectedMover(Move(bootstrap_servers, topology))
    try:
        mover.elect([0])
        send(bootstrap_servers, of_eu, [event("a", 0)], 1)
        until_moved(bootstrap_servers, topology, 1)
        table = make_topic("in-table", 1, {"cleanup.policy": "compact"})
        of_table = replace(topology, source=table, sources=())
        send(bootstrap_servers, of_table, [event("t", 0)], 0)
        late = make_topic("in-x-late", 1)
        wait_until(lambda: late in (mover.behind or {}), "it is a source", 30)
        beside = [make_topic(f"in-x-{suffix}", 1) for suffix in ("statistics", "dead-letters")]
        wait_until(lambda: late not in (mover.behind or {late}), "it is none any more", 30)
        send(bootstrap_servers, replace(topology, source=late, sources=()), [event("l", 0)], 0)
        make_topic("in-us", 5)
        send(bootstrap_servers, of_us, [event("b", place) for place in range(9)], 4)
        until_moved(bootstrap_servers, topology, 10)
        asked = worker_permissions(bootstrap_servers, topology)
        used = [finding.found for finding in asked if finding.check == "source"]
        assert [found.partition(":")[0] for found in used] == [eu, us]
        for deleted in admin.delete_topics([late, *beside]).values():
            deleted.result(30)
        with pytest.raises(SlidestatError, match=f"has records of '{us}', which is no source of"):
            prepare_topics(bootstrap_servers, replace(topology, sources=[f"{eu}*"]))
        admin.delete_topics([us])[us].result(30)
        send(bootstrap_servers, of_eu, [event("c", 60)], 0)
        until_moved(bootstrap_servers, topology, 11)
        assert mover.failure is None
    finally:
        mover.stop()
    prepare_topics(bootstrap_servers, replace(topology, sources=[f"{eu}*"]))
    places = [record.headers[MOVED_FROM] for _, record in moved(bootstrap_servers, topology)]
    wanted = Counter([f"{eu}/0", f"{eu}/1", *[f"{us}/4"] * 9])
    assert Counter(it.decode().rpartition("/")[0] for it in places) == wanted


def test_the_next_topic_of_a_pattern_is_waited_for(
    bootstrap_servers: str,
    topology: Topology,
    make_topic: MakeTopic,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the mover, and by a worker that starts, where the only one was deleted."""
    monkeypatch.setattr(mover_module, "_LOOK_S", 0.5)
    old, new = f"{topology.name}-in-eu", f"{topology.name}-in-us"
    assert prepare_topics(bootstrap_servers, topology) == 2
    mover = ElectedMover(Move(bootstrap_servers, topology))
    try:
        mover.elect([0])
        send(bootstrap_servers, replace(topology, source=old, sources=()), [event("a", 0)], 1)
        until_moved(bootstrap_servers, topology, 1)
        admin.delete_topics([old])[old].result(30)
        wait_until(lambda: mover.behind == {}, "the mover waits without a source", 30)
        assert prepare_topics(bootstrap_servers, topology) == 2
        assert prepare_first_start(bootstrap_servers, topology, None)
        make_topic("in-us", 1)
        send(bootstrap_servers, replace(topology, source=new, sources=()), [event("b", 1)], 0)
        until_moved(bootstrap_servers, topology, 2)
        assert mover.failure is None
    finally:
        mover.stop()


def test_a_source_that_is_ahead_is_read_on_once_another_one_is_found(
    bootstrap_servers: str,
    topology: Topology,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is paused at that time, as an open transaction holds it back."""
    for limit, value in (("_LOOK_S", 0.5), ("_HELD_RECORDS", 20), ("_LEAST_RECORDS", 20)):
        monkeypatch.setattr(mover_module, limit, value)
    ahead, behind, new = f"{topology.name}-in-eu", make_topic("in-us", 1), f"{topology.name}-in-de"
    assert prepare_topics(bootstrap_servers, topology) == 2
    send(
        bootstrap_servers,
        replace(topology, source=ahead, sources=()),
        [event("a", place) for place in range(1, 201)],
        1,
    )
    hanging = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": topology.name,
            "log_level": 0,
        }
    )
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(behind, event("never", 0), partition=0)
    hanging.flush(30)
    mover = ElectedMover(Move(bootstrap_servers, topology))
    try:
        mover.elect([0])
        wait_until(
            lambda: (mover.behind or {}).get(ahead, _NOT_FETCHED).oldest_ms is not None,
            "what is ahead is fetched",
            30,
        )
        make_topic("in-de", 1)
        wait_until(lambda: new in (mover.behind or {}), "the new source is found", 30)
        hanging.abort_transaction(30)
        until_moved(bootstrap_servers, topology, 200)
        assert mover.failure is None
    finally:
        mover.stop()


def test_sources_that_are_missing_or_compacted_are_refused(
    bootstrap_servers: str, topology: Topology, make_topic: MakeTopic
) -> None:
    name = topology.name
    named = [f"{name}-in-eu", f"{name}-out"]
    with pytest.raises(SlidestatError, match=f"There is no topic '{name}-out'"):
        prepare_topics(bootstrap_servers, replace(topology, sources=named))
    unmatched = replace(topology, sources=[f"{name}-on-*"])
    with pytest.raises(SlidestatError, match="There is no topic yet that matches"):
        prepare_topics(bootstrap_servers, unmatched)
    findings = worker_permissions(bootstrap_servers, unmatched)
    assert next(findings).verdict is Verdict.BAD
    named[1] = make_topic("in-table", 2, {"cleanup.policy": "compact,delete"})
    with pytest.raises(SlidestatError, match=f"'{name}-in-table' is compacted"):
        prepare_topics(bootstrap_servers, replace(topology, sources=named))
    with pytest.raises(SlidestatError, match="There is no topic yet that matches"):
        prepare_topics(bootstrap_servers, replace(topology, sources=[f"{name}-in-t*"]))
    assert prepare_topics(bootstrap_servers, topology) == 2
    used = [it for it in worker_permissions(bootstrap_servers, topology) if it.check == "source"]
    assert [it.found.partition(":")[0] for it in used] == named[:1]


def test_a_source_of_which_all_would_be_refused(
    bootstrap_servers: str, topology: Topology, make_topic: MakeTopic
) -> None:
    """It is named at the first start, though the records of another one are as declared."""
    eu, us = f"{topology.name}-in-eu", make_topic("in-us", 1)
    good = [event("a", place) for place in range(20)]
    send(bootstrap_servers, replace(topology, source=eu, sources=()), good, 1)
    assert prepare_first_start(bootstrap_servers, topology, None)
    bad = [value.replace(b'"key"', b'"user"') for value in good]
    send(bootstrap_servers, replace(topology, source=us, sources=()), bad, 0)
    with pytest.raises(SlidestatError, match=f"none of the 20 records of '{us}' that"):
        prepare_first_start(bootstrap_servers, topology, None)
