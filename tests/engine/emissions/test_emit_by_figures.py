"""Keys that are written when their newest record is no longer true, and where a condition holds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import nextafter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import (
    Count,
    Histogram,
    LandmarkSum,
    Maximum,
    Mean,
    Minimum,
    Rate,
    Sum,
)
from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.last_written import is_within
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission, Figure
from tests.audit import test_audit_key
from tests.engine.cases import BY_FIGURES, Case, cases, laws, topology
from tests.engine.checks import _taken, emissions_of
from tests.engine.emissions import test_emit
from tests.engine.emissions.test_emit import law_of
from tests.engine.exact import exact
from tests.engine.keys import test_key_shares
from tests.engine.keys.test_forgetting import Worker
from tests.engine.memory import MemoryStore
from tests.engine.model import Model, inside, of_all, since_forgotten
from tests.engine.partition.test_partition_crash import undisturbed

CHANGE = [name for name, it in BY_FIGURES.items() if it.emit == "change" and not it.having]
Bounds = tuple[Fraction, Fraction] | None
FARTHEST = 1e300


def emitted(case: Case, **fields: str) -> list[Emission]:
    """What is emitted, with other fields of the topology."""
    return emissions_of(
        undisturbed(replace(case, topology=replace(case.topology, **fields))).outputs
    )


def upper(name: str, window: int | None = None) -> Callable[[Emission], Fraction | None]:
    """Return what reads the upper bound of a figure, None where it does not exist."""
    return lambda emission: next(
        None if figure.upper is None else Fraction(figure.upper)
        for figure in emission.figures
        if (figure.statistic, figure.window_ms or figure.window_events) == (name, window)
    )


def lower(name: str, window: int) -> Callable[[Emission], Fraction]:
    return lambda emission: next(
        Fraction(figure.lower or 0)
        for figure in emission.figures
        if (figure.statistic, figure.window_ms) == (name, window)
    )


# Whether the condition may hold in an emission.
HAVING: Mapping[str, Callable[[Emission], bool]] = {
    "": lambda _: True,
    "count_330ms >= 3": lambda it: (upper("count", 330)(it) or 0) >= 3,
    "count_100ms < 2 or sum_1s > 50": lambda it: (
        lower("count", 100)(it) < 2 or (upper("sum", 1_000)(it) or 0) > 50
    ),
    "mean_330ms > 20 and count_100ms > 1": lambda it: (
        (upper("mean", 330)(it) or 0) > 20 and (upper("count", 100)(it) or 0) > 1
    ),
    "landmark_sum > 9 or count < 1": lambda it: (
        (upper("landmark_sum")(it) or 0) > 9 or lower("count", 20)(it) < 1
    ),
    "part > 0.4 and count_1s > 1": lambda it: (
        (upper("part")(it) or 0) > 0.4 and (upper("count", 1_000)(it) or 0) > 1
    ),
    "sum_3_events > 9": lambda it: (upper("sum", 3)(it) or 0) > 9,
}
# Those that may hold of a key that was forgotten.
LEAVES = {"landmark_sum > 9 or count < 1", "count_100ms < 2 or sum_1s > 50", "sum_3_events > 9"}


def widened(figure: Figure, tolerance: Fraction) -> Bounds:
    """The bounds that a reader of the record knows of the figure, later on."""
    if figure.estimate is None:
        return None
    # A derived figure without a bound may be anything on that side.
    ends = (-FARTHEST, FARTHEST) if figure.derived else (figure.estimate,) * 2
    low = Fraction(ends[0] if figure.lower is None else figure.lower)
    high = Fraction(ends[1] if figure.upper is None else figure.upper)
    return low - tolerance * abs(low), high + tolerance * abs(high)


def holds_still(known: Emission, now: Emission, declared: Topology) -> bool:
    """Whether whoever has the record `known` knows what `now` says, by the words of the guide."""
    listed = {
        label
        for label, it in zip(declared.labels, declared.statistics, strict=True)
        if isinstance(it, ListStatistic)
    }
    lists = [[f for f in it.figures if f.statistic in listed] for it in (known, now)]
    if lists[0] != lists[1]:
        return False
    numbers = [[f for f in it.figures if f.statistic not in listed] for it in (known, now)]
    for before, after in zip(*numbers, strict=True):
        wide, exact_now = widened(before, declared.tolerated), widened(after, Fraction())
        if (wide is None) != (exact_now is None):
            return False
        if wide is None or exact_now is None:
            continue
        if not (wide[0] <= exact_now[0] and exact_now[1] <= wide[1]):
            return False
    return True


def lives(case: Case, model: Model) -> Callable[[str, int], int]:
    """Return what counts how often a key had been forgotten before a tick."""
    forget, events = case.topology.forget_ms, model.of_key()

    def life(key: str, tick: int) -> int:
        times = [event.time for event in events[key] if event.time < tick]
        return sum(
            forget is not None and after - before >= forget for before, after in pairwise(times)
        )

    return life


def chosen(case: Case, asked: list[Emission], due: set[tuple[str, int]]) -> Iterator[Emission]:
    """What is to be written of all that `asked` has, by the words of the guide; `due` are the ticks
    that `emit` alone asks for.
    """
    declared, model = case.topology, Model(case.topology, case.records)
    may_hold, life = HAVING[declared.having], lives(case, model)
    newest: dict[str, tuple[int, Emission, bool]] = {}
    for now in asked:
        key, tick = now.key, now.window_end_ms
        own, is_in, before = life(key, tick), may_hold(now), newest.get(key)
        if before is not None and before[0] != own:
            before = None
        if not is_in:
            leaves = declared.having in LEAVES and declared.forget_ms is not None
            is_written = leaves if before is None else before[2]
        elif declared.emit == "change":
            is_written = before is None or not before[2]
            is_written = is_written or not holds_still(before[1], now, declared)
        else:
            is_written = (key, tick) in due
        if is_written:
            newest[key] = own, now, is_in
            yield now


def every_tick(case: Case) -> list[Emission]:
    """What would be written at every tick at which a key is looked at."""
    emit = "events" if case.topology.span_length.of_events else "always"
    return emitted(case, emit=emit, tolerance="0%", having="")


@settings(laws, max_examples=40)
@given(cases(topologies=BY_FIGURES, max_size=80))
def test_written_if_and_only_if_the_newest_record_is_not_true(case: Case) -> None:
    """Each record is that of emit = "always", byte for byte, and no other is written or left out:
    at the bounds and the tolerance exactly, in fractions.
    """
    due: set[tuple[str, int]] = set()
    if case.topology.emit != "change":
        due = {(e.key, e.window_end_ms) for e in emitted(case, having="")}
    assert emitted(case) == list(chosen(case, every_tick(case), due))


CHECKED = Count | Rate | Sum | Mean | Minimum | Maximum | Histogram | LandmarkSum


@settings(laws, max_examples=20)
@given(cases(topologies=CHANGE, max_size=120))
def test_the_newest_record_of_a_key_is_true_at_every_tick(case: Case) -> None:
    """Whoever has it alone knows each exact figure within its bounds, widened by the tolerance."""
    declared, model = case.topology, Model(case.topology, case.records)
    written, events = emitted(case), model.of_key()
    ticks = {(e.key, e.window_end_ms) for e in every_tick(case)}
    newest: dict[str, Emission] = {}
    left = written[::-1]
    for tick, key in sorted((tick, key) for key, tick in ticks):
        if left and (left[-1].key, left[-1].window_end_ms) == (key, tick):
            newest[key] = left.pop()
        known = {
            (f.statistic, f.window_ms or f.window_events, f.at_least, f.below): f
            for f in newest[key].figures
        }
        before = [event for event in events[key] if event.time < tick]
        lived = since_forgotten(declared, before)
        for statistic, label in zip(declared.statistics, declared.labels, strict=True):
            if not isinstance(statistic, CHECKED):
                continue
            for n in declared.window_lengths if statistic.has_windows else (None,):
                values = (
                    of_all(declared, lived, tick)[0]
                    if n is None
                    else [event.value for event in inside(declared, lived, n, tick)]
                )
                found = exact(statistic, _taken(statistic, values), n or 1)
                for series, is_now in zip(statistic.series(), found, strict=True):
                    figure = known[label, n, series.at_least, series.below]
                    told = widened(figure, declared.tolerated)
                    assert (told is None) == (is_now is None)
                    if told is not None and is_now is not None:
                        assert told[0] <= is_now <= told[1]
    assert not left


LAWS = {
    "crashes": test_emit.test_crashes_leave_no_trace,
    "batches": test_emit.test_batches_never_show,
    "audit": test_audit_key.test_what_a_partition_puts_out_is_found_right,
    "shares": test_key_shares.test_shares_of_keys_come_to_what_one_engine_does,
}


@pytest.mark.parametrize("name", ["audit", "batches", "shares"])
@settings(laws, max_examples=25)
@given(case=cases(topologies=BY_FIGURES, max_size=80))
def test_laws_of_all_topologies(name: str, case: Case) -> None:
    """Audits, batches, and backfills by shares of keys."""
    law_of(LAWS[name])(case)


@settings(laws, max_examples=30)
@given(
    cases(topologies=BY_FIGURES, max_size=80),
    st.lists(st.integers(0, 120), min_size=1, max_size=6),
)
def test_crashes_leave_no_trace(case: Case, crashes: list[int]) -> None:
    """What was written last is in the states: no record is written anew, or left out."""
    law_of(LAWS["crashes"])(case, crashes)


numbers = st.one_of(
    st.floats(-1e300, 1e300), st.integers(-20, 20).map(float), st.floats(-1e-307, 1e-307)
)


def moved(number: float, steps: int) -> float:
    """The double that is so many above, or below."""
    for _ in range(abs(steps)):
        number = nextafter(number, np.inf if steps > 0 else -np.inf)
    return number


@settings(laws, max_examples=300)
@given(
    st.tuples(numbers, numbers),
    st.sampled_from(["0%", "5%", "0.1%", "33.3%", "99%"]),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4)),
)
def test_widened_bounds_are_exact(
    bounds: tuple[float, float], text: str, steps: tuple[int, int]
) -> None:
    """To the last double, what is found within lies within the widened bounds as fractions."""
    tolerance = topology(emit="change", tolerance=text).tolerated
    low, high = sorted(bounds)
    told = widened(Figure("count", low, low, high), tolerance)
    assert told is not None
    asked = moved(float(told[0]), steps[0]), moved(float(told[1]), steps[1])
    found = is_within(
        np.array([[asked[0]]]), np.array([[asked[1]]]), np.array([[[low, high]]]), tolerance
    )
    is_inside = told[0] <= Fraction(asked[0]) and Fraction(asked[1]) <= told[1]
    assert found.tolist() == [is_inside]


# One key's silence, worked out.

SILENCE = topology(windows=("200ms", "500ms"), statistics=(Count(epsilon=0.5),))


def after_silence(declared: Topology, store: MemoryStore | None = None) -> list[tuple[int, float]]:
    """The ticks of a silent key, and the counts of 200 ms."""
    worker = Worker(declared, store)
    found = worker.feed("silent", 510, 590)
    for at in range(600, 2_200, 50):
        found += worker.feed("busy", at)
    return [(tick, count) for key, tick, count in found if key == "silent"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"emit": "change"}, [(600, 2), (800, 0), (1_100, 0)]),
        ({"having": "count_200ms >= 2"}, [(600, 2), (800, 0)]),
        ({"having": "count_200ms > 2"}, []),
        ({"emit": "windows", "having": "count_500ms >= 2"}, [(600, 2), (800, 0), (1_100, 0)]),
        ({"emit": "always", "having": "count_200ms >= 2"}, [(600, 2), (700, 2), (800, 0)]),
        ({"emit": "change", "having": "count_200ms >= 2"}, [(600, 2), (800, 0)]),
    ],
)
def test_one_silence(fields: dict[str, str], expected: list[tuple[int, float]]) -> None:
    """The event at 590 is in [600, 800) no more, at 1,100 in the half second before no more."""
    assert after_silence(replace(SILENCE, **fields)) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Nothing is known of what was written: written once more.
        ({"emit": "events"}, {"emit": "change"}, [1_000, 1_100]),
        ({"emit": "change"}, {"emit": "events"}, [1_600]),
        ({"emit": "change"}, {"emit": "change", "tolerance": "5%"}, [1_100]),
        ({"emit": "events"}, {"having": "count_500ms > 1"}, [1_100]),
        ({"emit": "events"}, {"having": "count_500ms > 2"}, [1_000]),
        ({"having": "count_500ms > 2"}, {"having": "count_500ms > 1"}, []),
        ({"emit": "change"}, {"emit": "change", "windows": ("500ms",)}, [1_000, 1_100]),
    ],
)
def test_a_running_topology_may_change_it(
    before: dict[str, str], after: dict[str, str], expected: list[int]
) -> None:
    """Its states are read; what was written by another rule is not taken for the newest record."""
    first = Worker(replace(SILENCE, **before))
    first.feed("silent", 510, 590)
    first.feed("busy", *range(600, 951, 50))
    second = Worker(replace(SILENCE, **after), first.store)
    emitted = [it for at in range(1_000, 2_200, 50) for it in second.feed("busy", at)]
    assert [tick for key, tick, _ in emitted if key == "silent"] == expected


def test_what_is_kept_of_a_key_is_as_small_as_stated() -> None:
    """10 bytes, and 16 for each figure, and the lengths of three blocks more; 2 for a condition."""
    sizes = {}
    for name, fields in {
        "events": {},
        "change": {"emit": "change"},
        "having": {"having": "count_200ms >= 2"},
    }.items():
        worker = Worker(replace(SILENCE, **fields))
        worker.feed("key", 510, 610)
        stored = dict(worker.store.scan())["key"]
        sizes[name] = len(stored), len(decode_key_state(stored).written)
    assert [kept for _, kept in sizes.values()] == [0, 10 + 16 * 2, 2]
    assert sizes["change"][0] - sizes["events"][0] == 3 * 4 + 42


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tolerance": "5%"}, "tolerance is '5%', and emit is 'events'"),
        ({"emit": "change", "tolerance": "100%"}, "tolerance is '100%'"),
        ({"emit": "change", "tolerance": "0.05"}, "tolerance is '0.05'"),
        ({"emit": "change", "idle": "1s"}, "idle is '1s'"),
        ({"having": "count_200ms > 1", "idle": "1s"}, "having is given, and idle is '1s'"),
        ({"having": "count > 1"}, "reads 'count'"),
        ({"having": "count_1s > 1"}, "reads 'count_1s'"),
        ({"having": "count_200ms"}, "having is 'count_200ms'"),
        ({"having": "count_200ms > 5 and count_200ms < 3"}, "which no figures make true"),
        ({"having": "count_200ms < 0"}, "which no figures make true"),
        ({"having": "count_200ms = 0.5"}, "which no figures make true"),
        ({"having": "count_200ms > count_500ms"}, "which no figures make true"),
        ({"having": "count_200ms > 1", "publish": "partition"}, "publish is 'partition'"),
    ],
)
def test_what_cannot_be(fields: dict[str, str], words: str) -> None:
    with pytest.raises(SlidestatError) as refused:
        replace(SILENCE, **fields)
    assert words in refused.value.message
    assert refused.value.advice


def test_it_is_part_of_what_figures_mean() -> None:
    """So an audit knows which records are due."""
    declared = [
        SILENCE,
        replace(SILENCE, emit="change"),
        replace(SILENCE, emit="change", tolerance="5%"),
        replace(SILENCE, having="count_200ms >= 2"),
    ]
    assert len(set(map(fingerprint_of, declared))) == len(declared)
    assert len({str(it.state_meaning) for it in declared}) == 1
