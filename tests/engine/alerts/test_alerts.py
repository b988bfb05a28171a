"""Alerts follow from the emissions: recounted from them in plain Python, whatever crashes."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import AgeOfLast, Count, LandmarkCount, Mean, Quantiles, Sum
from slidestat.declare.times.lengths import duration_ms
from slidestat.declare.topology import Topology
from slidestat.engine import quota
from slidestat.engine.alerts.alerting import alert_id, decode_standings
from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.keys import key_timers
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.alert import AlertChange, alert_key
from slidestat.schemas.emission import Emission, Figure
from tests.engine.cases import EMITTED, TOPOLOGIES, Case, cases, laws, topology
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Partition,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Model, Record, silent_ticks, ticks_of, ticks_of_span
from tests.engine.partition.test_partition_crash import same_end, undisturbed
from tests.engine.streams import START_MS, encode, records

KNOWN = TOPOLOGIES | EMITTED
ALERTING = sorted(name for name, topology in KNOWN.items() if topology.alerts)


def few_ticks(case: Case) -> Case:
    """Return the case, shorter where ticks are a millisecond apart: an event has a thousand."""
    is_dense = case.topology.every_ms == 1
    return replace(case, records=case.records[:30]) if is_dense else case


alerting_cases = cases(topologies=ALERTING).map(few_ticks)

Figures = Mapping[str, Figure]
BEGIN = START_MS // 1_000 * 1_000
DAY_MS = 86_400_000


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
    "count_100ms > 2 and sum_1s > 9": lambda f: both(
        above(f["count_100ms"], 2), above(f["sum_1s"], 9)
    ),
    "count_50ms = 0 and count_330ms > 1": lambda f: both(
        below(f["count_50ms"], 0.0001), above(f["count_330ms"], 1)
    ),
    "sum_330ms > 10 * count_1s": lambda f: above(f["sum_330ms"], 10, f["count_1s"]),
    "count_50ms < 2": lambda f: below(f["count_50ms"], 2),
    "part > 0.4 and count_100ms > 1": lambda f: both(
        above(f["part"], 0.4), above(f["count_100ms"], 1)
    ),
    "part < 0.3": lambda f: below(f["part"], 0.3),
    "average > 40 and count > 2": lambda f: both(above(f["average"], 40), above(f["count"], 2)),
    "count > 1 and sum_1s > 9": lambda f: both(above(f["count"], 1), above(f["sum_1s"], 9)),
    "landmark_sum > 100 and count > 2": lambda f: both(
        above(f["landmark_sum"], 100), above(f["count"], 2)
    ),
}


def windows_of(alert: Alert, topology: Topology) -> list[int]:
    """The windows that an alert reads: of names that end with one, and its own."""
    read = f"{alert.when} {alert.resolve}"
    for name, expression in (reversed(it.split(" as ")) for it in topology.derived[::-1]):
        read = re.sub(rf"\b{name}\b", expression, read)
    texts = re.findall(r"_(\d+m?s)\b", read)
    if alert.window or not texts:
        texts.append(alert.window or (topology.windows or (topology.span,))[0])
    return sorted({topology.window(text, "windows").length for text in texts})


def own_window(alert: Alert, topology: Topology) -> int:
    """The window of names without one."""
    text = alert.window or (topology.windows or (topology.span,))[0]
    return topology.window(text, "windows").length


class Ticks:
    """The figures of each key at any tick, and what the records are known to be."""

    def __init__(self, case: Case) -> None:
        """Have all ticks emitted, where that can be: figures stay as they are after the last one.

        All is read in one batch, unlike what the worker under trial does.
        """
        self._topology = case.topology
        of_events = case.topology.span_length.of_events
        shown = case.topology if of_events else replace(case.topology, emit="always")
        self._emissions: dict[str, list[Emission]] = {}
        effects = partition_of(shown, MemoryStore()).process(batch_of(case.records))
        for _, value, _ in effects.emissions:
            emission = msgspec.json.decode(value, type=Emission)
            self._emissions.setdefault(emission.key, []).append(emission)
        self._ends = {
            key: [emission.window_end_ms for emission in known]
            for key, known in self._emissions.items()
        }
        self._figures: dict[tuple[str, int, int], Figures] = {}
        self._model = Model(case.topology, case.records)
        self.until = max([*self._model.watermarks, -1])

    def figures(self, key: str, tick: int, window: int) -> Figures:
        """The figures of one window, those that have none, and all by their names with a window."""
        newest = bisect_right(self._ends[key], tick) - 1
        place = key, newest, window
        if place not in self._figures:
            # The same at all ticks of a silence, which are many.
            self._figures[place] = self._named(self._emissions[key][newest], window)
        return self._figures[place]

    def _named(self, emission: Emission, window: int) -> Figures:
        figures = [f for f in emission.figures if f.item is None]
        texts = {self._topology.window(it, "windows").length: it for it in self._topology.windows}
        named = {f"{f.statistic}_{texts[f.window_ms]}": f for f in figures if f.window_ms in texts}
        return named | {
            f.statistic: f
            for f in figures
            if window in (f.window_ms or f.window_events or window, None)
        }

    def source_offset(self, tick: int) -> int:
        """The offset of the record by which the watermark passed a tick."""
        return self._model.records[bisect_left(self._model.watermarks, tick)].offset

    def of_keys(self) -> Iterator[tuple[str, list[int], list[int], set[int]]]:
        """Keys, the times of their events, the ticks at which all of their alerts are evaluated,
        and those of them at which they are forgotten.
        """
        topology = self._topology
        for key, events in self._model.of_key().items():
            times = [event.time for event in events]
            due = ticks_of(topology, times)
            if not topology.span_length.of_events:
                for alert in topology.alerts:
                    for window in windows_of(alert, topology):
                        due |= silent_ticks(window, topology.every_ms, times)
            if topology.alerts_change_in_silence:
                due |= ticks_of_span(topology.span_length.length, topology.every_ms, times)
            ends: set[int] = set()
            if topology.forget_ms is not None:
                silence = duration_ms(topology.forget_after or topology.span, "forget_after")
                ends = silent_ticks(silence, topology.every_ms, times)
            yield key, times, sorted(tick for tick in due if tick <= self.until), ends


def recounted(case: Case, ticks: Ticks) -> list[tuple[object, ...]]:
    """What becomes of each alert, in the order of ticks and keys."""
    found = []
    for key, times, due, ends in ticks.of_keys():
        found += [(end, key, told) for end, *told in _of_key(case, ticks, key, times, due, ends)]
    found.sort(key=lambda it: it[:2])
    return [(told[0], key, end, *told[1:]) for end, key, told in found]


def _of_key(
    case: Case, ticks: Ticks, key: str, times: list[int], due: list[int], ends: set[int]
) -> Iterator[tuple[object, ...]]:
    topology, every = case.topology, case.topology.every_ms
    waiting: dict[str, list[tuple[int, bool]]] = {}
    firing: dict[str, tuple[int, bool]] = {}
    again = -(-key_timers._AGAIN_MS // every) * every
    longest = max(topology.window_lengths)
    end = due[0] if due else ticks.until + 1
    while end <= ticks.until:
        last = times[bisect_left(times, end) - 1]
        for alert in topology.alerts:
            own, window = own_window(alert, topology), windows_of(alert, topology)[-1]
            figures = ticks.figures(key, end, own)
            said = MEANT[alert.when](figures)
            if alert.name in firing:
                ended = _resolved(alert, figures)
                is_empty = not topology.span_length.of_events and last < end - window
                if is_empty or _has_no_figure(alert, figures):
                    ended = either(ended, contrary(said)) if is_empty else contrary(said)
                over = ended.must if alert.certain else ended.true
                if end in ends or over or (is_empty and not said.true):
                    yield (
                        *(end, alert.name, "resolved", ended.must or end in ends),
                        *(firing.pop(alert.name)[0], end in ends),
                    )
                elif end % again == 0 and not topology.is_sequence:
                    since, sure = firing[alert.name]
                    yield end, alert.name, "firing", sure, since, False
            elif end in ends or not (said.must if alert.certain else said.true):
                waiting.pop(alert.name, None)
            else:
                waiting.setdefault(alert.name, []).append((end, said.must))
                if len(waiting[alert.name]) == alert.for_:
                    held = waiting.pop(alert.name)
                    sure = all(sure for _, sure in held)
                    firing[alert.name] = end, sure
                    yield end, alert.name, "firing", sure, held[0][0], False
        following = bisect_right(due, end)
        coming = due[following] if following < len(due) else ticks.until + 1
        # Figures change no more until then.
        stays = not topology.span_length.of_events and last < end - longest - every
        if waiting or (firing and not stays and not topology.span_length.of_events):
            coming = min(coming, end + every)
        if firing and not topology.is_sequence:
            coming = min(coming, (end // again + 1) * again)
        end = coming


def _resolved(alert: Alert, figures: Figures) -> Said:
    return MEANT[alert.resolve](figures) if alert.resolve else contrary(MEANT[alert.when](figures))


def _has_no_figure(alert: Alert, figures: Figures) -> bool:
    """Return whether the figure that the resolution reads does not exist."""
    return alert.resolve == "mean < 45" and figures["mean"].estimate is None


def told(partition: Partition) -> list[AlertChange]:
    """The changes that were sent, each once, in the order in which they were sent first."""
    values = dict.fromkeys(rest[0] for kind, _, rest in partition.outputs if kind == "alert")
    return [msgspec.json.decode(value, type=AlertChange) for value in values]


@settings(laws, max_examples=60)
@given(alerting_cases, st.sampled_from([DAY_MS, 300, 1_000]))
def test_alerts_are_those_of_a_recount(case: Case, again: int) -> None:
    """The state machine, tick by tick; certain where bounds make it so, whatever is emitted; what
    fires is written again.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_timers, "_AGAIN_MS", again)
        found = told(undisturbed(case))
        ticks = Ticks(case)
        expected = recounted(case, ticks)
    assert expected == [
        (
            change.alert,
            change.key,
            change.window_end_ms,
            change.state,
            change.certainty == "certain",
            change.since_ms,
            change.forgotten,
        )
        for change in found
    ]
    windows = {it.name: own_window(it, case.topology) for it in case.topology.alerts}
    for change in found:
        assert change.source_offset == ticks.source_offset(change.window_end_ms)
        figures = ticks.figures(change.key, change.window_end_ms, windows[change.alert])
        assert len(change.figures) == len({(it.statistic, it.window_ms) for it in change.figures})
        assert all(figure in figures.values() for figure in change.figures)


