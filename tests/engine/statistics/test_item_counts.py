"""How often an item came, asked of top items: listed or not, of one key or over many parties."""

from collections import Counter

import numpy as np
import pytest

from slidestat import Count, Quantiles, TopItems, Topology, TopologyDriver
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.synopses import (
    Bundle,
    FrequentParameters,
    NamedItems,
    union_item_counts,
    union_named_items,
)
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, Record, batch_of

START_MS = 1_600_000_000_000
MINUTE = 60_000


def items_of(rng: np.random.Generator, distribution: str, events: int) -> list[str]:
    """Texts, some numbers among them, and one beyond what a summary keeps of a text."""
    numbers = {
        "zipf": rng.zipf(1.3, events) % 5_000,
        "uniform": rng.integers(0, 3_000, events),
        "one": np.zeros(events, np.int64),
        "few": rng.integers(0, 4, events),
    }[distribution]
    return [f"/long/{'x' * 240}/{n}" if n == 1 else f"/{n}" for n in numbers.tolist()]


@pytest.mark.parametrize("epsilon", [0.01, 0.2])
@pytest.mark.parametrize("distribution", ["zipf", "uniform", "one", "few"])
def test_counts_of_any_item_hold(distribution: str, epsilon: float) -> None:
    """Of each item that came, and of one that did not, over any window: within its bounds, which
    lie less than epsilon of the window's events apart; the estimate is in the middle.
    """
    rng = np.random.default_rng(len(distribution))
    items = items_of(rng, distribution, 20_000)
    times = START_MS + np.sort(rng.integers(0, 90 * MINUTE, len(items)))
    law = Topology(
        name="law",
        source=SOURCE,
        span="1h",
        every="10m",
        value_field="item",
        statistics=(TopItems(epsilon=epsilon, limit=3), Count(epsilon=0.1)),
    )
    processor = PartitionProcessor(law, SOURCE, PARTITION, MemoryStore())
    value = '{"key": "k", "time": %d, "item": "%s"}'
    processor.process(
        batch_of(
            [
                Record(i, b"k", (value % (time, item)).encode(), time)
                for i, (time, item) in enumerate(zip(times.tolist(), items, strict=True))
            ]
        )
    )
    came = Counter(items)
    common = [item for item, _ in came.most_common(20)]
    wanted = [*common, *list(came)[-20:], "/never", ""]
    windows = ("1m", "17m", "1h")
    question = LiveQuery(law, windows, items=wanted)
    answer = question.answer(processor.view(), "k")
    assert answer is not None
    distinct = list(dict.fromkeys(wanted))
    assert len(answer.figures) == len(windows) * len(distinct)
    for figure, item in zip(answer.figures, distinct * len(windows), strict=True):
        assert figure.statistic == "top"
        assert figure.item == item
        assert figure.window_ms is not None
        inside = times >= answer.window_end_ms - figure.window_ms
        inside &= times < answer.window_end_ms
        exact = sum(items[i] == item for i in np.flatnonzero(inside).tolist())
        assert figure.lower <= exact <= figure.upper
        assert figure.estimate == (figure.lower + figure.upper) / 2
        assert figure.upper - figure.lower <= 2 * figure.share_error * int(inside.sum())
    listed = LiveQuery(law, windows, ["top"]).answer(processor.view(), "k")
    assert listed is not None
    both = {(f.window_ms, f.item): f for f in answer.figures}
    for figure in listed.figures:
        assert both.get((figure.window_ms, figure.item), figure) == figure


