"""Figures of chosen keys for Prometheus."""

from collections.abc import Iterator
from math import inf

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slidestat.schemas.emission import Figure
from slidestat.schemas.query import KeyAnswer
from slidestat.web.answers.keys import FigureGauges
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, get, serving, serving_of

Labels = frozenset[tuple[str, str]]


def gauges(body: bytes) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(body.decode()):
        assert family.type == "gauge"
        for sample in family.samples:
            yield sample.name, {n: v for n, v in sample.labels.items() if v}, sample.value


@pytest.mark.asyncio
async def test_gauges_are_the_answers() -> None:
    """Each worker tells the figures of the keys that it has, as it would answer for them."""
    keys = "a/b", "x y", "é", "no such"
    query = "&".join(f"key={key}" for key in ("a%2Fb", "x+y", "%C3%A9", "no%20such"))
    asked = "window=30m&quantile=0.5&quantile=0.99"
    async with serving({0: [*keys[:2]]}, {1: [keys[2]]}) as workers:
        told: dict[tuple[str, Labels], float] = {}
        by_worker = []
        for worker in workers:
            answer = await get(worker.url, f"/topologies/orders/metrics?{query}&{asked}")
            assert answer.status == 200
            found = list(gauges(answer.body))
            by_worker.append({labels["key"] for _, labels, _ in found})
            told |= {(name, frozenset(labels.items())): value for name, labels, value in found}
        assert by_worker == [{"a/b", "x y"}, {"é"}]
        expected: dict[tuple[str, Labels], float] = {}
        for key, path in zip(keys, ("a%2Fb", "x%20y", "%C3%A9"), strict=False):
            body = (await get(workers[0].url, f"/topologies/orders/keys/{path}?{asked}")).body
            live = msgspec.json.decode(body, type=KeyAnswer)
            own = {"topology": "orders", "key": key}
            end = "slidestat_figure_window_end_timestamp_seconds"
            expected[end, frozenset(own.items())] = live.window_end_ms / 1000
            for figure in live.figures:
                labels = own | {"statistic": figure.statistic, "window": "30m"}
                if figure.quantile is not None:
                    labels["quantile"] = f"{figure.quantile:g}"
                for suffix, value in (
                    ("", figure.estimate),
                    ("_lower", figure.lower),
                    ("_upper", figure.upper),
                ):
                    if value is not None:
                        expected["slidestat_figure" + suffix, frozenset(labels.items())] = value
    assert told == expected


@pytest.mark.asyncio
@given(values=st.lists(st.floats(0.001, 1_000), min_size=1, max_size=60), data=st.data())
@settings(max_examples=20, deadline=None)
async def test_buckets_are_a_histogram(values: list[float], data: st.DataObject) -> None:
    """Of a window, with bounds that hold: how many events have at most each value asked about, and
    how many there are at +Inf; each rises, as histogram_quantile wants it. A value that is asked
    about twice has one series, as Prometheus wants it.
    """
    asked = data.draw(st.lists(st.floats(0.001, 1_000), min_size=1, max_size=8, unique=True))
    query = "&".join(f"rank={value!r}" for value in (*asked, asked[0]))
    events = [Record(i, None, encode("a", START_MS + i, it), 0) for i, it in enumerate(values)]
    # A partition's first record waits for the second.
    events.append(Record(len(events), None, encode("b", START_MS + 1_000, 1), 0))
    async with serving_of(TOPOLOGY, {0: events}) as [worker]:
        answer = await get(worker.url, f"/topologies/orders/metrics?key=a&window=1h&{query}")
    found: dict[str, list[tuple[float, float]]] = {}
    for name, labels, value in gauges(answer.body):
        if "bucket" in name:
            assert labels["window"] == "1h"
            found.setdefault(name, []).append((float(labels["le"]), value))
    kept = [float(it) for it in values]
    for name, buckets in found.items():
        assert [le for le, _ in buckets] == [*sorted(asked), inf], name
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    own = "slidestat_figure_bucket"
    rows = zip(found[own], found[f"{own}_lower"], found[f"{own}_upper"], strict=True)
    for (le, estimate), (_, lower), (_, upper) in rows:
        exact = sum(it <= le for it in kept)
        assert lower <= exact <= upper
        assert lower <= estimate <= upper


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "key is given 0 times"),
        ("key=", "A key is empty"),
        ("&".join(f"key={i}" for i in range(51)), "key is given 51 times"),
        ("key=a&window=2h", "longer than the '1h'"),
        ("key=a&nosuch=1", "nosuch"),
        ("key=%zz", "broken escape"),
        (
            "&".join(f"key={i}" for i in range(26)) + "&window=1m" * 20,
            "26 keys with 20 windows",
        ),
    ],
)
async def test_what_cannot_be_scraped_is_refused(query: str, says: str) -> None:
    async with serving({0: ["a"]}) as [worker]:
        answer = await get(worker.url, f"/topologies/orders/metrics?{query}")
    assert answer.status == 400
    assert says in answer.body.decode()


def test_items_that_are_named_are_gauges_and_lists_are_none() -> None:
    """The listed ones are others from time to time."""
    figures = [
        Figure("pages", 2.0, 2.0, 2.0, window_ms=60_000, item="/a"),
        Figure("top", 5.0, 4.0, 6.0, window_ms=60_000, item="/a"),
    ]
    answer = KeyAnswer("t", "k", 1_700_000_000_000, figures, "s", 0, 1)
    told = [
        (labels["statistic"], labels["item"], value)
        for name, labels, value in gauges(generate_latest(FigureGauges([answer], {"top"})))
        if name == "slidestat_figure"
    ]
    assert told == [("pages", "/a", 2.0)]
