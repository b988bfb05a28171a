"""Events that a topology asks for, and those that each of its statistics does."""

import json
from typing import Any

import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import Count, Distinct, Mean, Quantiles, Statistic, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.footprint import measure
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason

START = 1_764_000_000_000
MINUTE = 60_000


def web(*statistics: Statistic, where: str = "", **changes: Any) -> Topology:
    """Requests by path."""
    declared: dict[str, Any] = {
        "name": "web",
        "source": "requests",
        "span": "5m",
        "windows": ("1m",),
        "every": "1m",
        "key_field": "path",
        "value_field": "ms",
        "statistics": statistics or (Count(),),
    }
    return Topology(**declared | changes, where=where)


def request(at: int = START, path: object = "/a", **fields: object) -> dict[str, object]:
    return {"path": path, "time": at, **fields}


def decoded(topology: Topology, *events: object) -> EventColumns:
    return EventDecoder(topology).decode([json.dumps(event).encode() for event in events])


def figures(driver: TopologyDriver, key: str = "/a") -> dict[str, float | None]:
    """The estimates of the newest emission of a key, by statistic."""
    driver.advance_to(START + MINUTE)
    labels = driver.topology.labels
    return {label: driver.figure(key, label, "1m").estimate for label in labels}


def test_statistics_of_some_events_share_a_topology() -> None:
    """Each counts its own, in one pass; a label says which."""
    driver = TopologyDriver(
        web(
            Count(),
            Count(name="errors", where="status >= 500"),
            Count(name="slow_errors", where="status >= 500 and ms > 100"),
            Sum(name="error_ms", where="status >= 500", epsilon=0.0001),
        )
    )
    for status, ms in ((200, 5), (500, 7), (503, 200), (404, 300), (None, 900)):
        driver.send(request(status=status, ms=ms))
    driver.send(request(status=500))
    expected = {"count": 6, "errors": 3, "slow_errors": 1, "error_ms": 207}
    assert figures(driver) == pytest.approx(expected, rel=0.001)
    # What a condition leaves out is not lacked.
    assert driver.left_out == {"error_ms": 1}
    assert driver.dead_letters == []


def test_statistics_with_one_condition_share_a_state() -> None:
    """However it is written, and with the quantiles of all of them; another has its own."""
    topology = web(
        Quantiles(name="a", where="status>=500", quantiles=(0.5,)),
        Quantiles(name="b", where="(status >= 500.0)", quantiles=(0.9,)),
        Quantiles(name="c", where="status > 500", quantiles=(0.9,)),
        Quantiles(name="d", quantiles=(0.9,)),
    )
    assert len(set(topology.runners)) == 3
    driver = TopologyDriver(topology)
    driver.send(*(request(status=500 + i % 2, ms=i) for i in range(100)))
    found = figures(driver)
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"] == pytest.approx(49, abs=6)


def test_a_topology_counts_the_events_that_it_asks_for() -> None:
    """Others leave no letter, whatever is wrong with them; they move event time all the same."""
    driver = TopologyDriver(web(Count(), Mean(), where="kind = 'request' and status >= 500"))
    driver.send(
        request(kind="request", status=500, ms=4),
        request(kind="request", status=200, ms=4),
        request(kind="request", ms=4),
        {"kind": "heartbeat", "at": "now"},
        request(kind="log", status="high", ms="no number"),
        request(path=None, kind="log"),
    )
    driver.send_bytes(b"no json", None)
    assert [letter.reason for letter in driver.dead_letters] == ["not-json"]
    later = [request(START + MINUTE + i, kind="log", status=0) for i in range(20)]
    driver.send(*later)
    assert [(e.key, e.window_end_ms) for e in driver.emissions] == [("/a", START + MINUTE)]
    assert driver.figure("/a", "count", "1m").estimate == 1
    (processor,) = driver._processors
    counters = processor.reached.counters
    assert (counters.read, counters.counted, counters.dead, counters.late) == (28, 1, 1, 0)
    assert counters.passed_over == 26


