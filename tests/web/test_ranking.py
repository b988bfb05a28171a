"""The keys of the largest and smallest figures, over all workers of a group."""

import asyncio
import json
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from slidestat.cli.display.query import ranking as show
from slidestat.declare.statistics import Count, Distinct, Mean, Quantiles, TopItems
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, Answer, get, one_event_each, serving, serving_of

pytestmark = pytest.mark.asyncio

RANKING = "/topologies/orders/ranking"


async def ranking(url: str, **asked: object) -> Answer:
    return await get(url, f"{RANKING}?{urlencode(asked)}")


def placed(answer: Answer) -> list[tuple[object, ...]]:
    """Place, first and last place, key and estimate of each place."""
    assert answer.status == 200, answer
    return [
        (it["place"], it["first_place"], it["last_place"], it["key"], it["figure"]["estimate"])
        for it in answer.json["places"]
    ]


def is_refused(answer: Answer, word: str) -> bool:
    assert answer.status == 400, answer
    return word in answer.json["error"] and bool(answer.json["advice"])


def events(counts: dict[str, int]) -> list[Record]:
    """So many events of each key, one after another."""
    keys = [key for key, count in counts.items() for _ in range(count)]
    return one_event_each(keys)


async def test_any_worker_ranks_the_keys_of_all() -> None:
    """Each as if there were one: in order, equal ones by key, whichever worker is asked."""
    workers = {0: ["a"] * 3 + ["e"], 3: ["b"] * 5}, {1: ["c"] * 3}, {2: ["d", "f"]}
    async with serving(*workers) as served:
        for worker in served:
            answer = await ranking(worker.url, by="count_1h", largest=4)
            assert placed(answer) == [
                (1, 1, 1, "b", 5.0),
                (2, 2, 2, "a", 3.0),
                (3, 3, 3, "c", 3.0),
                (4, 4, 4, "d", 1.0),
            ]
            body = answer.json
            assert (body["by"], body["order"], body["size"]) == ("count_1h", "largest", 4)
            assert body["keys"] == 6
            assert {it["certainty"] for it in body["places"]} == {"certain"}
            assert [it["source_partition"] for it in body["places"]] == [3, 0, 1, 2]
            smallest = await ranking(worker.url, by="count_1h", smallest=2)
            assert placed(smallest) == [(1, 1, 1, "d", 1.0), (2, 2, 2, "e", 1.0)]


async def test_figures_are_those_of_the_key() -> None:
    """The same as a question for the key has, with its window and what is promised."""
    async with serving({0: ["a"] * 30 + ["b"] * 20}) as [worker]:
        for row in (await ranking(worker.url, by="p99_1m")).json["places"]:
            path = f"/topologies/orders/keys/{row['key']}?statistic=quantile"
            key = (await get(worker.url, path)).json
            assert row["figure"] in key["figures"]
            assert row["window_end_ms"] == key["window_end_ms"]


async def test_close_figures_have_no_certain_place() -> None:
    """Where bounds overlap, an answer says between which places a key is, and whether it is among
    so many for sure.
    """
    many = replace(TOPOLOGY, statistics=(Count(epsilon=0.3),))
    counts = {"x": 100, "y": 99, "z": 5}
    async with serving_of(many, {0: events(counts)}) as [worker]:
        two = placed(await ranking(worker.url, by="count_1h", largest=2))
        assert [it[:4] for it in two] == [(1, 1, 2, "x"), (2, 1, 2, "y")]
        [one] = (await ranking(worker.url, by="count_1h", largest=1)).json["places"]
        assert (one["first_place"], one["last_place"]) == (1, None)
        assert (one["certainty"], one["membership"]) == ("likely", "likely")


