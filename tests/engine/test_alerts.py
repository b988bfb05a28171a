"""Alerts follow from the emissions: recounted from them in plain Python, whatever crashes."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count
from slidestat.schemas.alert import AlertChange, alert_key
from slidestat.schemas.emission import Emission, Figure
from tests.engine.cases import TOPOLOGIES, Case, cases, laws, topology
from tests.engine.memory import Partition
from tests.engine.streams import records
from tests.engine.test_partition_crash import same_end, undisturbed

ALERTING = sorted(name for name, topology in TOPOLOGIES.items() if topology.alerts)
alerting_cases = cases(topologies=ALERTING)

Figures = Mapping[str, Figure]


class Said(NamedTuple):
    """What a condition comes to: by the estimates, and whether it must or cannot be true."""

    true: bool
    must: bool
    cannot: bool


def above(figure: Figure, limit: float, times: Figure | None = None) -> Said:
    """Whether a figure is more than a limit, or than so many times another figure."""
    if figure.estimate is None:
        return Said(False, False, True)
    low = high = estimate = limit
    if times is not None:
        low, high, estimate = (
            limit * times.lower,
            limit * times.upper,
            limit * times.estimate,
        )
    return Said(figure.estimate > estimate, figure.lower > high, figure.upper <= low)


def both(one: Said, other: Said) -> Said:
    return Said(one.true and other.true, one.must and other.must, one.cannot or other.cannot)


def either(one: Said, other: Said) -> Said:
    return Said(one.true or other.true, one.must or other.must, one.cannot and other.cannot)


def contrary(one: Said) -> Said:
    """Of what is not NULL."""
    return Said(not one.true, one.cannot, one.must)


def below(figure: Figure, limit: float) -> Said:
    """Whether a figure is less than a limit; not where it does not exist."""
    if figure.estimate is None:
        return Said(False, False, True)
    return Said(figure.estimate < limit, figure.upper < limit, figure.lower >= limit)


MEANT: dict[str, Callable[[Figures], Said]] = {
    "count >= 3": lambda f: above(f["count"], 2.9999999),
    "count > 1": lambda f: above(f["count"], 1),
    "count > 2": lambda f: above(f["count"], 2),
    "count < 2": lambda f: below(f["count"], 2),
    "sum > 9": lambda f: above(f["sum"], 9),
    "sum > 10 * count or count > 20": lambda f: either(
        above(f["sum"], 10, f["count"]), above(f["count"], 20)
    ),
    "mean > 40 and p50 > 30": lambda f: both(above(f["mean"], 40), above(f["quantile"], 30)),
    "mean < 45": lambda f: below(f["mean"], 45),
    "mean > 40": lambda f: above(f["mean"], 40),
    "not sum >= 0.01": lambda f: below(f["sum"], 0.01),
    "landmark_sum > 100 and count > 2": lambda f: both(
        above(f["landmark_sum"], 100), above(f["count"], 2)
    ),
}


def recounted(case: Case, emissions: list[Emission]) -> Iterator[tuple[object, ...]]:
    """What becomes of each alert by the emissions, which come in order."""
    topology = case.topology
    waiting: dict[tuple[str, str], list[tuple[int, bool]]] = {}
    firing: dict[tuple[str, str], int] = {}
    for emission in emissions:
        end, key = emission.window_end_ms, emission.key
        span = topology.span_length.length
        empty = [f for f in emission.figures if f.statistic == "count" and f.window_ms == span]
        forgotten = bool(empty and topology.forgets_keys and empty[0].upper == 0)
        for alert, window in zip(topology.alerts, topology.alert_windows, strict=True):
            place = (alert.name, key)
            figures = {
                f.statistic: f
                for f in emission.figures
                if f.item is None and window in (f.window_ms or f.window_events or window, None)
            }
            told = (alert.name, key, end)
            if place in firing:
                said = _resolved(alert, figures)
                if forgotten or (said.must if alert.certain else said.true):
                    yield *told, "resolved", said.must or forgotten, firing.pop(place), forgotten
                continue
            said = MEANT[alert.when](figures)
            if forgotten or not (said.must if alert.certain else said.true):
                waiting.pop(place, None)
                continue
            waiting.setdefault(place, []).append((end, said.must))
            if len(waiting[place]) == alert.for_:
                held = waiting.pop(place)
                firing[place] = end
                yield *told, "firing", all(sure for _, sure in held), held[0][0], False


def _resolved(alert: Alert, figures: Figures) -> Said:
    return MEANT[alert.resolve](figures) if alert.resolve else contrary(MEANT[alert.when](figures))


def told(partition: Partition) -> list[AlertChange]:
    """The changes that were sent, each once, in the order in which they were sent first."""
    values = dict.fromkeys(rest[0] for kind, _, rest in partition.outputs if kind == "alert")
    return [msgspec.json.decode(value, type=AlertChange) for value in values]


@settings(laws, max_examples=100)
@given(alerting_cases)
def test_alerts_are_those_of_a_recount(case: Case) -> None:
    """The state machine, over the emissions that were made; certain where their bounds say so."""
    partition = undisturbed(case)
    emissions = [
        msgspec.json.decode(rest[0], type=Emission)
        for kind, _, rest in partition.outputs
        if kind == "emission"
    ]
    found = [
        (
            change.alert,
            change.key,
            change.window_end_ms,
            change.state,
            change.certainty == "certain",
            change.since_ms,
            change.forgotten,
        )
        for change in told(partition)
    ]
    assert found == list(recounted(case, emissions))
    figures = {(e.key, e.window_end_ms): e for e in emissions}
    for change in told(partition):
        emission = figures[change.key, change.window_end_ms]
        assert change.source_offset == emission.source_offset
        assert all(figure in emission.figures for figure in change.figures)
        key = alert_key("law", change.alert, change.key, change.window_end_ms)
        assert key in {key for kind, key, _ in partition.outputs if kind == "alert"}


@settings(laws, max_examples=30)
@given(alerting_cases, st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_crashes_leave_no_trace_in_alerts(case: Case, crashes: list[int]) -> None:
    """Other batches and other crashes: the same changes under the same keys, byte for byte, in the
    same order where each is sent once.
    """
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.2)
    partition.live()
    whole = undisturbed(case)
    same_end(partition, whole)
    assert sorted(map(repr, told(partition))) == sorted(map(repr, told(whole)))


def test_crashes_between_an_event_and_its_tick() -> None:
    """Small batches, so that states are often durable before the tick at which their alerts change:
    no change is lost, and no emission counts twice for `for`.
    """
    often = topology(
        windows=("330ms", "1s"),
        statistics=(Count(epsilon=0.5),),
        alerts=(
            Alert(name="a", when="count >= 1", window="330ms", for_=2, resolve="count < 1"),
            Alert(name="b", when="count >= 2", window="330ms", for_=3),
            Alert(name="c", when="count >= 2", window="330ms"),
        ),
    )
    for seed in range(30):
        random = Random(seed)
        keys, times = random.choice(["few", "zipf"]), random.choice(["in order", "sparse"])
        found = records(random, 60, keys=keys, values="ones", times=times, bad=0, holes=False)
        partition = Partition(often, found, random, largest_batches=(1, 5))
        for _ in range(4):
            partition.live(random.randint(10, 90))
        partition.live()
        whole = undisturbed(Case(often, found, random))
        assert told(whole)
        same_end(partition, whole)


@pytest.mark.parametrize("name", ALERTING)
def test_these_cases_have_alerts(name: str) -> None:
    """Each alert of the laws fires and is resolved somewhere, or the laws say nothing."""
    seen: set[tuple[str, str]] = set()
    wanted = {(a.name, s) for a in TOPOLOGIES[name].alerts for s in ("firing", "resolved")}

    @settings(laws, max_examples=100)
    @given(cases(topologies=[name]))
    def look(case: Case) -> None:
        if seen < wanted:
            seen.update((c.alert, c.state) for c in told(undisturbed(case)))

    look()
    assert seen == wanted
