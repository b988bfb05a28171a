"""The past of a key: windows that ended some time ago, by what its state knows of two windows."""

from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, pairwise

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import (
    Alert,
    Count,
    Deviation,
    Distinct,
    Items,
    LandmarkCount,
    Maximum,
    Mean,
    NetSum,
    Quantiles,
    Rate,
    Sample,
    Sum,
    TopItems,
    Topology,
    TopologyDriver,
)
from slidestat.declare.statistics import Statistic
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import KeyAnswer
from tests.engine.cases import TOPOLOGIES, Case, cases, laws, topology
from tests.engine.checks import check_figure, emissions_of, sent
from tests.engine.exact import exact
from tests.engine.meant import CONDITIONS, meant
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    batch_of,
    outputs_of,
)
from tests.engine.model import Event, Model, inside, is_forgotten
from tests.engine.partition.test_partition_crash import same_end, through_crashes, undisturbed

HOUR = 3_600_000
# A multiple of every length below.
START_MS = 1_700_006_400_000

HAVE_PAST = sorted(
    name
    for name, topology in TOPOLOGIES.items()
    if not topology.windows_of_events
    and topology.sees_span_alone
    and not topology.publish
    and topology.span_length.length > 90
    and any(statistic.has_past for statistic in topology.statistics)
)


def values_of(statistic: Statistic, values: Sequence[Fraction | None]) -> list[Fraction]:
    """The values that a statistic takes in."""
    kept = [v for v in values if not statistic.where or meant(statistic.where, v)]
    if not statistic.columns(("value",)):
        return [value or Fraction() for value in kept]
    return [value for value in kept if value is not None]


def check_past(
    topology: Topology, found: Sequence[Figure], values: Mapping[int, Sequence[Fraction | None]]
) -> None:
    """Each figure holds of the values of its window; none is missing but what has no past."""
    of = {
        place: list(rows)
        for place, rows in groupby(found, lambda figure: (figure.statistic, figure.window_ms))
    }
    for statistic, label in zip(topology.statistics, topology.labels, strict=True):
        for n in topology.window_lengths:
            figures = of.pop((label, n), [])
            if not statistic.has_past:
                assert not figures
                continue
            right = values_of(statistic, values[n])
            if isinstance(statistic, TopItems):
                check_items(statistic, figures, right)
                continue
            for figure, number in zip(figures, exact(statistic, right, n), strict=True):
                assert not figure.relative_error + figure.share_error + figure.deviation_error
                if number is None:  # There may be none; what is told is of some that may be.
                    assert figure.lower is None or figure.lower <= figure.estimate <= figure.upper
                else:
                    check_figure(statistic, figure, number, right)
    assert not of


def check_items(statistic: TopItems, figures: Sequence[Figure], values: Sequence[Fraction]) -> None:
    """Each item is within its bounds, the most frequent first."""
    counts = Counted(values)
    assert len(figures) <= statistic.limit
    estimates = [figure.estimate for figure in figures]
    assert estimates == sorted(estimates, reverse=True)
    for figure in figures:
        assert figure.lower <= counts[Fraction(figure.item or "")] <= figure.upper
        assert figure.upper - figure.estimate <= figure.absolute_error


