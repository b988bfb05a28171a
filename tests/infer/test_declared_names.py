"""A declaration is judged by sampled records: names that none has, and what would be refused."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from slidestat import Count, Distinct, Sum, Topology
from slidestat.doctor.examination import unlikely_lengths, unread_variables
from slidestat.errors import near_name
from slidestat.infer.judgement import FEWEST, FEWEST_OF_OPTIONAL, Judgement, judge
from slidestat.infer.sampling import SampledRecord

T0 = 1_764_072_000_000
ALL = 200

EVENTS = Topology(
    name="clicks",
    source="web",
    span="1h",
    every="1m",
    key_field="user_id",
    value_field="took.ms",
    statistics=(Count(), Sum(), Distinct(field="page")),
)


def event(i: int, **others: object) -> dict[str, object]:
    return {"user_id": f"u{i % 7}", "time": T0 + i, "took": {"ms": i}, "page": "/", **others}


def records(events: Sequence[object], stamps: Sequence[int] | None = None) -> list[SampledRecord]:
    return [
        SampledRecord(
            0,
            b"k",
            it if isinstance(it, bytes) else json.dumps(it).encode(),
            T0 + i if stamps is None else stamps[i],
            i,
        )
        for i, it in enumerate(events)
    ]


def judged(topology: Topology, events: Sequence[object]) -> Judgement:
    return judge(topology, records(events))


def said(topology: Topology, events: Sequence[object]) -> str:
    error = judged(topology, events).error()
    return "" if error is None else f"{error.message} {error.advice}"


# Laws.

NAMES = st.text("abcdé_ .", min_size=1, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


def with_value(path: Sequence[str], value: object) -> dict[str, object]:
    name, *rest = path
    return {name: with_value(rest, value) if rest else value}


def merged(events: Sequence[Mapping[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for one in events:
        for name, value in one.items():
            inner = found.get(name)
            both = isinstance(inner, dict) and isinstance(value, dict)
            found[name] = merged([inner, value]) if both else value  # type: ignore[list-item]
    return found


@st.composite
def declared(draw: st.DrawFn) -> tuple[Topology, list[tuple[str, ...]]]:
    """A topology, and the paths that it reads: key, time, a number, and a condition's field."""
    paths = draw(st.lists(PATHS, min_size=4, max_size=4, unique_by=lambda path: path[0].strip()))
    key, time, value, asked = paths
    condition = ".".join('"' + name + '"' for name in asked) + " > 0"
    topology = replace(
        EVENTS,
        key_field=list(key),
        time_field=list(time),
        value_field=list(value),
        statistics=(Sum(), Count(name="some", where=condition)),
    )
    return topology, paths


def full(paths: Sequence[Sequence[str]], i: int) -> dict[str, object]:
    values: list[object] = ["k", T0 + i, i, 1]
    return merged([with_value(path, it) for path, it in zip(paths, values, strict=True)])


def without(value: object, path: Sequence[str], slip: str) -> object:
    """The event with another name in place of the last one of a path."""
    assert isinstance(value, dict)
    name, *rest = path
    if rest:
        return {**value, name: without(value[name], rest, slip)}
    return {slip if it == name else it: inner for it, inner in value.items()}