@pytest.mark.parametrize("distribution", ["zipf", "few"])
def test_counts_over_many_parties_hold(distribution: str) -> None:
    """Of an item that some parties list, or none: within bounds of less than epsilon of all."""
    rng = np.random.default_rng(1)
    parameters = FrequentParameters(epsilon=0.05, span=1_000)
    parts, times, items = {}, [], []
    for party in range(3):
        of_party = items_of(rng, distribution, 3_000)
        at = np.sort(rng.integers(0, 1_500, len(of_party)))
        synopsis = NamedItems.create(parameters)
        synopsis.insert(at, of_party)
        synopsis.advance(1_500)
        parts[f"p{party}"] = synopsis.to_bytes()
        times += at.tolist()
        items += of_party
    bundle = Bundle.of(parts)
    wanted = [item for item, _ in Counter(items).most_common(30)] + ["/never"]
    counts = union_item_counts([bundle, bundle], [1_500, 1_500], [100, 1_000], wanted)
    assert counts.shape == (3, 2, 2, len(wanted))
    for k, window in enumerate((100, 1_000)):
        inside = [item for time, item in zip(times, items, strict=True) if time >= 1_500 - window]
        exact = [inside.count(item) for item in wanted]
        estimates, lowers, uppers = counts[:, 0, k]
        assert (lowers <= exact).all()
        assert (exact <= uppers).all()
        assert (estimates == (lowers + uppers) / 2).all()
        assert (uppers - lowers <= 0.05 * len(inside)).all()
    assert (counts[:, 0] == counts[:, 1]).all()


def test_what_cannot_be_asked_is_refused() -> None:
    """Without top items, beside another question, of another statistic, of too long a text."""
    top = Topology(
        name="t", source="s", span="1h", every="1m", statistics=(TopItems(), Quantiles(), Count())
    )
    none = Topology(name="t", source="s", span="1h", every="1m", statistics=(Count(),))
    with pytest.raises(SlidestatError, match="the topology has neither"):
        LiveQuery(none, items=["a"])
    with pytest.raises(SlidestatError, match="rank and item are given together"):
        LiveQuery(top, ranks=[1], items=["a"])
    with pytest.raises(SlidestatError, match="quantile and item are given together"):
        LiveQuery(top, quantiles=[0.5], items=["a"])
    with pytest.raises(SlidestatError, match="'count', which cannot be asked for counts of items"):
        LiveQuery(top, statistics=["count"], items=["a"])
    with pytest.raises(SlidestatError, match="a text of 1,000,000 characters"):
        LiveQuery(top, items=["a" * 1_000_000])


@pytest.mark.parametrize(("events", "listed"), [(10, 3), (90, 3), (600, 3), (60_000, 0)])
def test_the_most_frequent_items_of_a_quiet_key(events: int, listed: int) -> None:
    """Where none of many different items has a share of epsilon, the most frequent ones are told as
    long as counts are exact; beyond that an item is as good as any other, and none is told.
    """
    law = Topology(
        name="law",
        source=SOURCE,
        span="1h",
        every="1h",
        value_field="item",
        # They share a synopsis, and each lists as many as it should.
        statistics=(TopItems(limit=3, epsilon=0.01), TopItems(limit=4, epsilon=0.01, name="four")),
    )
    assert len(set(law.runners)) == 1
    driver = TopologyDriver(law)
    items = [f"/{i}" for i in range(events - 3)] + ["/1", "/3", "/1"]
    driver.send(
        *(
            {"key": "k", "time": START_MS // 3_600_000 * 3_600_000 + i, "item": item}
            for i, item in enumerate(items)
        ),
        {"key": "k", "time": START_MS + 3_600_000, "item": "/later"},
    )
    driver.close_windows()
    figures = driver.emissions[0].figures
    told = [(f.item, f.lower, f.upper) for f in figures if f.statistic == "top"]
    assert len(told) == listed
    assert len(figures) - len(told) == (listed + 1 if listed else 0)
    if listed:
        assert told[:2] == [("/1", 3, 3), ("/3", 2, 2)]
        assert told[2][1:] == (1, 1)


def test_the_most_frequent_items_of_quiet_parties() -> None:
    """Their counts are exact, and add up, before they are compared."""
    parts = {}
    for party in "ab":
        counts = NamedItems.create(FrequentParameters(0.1, 1_000))
        counts.insert(range(14), [f"{party}{i}" for i in range(12)] + ["both", f"{party}1"])
        parts[party] = counts.to_bytes()
    together = Bundle.of(parts)
    ((window,),) = union_named_items([together], [together.now], [1_000], 0.1, instead=2)
    assert [(item.lower, item.upper) for item in window.items] == [(2, 2), (2, 2)]
    assert {item.text for item in window.items} < {"both", "a1", "b1"}
    ((none,),) = union_named_items([together], [together.now], [1_000], 0.1)
    assert none.items == []
