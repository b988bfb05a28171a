"""Declared rankings: what is refused, with the field and what to give instead."""

from typing import Any

import pytest

from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.rankings import Ranking
from slidestat.errors import SlidestatError

FIELDS: dict[str, Any] = {
    "name": "t",
    "source": "s",
    "span": "1h",
    "every": "1m",
    "windows": ["5m", "1h"],
}
SLOWEST = {"name": "slowest", "by": "p99_5m", "largest": 20, "having": "count_5m >= 100"}


def declared(ranking: object, **fields: Any) -> Any:
    return topology_of({**FIELDS, **fields, "rankings": [ranking]})


def test_tables_flags_and_python_declare_the_same() -> None:
    [ranking] = declared(SLOWEST).rankings
    text = "slowest:p99_5m:largest=20:having=count_5m >= 100"
    assert topology_of_flags({**FIELDS, "rankings": [text]}).rankings == (ranking,)
    assert ranking == Ranking(**SLOWEST)  # type: ignore[arg-type]
    assert ranking.text == "20 largest by p99_5m having count_5m >= 100"
    assert declared({"name": "s", "by": "count_5m", "smallest": 1}).rankings[0].is_of_smallest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "p98_5m"}, "by is 'p98_5m' in the ranking slowest, which is no figure with its wi"),
        ({"by": "p99"}, "by is 'p99' in the ranking slowest, which is no figure with its window"),
        (
            {"by": "count_5m / count_1h"},
            r'what is computed a name, derived = \["count_5m / count_1h as NAME"\]',
        ),
        ({"by": ""}, r"rankings\[0\].by is '', which names no figure"),
        ({"largest": 0}, r"rankings\[0\].largest is missing, and so is smallest"),
        ({"largest": 1_001}, r"rankings\[0\].largest is 1001"),
        ({"largest": True}, r"rankings\[0\].largest is True"),
        ({"smallest": 3}, r"rankings\[0\].largest is 20, and smallest is 3"),
        ({"smallest": -1}, r"rankings\[0\].smallest is -1"),
        ({"name": "a b"}, r"rankings\[0\].name is 'a b', which cannot name a ranking"),
        ({"having": "count >"}, r"rankings\[0\].having is 'count >'"),
        (
            {"having": "count > 1"},
            "having is .* in the ranking slowest, and reads 'count'",
        ),
        ({"order": "asc"}, r"rankings\[0\].order is no field of a ranking"),
    ],
)
def test_what_cannot_be_ranked_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SlidestatError, match=message):
        declared({**SLOWEST, **change})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"publish": "partition"}, "rankings are given, and publish is 'partition'"),
        ({"exactly_once": True}, "rankings are given, and exactly_once is true"),
        ({"span": "9 events", "windows": ()}, "rankings are given, but windows are of '9 events'"),
    ],
)
def test_topologies_whose_keys_are_not_compared(fields: dict[str, Any], message: str) -> None:
    ranking = {"name": "most", "by": "count_5m", "largest": 3}
    with pytest.raises(SlidestatError, match=message):
        declared(ranking, **fields)


def test_two_rankings_of_one_name() -> None:
    with pytest.raises(SlidestatError, match=r"rankings has \['slowest', 'slowest'\]"):
        topology_of({**FIELDS, "rankings": [SLOWEST, SLOWEST]})


def test_windows_of_the_calendar_are_ranked_by() -> None:
    ranking = {"name": "most", "by": "count_today", "largest": 3}
    fields = {"span": "2d", "windows": ["today"], "time_zone": "Europe/Berlin"}
    assert declared(ranking, **fields).rankings[0].by == "count_today"