async def test_only_keys_for_which_a_condition_may_hold() -> None:
    """Where it may not hold, too, no last place is known."""
    async with serving({0: ["a"] * 4 + ["b"] * 2 + ["c"]}) as [worker]:
        found = await ranking(worker.url, by="count_1h", having="count_1h >= 2")
        assert placed(found) == [(1, 1, 1, "a", 4.0), (2, 2, 2, "b", 2.0)]
        past = "ago(count_1m, '1m') >= 1"
        assert placed(await ranking(worker.url, by="count_1h", having=past)) == []
    rough = replace(TOPOLOGY, statistics=(Count(epsilon=0.3),))
    async with serving_of(rough, {0: events({"x": 100, "y": 5})}) as [worker]:
        [x] = placed(await ranking(worker.url, by="count_1h", having="count_1h >= 99"))
        assert x[1:4] == (1, None, "x")


async def test_derived_figures_rank_keys() -> None:
    """By their own name; a key of which one does not exist has no place."""
    figures = ("count_1m / count_1h as share", "count_1m / (count_1h - 2) as odd")
    topology = replace(TOPOLOGY, statistics=(Count(), Mean(field="v")), derived=figures)
    records = events({"a": 3, "b": 2, "c": 1})
    async with serving_of(topology, {0: records}) as [worker]:
        found = placed(await ranking(worker.url, by="share", largest=3))
        assert [it[3:] for it in found] == [("a", 1.0), ("b", 1.0), ("c", 1.0)]
        odd = await ranking(worker.url, by="odd")
        assert [it[3] for it in placed(odd)] == ["a", "c"]
        assert odd.json["keys"] == 2
        assert placed(await ranking(worker.url, by="mean_v_1h")) == []


async def test_what_waits_is_counted_and_what_is_forgotten_is_not() -> None:
    """As of each partition's watermark, like all answers."""
    topology = replace(TOPOLOGY, lateness="1m")
    later = [
        Record(i, None, encode(key, START_MS + at, 1), 0)
        for i, (key, at) in enumerate(
            [("old", 0), ("old", 1), ("new", 3_700_000), ("new", 3_700_001), ("new", 3_800_000)]
            + [("tick", 3_800_000 + i) for i in range(20)]
        )
    ]
    async with serving_of(topology, {0: later}) as [worker]:
        found = placed(await ranking(worker.url, by="count_1h"))
        assert [(it[3], it[4]) for it in found] == [("new", 2.0)]


async def test_windows_of_events_and_sequences() -> None:
    """Whatever windows are of: of a sequence with its own names."""
    of_events = replace(
        TOPOLOGY, span="3 events", windows=("2 events",), statistics=(Count(), Quantiles())
    )
    async with serving_of(of_events, {0: events({"a": 3, "b": 1})}) as [worker]:
        found = placed(await ranking(worker.url, by="count", smallest=2))
        assert [it[3:] for it in found] == [("b", 1.0), ("a", 2.0)]
    numbered = replace(
        TOPOLOGY,
        time_format="sequence",
        span="100 events",
        windows=("100 events",),
        every="10 events",
    )
    records = [Record(i, None, encode("ab"[i % 2], 1_000 + i, 1), 0) for i in range(5)]
    async with serving_of(numbered, {0: records}) as [worker]:
        answer = await ranking(worker.url, by="count")
        assert [it[3:] for it in placed(answer)] == [("a", 3.0), ("b", 2.0)]
        assert {it["window_end_seq"] for it in answer.json["places"]} == {1_005}


