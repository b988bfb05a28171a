"""Items by how much came of each: bounds hold for any weights, windows and parties."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from slidestat import Count, SlidestatError, Sum, TopItems, Topology, TopologyDriver
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.statistics import top
from slidestat.declare.statistics.runner import ItemColumn, Listed, Unions, Work, past_of, united
from slidestat.declare.statistics.top import TopRunner
from slidestat.live.questions import TopCounts
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.errors import WindowTooLargeError
from tests.audit.test_audit_key import Partition
from tests.engine.memory import SOURCE
from tests.engine.model import Record
from tests.engine.streams import START_MS

FIELD = ("path",)
WEIGHT = ("bytes",)
SPAN = 20_000
WINDOWS = np.array([700, 5_000, SPAN], np.int64)
LARGEST = 2**44 - 1
NEEDED = {"name": "t", "source": SOURCE, "span": "1s", "every": "100ms"}

WEIGHTS: dict[str, Callable[[np.random.Generator, Integers], Floats]] = {
    "sizes": lambda rng, items: np.floor(rng.lognormal(9, 2, len(items))),
    "ones": lambda _rng, items: np.ones(len(items)),
    "the largest now and then": lambda rng, items: np.where(
        rng.random(len(items)) < 0.001, LARGEST, rng.integers(0, 3, len(items))
    ),
    "the item": lambda _rng, items: items.astype(float),
    # Rare items weigh as much as frequent ones.
    "against how often": lambda _rng, items: np.floor(1e6 / np.bincount(items)[items]),
    "fifteens and sixteens": lambda rng, items: 15.0 + rng.integers(0, 2, len(items)),
    "mostly nothing": lambda rng, items: np.where(rng.random(len(items)) < 0.95, 0, 7.0),
}


def work_of(
    items: Integers, weights: Floats, times: Integers, ends: list[int], windows: Integers = WINDOWS
) -> Work:
    texts, codes = np.unique(items, return_inverse=True)
    column = ItemColumn([f"/{text}" for text in texts.tolist()], codes.astype(np.int64))
    asked = np.array([0, len(ends)]), np.array(ends, np.int64), windows
    return Work(np.array([0, len(times)]), times, {WEIGHT: weights}, {FIELD: column}, *asked)


def recount(items: Integers, weights: Floats, decimals: int) -> Counter[str]:
    """How much came of each, in units."""
    exact = Counter[str]()
    for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
        exact[f"/{item}"] += round(weight * 10**decimals)
    return exact


def check_bounds(listed: list[Listed], exact: Counter[str], scale: int) -> None:
    for one in listed:
        estimate, lower, upper = map(Fraction, one.numbers)
        assert lower <= Fraction(exact[one.item], scale) <= upper
        assert lower <= estimate <= upper


def check(listed: list[Listed], exact: Counter[str], decimals: int, asked: TopItems) -> None:
    scale, total = 10**decimals, exact.total()
    share, epsilon = (Fraction(str(it)) for it in (asked.share, asked.epsilon))
    check_bounds(listed, exact, scale)
    error = Fraction(asked.promise(SPAN).share_error) * total
    for one in listed:
        estimate, lower, upper = map(Fraction, one.numbers)
        assert abs(estimate * scale - exact[one.item]) <= error
        # Ends of a share of a unit are rounded outwards.
        assert (upper - lower) * scale <= epsilon * total or upper - lower <= upper / 2**52
        assert exact[one.item] > (share - epsilon) * total
    names = {one.item for one in listed}
    assert len(names) == len(listed)
    assert {it for it, units in exact.items() if units >= share * total > 0} <= names


@pytest.mark.parametrize(("share", "epsilon", "decimals"), [(0.02, 0.02, 0), (0.05, 0.01, 3)])
@pytest.mark.parametrize("weigh", WEIGHTS)
def test_bounds_hold_for_any_weights(
    weigh: str, share: float, epsilon: float, decimals: int
) -> None:
    """Of each item that is listed, and of any other that is asked for; every item with the share of
    the window's weight is listed, and none without nearly as much; over every window, over three
    parties together, and of windows that ended before.
    """
    rng = np.random.default_rng(len(weigh))
    items = np.minimum(rng.zipf(1.4, 8_000), 10**6)
    times = np.sort(rng.integers(0, 30_000, len(items)))
    weights = WEIGHTS[weigh](rng, items % 5_000) / 10**decimals
    asked = TopItems(field="path", weight="bytes", share=share, epsilon=epsilon, decimals=decimals)
    runner = asked.runner(SPAN, FIELD)
    ends = [1_000, 9_000, 30_000]
    answered = runner.run([None], work_of(items, weights, times, ends))
    for end, lists in zip(ends, answered.lists, strict=True):
        for window, listed in zip(WINDOWS.tolist(), lists, strict=True):
            inside = (times >= end - window) & (times < end)
            check(list(listed), recount(items[inside], weights[inside], decimals), decimals, asked)

    wanted = tuple({f"/{item}": None for item in [*range(1, 30), *items[-9:].tolist(), -1]})
    question = TopCounts(**vars(asked), items=wanted).runner(SPAN, FIELD)
    none = work_of(items[:0], weights[:0], times[:0], [30_000])
    party = rng.integers(0, 3, len(items))
    states = {
        str(i): runner.run(
            [None], work_of(items[party == i], weights[party == i], times[party == i], [30_000])
        ).states[0]
        for i in range(3)
    }
    bundles = united(runner).bundles(states, b"")
    (lists,) = united(runner).union(Unions(bundles, [30_000] * len(bundles), WINDOWS)).lists
    (counts,) = question.run(answered.states, none).lists
    (of_all,) = united(question).union(Unions(bundles, [30_000] * len(bundles), WINDOWS)).lists
    for k, window in enumerate(WINDOWS.tolist()):
        inside = times >= 30_000 - window
        exact = recount(items[inside], weights[inside], decimals)
        check(list(lists[k]), exact, decimals, asked)
        assert [one.item for one in counts[k]] == list(wanted)
        check_bounds(list(counts[k]), exact, 10**decimals)
        check_bounds(list(of_all[k]), exact, 10**decimals)

    ago, shorter = 9_000, np.array([700, 5_000])
    none = work_of(items[:0], weights[:0], times[:0], [30_000], shorter)
    for past in (past_of(runner), past_of(question)):
        for window, listed in zip(
            shorter.tolist(), past.past(answered.states, none, ago).lists[0], strict=True
        ):
            inside = (times >= 30_000 - ago - window) & (times < 30_000 - ago)
            exact = recount(items[inside], weights[inside], decimals)
            check_bounds(list(listed), exact, 10**decimals)
            if isinstance(past, TopRunner):
                having = {it for it, n in exact.items() if n >= share * exact.total() > 0}
                assert having <= {one.item for one in listed}


def test_batches_do_not_show() -> None:
    """The state is that of the events, however they were split; a state of another weight is not
    taken for it.
    """
    rng = np.random.default_rng(4)
    items, weights = rng.integers(0, 90, 3_000), rng.integers(0, 10**6, 3_000).astype(float)
    times = np.sort(rng.integers(0, 30_000, len(items)))
    runner = TopItems(field="path", weight="bytes", decimals=0).runner(SPAN, FIELD)
    (whole,) = runner.run([None], work_of(items, weights, times, [])).states
    state = None
    for part in np.array_split(np.arange(len(items)), [1, 2, 700, 2_999]):
        (state,) = runner.run([state], work_of(items[part], weights[part], times[part], [])).states
    assert state == whole
    assert runner.meaning != replace(runner, decimals=1).meaning


def test_few_copies_are_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever events weigh: states and lists are those of all in one go, of several keys, between
    whose events there are questions.
    """
    rng = np.random.default_rng(6)
    count = 2_000
    items, weights = rng.integers(0, 50, count), rng.integers(0, LARGEST, count).astype(float)
    weights[::7] = np.nan
    times = np.concatenate([np.sort(rng.integers(0, 30_000, count // 2)) for _ in range(2)])
    whole = replace(
        work_of(items, weights, times, [50, 9_000, 30_000, 20_000]),
        starts=np.array([0, count // 2, count // 2, count]),
        query_starts=np.array([0, 3, 3, 4]),
    )
    runner = TopItems(field="path", weight="bytes", decimals=0).runner(SPAN, FIELD)
    told = runner.run([None] * 3, whole)
    sizes = []
    repeat = top.run_parted
    monkeypatch.setattr(top, "_MOST_COPIES", 5_000)
    monkeypatch.setattr(
        top, "run_parted", lambda *of: (sizes.append(len(of[3].times)), repeat(*of))[1]
    )
    assert runner.run([None] * 3, whole) == told
    assert len(sizes) > 20
    assert max(sizes) < 5_000 + 2 * 165


def test_a_window_of_few_events_is_exact_whatever_they_weigh() -> None:
    """The list is the right one in the right order, and so is one of equals; 0 is nothing."""
    driver = TopologyDriver(
        Topology(
            **NEEDED,
            statistics=(TopItems(field="path", weight="bytes", limit=4), Sum(field="bytes")),
        )
    )
    came = {"/a": (5, 0.125), "/b": (17, 0.001), "/c": (0,), "/d": (5.125,), "/e": (1,)}
    driver.send(
        *(
            {"key": "k", "time": START_MS, "path": path, "bytes": weight}
            for path, weights in came.items()
            for weight in weights
        )
    )
    driver.close_windows()
    figures = [f for f in driver.emissions[0].figures if f.window_ms == 1_000]
    listed = [(f.item, f.estimate) for f in figures if f.statistic == "top_path_of_bytes"]
    assert listed == [("/b", 17.001), ("/a", 5.125), ("/d", 5.125), ("/e", 1)]


def test_rising_weights_of_items_that_all_differ() -> None:
    """No item has a share of epsilon, so none is named as if it were above the others; a smaller
    epsilon finds those that have one.
    """
    items = np.arange(1, 3_001)
    work = work_of(items, items.astype(float), np.arange(3_000), [SPAN])
    runner = TopItems(field="path", weight="bytes", decimals=0).runner(SPAN, FIELD)
    assert runner.run([None], work).lists[0][-1] == []
    few = work_of(items[:60], items[:60].astype(float), np.arange(60), [SPAN])
    listed = runner.run([None], few).lists[0][-1]
    assert [one.item for one in listed[:3]] == ["/60", "/59", "/58"]


def test_weights_are_audited_and_what_is_no_weight_is_a_dead_letter() -> None:
    """Negative ones, too large ones and texts are dead letters; an event that lacks one of the
    fields, or has null there, is not counted.
    """
    rng = np.random.default_rng(5)
    records, fine, refused = [], 0, ["-1", '"7"', "2e10"]
    told = ["1", "0", "17.5", "0.0004", "250000", "1e6", "null", *refused]
    for i in range(900):
        weight = rng.choice(told)
        fields = f'"key": "a", "time": {START_MS + 3 * i}, "path": "/{int(rng.zipf(1.5)) % 30}"'
        fields += "" if i % 10 == 9 else f', "bytes": {weight}'
        fine += i % 10 == 9 or weight not in refused
        records.append(Record(i, b"a", f"{{{fields}}}".encode(), 0))
    asked = Topology(
        **NEEDED,
        statistics=(
            TopItems(field="path", weight="bytes", epsilon=0.1),
            TopItems(field="path", weight="bytes", share=0.2, epsilon=0.1, name="large"),
            TopItems(field="path", weight="bytes", where="path <> '/1'", name="others"),
            Count(),
        ),
    )
    partition = Partition(asked, records)
    assert len(partition.rows["a"]) == fine
    assert partition.violations("a") == []
    emissions = partition.emissions["a"]
    assert {f.statistic for it in emissions.values() for f in it.figures} == set(asked.labels)
    for emission in emissions.values():
        emission.figures[:] = [f for f in emission.figures if f.item != "/1"]
    assert set(partition.violations("a")) == {"a top item not listed"}


def test_weights_of_many_parties_that_no_number_holds_are_refused() -> None:
    """Sums wrap around in no silence."""
    runner = TopItems(field="path", weight="bytes", decimals=0).runner(SPAN, FIELD)
    size = 60_000
    work = work_of(
        np.zeros(size, np.int64), np.full(size, 15.0 * 2**40), np.zeros(size, np.int64), []
    )
    (state,) = runner.run([None], work).states
    few, many = (
        united(runner).bundles({str(i): state for i in range(parties)}, b"") for parties in (4, 5)
    )
    ((window,),) = united(runner).union(Unions(few, [SPAN] * len(few), WINDOWS[-1:])).lists
    assert window[0].numbers[1] <= 4 * size * 15 * 2**40 <= window[0].numbers[2]
    with pytest.raises(WindowTooLargeError, match=r"more than 2\^62"):
        united(runner).union(Unions(many, [SPAN] * len(many), WINDOWS[-1:]))


def test_weighted_items_in_each_form() -> None:
    """As Python, as TOML's tables and as flags."""
    wanted = Topology(
        **NEEDED, statistics=(TopItems(field="url", weight="http.bytes", decimals=0),)
    )
    table = {"kind": "top", "field": "url", "weight": "http.bytes", "decimals": 0}
    assert topology_of({**NEEDED, "statistics": [table]}) == wanted
    flag = "top:url:weight=http.bytes:decimals=0"
    assert topology_of_flags({**NEEDED, "statistics": [flag]}) == wanted
    assert wanted.labels == ("top_url_of_http.bytes",)
    with pytest.raises(SlidestatError, match="the weight of top"):
        TopItems(weight="kafka:key")
    with pytest.raises(SlidestatError, match="decimals of top is 10"):
        TopItems(weight="bytes", decimals=10)