@settings(laws, max_examples=40)
@given(cases(max_size=60, topologies=HAVE_PAST), st.booleans())
def test_the_past_is_right_at_any_moment_for_any_window(case: Case, is_whole: bool) -> None:
    """After all records, of any windows and any time ago that the span covers: exact figures lie
    within the bounds, and the estimates as near as they are told to be.
    """
    processor = PartitionProcessor(case.topology, SOURCE, PARTITION, MemoryStore())
    for record in [case.records] if is_whole else [[record] for record in case.records]:
        processor.process(batch_of(record))
    span = case.topology.span_length.length
    ago = case.random.choice([1, span // 2, case.random.randrange(1, span)])
    room = span - ago
    windows = tuple(f"{n}ms" for n in {1, room, case.random.randint(1, room)})
    asked = replace(case.topology, windows=windows, alerts=(), rankings=(), derived=())
    question = LiveQuery(case.topology, windows, ago=f"{ago}ms")
    of_key = Model(case.topology, case.records).of_key()
    view = processor.view()
    for key in view.keys("", "", 10**6):
        absorbed = [event for event in of_key[key] if event.time <= processor.watermark]
        found = question.answer(view, key)
        if is_forgotten(asked, absorbed, processor.watermark):
            assert found is None
            continue
        answer = sent(found)
        end = processor.watermark + 1 - ago
        assert answer.window_end_ms == end
        values = {
            n: [event.value for event in inside(asked, absorbed, n, end) if event.time < end]
            for n in asked.window_lengths
        }
        check_past(asked, answer.figures, values)


@settings(laws, max_examples=20)
@given(cases(max_size=40, topologies=["no lateness", "every statistic", "chosen"]))
def test_the_past_agrees_with_what_was_emitted(case: Case) -> None:
    """The bounds of a window's emission and those that are told of it later have what is exact in
    common, so they meet.
    """
    law = case.topology
    processor = PartitionProcessor(law, SOURCE, PARTITION, MemoryStore())
    emitted = emissions_of(outputs_of(processor.process(batch_of(case.records))))
    now = processor.watermark + 1
    for emission in emitted:
        ago = now - emission.window_end_ms
        if not 0 < ago <= law.span_length.length - min(law.window_lengths):
            continue
        answer = LiveQuery(law, ago=f"{ago}ms").answer(processor.view(), emission.key)
        if answer is None:
            continue
        assert answer.window_end_ms == emission.window_end_ms
        before = {name_of(figure): figure for figure in emission.figures if figure.item is None}
        for figure in sent(answer).figures:
            first = before.get(name_of(figure))
            if first is not None and first.lower is not None and figure.lower is not None:
                assert first.lower <= figure.upper, (first, figure)
                assert figure.lower <= first.upper, (first, figure)


COMPARED = topology(emit="always", epsilon=0.001, having="count_330ms > ago(count_330ms, '500ms')")


@settings(laws, max_examples=15)
@given(
    cases(topologies=["no lateness"], max_size=60),
    st.lists(st.integers(0, 120), max_size=3),
)
def test_a_condition_reads_the_past(case: Case, crashes: list[int]) -> None:
    """With counts that are exact: a key is written where more came than in the window that ended
    500 ms before, and once when that ends; crashes leave no trace.
    """
    case = replace(case, topology=COMPARED)
    whole = undisturbed(case)
    same_end(through_crashes(case, crashes), whole)
    every = undisturbed(replace(case, topology=replace(COMPARED, having="")))
    of_key = Model(case.topology, case.records).of_key()
    newest: dict[str, tuple[bool, int]] = {}
    expected = []
    for emission in emissions_of(every.outputs):
        end, times = emission.window_end_ms, [event.time for event in of_key[emission.key]]
        now, before = (
            sum(last - 330 <= time < last for time in times) for last in (end, end - 500)
        )
        life = sum(b - a >= 1_000 for a, b in pairwise(t for t in times if t < end))
        held, its_life = newest.get(emission.key, (False, life))
        if now > before or (held and its_life == life):
            expected.append(emission)
            newest[emission.key] = now > before, life
    assert emissions_of(whole.outputs) == expected


@pytest.mark.parametrize(
    ("having", "words"),
    [
        ("count_1h > ago(count_1h, '3h')", "is not kept: the span is '3h'"),
        ("count_1h > ago(count_1h, '0s')", "is not kept"),
        ("count_1h > ago(count_1h, 'x')", "not a duration"),
        ("count_1h > ago(count_1h)", "is not a figure and how long before"),
        ("count_1h > ago(count_1h, 60)", "is not a figure and how long before"),
        ("count_1h > ago(count_2h, '1h')", "reads 'count_2h'"),
        ("count_1h > ago(maximum_1h, '1h')", "is of maximum"),
        ("count_1h > ago(landmark_count, '1h')", "is of no window of time"),
        ("count_1h > ago(ago(count_1h, '1h'), '1h')", "is not a figure and how long before"),
        ("ago(count_1h, '1h')", "not a truth value"),
    ],
)
def test_what_a_condition_cannot_read(having: str, words: str) -> None:
    """In words: what has no past, or none that a condition reads, and what is not kept."""
    fields = {"name": "law", "source": "s", "span": "3h", "every": "1m", "windows": ("1h",)}
    statistics = (Count(), Maximum(), Mean(), LandmarkCount())
    with pytest.raises(SlidestatError, match=words):
        Topology(**fields, statistics=statistics, having=having)  # type: ignore[arg-type]
    with pytest.raises(SlidestatError, match=words):
        Topology(**fields, statistics=statistics, alerts=[Alert(name="a", when=having)])  # type: ignore[arg-type]
    if "not a truth value" not in words:
        derived = [f"{having.replace('>', '-')} as d"]
        with pytest.raises(SlidestatError, match=words):
            Topology(**fields, statistics=statistics, derived=derived)  # type: ignore[arg-type]
    with pytest.raises(SlidestatError, match="is of figures, and this reads events"):
        Topology(**fields, where="status > ago(status, '1h')")  # type: ignore[arg-type]


DERIVED = (
    "count_330ms / ago(count_330ms, '500ms') as times",
    "even_330ms / count_330ms as share",
    "share / ago(share, '500ms') as worse",
    "ago(share, '500ms') as before",
    "count_330ms - ago(count_330ms, '500ms') as more",
)


@settings(laws, max_examples=15)
@given(cases(topologies=["no lateness"], max_size=60), st.lists(st.integers(0, 120), max_size=2))
def test_a_derived_figure_reads_the_past(case: Case, crashes: list[int]) -> None:
    """Its bounds have the exact figure at each tick, a share of before is in [0, 1], as one of now,
    and crashes leave no trace.
    """
    statistics = (Count(epsilon=0.2), Count(epsilon=0.2, name="even", where="value % 2 = 0"))
    compared = replace(topology(emit="always"), statistics=statistics, derived=DERIVED)
    case = replace(case, topology=compared)
    whole = undisturbed(case)
    same_end(through_crashes(case, crashes), whole)
    of_key = Model(case.topology, case.records).of_key()
    for emission in emissions_of(whole.outputs):
        events = of_key[emission.key]

        def came(end: int, *, evens: bool = False, events: Sequence[Event] = events) -> int:
            there = (it for it in events if end - 330 <= it.time < end)
            return sum(not evens or (it.value is not None and it.value % 2 == 0) for it in there)

        end = emission.window_end_ms
        now, before = came(end), came(end - 500)
        share, past = (divided(came(it, evens=True), came(it)) for it in (end, end - 500))
        wanted = {
            "times": divided(now, before),
            "share": share,
            "worse": divided(share, past),
            "before": past,
            "more": Fraction(now - before),
        }
        figures = {it.statistic: it for it in emission.figures if it.derived}
        for name, value in wanted.items():
            figure = figures[name]
            if figure.estimate is None or value is None:
                continue
            assert figure.lower is None or Fraction(figure.lower) <= value, (name, figure, value)
            assert figure.upper is None or value <= Fraction(figure.upper), (name, figure, value)
        if figures["before"].lower is not None and figures["before"].upper is not None:
            assert 0 <= figures["before"].lower <= figures["before"].upper <= 1


@settings(laws, max_examples=15)
@given(cases(topologies=["no lateness"], max_size=60), st.lists(st.integers(0, 120), max_size=2))
def test_means_and_quantiles_of_before_are_read_at_ticks(case: Case, crashes: list[int]) -> None:
    """Of the state that a key has at each tick, whatever comes in the same batch: bounds have the
    exact figure, NULL is told of certainly no event alone, and crashes leave no trace.
    """
    statistics = (
        # Those with more decimals take no value as large as the largest here.
        Mean(epsilon=0.3, decimals=1),
        Deviation(epsilon=0.3, decimals=1),
        Mean(epsilon=0.3, decimals=1, name="even", where=CONDITIONS[1]),
        Quantiles(relative_error=0.1, epsilon=0.4, quantiles=(0.5,)),
    )
    names = ("mean_330ms", "deviation_330ms", "even_330ms", "p50_330ms")
    derived = tuple(f"ago({name}, '500ms') as past_{name}" for name in names)
    compared = replace(topology(emit="always"), statistics=statistics, derived=derived)
    case = replace(case, topology=compared)
    whole = undisturbed(case)
    same_end(through_crashes(case, crashes), whole)
    of_key = Model(case.topology, case.records).of_key()
    for emission in emissions_of(whole.outputs):
        end = emission.window_end_ms - 500
        values = [it.value for it in of_key[emission.key] if end - 330 <= it.time < end]
        figures = {it.statistic: it for it in emission.figures if it.derived}
        for statistic, name in zip(statistics, names, strict=True):
            (right,) = exact(statistic, values_of(statistic, values), 330)
            figure = figures[f"past_{name}"]
            assert right is None or figure.estimate is not None
            if right is not None and figure.lower is not None and figure.upper is not None:
                slack = abs(Fraction(right)) / 10**12
                assert Fraction(figure.lower) - slack <= right <= Fraction(figure.upper) + slack


def test_an_alert_compares_a_mean_with_that_of_before() -> None:
    """Certainly, where the window of before surely had events."""
    alerted = Topology(
        name="law",
        source="s",
        span="5h",
        every="10m",
        windows=("1h",),
        statistics=(Mean(epsilon=0.01, decimals=0), Quantiles(quantiles=(0.5,))),
        alerts=(
            Alert(name="slower", when="mean_1h > 2 * ago(mean_1h, '2h')", certain=True),
            Alert(name="p50", when="p50_1h > 2 * ago(p50_1h, '2h')"),
        ),
    )
    driver = TopologyDriver(alerted)
    for hour, value in enumerate((10, 10, 10, 50, 10)):
        begin = START_MS + HOUR * hour
        driver.send(
            *({"key": "k", "time": begin + HOUR // 60 * i, "value": value} for i in range(60))
        )
    driver.advance_to(START_MS + 5 * HOUR)
    told = [(it.alert, str(it.state), (it.window_end_ms - START_MS) / HOUR) for it in driver.alerts]
    firing = {name: at for name, state, at in told if state == "firing"}
    assert set(firing) == {"slower", "p50"}
    assert all(3 < at <= 4 for at in firing.values())
    assert {name for name, state, at in told if state == "resolved" and at > 4} == set(firing)


def divided(one: Fraction | int | None, other: Fraction | int | None) -> Fraction | None:
    return None if one is None or not other else Fraction(one) / Fraction(other)


def test_derived_figures_of_the_past_are_everywhere() -> None:
    """In an answer as in an emission, in rows, in an alert, which is evaluated as long as the past
    may change, and in a condition to be written.
    """
    law = Topology(
        name="law",
        source="s",
        span="5h",
        every="10m",
        windows=("1h",),
        statistics=(Count(epsilon=0.001),),
        derived=("count_1h / ago(count_1h, '1h') as times",),
        alerts=(Alert(name="half", when="times < 0.5"),),
    )

    def driven(topology: Topology) -> TopologyDriver:
        driver = TopologyDriver(topology)
        for hour, events in ((0, 60), (1, 60), (2, 20), (3, 20)):
            begin, step = START_MS + HOUR * hour, HOUR // events
            driver.send(*({"key": "k", "time": begin + step * i} for i in range(events)))
        return driver

    driver = driven(law)
    answer = driver.query("k")
    assert answer is not None
    driver.advance_to(START_MS + 4 * HOUR)
    (now,) = [it for it in answer.figures if it.statistic == "times"]
    told = driver.figure("k", "times", None, at=START_MS + 3 * HOUR)
    assert (told.estimate, now.derived) == (pytest.approx(1 / 3), True)
    driver.advance_to(START_MS + 12 * HOUR)
    by_hand = driven(replace(law, derived=(), alerts=(
        Alert(name="half", when="count_1h / ago(count_1h, '1h') < 0.5"),
    )))  # fmt: skip
    by_hand.advance_to(START_MS + 12 * HOUR)
    changes = [(it.window_end_ms, it.state, it.certainty) for it in driver.alerts]
    assert changes == [(it.window_end_ms, it.state, it.certainty) for it in by_hand.alerts]
    assert changes[0][1] == "firing"
    rows = driven(replace(law, alerts=(), output_shape="rows")).rows
    assert rows[-1]["times"] == pytest.approx(rows[-1]["count"] / 20, rel=0.5)
    chosen = driven(replace(law, alerts=(), having="times < 0.4"))
    assert 0 < len(chosen.emissions) < len(driver.emissions)


def test_an_alert_compares_with_the_past() -> None:
    """Half as much as an hour before: it fires while less comes, certain by exact counts; where
    nothing comes at all as well; and ends when the past is as empty, which no event tells.
    """
    law = Topology(
        name="law",
        source="s",
        span="5h",
        every="10m",
        windows=("1h",),
        statistics=(Count(epsilon=0.001),),
        alerts=(Alert(name="half", when="2 * count < ago(count, '1h')"),),
    )
    driver = TopologyDriver(law)
    for hour, events in ((0, 60), (1, 60), (2, 20), (3, 20)):
        begin = START_MS + HOUR * hour
        step = HOUR // events
        driver.send(*({"key": "k", "time": begin + step * i} for i in range(events)))
    driver.advance_to(START_MS + 12 * HOUR)
    changes = [
        ((change.window_end_ms - START_MS) / HOUR, change.state, change.certainty)
        for change in driver.alerts
    ]

    def came(end: float) -> int:
        rate = (60, 60, 20, 20)
        return round(
            sum(rate[h] * max(0, min(end, h + 1) - max(end - 1, h)) for h in range(len(rate)))
        )

    assert {certainty for _, _, certainty in changes} == {"certain"}
    holds = [tick / 6 for tick in range(1, 60) if 2 * came(tick / 6) < came(tick / 6 - 1)]
    firing = [
        end
        for (begin, state, _), (until, _, _) in pairwise([*changes, (10.0, "resolved", "certain")])
        if state == "firing"
        for end in [tick / 6 for tick in range(1, 60) if begin <= tick / 6 < until]
    ]
    assert [round(end, 3) for end in firing] == [round(end, 3) for end in holds]
    assert changes[-1][1] == "resolved"


def test_an_alert_on_the_past_does_not_end_with_the_window_of_now() -> None:
    """While its window of the past has events, its own `resolve` decides."""
    law = Topology(
        name="law",
        source="s",
        span="20s",
        every="1s",
        windows=("3s",),
        statistics=(Count(),),
        alerts=(Alert(name="many", when="ago(count, '5s') > 2", resolve="ago(count, '5s') < 2"),),
    )
    driver = TopologyDriver(law)
    driver.send(*({"key": "k", "time": START_MS + at} for at in (100, 200, 1_100, 1_200)))
    driver.advance_to(START_MS + 15_000)
    changes = [((it.window_end_ms - START_MS) // 1_000, it.state) for it in driver.alerts]
    assert changes == [(7, "firing"), (10, "resolved")]


def test_questions_go_beyond_what_having_reads() -> None:
    """Windows and statistics that the condition does not name can be asked for all the same."""
    law = Topology(
        name="law",
        source="s",
        span="3h",
        every="1m",
        windows=("1h",),
        statistics=(Count(), NetSum()),
        having="count_1h > 2 * ago(count_1h, '2h') and net_sum_1h >= ago(net_sum_1h, '1h')",
    )
    driver = TopologyDriver(law)
    driver.send(*({"key": "k", "time": START_MS + 60_000 * i, "value": i} for i in range(60)))
    driver.advance_to(START_MS + HOUR - 1)
    assert driver.emissions
    assert told(driver, windows=["30m"], statistics=["net_sum"]).figures[0].estimate > 0


def name_of(figure: Figure) -> tuple[object, ...]:
    return (
        *(figure.statistic, figure.window_ms, figure.quantile),
        *(figure.at_least, figure.below, figure.item),
    )


def told(driver: TopologyDriver, **asked: object) -> KeyAnswer:
    answer = driver.query("k", **asked)  # type: ignore[arg-type]
    assert answer is not None
    return answer


def day(statistics: Sequence[Statistic], **declared: str) -> TopologyDriver:
    """A driver with an event each minute of a day and a half, the value the hour that it is in,
    and nothing in the hours 12 to 18.
    """
    law = Topology(
        **{"name": "law", "source": "s", "span": "36h", "every": "1h", **declared},  # type: ignore[arg-type]
        windows=("1h", "12h", "36h"),
        statistics=statistics,
    )
    driver = TopologyDriver(law)
    minutes = [minute for minute in range(36 * 60) if not 12 * 60 <= minute < 18 * 60]
    driver.send(
        *(
            {"key": "k", "time": START_MS + 60_000 * minute, "value": minute // 60}
            for minute in minutes
        )
    )
    driver.advance_to(START_MS + 36 * HOUR - 1)
    return driver


def test_an_hour_of_yesterday() -> None:
    """Sixty events an hour: of the hour 24 hours ago 60 are counted, of an hour without events
    there are none; windows that the span does not cover are left out.
    """
    driver = day((Count(epsilon=0.0001), Sum(), Mean(), Quantiles(quantiles=(0.5,))))
    answer = told(driver, ago="24h")
    assert answer.window_end_ms == START_MS + 12 * HOUR
    assert {figure.window_ms for figure in answer.figures} == {HOUR, 12 * HOUR}
    count = answer.figures[0]
    assert (count.lower, count.estimate, count.upper) == (60, 60, 60)
    assert count.absolute_error == count.relative_error == 0
    empty = told(driver, windows=["1h"], ago="20h").figures
    assert empty[0].upper == empty[1].lower == 0
    # As long ago as there is room for: the first hour.
    (first,) = told(driver, windows=["1h"], statistics=["count"], ago="35h").figures
    assert first.estimate == 60
    # Of nothing ago it is the answer as of now.
    assert told(driver, ago="0s") == told(driver)


def test_what_is_refused_of_the_past() -> None:
    """In words: what has no past, windows beyond the span, windows of events, no duration."""
    driver = day((Count(), Maximum(), Distinct(), LandmarkCount(), Sample(size=3)))
    assert {figure.statistic for figure in told(driver, ago="1h").figures} == {"count"}
    for asked, words in (
        ({"ago": "1h", "statistics": ["maximum"]}, "cannot be asked of the past"),
        ({"ago": "1h", "windows": ["36h"]}, "begin before the '36h' that are kept"),
        ({"ago": "36h"}, "begin before the '36h' that are kept"),
        ({"ago": "9000d"}, "begin before the '36h' that are kept"),
        ({"ago": "-5m"}, "not a duration"),
        ({"ago": "yesterday"}, "not a duration"),
        ({"ago": ""}, "not a duration"),
        ({"ago": "1h", "ranks": [3.0]}, "together"),
        ({"ago": "1h", "where": "a=b"}, "together"),
    ):
        with pytest.raises(SlidestatError, match=words):
            driver.query("k", **asked)
    with pytest.raises(SlidestatError, match="nothing can be asked of the past"):
        LiveQuery(replace(driver.topology, statistics=(Maximum(),)), ago="1h")
    derives = replace(driver.topology, statistics=(Count(),), derived=("2 * count_1h as twice",))
    with pytest.raises(SlidestatError, match="statistic is 'twice', which is derived"):
        LiveQuery(derives, statistics=["twice"], ago="1h")
    of_events = Topology(name="law", source="s", span="9 events", every="1h", statistics=(Count(),))
    with pytest.raises(SlidestatError, match="a key's last events"):
        LiveQuery(of_events, ago="1h")


def test_a_figure_of_the_past_is_not_an_alert() -> None:
    """Alerts are as of now, and are no part of an answer about the past."""
    driver = TopologyDriver(
        Topology(
            name="law",
            source="s",
            span="3h",
            every="1m",
            windows=("1h",),
            statistics=(Count(),),
            alerts=(Alert(name="any", when="count > 0", window="1h"),),
        )
    )
    driver.send(*({"key": "k", "time": START_MS + 60_000 * i} for i in range(60)))
    driver.advance_to(START_MS + HOUR - 1)
    assert told(driver).alerts
    assert told(driver, ago="1h").alerts is None


def test_a_named_item_of_the_past() -> None:
    """Items named beforehand, items asked for by name, and rates: of the hour before the last."""
    law = Topology(
        name="law",
        source="s",
        span="2h",
        every="1m",
        windows=("1h",),
        value_field="path",
        statistics=(Items(items=("/a", "/b")), TopItems(), Rate(epsilon=0.0001)),
    )
    driver = TopologyDriver(law)
    for hour, path, times in ((0, "/a", 30), (1, "/b", 45)):
        driver.send(
            *(
                {"key": "k", "time": START_MS + HOUR * hour + 1_000 * i, "path": path}
                for i in range(times)
            )
        )
    driver.advance_to(START_MS + 2 * HOUR - 1)
    before = {(f.statistic, f.item): f.estimate for f in told(driver, ago="1h").figures}
    assert before["items", "/a"] == before["top", "/a"] == 30
    assert before["items", "/b"] == 0
    assert ("top", "/b") not in before
    assert before["rate", None] == pytest.approx(30 / 3600)
    (b, c) = told(driver, items=["/b", "/c"], ago="1h").figures
    assert (b.lower, b.upper, c.lower, c.upper) == (0, 0, 0, 0)


def test_net_sums_of_the_past_have_both_signs() -> None:
    """What came in less what went out, of the hour before the last."""
    law = Topology(
        name="law", source="s", span="2h", every="1m", windows=("1h",), statistics=(NetSum(),)
    )
    driver = TopologyDriver(law)
    for i in range(120):
        value = (-1) ** i * (i + 0.5)
        driver.send({"key": "k", "time": START_MS + 60_000 * i, "value": value})
    driver.advance_to(START_MS + 2 * HOUR - 1)
    (net,) = told(driver, ago="1h").figures
    assert net.lower <= sum((-1) ** i * (i + 0.5) for i in range(60)) <= net.upper
    assert net.upper - net.lower <= 2 * net.absolute_error


def test_answers_of_the_past_are_json_alike() -> None:
    """The answer is one as of now: the same fields, so that readers need no other schema."""
    driver = day((Count(),))
    now, before = (msgspec.to_builtins(told(driver, ago=ago)) for ago in (None, "1h"))
    assert now.keys() == before.keys()