@settings(laws, max_examples=30)
@given(
    alerting_cases,
    st.lists(st.integers(0, 120), min_size=1, max_size=6),
    st.sampled_from([DAY_MS, 500]),
)
def test_crashes_leave_no_trace_in_alerts(case: Case, crashes: list[int], again: int) -> None:
    """Other batches and other crashes: the same changes under the same keys, byte for byte, in the
    same order where each is sent once.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_timers, "_AGAIN_MS", again)
        partition = Partition(case.topology, case.records, case.random)
        for steps in crashes:
            partition.live(steps, forget_offsets=case.random.random() < 0.2)
        partition.live()
        whole = undisturbed(case)
    same_end(partition, whole)
    assert sorted(map(repr, told(partition))) == sorted(map(repr, told(whole)))


@settings(laws, max_examples=60)
@given(
    cases(max_size=250, topologies=ALERTING),
    st.lists(st.integers(0, 120), min_size=1, max_size=4),
    st.lists(st.integers(0, 60), max_size=4),
    st.booleans(),
)
def test_alerts_that_are_declared_after_a_crash_tell_all_that_they_do(
    case: Case, crashes: list[int], more: list[int], some: bool
) -> None:
    """Also where they begin to fire at an emission that is out, or workers crash before their first
    tick or after it: what fires by the states does so by the records.
    """
    before = case.topology.alerts[1:] if some else ()
    partition = Partition(replace(case.topology, alerts=before), case.records, case.random)
    for steps in crashes:
        partition.live(steps)
    partition.topology = case.topology
    for steps in more:
        partition.live(steps)
    partition.live()
    newest = {(change.alert, change.key): change.state for change in told(partition)}
    states = partition.store().synopses(case.topology)
    for alert in case.topology.alerts:
        for key, (_, _, standings) in states.items():
            standing = decode_standings(standings).get(alert_id(alert.name))
            fires = standing is not None and standing.is_firing
            assert fires == (newest.get((alert.name, key)) == "firing")


@settings(laws, max_examples=30)
@given(cases(max_size=80, topologies=ALERTING).map(few_ticks))
def test_what_is_told_provisionally_is_confirmed_or_taken_back(case: Case) -> None:
    """Whenever the partition was idle, and whenever its worker was killed: the newest record under
    each key that the watermark has passed is final, and what a partition that was never idle comes
    to.
    """
    random, store, rows = case.random, MemoryStore(), case.records
    committed = read = furthest = 0
    is_killed = False
    processor = PartitionProcessor(case.topology, SOURCE, PARTITION, store)
    newest: dict[bytes, AlertChange] = {}

    def take(records: Sequence[AlertRecord]) -> None:
        newest.update((it.key, msgspec.json.decode(it.value, type=AlertChange)) for it in records)

    while read < len(rows):
        if is_killed or random.random() < 0.1:
            is_killed = False
            processor = PartitionProcessor(case.topology, SOURCE, PARTITION, store)
            read = bisect_left(rows, committed, key=attrgetter("offset"))
        size = random.randint(1, 20)
        take(processor.process(batch_of(rows[read : read + size])).alerts)
        read = min(read + size, len(rows))
        furthest = max(furthest, read)
        while random.random() < 0.6:
            # A worker that has yet to read what another one had read is not idle.
            if read == furthest and random.random() < 0.8:
                now = processor.watermark + case.topology.lateness_ms + random.randrange(3_000)
                for effects in processor.provisional(now):
                    assert all(json.loads(it.value)["provisional"] for it in effects.alerts)
                    take(effects.alerts)
            slots = random.sample(range(SLOTS), random.choice([0, SLOTS // 2, SLOTS]))
            snapshot = processor.snapshot(slots)
            if snapshot is None:
                break
            if random.random() < 0.1:
                is_killed = True
                break
            store.write(rows_of(snapshot), snapshot.told)
            processor.written()
            committed = snapshot.next_offset
    final = {
        alert_key("law", it.alert, it.key, it.window_end_ms): it for it in told(undisturbed(case))
    }
    assert {key: it for key, it in newest.items() if key in final} == final
    for key, change in newest.items():
        if change.window_end_ms > processor.watermark or key in final:
            continue
        earlier = [
            it.state
            for it in final.values()
            if (it.alert, it.key) == (change.alert, change.key)
            and it.window_end_ms <= change.window_end_ms
        ]
        assert not change.provisional
        assert change.state == (earlier[-1] if earlier else "resolved")


SPAN = topology(span="1s", windows=("200ms", "500ms", "1s"), statistics=(Count(epsilon=0.5),))


def changes(
    declared: Topology, *events: tuple[str, int], until: int
) -> list[tuple[str, str, int, bool]]:
    """What becomes of the alerts of "a": each change with the time of its tick."""
    others = [("z", at) for at in range(0, until, 50)]
    rows = sorted([*events, *others], key=lambda it: it[1])
    partition = partition_of(declared, MemoryStore())
    found = partition.process(batch_of(records_of(*((key, at, 1) for key, at in rows)))).alerts
    decoded = [msgspec.json.decode(it.value, type=AlertChange) for it in found]
    return [
        (it.alert, str(it.state), it.window_end_ms - BEGIN, it.forgotten)
        for it in decoded
        if it.key == "a"
    ]


@pytest.mark.parametrize("emit", ["events", "windows", "always"])
def test_absence_fires_until_events_come_or_the_key_is_forgotten(emit: str) -> None:
    """At the first tick at which the alert's window has none, whatever is emitted."""
    absent = Alert(name="absent", when="count = 0", window="200ms")
    declared = replace(SPAN, alerts=(absent,), emit=emit)
    events = [("a", 120), ("a", 730)]
    assert changes(declared, *events, until=2_500) == [
        ("absent", "firing", 400, False),
        ("absent", "resolved", 800, False),
        ("absent", "firing", 1_000, False),
        ("absent", "resolved", 1_800, True),
    ]


