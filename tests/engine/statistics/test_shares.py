"""Items with a share of a window: none that has it is missed, and none far below it is listed."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from slidestat import SlidestatError, TopItems, Topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.statistics.runner import ItemColumn, Listed, Unions, Work, past_of, united
from slidestat.synopses.core.arrays import Integers
from tests.audit.test_audit_key import Partition
from tests.engine.memory import SOURCE
from tests.engine.model import Record
from tests.engine.streams import START_MS

FIELD = ("item",)
SPAN = 20_000
WINDOWS = np.array([700, 5_000, SPAN], np.int64)
NEEDED = {"name": "t", "source": SOURCE, "span": "1s", "every": "100ms"}


def _at_the_bound(rng: np.random.Generator, share: float, epsilon: float, size: int) -> Integers:
    """Of each 1,000 events some items have the share exactly, some one less, some what is left of
    it without epsilon; all others come once.
    """
    of_share, of_rest = round(1_000 * share), round(1_000 * (share - epsilon))
    wanted = [of_share, of_share - 1, of_rest, of_rest + 1]
    common = np.repeat(np.arange(len(wanted)), wanted)[:1_000]
    blocks = []
    for block in range(size // 1_000):
        others = 100 + 1_000 * block + np.arange(1_000 - len(common))
        blocks.append(rng.permutation(np.concatenate((common, others))))
    return np.concatenate(blocks)


STREAMS: dict[str, Callable[[np.random.Generator, float, float, int], Integers]] = {
    "at the bound": _at_the_bound,
    "zipf": lambda rng, _s, _e, size: np.minimum(rng.zipf(1.3, size), 10**6),
    "in turn": lambda _r, share, _e, size: np.arange(size) % round(1 / share),
    "one more in turn": lambda _r, share, _e, size: np.arange(size) % (round(1 / share) + 1),
    "one": lambda _r, _s, _e, size: np.zeros(size, np.int64),
}


def work_of(items: Integers, times: Integers, queries: list[int]) -> Work:
    texts, codes = np.unique(items, return_inverse=True)
    column = ItemColumn([f"/{text}" for text in texts.tolist()], codes.astype(np.int64))
    asked = np.array([0, len(queries)]), np.array(queries, np.int64)
    return Work(np.array([0, len(times)]), times, {}, {FIELD: column}, *asked, WINDOWS)


def check(
    listed: list[Listed], items: Integers, share: Fraction, epsilon: Fraction
) -> tuple[int, int]:
    """Compare a list with a recount; return how many it has, and how many have the share."""
    exact = Counter(f"/{item}" for item in items.tolist())
    names = {one.item for one in listed}
    assert len(names) == len(listed)
    for one in listed:
        estimate, lower, upper = one.numbers
        assert lower <= exact[one.item] <= upper
        assert estimate == (lower + upper) / 2
        assert upper == lower or upper - lower < epsilon * len(items)
        assert exact[one.item] > (share - epsilon) * len(items)
    having = {item for item, count in exact.items() if count >= share * len(items)}
    assert having <= names
    return len(names), len(having)


@pytest.mark.parametrize(
    ("share", "epsilon"), [(0.01, 0.01), (0.01, 0.002), (0.05, 0.02), (0.3, 0.1), (1, 0.5)]
)
@pytest.mark.parametrize("stream", STREAMS)
def test_every_item_that_has_the_share_is_listed(stream: str, share: float, epsilon: float) -> None:
    """And none that has at most the share less epsilon: over every window, of one stream and of
    three whose states are merged.
    """
    rng = np.random.default_rng(len(stream))
    items = STREAMS[stream](rng, share, epsilon, 30_000)
    times = np.sort(rng.integers(0, 30_000, len(items)))
    bounds = Fraction(str(share)), Fraction(str(epsilon))
    runner = TopItems(share=share, epsilon=epsilon).runner(SPAN, FIELD)
    ends = [1_000, 9_000, 30_000]
    answered = runner.run([None], work_of(items, times, ends))
    for end, lists in zip(ends, answered.lists, strict=True):
        for window, listed in zip(WINDOWS.tolist(), lists, strict=True):
            inside = items[(times >= end - window) & (times < end)]
            check(list(listed), inside, *bounds)

    party = rng.integers(0, 3, len(items))
    works = [work_of(items[party == i], times[party == i], [30_000]) for i in range(3)]
    states = {str(i): runner.run([None], work).states[0] for i, work in enumerate(works)}
    bundles = united(runner).bundles(states, b"")
    (lists,) = united(runner).union(Unions(bundles, [30_000], WINDOWS)).lists
    for window, listed in zip(WINDOWS.tolist(), lists, strict=True):
        check(list(listed), items[times >= 30_000 - window], *bounds)

    # Windows that ended before: none is missed, and bounds hold.
    ago = 9_000
    asked = work_of(items[:0], times[:0], [30_000])
    past = past_of(runner).past(answered.states, Work(*_shorter(asked)), ago)
    for window, listed in zip((700, 5_000), past.lists[0], strict=True):
        inside = items[(times >= 30_000 - ago - window) & (times < 30_000 - ago)]
        exact = Counter(f"/{item}" for item in inside.tolist())
        found = {one.item: one.numbers for one in listed}
        assert all(low <= exact[item] <= high for item, (_, low, high) in found.items())
        assert {it for it, n in exact.items() if n >= bounds[0] * len(inside)} <= found.keys()


def _shorter(work: Work) -> tuple[object, ...]:
    of_events = work.starts, work.times, work.numbers, work.items
    return (*of_events, work.query_starts, work.query_times, np.array([700, 5_000]))


def test_where_no_item_has_the_share_none_is_listed() -> None:
    """Counts of few events are exact: the list has those with the share, and no others instead."""
    records = [
        Record(i, b"a", b'{"key": "a", "time": %d, "item": "%d"}' % (START_MS + i, item), 0)
        for i, item in enumerate([1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 1, 1])
    ]
    records.append(Record(12, b"a", b'{"key": "a", "time": %d, "item": "8"}' % (START_MS + 500), 0))
    shares = [TopItems(field="item", share=share, name=f"s{share}") for share in (0.42, 0.4, 0.2)]
    partition = Partition(Topology(**NEEDED, statistics=(*shares, TopItems(field="item"))), records)
    emission = next(iter(partition.emissions["a"].values()))
    told = Counter(f.statistic for f in emission.figures if f.window_ms == 1_000)
    assert told == {"s0.4": 1, "s0.2": 1, "top_item": 7}
    assert partition.violations("a") == []


def test_an_audit_finds_a_missing_item_of_a_share() -> None:
    """Also where the list is longer than the limit of lists without a share."""
    records = [
        Record(i, b"a", b'{"key": "a", "time": %d, "item": "%d"}' % (START_MS + i // 9, i % 12), 0)
        for i in range(2_000)
    ]
    asked = Topology(**NEEDED, statistics=(TopItems(field="item", share=0.08),))
    partition = Partition(asked, records)
    assert all(len(it.figures) == 12 for it in partition.emissions["a"].values())
    assert partition.violations("a") == []
    for emission in partition.emissions["a"].values():
        emission.figures.pop()
    assert set(partition.violations("a")) == {"a top item not listed"}


def test_a_share_in_each_form() -> None:
    """As Python, as TOML's tables and as flags; without one, the fingerprint is as ever."""
    wanted = Topology(**NEEDED, statistics=(TopItems(field="url", share=0.01, epsilon=0.002),))
    table = {"kind": "top", "field": "url", "share": 0.01, "epsilon": 0.002}
    assert topology_of({**NEEDED, "statistics": [table]}) == wanted
    flag = "top:url:share=0.01:epsilon=0.002"
    assert topology_of_flags({**NEEDED, "statistics": [flag]}) == wanted
    assert "share 0.01" in wanted.state_meaning["statistics"]
    plain = Topology(**NEEDED, statistics=(TopItems(field="url", epsilon=0.002),))
    told = "frequent items in pairs, epsilon 0.002, of url"
    assert plain.state_meaning["statistics"] == told
    assert fingerprint_of(plain) == "37c343768f716368"
    assert fingerprint_of(plain) != fingerprint_of(wanted)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"share": 0.005}, "epsilon of top, 0.01, is above its share, 0.005"),
        ({"share": 0.01, "limit": 5}, "both a share and a limit"),
        ({"share": 1.5}, "share of top is 1.5"),
        ({"share": 0.001, "epsilon": 0.001}, "share of top is 0.001"),
        ({"share": True}, "share of top is True"),
        ({"share": "1%"}, "share of top is '1%'"),
        ({"share": float("nan")}, "share of top is nan"),
        ({"share": 0.01, "epsilon": 0.001}, "epsilon of top is 0.001"),
        ({"share": 0.0100000001}, "more than 6 decimals"),
    ],
)
def test_a_share_that_cannot_be_is_refused(asked: dict[str, object], message: str) -> None:
    """In words: above all an epsilon above the share, with which any item might have it."""
    with pytest.raises(SlidestatError, match=message):
        TopItems(**asked)
