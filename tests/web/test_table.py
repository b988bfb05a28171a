"""Figures of several keys in one answer, and the keys for which an alert fires."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slidestat.declare.alerts import Alert
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.view import PartitionView
from slidestat.live.live_query import key_alerts
from slidestat.live.live_ranking import KeySlice, LiveTable
from slidestat.schemas.query import KeyAlert
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, Answer, Held, get, serving, serving_of

pytestmark = pytest.mark.asyncio

ALERTED = replace(
    TOPOLOGY,
    alerts=(
        Alert(name="busy", when="count > 3", window="1m"),
        Alert(name="any", when="count >= 1", window="1h"),
        Alert(name="slow", when="count > 3", window="1m", for_=1000),
    ),
)
TABLE = "/topologies/orders/table"


MINUTE = START_MS - START_MS % 60_000
# The clock follows a jump once most of 16 records have made it.
FOLLOWED = 20


def records(keys: list[str], *, ticks: int = 1) -> list[Record]:
    """An event of each key within a minute, and some of `zz` as many ticks later."""
    later = MINUTE + ticks * 60_000 + 10_000
    times = [*range(MINUTE, MINUTE + len(keys)), *[later] * FOLLOWED]
    events = enumerate(zip([*keys, *["zz"] * FOLLOWED], times, strict=True))
    return [Record(i, None, encode(key, time, i), 0) for i, (key, time) in events]


def is_refused(answer: Answer, word: str) -> bool:
    assert answer.status == 400, answer
    return word in answer.json["error"] and bool(answer.json["advice"])


async def test_any_worker_has_the_rows_of_all() -> None:
    """In the order that is asked for, each with the figures that a question for the key has; a key
    that is not there has no row.
    """
    asked = "?key=d&key=a&key=nobody&key=c&key=a&figure=count_1h&figure=p99_1m"
    async with serving({0: ["a"] * 3 + ["b"]}, {1: ["c", "d", "d"]}) as workers:
        for worker in workers:
            body: dict[str, Any] = (await get(worker.url, TABLE + asked)).json
            assert body["topology"] == "orders"
            assert [row["key"] for row in body["rows"]] == ["d", "a", "c"]
            assert [row["figures"]["count_1h"]["estimate"] for row in body["rows"]] == [2, 3, 1]
            assert [row["source_partition"] for row in body["rows"]] == [1, 0, 1]
            for row in body["rows"]:
                assert row["firing"] == []
                path = f"/topologies/orders/keys/{row['key']}?window=1m&statistic=quantile"
                assert row["figures"]["p99_1m"] in (await get(worker.url, path)).json["figures"]


async def test_keys_for_which_an_alert_fires() -> None:
    """All of the group, in order and page by page, by one alert or by several; their rows name
    these. One that is pending does not fire.
    """
    held = {0: records(["a"] * 5 + ["b"])}, {1: records(["c"] * 5)}
    async with serving_of(ALERTED, *held) as workers:
        for worker in workers:

            async def keys(query: str, url: str = worker.url) -> dict[str, Any]:
                found: dict[str, Any] = (await get(url, f"/topologies/orders/keys?{query}")).json
                return found

            assert (await keys("firing=busy"))["keys"] == ["a", "c"]
            assert (await keys("firing=any"))["keys"] == ["a", "b", "c"]
            assert (await keys("firing=slow"))["keys"] == []
            assert (await keys("firing=busy&firing=any"))["keys"] == ["a", "b", "c"]
            assert (await keys("firing=any&prefix=b"))["keys"] == ["b"]
            page = await keys("firing=any&limit=2")
            assert (page["keys"], page["next_after"]) == (["a", "b"], "b")
            assert (await keys("firing=any&limit=2&after=b")) == {
                "topology": "orders",
                "keys": ["c"],
                "next_after": None,
            }
            rows = (await get(worker.url, f"{TABLE}?key=a&key=b&key=c&figure=count_1h")).json[
                "rows"
            ]
            assert [(row["key"], row["firing"]) for row in rows] == [
                ("a", ["busy", "any"]),
                ("b", ["any"]),
                ("c", ["busy", "any"]),
            ]


async def test_a_key_that_never_came_fires_without_figures() -> None:
    """An expected one, of which events are missing; another one that is not there has no row."""
    silent = Alert(name="silent", when="count = 0", window="1m")
    topology = replace(ALERTED, alerts=(silent,), expected=("gone",))
    held = Held(topology, (0,))
    processor = held.processors[0]
    assert isinstance(processor, PartitionProcessor)
    processor.expect({"gone": 0})
    held.take(0, records(["a"], ticks=3))
    view = held.view(0)
    assert isinstance(view, PartitionView)
    keys = KeySlice.of(view, ["a", "gone", "nobody"])
    found = {row.key: row for row in LiveTable(topology, ["count_1h"]).rows(keys, view.firing)}
    assert found.keys() == {"a", "gone"}
    assert (found["gone"].firing, found["gone"].figures) == (["silent"], {})
    assert found["a"].figures["count_1h"].estimate == 1


async def test_what_cannot_be_asked_is_refused() -> None:
    """In words that name the parameter."""
    figures = "&".join(f"figure=p{n}_1m" for n in range(11))
    keys = "&".join(f"key=k{n}" for n in range(50))
    async with serving_of(ALERTED, {0: []}) as [worker]:
        assert is_refused(await get(worker.url, f"{TABLE}?key=a"), "figure")
        assert is_refused(await get(worker.url, f"{TABLE}?figure=count_1h"), "key")
        assert is_refused(await get(worker.url, f"{TABLE}?key=a&figure=p7_1m"), "p7_1m")
        assert is_refused(await get(worker.url, f"{TABLE}?{keys}&{figures}"), "11 figures of 50")
        assert is_refused(await get(worker.url, "/topologies/orders/keys?firing=busi"), "busi")
    async with serving({0: []}) as [worker]:
        refused = await get(worker.url, "/topologies/orders/keys?firing=busy")
        assert is_refused(refused, "has no alerts")


async def test_a_key_in_two_places_has_no_row() -> None:
    """Which of the two would be right?"""
    async with serving({0: ["a"]}, {1: ["a"]}) as [worker, _]:
        answer = await get(worker.url, f"{TABLE}?key=a&figure=count_1h")
        assert answer.status == 409
        assert "'a' is in several places: partition 0, partition 1" in answer.json["error"]


async def test_keys_that_fire_are_those_of_the_states() -> None:
    """As keys fire and are resolved, and after a restart, which reads them from the states."""
    held = Held(ALERTED, (0,))
    moments = [("a", 0), *[("b", 1)] * 4, ("c", 2), ("a", 60), *[("a", 61)] * 4, ("b", 200)]
    before: Mapping[str, set[str]] = {}
    for key, second in [*moments, ("a", 400)]:
        first = held.processors[0].next_offset
        some = enumerate([key, *["zz"] * FOLLOWED], first)
        time = MINUTE + second * 1_000
        held.take(0, [Record(offset, None, encode(it, time, 1), 0) for offset, it in some])
        held.flush()
        alerts = ALERTED.alerts
        view = held.view(0)
        assert isinstance(view, PartitionView)
        before = {alert: keys - {"zz"} for alert, keys in view.firing.items()}
        for key in "abc":
            state = view.state(key)
            stored = key_alerts(alerts, state.alerts if state else b"", KeyAlert)
            fires = {alert for alert, keys in before.items() if key in keys}
            assert fires == {it.alert for it in stored if it.state == "firing"}
        counts = held.firing()
        held.change_statistics(ALERTED)  # New processors, over what is stored.
        again = held.view(0)
        assert isinstance(again, PartitionView)
        assert again.firing == view.firing
        assert held.firing() == counts == {it: len(keys) for it, keys in view.firing.items()}
    assert before["busy"] == set()
    assert before["any"] == {"a", "b", "c"}