@pytest.mark.parametrize("tombstones", ["pass-over", "dead-letter"])
def test_a_tombstone_is_passed_over_or_a_letter(tombstones: str) -> None:
    """It has no time, not even where times are those of the records; each is counted."""
    topology = web(time_field="kafka:timestamp", tombstones=tombstones)
    driver = TopologyDriver(topology)
    driver.send(request(), timestamp=START)
    driver.send_bytes(*[None] * 20, key=b"/a", timestamp=START + 10 * MINUTE)
    driver.restart()
    assert driver.emissions == []
    letters = 20 if tombstones == "dead-letter" else 0
    assert [letter.reason for letter in driver.dead_letters] == ["null-record"] * letters
    (processor,) = driver._processors
    counters = processor.reached.counters
    assert (counters.dead, counters.passed_over) == (letters, 20 - letters)


def test_what_is_late_or_of_the_future_and_not_asked_for_is_no_letter() -> None:
    driver = TopologyDriver(web(where="status >= 500"))
    driver.send(*(request(START + MINUTE + i, status=500) for i in range(20)))
    driver.send(request(START, status=200), request(START + 10**7, status=200), timestamp=START)
    assert (driver.late, driver.dead_letters) == ([], [])
    driver.send(request(START, status=500))
    assert [letter.reason for letter in driver.late] == [Reason.LATE]


NOT_COMPUTABLE = {
    "text in a comparison": ("status >= 500", {"status": "500"}, "where: status is no number"),
    "an object": ("status >= 500", {"status": {"code": 5}}, "where: status is no number"),
    "a truth value": ("status >= 500", {"status": True}, "where: status is no number"),
    "a number of 400 digits": ("status > 5", {"status": 10**400}, "where: status is no number"),
    "a number for a text": ("kind = 'x'", {"kind": 5}, "where: kind is no text"),
    "a number for a truth": ("not ok", {"ok": 0}, "where: ok is no truth value"),
    "divided by nothing": ("ms / n > 1", {"ms": 1, "n": 0}, "where: a division by zero"),
    "too large": ("ms * ms > 1", {"ms": 1e200}, "where: a division by zero, or a number beyond"),
    "in an object": ("a.b > 1", {"a": {"b": "x"}}, "where: a.b is no number"),
}


@pytest.mark.parametrize("name", NOT_COMPUTABLE)
def test_what_cannot_be_computed_is_a_dead_letter(name: str) -> None:
    """With the reason; the events around it are read."""
    where, fields, detail = NOT_COMPUTABLE[name]
    good = request(status=600, kind="x", ok=False, ms=9, n=1, a={"b": 5})
    columns = decoded(web(Count(), where=where), good, request(**fields), good)
    assert columns.rows.tolist() == [0, 2]
    (refusal,) = columns.refusals
    assert (refusal.row, refusal.reason) == (1, Reason.NOT_COMPUTABLE)
    assert refusal.detail.startswith(detail)


def test_an_error_that_decides_nothing_is_none() -> None:
    """A field may be of one sort in some events and of another in others."""
    where = "kind = 'ratio' and value > 0.5 or kind = 'word' and word = 'x'"
    columns = decoded(
        web(Count(), Count(name="both", where=where)),
        request(kind="ratio", value=1),
        request(kind="word", value="many", word="x"),
        request(kind="word", value={}, word="y"),
        request(kind="ratio", value="many", word="x"),
        request(kind="ratio", value=0.7, word=7),
    )
    assert columns.rows.tolist() == [0, 1, 2, 4]
    assert [column.tolist() for column in columns.conditions] == [[True, True, False, True]]
    assert [(r.row, r.detail) for r in columns.refusals] == [
        (3, "where of both: value is no number")
    ]