@given(declared(), st.integers(0, ALL - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_whose_names_all_occur_is_never_refused(
    given_topology: tuple[Topology, list[tuple[str, ...]]], whole: int, data: st.DataObject
) -> None:
    """One record with all names is enough, whatever the others lack."""
    topology, paths = given_topology
    lacks = data.draw(st.lists(st.sampled_from([2, 3]), max_size=2, unique=True))
    events = []
    for i in range(ALL):
        found: object = full(paths, i)
        for place in lacks if i != whole else ():
            found = without(found, paths[place], "something else")
        events.append(found)
    assert judged(topology, events).absent == []
    assert judged(topology, events).error() is None


@given(declared(), st.integers(0, 3), st.integers(1, ALL))
@settings(max_examples=60, deadline=None)
def test_a_name_that_no_record_has_is_refused(
    given_topology: tuple[Topology, list[tuple[str, ...]]], place: int, count: int
) -> None:
    """Once as many records tell it as its use asks for: ten where all would be refused, a hundred
    where an event may lack it. Fewer say nothing.
    """
    topology, paths = given_topology
    path = paths[place]
    events = [without(full(paths, i), path, path[-1] + "x") for i in range(count)]
    found = judged(topology, events)
    assert [(it.name.path, it.events) for it in found.absent] == [(path, count)]
    error = found.error()
    # Without its value an event counts for the other statistic.
    fewest = FEWEST if place < 2 else FEWEST_OF_OPTIONAL
    assert (error is not None) == (count >= fewest)
    if error is not None:
        assert repr(".".join(path)) in error.message
        assert "--anyway" in error.advice


def test_no_record_says_nothing() -> None:
    """Nor do tombstones, and records that are no events in a number that is too small."""
    assert said(EVENTS, []) == ""
    tombstones = [SampledRecord(0, b"k", None, T0, i) for i in range(ALL)]
    assert judge(EVENTS, tombstones).error() is None
    assert said(EVENTS, [b"junk"] * (FEWEST - 1)) == ""
    assert "not-json" in said(EVENTS, [b"junk"] * FEWEST)


# What is said.


@pytest.mark.parametrize(
    ("change", "names", "near"),
    [
        ({"key_field": "user_idd"}, "'user_idd' (key_field)", "user_id"),
        ({"key_field": "userId"}, "'userId' (key_field)", "user_id"),
        ({"time_field": "tiem"}, "'tiem' (time_field)", "time"),
        ({"key_field": "kafka.key"}, "'kafka.key' (key_field)", "kafka:key"),
        ({"time_field": "kafka:timestamps"}, "'kafka:timestamps' (time_field)", "kafka:timestamp"),
        ({"time_field": "time_ms"}, "'time_ms' (time_field)", "time"),
        ({"value_field": "took_ms"}, "'took_ms' (sum)", "took.ms"),
        ({"value_field": "ms"}, "'ms' (sum)", "took.ms"),
        ({"value_field": "took.mss"}, "'took.mss' (sum)", "took.ms"),
        ({"where": "pge = '/'"}, "'pge' (where)", "page"),
        (
            {"statistics": (Count(), Count(name="c", where="Page = '/'"))},
            "'Page' (where of c)",
            "page",
        ),
        (
            {"computed": ("took.sm / 1000 as s",), "value_field": "s"},
            "'took.sm' (computed s)",
            "took.ms",
        ),
        (
            {"computed": ("usr_id || page as who",), "key_field": "who"},
            "'usr_id' (computed who)",
            "user_id",
        ),
    ],
)
def test_where_a_slip_is_and_what_is_meant(
    change: dict[str, object], names: str, near: str
) -> None:
    """Each place where a name can be written; the likeliest of those that records have."""
    text = said(replace(EVENTS, **change), [event(i) for i in range(ALL)])  # type: ignore[arg-type]
    assert names in text
    assert f"Did you mean {near}?" in text


def test_names_are_looked_for_in_the_events_that_read_them() -> None:
    """Orders are one event in forty, and nothing else has their fields."""
    others: list[object] = [{"type": "view", "at": T0 + i} for i in range(195)]
    orders: list[object] = [
        {"type": "order", "time": T0 + i, "user_id": "u", "took": {"ms": 1}, "page": "/"}
        for i in range(5)
    ]
    of_orders = replace(EVENTS, where="type = 'order'")
    assert said(of_orders, [*others, *orders]) == ""
    assert said(of_orders, others) == ""  # There are none, which is noted.
    assert judged(of_orders, others).notes == ["`where` passes over all of them"]
    assert "'user_id' (key_field)" in said(EVENTS, others)
    only = Sum(name="of_orders", field="amount", where="type = 'order'")
    some = replace(EVENTS, statistics=(Count(), only))
    views: list[object] = [event(i, type="view") for i in range(ALL)]
    assert said(some, views) == ""
    assert "a statistic holds for none" in judged(some, views).notes[-1]
    assert "'amount' (of_orders)" in said(some, [event(i, type="order") for i in range(ALL)])


@pytest.mark.parametrize(
    "where", ["deleted is null", "coalesce(kind, 'none') = 'none'", "error is not null"]
)
def test_what_an_expression_expects_to_be_absent_is_noted(where: str) -> None:
    """It may be rare: it is told, and refuses nothing."""
    found = judged(replace(EVENTS, where=where), [event(i) for i in range(ALL)])
    assert found.error() is None
    assert "(where) is in none of 200" in found.notes[0]


def test_a_name_with_a_dot_is_told_as_a_declaration_has_it() -> None:
    """Else the name that is meant would be the one that was written."""
    events = [event(i, **{"net.bytes": i}) for i in range(ALL)]
    topology = replace(EVENTS, value_field="net.bytes", statistics=(Sum(),))
    assert """Did you mean '["net.bytes"]'?""" in said(topology, events)
    meant = replace(EVENTS, value_field='["net.bytes"]', statistics=(Sum(),))
    assert judged(meant, events).error() is None


def test_null_in_place_of_an_object_tells_nothing() -> None:
    """In Avro, a record that may be null has no names while it is."""
    nested = replace(EVENTS, value_field="extra.size")
    nulls: list[object] = [event(i, extra=None) for i in range(ALL)]
    assert said(nested, nulls) == ""
    assert "'extra.size'" in said(nested, [event(i, extra={"sise": 1}) for i in range(ALL)])
    assert "'extra.size'" in said(nested, [event(i, extra="text") for i in range(ALL)])


@pytest.mark.parametrize(
    ("time_format", "divisor", "meant"), [("ms", 1000, "s"), ("s", 1, "ms"), ("iso8601", 1, "ms")]
)
def test_times_in_another_unit(time_format: str, divisor: int, meant: str) -> None:
    """All are refused, and it is told how they seem to be written."""
    events = [event(i, time=(T0 + i) // divisor) for i in range(ALL)]
    text = said(replace(EVENTS, time_format=time_format), events)
    assert "would refuse all of 200" in text
    assert f'write time_format = "{meant}"' in text


def test_digits_of_a_date_are_no_seconds() -> None:
    """Read as such they would be of 2034, after their records."""
    text = said(EVENTS, [event(i, time=2025112511) for i in range(ALL)])
    assert "200 bad-time" in text
    assert "seems to have" not in text
    assert "Check time_field, and time_format" in text


def test_kafka_timestamps_in_seconds() -> None:
    """The events are right, and their records seem to be of January 1970."""
    stamps = [(T0 + i) // 1000 for i in range(ALL)]
    for topology in (EVENTS, replace(EVENTS, time_field="kafka:timestamp")):
        error = judge(topology, records([event(i) for i in range(ALL)], stamps)).error()
        assert error is not None
        assert "they seem to be seconds" in error.advice


def test_a_text_where_a_number_is_read() -> None:
    """Each record is refused, with its position and what to do."""
    text = said(EVENTS, [event(i, took={"ms": "12"}) for i in range(ALL)])
    assert "200 wrong-type" in text
    assert "partition 0, offset 0: wrong-type, took.ms is a text, not a number" in text
    assert "Name a field that has what is read" in text


def test_near_names_are_guessed_in_one_way() -> None:
    """Ends behind an underscore or a dot, then the spelling in any case, then what is within."""
    assert near_name("p99", ["requests_p99", "p90"]) == "requests_p99"
    assert near_name("USERID", ["user", "user_id"]) == "user_id"
    assert near_name("id", ["payload.id", "ids"]) == "payload.id"
    assert near_name("payload.at", ["payload", "at"]) == "at"
    assert near_name("at_ms", ["stamps", "at"]) == "at"
    assert near_name("net_bytes", ["bytes", "net.bytes"]) == "net.bytes"
    assert near_name("requests", ["my-requests-2"]) == "my-requests-2"
    assert near_name("a", ["banana"]) is None
    assert near_name("", ["banana"]) is None


def test_windows_that_do_not_reach_each_other() -> None:
    """An hour is written in place of a minute, and most events are in no window."""
    short = replace(EVENTS, every="1h", windows=("5m", "1h"))
    assert "every is 1h, and a window 5m" in next(unlikely_lengths(short)).found
    assert list(unlikely_lengths(replace(short, every="5m"))) == []


def test_variables_with_a_slip() -> None:
    """A letter away from one that is read; those of other programs are let alone, and so is the
    value.
    """
    environment = {
        "KAFKA_BOOTSTRAP_SERVER": "a",
        "SLIDESTAT_WEB_TOKEM": "secret",
        "KAFKA_BOOTSTRAP_SERVERS": "b",
        "KAFKA_HEAP_OPTS": "c",
        "KAFKA_SSL_KEY_FILE": "d",
        "PATH": "e",
    }
    found = list(unread_variables(environment))
    assert [finding.found.split()[0] for finding in found] == [
        "KAFKA_BOOTSTRAP_SERVER",
        "SLIDESTAT_WEB_TOKEM",
    ]
    assert found[0].advice == "Did you mean KAFKA_BOOTSTRAP_SERVERS?"
    assert "secret" not in found[1].found + found[1].advice
