"""Sums and means of one field in ranges of another: bounds hold for any values, windows, parties
and pasts.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import inf, nextafter
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import (
    Count,
    MeanHistogram,
    NetSum,
    SlidestatError,
    SumHistogram,
    Topology,
    TopologyDriver,
)
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.statistics.runner import Unions, Work, past_of, united
from slidestat.engine.partition import PartitionProcessor
from slidestat.synopses.core.arrays import Floats, Integers
from tests.audit.test_audit_key import Partition
from tests.engine.cases import laws
from tests.engine.checks import emissions_of
from tests.engine.exact import root, total, variance
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of
from tests.engine.model import Record
from tests.engine.streams import START_MS

AMOUNT, PRICE = ("amount",), ("price",)
SPAN = 1_000
WINDOWS = np.array([1, 40, 300, SPAN], np.int64)
NEEDED = {"name": "t", "source": SOURCE, "span": "1s", "every": "100ms"}
# The last one is where whole numbers are no doubles any more.
EDGES = (-1.5, 0.0, 0.1, 7.0, 2.0**60)
ASKED = (
    SumHistogram(field="amount", by="price", edges=EDGES, epsilon=0.5),
    SumHistogram(field="amount", by="price", edges=(7.0,), epsilon=0.05),
    MeanHistogram(field="amount", by="price", edges=EDGES, epsilon=0.5),
    MeanHistogram(field="amount", by="price", edges=(0.1,), epsilon=0.03),
)
Event = tuple[int, float | None, float | None]

at_edges = st.sampled_from([near for edge in EDGES for near in (edge, nextafter(edge, -inf), -0.0)])
prices = (
    st.none() | at_edges | st.floats(-10, 10) | st.floats(allow_nan=False, allow_infinity=False)
)
amounts = st.none() | st.integers(-(10**6), 10**6).map(lambda n: n / 1_000) | st.just(1e9)
streams = st.lists(st.tuples(st.integers(0, 30), amounts, prices), max_size=150)


def timed(stream: Sequence[Event]) -> list[Event]:
    """The events with their times in place of the steps between them."""
    times = np.cumsum([step for step, _, _ in stream]).tolist()
    return [(time, *of) for time, (_, *of) in zip(times, stream, strict=True)]


def work_of(events: Sequence[Event], ends: Sequence[int], windows: Integers = WINDOWS) -> Work:
    columns = [np.array([event[i] for event in events], float) for i in (1, 2)]
    asked = np.array([0, len(ends)]), np.array(ends, np.int64), windows
    numbers = dict(zip((AMOUNT, PRICE), columns, strict=True))
    times = np.array([time for time, _, _ in events], np.int64)
    return Work(np.array([0, len(events)]), times, numbers, {}, *asked)


def inside_of(
    events: Sequence[Event], start: int, end: int, least: float | None, below: float | None
) -> list[Fraction]:
    """The amounts of a window whose price lies in a range; each has both."""
    return [
        Fraction(Decimal(repr(amount)))
        for time, amount, price in events
        if start <= time < end
        and amount is not None
        and price is not None
        and (least is None or price >= least)
        and (below is None or price < below)
    ]


def check(
    statistic: SumHistogram | MeanHistogram,
    numbers: Floats,
    amounts_of: Callable[[float | None, float | None], list[Fraction]],
    *,
    is_promised: bool = True,
) -> None:
    """Each figure, float64[3, series], is within its bounds and its promise."""
    promise = statistic.promise(SPAN)
    for place, series in enumerate(statistic.series()):
        amounts = amounts_of(series.at_least, series.below)
        estimate, lower, upper = numbers[:, place].tolist()
        if isinstance(statistic, MeanHistogram) and not amounts:
            assert not is_promised or np.isnan(estimate)
            continue
        right = total(amounts)
        if isinstance(statistic, MeanHistogram):
            right /= len(amounts)
        assert lower <= right <= upper, (series, amounts)
        assert lower <= estimate <= upper
        if is_promised:
            allowed = Fraction(promise.relative_error) * abs(right)
            allowed += Fraction(promise.absolute_error)
            allowed += Fraction(promise.magnitude_error) * total(map(abs, amounts))
            if promise.deviation_error:
                allowed += Fraction(promise.deviation_error) * root(variance(amounts))
            assert abs(Fraction(estimate) - right) <= allowed, (series, amounts)


@settings(laws, max_examples=60)
@given(streams, st.integers(0, 2**32))
def test_each_figure_keeps_its_promise(stream: list[Event], seed: int) -> None:
    """At any moment, over each window; of windows that ended before; over two parties, together.
    However events come in batches, the state is the same.
    """
    events, random = timed(stream), Random(seed)
    now = (events[-1][0] if events else 0) + 1
    ends = sorted({now, *(random.randint(0, now) for _ in range(3))})
    parties = [[event for event in events if random.randrange(3) == 0] for _ in range(2)]
    for asked in ASKED:
        runner = asked.runner(SPAN, AMOUNT)
        whole = runner.run([None], work_of(events, ends))
        found = asked.numbers(whole.answers, WINDOWS.astype(float))
        for (i, end), (k, n) in (
            (q, w) for q in enumerate(ends) for w in enumerate(WINDOWS.tolist())
        ):
            check(
                asked,
                found[:, i, k],
                partial(inside_of, events, end - n, end),
            )

        state, rest = None, events
        while rest:
            size = random.randint(1, 60)
            (state,) = runner.run([state], work_of(rest[:size], [])).states
            rest = rest[size:]
        assert (state or b"") == whole.states[0]

        ago = random.choice([1, 60, SPAN - 1])
        shorter = np.unique(np.array([1, SPAN - ago]))
        past = past_of(runner).past([whole.states[0]], work_of([], [now], shorter), ago)
        before = asked.numbers(past.answers, shorter.astype(float))
        for k, n in enumerate(shorter.tolist()):
            check(
                asked,
                before[:, 0, k],
                partial(inside_of, events, now - ago - n, now - ago),
                is_promised=False,
            )

        published = {
            str(i): runner.run([None], work_of(party, [])).states[0]
            for i, party in enumerate(parties)
        }
        bundles = united(runner).bundles(published, b"")
        of_all = united(runner).union(Unions(bundles, [now] * len(bundles), WINDOWS))
        joined = asked.numbers(of_all.answers, WINDOWS.astype(float))
        for k, n in enumerate(WINDOWS.tolist()):
            both = [event for party in parties for event in party]
            # Each party rounds its units for itself, so the promise is that of `_widened`.
            check(
                asked,
                joined[:, 0, k],
                partial(inside_of, both, now - n, now),
                is_promised=False,
            )


def records(count: int, told: dict[str, list[str]]) -> list[Record]:
    """Records of one key, whose fields have one of the texts each, "" for a field that is not
    there.
    """
    random = Random(7)
    found = []
    for i in range(count):
        drawn = {name: random.choice(texts) for name, texts in told.items()}
        own = "".join(f', "{name}": {text}' for name, text in drawn.items() if text)
        found.append(
            Record(i, b"a", f'{{"key": "a", "time": {START_MS + 3 * i}{own}}}'.encode(), 0)
        )
    return found


TOLD = {
    "amount": ["1.25", "-7", "0", "-0.0", "1e3", "0.0004", "99999.999", "null", ""],
    "price": ["0", "-0.0", "7", "6.999999999999999", "1e300", "-2", "0.1", "null", ""],
}


def test_an_event_that_lacks_one_of_both_fields_is_in_no_range() -> None:
    """Whatever is in it: missing, null, at an edge, beyond all others. Ranges add up to the sum of
    the events that have both, and the audit finds the same.
    """
    both = "amount is not null and price is not null"
    asked = Topology(
        **NEEDED,
        windows=("200ms", "1s"),
        statistics=(
            *(replace(it, name=f"s{i}") for i, it in enumerate(ASKED)),
            Count(),
            NetSum(field="amount", where=both, name="net", epsilon=0.05),
            replace(ASKED[1], where="amount > 0", name="gains"),
        ),
    )
    partition = Partition(asked, records(700, TOLD))
    assert len(partition.rows["a"]) == 700
    assert partition.violations("a") == []
    for emission in partition.emissions["a"].values():
        told = {
            (f.statistic, f.window_ms, f.at_least, f.below): (f.estimate, f.lower, f.upper)
            for f in emission.figures
        }
        for window in (200, 1_000):
            low, high = told["s1", window, None, 7.0], told["s1", window, 7.0, None]
            _, least, most = told["net", window, None, None]
            assert low[1] + high[1] <= most + 1e-6
            assert low[2] + high[2] >= least - 1e-6


def test_an_audit_sees_an_amount_in_the_wrong_range() -> None:
    """The sums of two ranges are exchanged; a mean is off by more than its deviations."""
    asked = Topology(**NEEDED, statistics=(ASKED[1], ASKED[3]))
    partition = Partition(asked, records(300, {"amount": ["1", "3"], "price": ["0", "9", "9"]}))
    assert partition.violations("a") == []
    _, emission = list(partition.emissions["a"].items())[-1]
    first, second, low, high = emission.figures
    emission.figures[:] = [
        msgspec.structs.replace(
            first, estimate=second.estimate, lower=second.lower, upper=second.upper
        ),
        msgspec.structs.replace(
            second, estimate=first.estimate, lower=first.lower, upper=first.upper
        ),
        low,
        msgspec.structs.replace(high, estimate=high.upper + 0.5, upper=high.upper + 0.5),
    ]
    assert partition.violations("a") == ["more off than promised"] * 3


def test_a_whole_number_beyond_all_doubles_is_in_its_own_range() -> None:
    """Its double is the edge, and it lies below: for the worker and for the audit."""
    told = {"amount": ["1"], "price": [str(2**60 - 1), str(2**60), str(2**60 + 1)]}
    asked = Topology(**NEEDED, statistics=(ASKED[0],))
    partition = Partition(asked, records(100, told))
    assert partition.violations("a") == []
    end, emission = list(partition.emissions["a"].items())[-1]
    (below,) = (f for f in emission.figures if f.below == 2.0**60)
    counted = records(100, told)[: (end - START_MS + 2) // 3]
    exact = sum(told["price"][0].encode() in record.value for record in counted)
    assert 0 < below.lower <= exact <= below.upper < len(counted) / 2


@pytest.mark.parametrize("bad", ['"7"', "true", "[1]", "NaN", "1e400"])
def test_what_is_no_number_is_a_dead_letter(bad: str) -> None:
    """In either field; it is not taken for nothing, nor for 0."""
    asked = Topology(**NEEDED, statistics=(ASKED[0], Count()))
    for told in ({"amount": ["1"], "price": [bad]}, {"amount": [bad], "price": ["1"]}):
        assert "a" not in Partition(asked, records(2, told)).rows


def test_a_range_whose_sum_is_nothing_stays() -> None:
    """Amounts that cancel each other make 0, with bounds; a range without events makes 0, and no
    mean.
    """
    driver = TopologyDriver(
        Topology(
            **NEEDED,
            statistics=(
                SumHistogram(field="amount", by="price", edges=(1, 2)),
                MeanHistogram(field="amount", by="price", edges=(1, 2)),
            ),
        )
    )
    for i, amount in enumerate((10, -10)):
        driver.send({"key": "k", "time": START_MS + i, "amount": amount, "price": 1.5})
    driver.close_windows()
    figures = driver.emissions[0].figures
    assert {f.statistic for f in figures} == {
        "sum_histogram_amount_by_price",
        "mean_histogram_amount_by_price",
    }
    assert [f.estimate for f in figures] == [0, 0, 0, None, 0, None]
    assert all(f.lower <= 0 <= f.upper for f in figures[:3])


def test_a_small_amount_is_not_lost_beside_large_ones() -> None:
    """Each range has synopses of its own, whatever is in the others."""
    told = {"amount": ["0.001", "17000000000"], "price": ["0", "9"]}
    found = [r for r in records(400, told) if (b"0.001" in r.value) == (b'"price": 0' in r.value)]
    asked = Topology(**NEEDED, statistics=(ASKED[1],))
    partition = Partition(asked, found)
    assert partition.violations("a") == []
    for emission in partition.emissions["a"].values():
        assert 0 < emission.figures[0].upper < 1


def test_states_do_not_mix() -> None:
    """Ranges of values, and of another field, of the same edges: what a state means says so. A
    declaration without `by` is what it was.
    """
    one = SumHistogram(field="amount", edges=(0.0, 7.0))
    runners = [replace(one, by=by).runner(SPAN, AMOUNT) for by in ("", "price", "size")]
    assert len({runner.meaning for runner in runners}) == 3
    topologies = [
        Topology(**NEEDED, statistics=(replace(one, by=by, name="s"),))
        for by in ("", "price", "size")
    ]
    assert len(set(map(fingerprint_of, topologies))) == 3


def test_restarts_do_not_show() -> None:
    """Emissions are the same whether records come one by one or all at once."""
    asked = Topology(**NEEDED, statistics=ASKED[::2])
    found = []
    for size in (1_000, 37):
        processor = PartitionProcessor(asked, SOURCE, PARTITION, MemoryStore())
        rest, outputs = records(500, TOLD), []
        while rest:
            outputs += outputs_of(processor.process(batch_of(rest[:size])))
            rest = rest[size:]
        found.append(msgspec.json.encode(emissions_of(outputs)))
    assert found[0] == found[1]


def test_histograms_by_another_field_in_each_form() -> None:
    """As Python, as TOML's tables and as flags; what cannot be is refused in words."""
    wanted = Topology(
        **NEEDED,
        statistics=(
            SumHistogram(field="order.amount", by="order.price", edges=(10, 100)),
            MeanHistogram(field="took", by="size", edges=(1.5,), epsilon=0.02),
        ),
    )
    tables = [
        {"kind": "sum_histogram", "field": "order.amount", "by": "order.price", "edges": [10, 100]},
        {"kind": "mean_histogram", "field": "took", "by": "size", "edges": [1.5], "epsilon": 0.02},
    ]
    assert topology_of({**NEEDED, "statistics": tables}) == wanted
    flags = [
        "sum_histogram:order.amount:by=order.price:edges=10,100",
        "mean_histogram:took:by=size:edges=1.5:epsilon=0.02",
    ]
    assert topology_of_flags({**NEEDED, "statistics": flags}) == wanted
    assert wanted.labels == (
        "sum_histogram_order.amount_by_order.price",
        "mean_histogram_took_by_size",
    )
    with pytest.raises(SlidestatError, match="the by of sum_histogram"):
        SumHistogram(by="kafka:key")
    with pytest.raises(SlidestatError, match="the by of mean_histogram is 'amount', its field"):
        Topology(**NEEDED, statistics=(MeanHistogram(field="amount", by="amount"),))
