"""The notes by which sources are known again that were moved before."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.declare.topology import Topology
from slidestat.engine.records import LogMark
from slidestat.errors import SlidestatError
from slidestat.kafka.groups import Committed
from slidestat.kafka.transactional_producer import LostError
from slidestat.repartition import moved_from, mover
from slidestat.repartition.moved_from import (
    Move,
    MovedFrom,
    TopicsNow,
    check_notes,
    note_of,
    offsets_of,
    sources_of,
)
from slidestat.repartition.mover import Mover

TOPOLOGY = Topology(name="t", sources=["eu", "us-*"], span="1h", every="1m", lateness="5s")
BEFORE = {("eu", 0): 5, ("eu", 1): 0, ("us-1", 0): 7}


def note(source: str, **changes: Any) -> MovedFrom:
    own = {"source_id": f"id of {source}", "topic_id": "own", "partitions": 2, "key": "key"}
    return MovedFrom(source=source, **{**own, **changes})


# Sources that were deleted took their offsets with them.
GONE = {(TOPOLOGY.events_topic, 0): 0}
NOTES = {TOPOLOGY.events_topic: note("", source_id="")}


def check(*sources: str, before: dict[tuple[str, int], int] = BEFORE, **changes: Any) -> bool:
    """Check the sources that there are now, of which there are notes of before."""
    notes = {source: note(source, **changes) for source in sources}
    of_all = note("", **{"source_id": "", **changes})
    now = TopicsNow(notes, dict.fromkeys(sources, 2), of_all)
    committed = {
        place: Committed(offset, NOTES.get(place[0], note(place[0])).text())
        for place, offset in before.items()
    }
    return check_notes(TOPOLOGY, now, committed, is_empty=False)


def test_sources_are_added_and_come_back() -> None:
    """One of a pattern that no broker lists for a moment is no reason to stop."""
    assert check("eu", "us-1")
    assert check("eu", "us-1", "us-2")
    assert check("eu")


def test_a_pattern_may_have_no_topic_for_a_while() -> None:
    """The note of all is there with and without sources, and is no note of named ones."""
    assert check("eu", "us-1", before={**BEFORE, **GONE})
    for sources in ((), ("us-2",)):
        assert check(*sources, before=GONE)
    named = replace(TOPOLOGY, source="eu", sources=(), repartition=True)
    now = TopicsNow({"eu": note("eu")}, {"eu": 2}, note("", source_id=""))
    committed = {place: Committed(0, NOTES[place[0]].text()) for place in GONE}
    with pytest.raises(SlidestatError, match="knows of none of 'eu'"):
        check_notes(named, now, committed, is_empty=False)
    committed["eu", 0] = Committed(5, note("eu").text())
    assert check_notes(named, now, committed, is_empty=False)


def test_a_compacted_topic_of_a_pattern_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A named one is judged elsewhere; one that is a source is not asked about again."""
    policies = {"us-1": False, "us-table": True, "us-known": True}

    def answer(_admin: AdminClient, names: Iterable[str], _timeout_s: float) -> dict[str, bool]:
        return {name: policies[name] for name in names if name in policies}

    monkeypatch.setattr(moved_from, "are_compacted", answer)
    topics = ["eu", "ap", "us-gone", *policies]
    found = sources_of(cast(AdminClient, None), TOPOLOGY, topics, ["us-known"])
    assert found == (["eu", "us-1", "us-known"], frozenset({"us-table"}), frozenset())


@pytest.mark.parametrize(
    ("sources", "meant"),
    [
        (["us-*"], ()),
        (["us-*", "us-a-late"], ("us-a-late",)),
        (["us-*", "us-*-late"], ("us-a-late",)),
    ],
)
def test_a_pattern_takes_no_copies_that_workers_make(
    monkeypatch: pytest.MonkeyPatch, sources: list[str], meant: tuple[str, ...]
) -> None:
    """Of a source and what was moved from it, or was late, an event would count twice. Those that
    a pattern ends like, or that are named, are meant.
    """
    monkeypatch.setattr(moved_from, "are_compacted", lambda _admin, names, _s: dict.fromkeys(names))
    ours = {f"us-a-{it}" for it in ("statistics", "late", "dead-letters", "alerts")}
    ours |= {"us-g-repartition", "us-n-synopses", "us-n-rankings"}
    plain = {"us-1", "us-late", "us-2-late", "us-3-statistics", "us-3-late", "us-4-repartition"}
    plain.add("us-g-alerts")  # Nothing but a changelog begins like it.
    topics = [*ours, *plain, "slidestat-us-g-us-n-state-changelog"]
    topology = replace(TOPOLOGY, sources=sources)
    found = sources_of(cast(AdminClient, None), topology, topics, ["us-a-late"])
    assert set(found.topics) == plain | set(meant)
    assert found.written == ours - set(meant)