def test_what_fires_for_days_is_written_again_each_day() -> None:
    """Readers that begin when a topic has deleted what is old know of it, also in a silence."""
    absent = Alert(name="absent", when="count = 0", window="5m")
    declared = replace(
        SPAN, span="3d", every="1m", windows=("5m", "3d"), alerts=(absent,), ahead="7d"
    )
    partition = partition_of(declared, MemoryStore())
    days = [BEGIN // DAY_MS * DAY_MS + day * DAY_MS for day in range(6)]
    start = days[0] + DAY_MS // 2
    events = [("a", start - BEGIN, 1)]
    # Event time follows what most of 16 records have.
    steps = [step for step in range(16) for _ in range(20)]
    events += [("z", start - BEGIN + step * DAY_MS // 4, 1) for step in steps]
    found = partition.process(batch_of(records_of(*events))).alerts
    mine = [it for it in (json.loads(change.value) for change in found) if it["key"] == "a"]
    fired = start // 60_000 * 60_000 + 6 * 60_000
    assert [(it["state"], it["window_end_ms"]) for it in mine] == [
        ("firing", fired),
        *(("firing", day) for day in days[1:4]),
        ("resolved", start // 60_000 * 60_000 + 60_000 + 3 * DAY_MS),
    ]
    assert {it["since_ms"] for it in mine} == {fired}


@pytest.mark.parametrize(("for_", "fires"), [(1, 400), (2, 500), (3, 600), ("200ms", 600)])
def test_for_counts_ticks_without_events(for_: int | str, fires: int) -> None:
    """From the first tick to the last one is as long as a duration."""
    absent = Alert(name="absent", when="count = 0", window="200ms", for_=for_)
    told = changes(replace(SPAN, alerts=(absent,)), ("a", 120), until=2_000)
    assert told[0] == ("absent", "firing", fires, False)


def test_a_condition_that_waits_is_looked_at_in_a_silence() -> None:
    """It holds for ticks that have no event, or for too few of them."""
    often = Alert(name="often", when="count >= 2", window="500ms", for_=4)
    events = [("a", 20), ("a", 30)]
    assert changes(replace(SPAN, alerts=(often,)), *events, until=1_500) == [
        ("often", "firing", 400, False),
        ("often", "resolved", 600, False),
    ]
    longer = replace(SPAN, alerts=(replace(often, for_=6),))
    assert changes(longer, *events, until=1_500) == []


def test_what_had_to_hold_twice_is_certain_if_it_was_certain_twice() -> None:
    """Thresholds that the estimate passes before the lower bound does, which follows by the next
    tick: the second time alone would be certain.
    """
    declared = replace(
        SPAN,
        alerts=tuple(
            Alert(name=f"over-{least}", when=f"count >= {least}", window="1s", for_=2)
            for least in range(2, 100)
        ),
    )
    events = [("a", 7 * i, 1) for i in range(140)]
    effects = partition_of(declared, MemoryStore()).process(batch_of(records_of(*events)))
    counts = {}
    for _, value, _ in effects.emissions:
        emission = msgspec.json.decode(value, type=Emission)
        (counts[emission.window_end_ms],) = (f for f in emission.figures if f.window_ms == 1_000)
    seen = set()
    for record in effects.alerts:
        change = msgspec.json.decode(record.value, type=AlertChange)
        least, end = int(change.alert.removeprefix("over-")), change.window_end_ms
        first, second = (above(counts[at], least - 0.5).must for at in (end - 100, end))
        assert (change.certainty == "certain") == (first and second)
        seen.add((first, second))
    assert {(True, True), (False, True)} <= seen


@pytest.mark.parametrize("emit", ["events", "windows"])
@pytest.mark.parametrize("resolve", ["", "count > 100", "count < 1"])
def test_no_alert_outlives_its_window(emit: str, resolve: str) -> None:
    """Nor does one whose resolution is false of an empty window."""
    often = Alert(name="often", when="count >= 2", window="200ms", resolve=resolve)
    declared = replace(SPAN, alerts=(often,), emit=emit)
    told = changes(declared, ("a", 20), ("a", 30), ("a", 130), until=1_500)
    assert told[0] == ("often", "firing", 100, False)
    assert told[-1][:2] == ("often", "resolved")
    assert told[-1][2] <= 400
    assert len(told) == 2


@pytest.mark.parametrize(
    "when",
    [
        "count = 0 and age > 1000",
        "count = 0 and landmark_count > 3",
        "count = 0 or mean > 3",
        "mean is null",
        "mean < -5 and count in (1, 2)",
        "sum / count > 3 and p50 < sum",
        "count between 3 and 3.5",
    ],
)
def test_what_may_be_true_is_declared(when: str) -> None:
    """Of a window with events or of one that has emptied: other figures are still there."""
    statistics = (Count(), LandmarkCount(), Mean(), Sum(), AgeOfLast(name="age"))
    statistics += (Quantiles(quantiles=(0.5,)),)
    replace(SPAN, statistics=statistics, alerts=(Alert(name="a", when=when, window="200ms"),))


def test_an_age_that_grows_is_looked_at_at_every_tick() -> None:
    """Though nothing is emitted."""
    quiet = Alert(name="quiet", when="age > 350", window="1s")
    declared = replace(SPAN, statistics=(Count(), AgeOfLast(name="age")), alerts=(quiet,))
    assert changes(declared, ("a", 120), ("a", 620), until=2_500) == [
        ("quiet", "firing", 500, False),
        ("quiet", "resolved", 700, False),
        ("quiet", "firing", 1_000, False),
        ("quiet", "resolved", 1_700, True),
    ]


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
    for seed in range(12):
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
    wanted = {(a.name, s) for a in KNOWN[name].alerts for s in ("firing", "resolved")}

    def look(case: Case) -> None:
        if seen < wanted:
            effects = partition_of(case.topology, MemoryStore()).process(batch_of(case.records))
            changes = (msgspec.json.decode(it.value, type=AlertChange) for it in effects.alerts)
            seen.update((it.alert, it.state) for it in changes)

    for examples in (5, 20, 100):
        if seen < wanted:
            settings(laws, max_examples=examples)(given(cases(topologies=[name]))(look))()
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
