"""Alerts follow from the emissions: recounted from them in plain Python, whatever crashes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.lengths import duration_ms
from slidestat.declare.statistics import Count, Sum
from slidestat.declare.topology import Topology
from slidestat.engine import quota
from slidestat.engine.alerts.alerting import alert_id, decode_standings
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.alert import AlertChange, alert_key
from slidestat.schemas.emission import Emission, Figure
from tests.engine.cases import TOPOLOGIES, Case, cases, laws, topology
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Partition,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Model, Record, silent_ticks
from tests.engine.streams import START_MS, encode, records
from tests.engine.test_partition_crash import same_end, undisturbed

ALERTING = sorted(name for name, topology in TOPOLOGIES.items() if topology.alerts)
alerting_cases = cases(topologies=ALERTING)

Figures = Mapping[str, Figure]
BEGIN = START_MS // 1_000 * 1_000


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
    ends = set(_ends(case))
    for emission in emissions:
        end, key = emission.window_end_ms, emission.key
        forgotten = (key, end) in ends
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
                if topology.emits_silence and _has_no_figure(alert, figures):
                    said = contrary(MEANT[alert.when](figures))
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


def _ends(case: Case) -> Iterator[tuple[str, int]]:
    """Keys, and the ticks at which they are forgotten."""
    topology = case.topology
    if topology.forget_ms is None:
        return
    silence = duration_ms(topology.forget_after or topology.span, "forget_after")
    for key, events in Model(topology, case.records).of_key().items():
        ticks = silent_ticks(silence, topology.every_ms, [event.time for event in events])
        yield from ((key, tick) for tick in ticks)


def _resolved(alert: Alert, figures: Figures) -> Said:
    return MEANT[alert.resolve](figures) if alert.resolve else contrary(MEANT[alert.when](figures))


def _has_no_figure(alert: Alert, figures: Figures) -> bool:
    """Return whether the figure that the resolution reads does not exist."""
    return alert.resolve == "mean < 45" and figures["mean"].estimate is None


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


@settings(laws, max_examples=60)
@given(alerting_cases, st.lists(st.integers(0, 120), min_size=1, max_size=4), st.booleans())
def test_alerts_that_are_declared_after_a_crash_tell_all_that_they_do(
    case: Case, crashes: list[int], some: bool
) -> None:
    """Also where they begin to fire at an emission that is out: what fires by the states does so by
    the records.
    """
    before = case.topology.alerts[1:] if some else ()
    partition = Partition(replace(case.topology, alerts=before), case.records, case.random)
    for steps in crashes:
        partition.live(steps)
    partition.topology = case.topology
    partition.live()
    newest = {(change.alert, change.key): change.state for change in told(partition)}
    states = partition.store().synopses(case.topology)
    for alert in case.topology.alerts:
        for key, (_, _, standings) in states.items():
            standing = decode_standings(standings).get(alert_id(alert.name))
            fires = standing is not None and standing.is_firing
            assert fires == (newest.get((alert.name, key)) == "firing")


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


def partition_of(declared: Topology, store: MemoryStore) -> PartitionProcessor:
    return PartitionProcessor(declared, SOURCE, PARTITION, store)


def records_of(*events: tuple[str, int, float], first: int = 0) -> list[Record]:
    """Records of (key, time after the start, value)."""
    return [
        Record(first + i, None, encode(key, BEGIN + time, value), START_MS)
        for i, (key, time, value) in enumerate(events)
    ]


def put_away(partition: PartitionProcessor, store: MemoryStore) -> None:
    snapshot = partition.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    partition.written()


def test_what_waiting_events_have_used_outlives_a_change_of_an_alert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state that an alert has written says up to where its key was charged, and how much."""
    monkeypatch.setattr(quota, "QUOTA", 3 * quota.STEPS)
    largest = float(2**44 // 1_000)
    declared = topology(
        windows=("2s",),
        span="2s",
        every="100ms",
        lateness="1s",
        statistics=(Count(), Sum()),
        alerts=(Alert(name="a", when="count >= 1", window="2s"),),
    )
    before = [("k", 0, 1.0), *(("z", 100 * i, 0.0) for i in range(1, 28))]
    before += [("k", 2_750 + i, largest) for i in range(3)]
    before += [("z", 100 * i, 0.0) for i in range(28, 36)]
    after = [("k", 3_600, largest), *(("z", 100 * i, 0.0) for i in range(37, 70))]
    outputs = []
    for crash in (False, True):
        store = MemoryStore()
        partition = partition_of(declared, store)
        read = records_of(*before)
        partition.process(batch_of(read[:15]))
        partition.process(batch_of(read[15:]))
        put_away(partition, store)
        if crash:
            partition = partition_of(declared, store)
            partition.process(batch_of(read[store.newest_checkpoint(declared).next_offset :]))
        outputs.append(outputs_of(partition.process(batch_of(records_of(*after, first=len(read))))))
    whole, crashed = outputs
    assert [it for it in whole if it[0] == "dead letter"]
    assert crashed == whole


def test_an_alert_that_was_not_declared_for_a_while_begins_anew() -> None:
    """What it had waited for before is forgotten with the next state that is written."""
    alert = Alert(name="a", when="count >= 1", window="1s", for_=3)
    store = MemoryStore()

    def read(alerts: tuple[Alert, ...], *events: tuple[str, int, float], first: int) -> list[int]:
        declared = topology(windows=("1s",), span="1s", every="100ms", alerts=alerts)
        partition = partition_of(declared, store)
        effects = partition.process(batch_of(records_of(*events, first=first)))
        put_away(partition, store)
        return [change.timestamp - BEGIN for change in effects.alerts]

    assert read((alert,), ("k", 0, 1), ("k", 110, 1), ("z", 230, 0), first=0) == []
    assert read((), *(("k", 300 + 100 * i, 1) for i in range(9)), first=3) == []
    assert read((alert,), ("k", 1_210, 1), ("z", 1_350, 0), first=12) == []