async def test_what_cannot_be_ranked_is_refused() -> None:
    """In words, with what there is."""
    lists = replace(TOPOLOGY, statistics=(Count(), Distinct(field="k"), TopItems(field="k")))
    async with serving_of(lists, {0: events({"a": 3})}) as [worker]:
        url = worker.url
        assert is_refused(await ranking(url), "by")
        assert is_refused(await ranking(url, by="top_1h"), "'top_1h'")
        assert is_refused(await ranking(url, by="count"), "'count'")
        assert is_refused(await ranking(url, by="count_5m"), "'count_5m'")
        assert is_refused(await ranking(url, by="count_1h", having="size > 1"), "'size'")
        assert is_refused(await ranking(url, by="count_1h", having="count_1h"), "having")
        assert is_refused(await ranking(url, by="count_1h", largest=0), "largest")
        assert is_refused(await ranking(url, by="count_1h", largest=1001), "largest")
        assert is_refused(await ranking(url, by="count_1h", smallest="-1"), "smallest")
        assert is_refused(await ranking(url, by="count_1h", largest=1, smallest=1), "together")
        assert is_refused(await ranking(url, by="count_1h", limit=1), "limit")
    hot = replace(TOPOLOGY, publish=("a",))
    async with serving_of(hot, {0: events({"a": 3})}) as [worker]:
        assert is_refused(await ranking(worker.url, by="count_1h"), "publishes")


async def test_a_key_in_two_partitions_is_told() -> None:
    """Parts of a key would have places as if they were two."""
    async with serving({0: ["a"]}, {1: ["a"]}) as [one, _]:
        assert (await ranking(one.url, by="count_1h")).status == 409


async def test_a_worker_that_does_not_answer() -> None:
    """No ranking without its keys."""
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        other.live.not_ready()
        assert (await ranking(one.url, by="count_1h")).status == 503
        assert (await ranking(other.url, by="count_1h")).status == 503


async def test_added_statistics_are_marked() -> None:
    """Until their windows are whole, as elsewhere."""
    async with serving_of(TOPOLOGY, {0: events({"a": 3, "b": 2})}) as [worker]:
        held = worker.live.held
        grown: Topology = replace(TOPOLOGY, statistics=(*TOPOLOGY.statistics, Mean()))
        held.change_statistics(grown)  # type: ignore[attr-defined]
        worker.live.topology = grown
        more = [Record(5 + i, None, encode("a", START_MS + 10 + i, i), 0) for i in range(3)]
        held.take(0, more)  # type: ignore[attr-defined]
        [row] = (await ranking(worker.url, by="mean_1h")).json["places"]
        assert row["figure"]["counted_from_ms"] > START_MS


async def test_the_command_asks_so(capsys: pytest.CaptureFixture[str]) -> None:
    """`slidestat top` prints a worker's answer, as lines or as it came, and its refusals."""
    async with serving({0: ["a"] * 3 + ["b"]}) as [worker]:

        async def top(by: str, having: str, *, as_json: bool) -> str:
            asked = worker.url, "orders", by, None, 5, having
            await asyncio.to_thread(show, *asked, as_json=as_json)
            return capsys.readouterr().out

        lines = (await top("count_1h", "count_1h > 1", as_json=False)).splitlines()
        assert lines[1:] == ["    1  certain         3  [3, 3]  a"]
        answer = json.loads(await top("count_1h", "", as_json=True))
        assert [it["key"] for it in answer["places"]] == ["b", "a"]
        with pytest.raises(SlidestatError, match="'count_2h'"):
            await top("count_2h", "", as_json=False)


async def test_a_scrape_has_a_few_series_a_place() -> None:
    """However many keys there are; of the whole group, whichever worker is scraped."""
    async with serving({0: list("aabbbcd")}, {1: ["e"] * 5}) as [worker, _]:
        path = f"{RANKING}/metrics?by=count_1h&largest=2"
        text = (await get(worker.url, path)).body.decode()
        series = [line for line in text.splitlines() if not line.startswith("#")]
        assert len(series) == 2 * 5
        of = 'order="largest",place="1",ranking="count_1h",topology="orders"'
        assert f'slidestat_ranking{{key="e",{of}}} 5.0' in sorted_labels(series)
        assert f'slidestat_ranking_last_place{{key="e",{of}}} 1.0' in sorted_labels(series)
        assert is_refused(
            await get(worker.url, f"{RANKING}/metrics?by=count_1h&largest=101"), "101"
        )


def sorted_labels(series: list[str]) -> list[str]:
    """The series with their labels in order."""
    found = []
    for line in series:
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("}")
        found.append(f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}")
    return found