def test_only_what_is_taken_in_must_suit_a_statistic() -> None:
    """A sum of amounts that are not negative, among others that are."""
    topology = web(Count(), Sum(name="in", where="ms >= 0", decimals=0))
    columns = decoded(topology, request(ms=3), request(ms=-4), request(ms=1e15))
    assert columns.rows.tolist() == [0, 1]
    assert [(r.row, r.reason) for r in columns.refusals] == [(2, Reason.VALUE_TOO_LARGE)]
    driver = TopologyDriver(topology)
    driver.send(request(ms=3), request(ms=-4))
    assert figures(driver) == {"count": 2, "in": 3}
    assert driver.left_out == {}
    # Another one reads it of all events.
    columns = decoded(web(Sum(), Sum(name="in", where="ms >= 0")), request(ms=-4))
    assert [(r.row, r.reason) for r in columns.refusals] == [(0, Reason.NEGATIVE_VALUE)]


@pytest.mark.parametrize(
    ("where", "counted"),
    [
        ("path like '/a%'", [0, 1]),
        ("ms > 5 and path <> '/b'", [1]),
        ("time < 1764000000001", [0, 1, 2]),
        ("user is null or user = 'u'", [0, 1]),
        ("geo.country = 'NL'", [0]),
        ('"http.status" >= 500 and "order" = 1', [2]),
        ("geo is null", [1, 2]),
    ],
)
def test_conditions_read_what_others_read(where: str, counted: list[int]) -> None:
    """The key, the time, numbers, items, and fields of their own, wherever they lie."""
    topology = web(Count(), Sum(), TopItems(field="user"), where=where)
    columns = decoded(
        topology,
        request(path="/a", ms=5, user="u", geo={"country": "NL"}),
        request(path="/ab", ms=6, user="u", geo=None),
        request(path="/b", ms=7, user="w", **{"http.status": 500, "order": 1}),
    )
    assert columns.rows.tolist() == counted
    assert columns.refusals == []
    assert sorted([*columns.rows.tolist(), *columns.passed_over.tolist()]) == [0, 1, 2]


def test_another_condition_is_another_declaration() -> None:
    """It has another fingerprint, and states of one are refused to the other; however it is
    written, one that computes the same is the same.
    """
    plain, some = web(Count()), web(Count(), where="status >= 500")
    same = web(Count(), where='("status">=500)')
    named = web(Count(name="count", where="status >= 500"))
    assert same.state_meaning == some.state_meaning
    prints = [fingerprint_of(topology) for topology in (plain, some, same, named)]
    assert prints[1] == prints[2]
    assert len(set(prints)) == 3
    for one, other in ((plain, some), (some, plain), (plain, named), (named, plain)):
        stored = encode_checkpoint(Checkpoint(7), one.state_label)
        assert decode_checkpoint(stored, one.state_meaning) == Checkpoint(7)
        with pytest.raises(SlidestatError, match="made with another topology") as refused:
            decode_checkpoint(stored, other.state_meaning)
        assert "new name" in refused.value.advice
    # As before there were any.
    assert "where" not in plain.state_label
    stored = encode_checkpoint(Checkpoint(7), plain.state_label)
    with pytest.raises(SlidestatError, match="where was none, and is status >= 500"):
        decode_checkpoint(stored, some.state_meaning)


def test_a_crash_is_not_seen() -> None:
    """The conditions' outcomes wait with the events."""
    topology = web(
        Count(),
        Count(name="errors", where="status >= 500"),
        Distinct(name="users", field="user", where="user <> 'nobody'"),
        where="status <> 404",
        lateness="10s",
    )
    driver = TopologyDriver(topology)
    for i in range(50):
        user = "nobody" if i % 3 else f"u{i}"
        driver.send(request(START + i * 1_000, status=(200, 404, 500)[i % 3 - i % 2], user=user))
        if i % 10 == 9:
            driver.restart()
    undisturbed = TopologyDriver(topology)
    undisturbed.send_bytes(*(record.value for record in driver._partitions[0].log))
    assert figures(driver) == figures(undisturbed)
    assert driver.emissions == undisturbed.emissions


def test_memory_is_measured_as_if_all_events_were_taken_in() -> None:
    """A condition costs nothing of a state."""
    plain = measure(web(Count(), Sum()))
    some = measure(
        web(
            Count(name="count", where="status > 1"),
            Sum(name="sum", where="status > 1"),
            where="kind = 'x'",
        )
    )
    assert [f.state_bytes for f in some] == [f.state_bytes for f in plain]