def test_a_source_that_was_moved_and_is_compacted_now_is_refused() -> None:
    now = TopicsNow({"eu": note("eu")}, {"eu": 2}, note("", source_id=""), frozenset({"us-1"}))
    committed = {
        place: Committed(offset, note(place[0]).text()) for place, offset in BEFORE.items()
    }
    with pytest.raises(SlidestatError, match=r"'us-1', of which .* is compacted now"):
        check_notes(TOPOLOGY, now, committed, is_empty=False)


def test_a_mark_is_noted_beside_the_offset_of_its_partition() -> None:
    """It says nothing of what is moved; notes of before have none, and stay as they were."""
    now = TopicsNow({"eu": note("eu")}, {"eu": 2}, note("", source_id=""))
    topology = replace(TOPOLOGY, sources=("eu", "us"))
    mark = LogMark(4, 1, 77)
    marked, plain = offsets_of(topology, {("eu", 0): 5, ("eu", 1): 0}, now, {("eu", 0): mark})
    assert note_of(marked.metadata) == note("eu", mark=mark)
    assert plain.metadata == note("eu").text()
    assert "mark" not in plain.metadata
    committed = {("eu", 0): Committed(5, marked.metadata)}
    assert check_notes(topology, now, committed, is_empty=False)


def test_the_note_of_all_is_committed_for_patterns_alone() -> None:
    now = TopicsNow({"eu": note("eu")}, {"eu": 2}, note("", source_id=""))
    for topology, count in ((TOPOLOGY, 3), (replace(TOPOLOGY, sources=["eu", "us"]), 2)):
        offsets = offsets_of(topology, {("eu", 0): 5, ("eu", 1): 0}, now, {})
        assert len(offsets) == count
    assert offsets_of(TOPOLOGY, {}, now, {}) == [TopicPartition(TOPOLOGY.events_topic, 0, 0)]


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (["eu"], {"before": {("eu", 0): 1, ("ap", 0): 1}}, "records of 'ap', which is no source"),
        (["eu", "us-1"], {"key": "who"}, "by the key key on 2 partitions; now .* by who on 2"),
        (["eu", "us-1"], {"source_id": "another"}, "(id another)"),
        (["us-2"], {}, "knows of none of 'eu, us-.'"),
        (
            [],
            {"before": GONE, "key": "who"},
            "of 'eu, us-.' .* key key on 2 .*; now .* by who on 2",
        ),
        (["us-2"], {"before": GONE, "topic_id": "another"}, "knows of none of 'eu, us-.'"),
        (["eu", "us-1"], {"before": {("eu", 1): 3}}, "forgotten up to where partitions 0 of 'eu'"),
    ],
)
def test_others_are_refused(sources: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(SlidestatError, match=message):
        check(*sources, **options)


def read(offset: int, epoch: int) -> Any:
    """A record that was fetched, as the mover has it."""
    told = {"offset": offset, "leader_epoch": epoch, "key": None, "value": None}
    answers = {name: (lambda it=it: it) for name, it in told.items()}
    return SimpleNamespace(timestamp=lambda: (1, 0), **answers), None, 0


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_log_that_lost_its_end_is_known_wherever_a_fetch_was_cut(
    monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Record 2 is gone, and the next leader has appended 3: also where one fetch brings both."""
    monkeypatch.setattr(
        mover, "first_difference", lambda *found: 2 if found[-1].offset == 2 else None
    )
    one = Mover.__new__(Mover)
    one._move, one._read, one._places = Move("", TOPOLOGY), {}, [("eu", 0)]
    records = [read(0, 4), read(1, 5), read(2, 5), read(3, 6)]
    with pytest.raises(LostError, match="eu/0 is another log from offset 2 on"):
        list(map(partial(one._require_same_log, 0), (records[:cut], records[cut:])))
