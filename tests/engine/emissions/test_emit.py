"""When a key is emitted: at ticks with events, when a window empties, or always."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Mean
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission
from tests.audit import test_audit_key
from tests.engine.alerts import test_alerts
from tests.engine.cases import EMITTED, Case, cases, laws, topology
from tests.engine.checks import check_emissions, emissions_of
from tests.engine.keys import test_key_shares
from tests.engine.keys.test_forgetting import BEGIN, Worker
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    Partition,
    SmallMemoryProcessor,
    batch_of,
    outputs_of,
)
from tests.engine.model import Model, Record, inside
from tests.engine.partition import test_partition_idle
from tests.engine.partition.test_partition_crash import (
    repeats_nothing_acknowledged,
    same_end,
    undisturbed,
)
from tests.engine.streams import encode
from tests.engine.ticks.test_kept_ticks import run as run_in_batches

some = settings(laws, max_examples=40)


def emitted(case: Case) -> list[Emission]:
    return emissions_of(undisturbed(case).outputs)


def newest_at_each_tick(
    case: Case, emissions: list[Emission]
) -> Iterator[tuple[str, int, Emission | None]]:
    """Each key at each tick that the watermark has passed, from its first event until a while after
    its last one: with the newest emission up to then.
    """
    declared, model = case.topology, Model(case.topology, case.records)
    for key, events in model.of_key().items():
        if key in declared.publish and not declared.publishes_partitions:
            continue
        own = {e.window_end_ms: e for e in emissions if e.key == key}
        newest, every = None, declared.every_ms
        for time, following in zip(events, [*events[1:], None], strict=True):
            begin = time.time // every * every + every
            end = begin + declared.span_length.length + 2 * every
            if following is not None:
                end = min(end, following.time // every * every + every)
            for tick in range(begin, end, every):
                if tick <= model.watermarks[-1]:
                    newest = own.get(tick, newest)
                    yield key, tick, newest


@settings(laws, max_examples=60)
@given(cases(topologies=EMITTED))
def test_ticks_and_figures_are_those_of_the_model(case: Case) -> None:
    """No other key at no other tick, and the figures lie in their bounds. At no tick has the newest
    record of a key events in a window without any. With "always" it is of this tick where the span
    has an event of the key.
    """
    declared, model, emissions = case.topology, Model(case.topology, case.records), emitted(case)
    check_emissions(declared, model, emissions)
    if not declared.emits_silence:
        return
    events = model.of_key()
    for key, tick, newest in newest_at_each_tick(case, emissions):
        assert newest is not None
        for figure in newest.figures:
            if figure.statistic == "count" and figure.estimate:
                assert inside(declared, events[key], figure.window_ms or 0, tick)
        if declared.emit == "always" and newest.window_end_ms != tick:
            assert not inside(declared, events[key], declared.span_length.length, tick)


@settings(laws, max_examples=25)
@given(cases(topologies=[name for name, it in EMITTED.items() if it.emit == "windows"]))
def test_windows_add_one_record_a_silence_and_window_at_most(case: Case) -> None:
    """Those with events are the same bytes, whatever else is emitted."""
    few = Case(replace(case.topology, emit="events"), case.records, case.random)
    fewer = {key: rest for kind, key, rest in undisturbed(few).outputs if kind == "emission"}
    whole = {key: rest for kind, key, rest in undisturbed(case).outputs if kind == "emission"}
    assert fewer.items() <= whole.items()
    events = sum(map(len, Model(case.topology, case.records).of_key().values()))
    assert len(whole) - len(fewer) <= events * len(case.topology.window_lengths)


@some
@given(cases(topologies=EMITTED), st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_crashes_leave_no_trace(case: Case, crashes: list[int]) -> None:
    """What is due of silent keys follows from their states and the position alone."""
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.2)
    partition.live()
    same_end(partition, undisturbed(case))
    repeats_nothing_acknowledged(partition)


@some
@given(cases(topologies=EMITTED))
def test_batches_never_show(case: Case) -> None:
    """In any batches, with ticks kept back, and with hardly any memory."""
    whole, _ = run_in_batches(PartitionProcessor, case, None)

    def by_kind(outputs: list[Output]) -> dict[str, list[Output]]:
        found: dict[str, list[Output]] = {}
        for output in outputs:
            found.setdefault(output[0], []).append(output)
        return found

    for kind in (PartitionProcessor, SmallMemoryProcessor):
        assert by_kind(run_in_batches(kind, case, case.random)[0]) == by_kind(whole)


def law_of(test: Any) -> Callable[[Case], None]:
    """Return what a law of all topologies tries on one case."""
    law: Callable[[Case], None] = test.hypothesis.inner_test
    return law


LAWS = {
    "idle": test_partition_idle.test_looking_ahead_leaves_no_trace,
    "ahead": test_partition_idle.test_a_provisional_emission_is_the_final_one_if_nothing_else_comes,
    "shares": test_key_shares.test_shares_of_keys_come_to_what_one_engine_does,
    "intervals": test_key_shares.test_synopses_at_an_interval_are_the_same_in_shares,
    "alerts": test_alerts.test_alerts_are_those_of_a_recount,
    "audit": test_audit_key.test_what_a_partition_puts_out_is_found_right,
}


@pytest.mark.parametrize("name", LAWS)
@settings(laws, max_examples=25)
@given(case=cases(topologies=EMITTED, max_size=80))
def test_laws_of_all_topologies(name: str, case: Case) -> None:
    """Idle partitions, backfills by shares of keys, and audits."""
    law = law_of(LAWS[name])
    if name == "alerts":
        law = partial(law, again=test_alerts.DAY_MS)
    law(case)


# One key's silence, worked out: events until 590 ms, windows of 200 ms and 500 ms, a span of 1 s.

SILENCE = topology(windows=("200ms", "500ms"), statistics=(Count(epsilon=0.5),))


def after_silence(declared: Topology, store: MemoryStore | None = None) -> list[tuple[int, float]]:
    """The ticks of a silent key after its last one with events, and the counts of 200 ms."""
    worker = Worker(declared, store)
    worker.feed("silent", 510, 590)
    emitted = chain.from_iterable(worker.feed("busy", at) for at in range(600, 2_200, 50))
    return [(tick, count) for key, tick, count in emitted if key == "silent"]


@pytest.mark.parametrize(
    ("emit", "expected"),
    [
        ("events", [(600, 2), (1_600, 0)]),
        ("windows", [(600, 2), (800, 0), (1_100, 0), (1_600, 0)]),
        ("always", [(600, 2), (700, 2), *((tick, 0) for tick in range(800, 1_601, 100))]),
    ],
)
def test_one_silence(emit: str, expected: list[tuple[int, float]]) -> None:
    """The event at 590 is in [600, 800) no more, at 1,100 in the half second before no more."""
    assert after_silence(replace(SILENCE, emit=emit)) == expected


@pytest.mark.parametrize(("before", "after"), [("events", "windows"), ("always", "events")])
def test_a_running_topology_may_change_it(before: str, after: str) -> None:
    """Its states are read, and what is due next follows from them."""
    first = Worker(replace(SILENCE, emit=before))
    first.feed("silent", 510, 590)
    first.feed("busy", *range(600, 951, 50))
    second = Worker(replace(SILENCE, emit=after), first.store)
    emitted = chain.from_iterable(second.feed("busy", at) for at in range(1_000, 2_200, 50))
    ticks = [tick for key, tick, _ in emitted if key == "silent"]
    assert ticks == ([1_100, 1_600] if after == "windows" else [1_600])


def test_it_is_part_of_what_figures_mean() -> None:
    """So an audit knows since when it is so; as it was, the declaration is the same as before. A
    referee goes by its own rule.
    """
    prints = {emit: fingerprint_of(replace(SILENCE, emit=emit)) for emit in ("windows", "always")}
    assert len({fingerprint_of(SILENCE), *prints.values()}) == 3
    assert replace(SILENCE, emit="always").state_meaning == SILENCE.state_meaning
    of = [replace(SILENCE, publish="partition", emit=emit) for emit in ("events", "always")]
    assert len({fingerprint_of(Referee(of=one, patience="1s")) for one in of}) == 1


@pytest.mark.parametrize(
    ("span", "emit", "advice"), [("1s", "changes", '"change"'), ("9 events", "always", "1h")]
)
def test_what_cannot_be(span: str, emit: str, advice: str) -> None:
    with pytest.raises(SlidestatError, match="emit is") as refused:
        topology(span=span, windows=(), emit=emit)
    assert advice in refused.value.advice


@pytest.mark.parametrize("emit", ["windows", "always"])
@pytest.mark.parametrize("resolve", ["", "mean < 5"])
def test_an_alert_ends_with_its_window(emit: str, resolve: str) -> None:
    """At the first tick at which its window is empty, also where its resolution has no figure."""
    high = Alert(name="high", when="mean > 9", window="200ms", resolve=resolve)
    declared = replace(SILENCE, statistics=(Mean(),), alerts=(high,), emit=emit)
    processor = PartitionProcessor(declared, SOURCE, PARTITION, MemoryStore())
    events = [("silent", 510, 10), ("silent", 590, 10)]
    events += [("busy", at, 1) for at in range(600, 2_200, 50)]
    records = [
        Record(offset, b"", encode(key, BEGIN + at, value), BEGIN + at)
        for offset, (key, at, value) in enumerate(events)
    ]
    changes = [msgspec.json.decode(it.value) for it in processor.process(batch_of(records)).alerts]
    told = [(it["state"], it["window_end_ms"] - BEGIN, it["certainty"]) for it in changes]
    assert told == [("firing", 600, "certain"), ("resolved", 800, "certain")]


def test_an_idle_partition_says_that_windows_have_emptied() -> None:
    """Provisionally, each tick once, though nothing comes."""
    processor = PartitionProcessor(
        replace(SILENCE, emit="windows"), SOURCE, PARTITION, MemoryStore()
    )
    records = [
        Record(offset, b"", encode("silent", BEGIN + at, 1), BEGIN + at)
        for offset, at in enumerate((510, 590))
    ]
    processor.process(batch_of(records))
    seen = []
    for now in range(600, 3_000, 70):
        for effects in processor.provisional(BEGIN + now):
            rows = effects.emissions
            found = [msgspec.json.decode(value, type=Emission) for _, value, _ in rows]
            assert all(one.provisional for one in found)
            seen += [one.window_end_ms - BEGIN for one in found]
    assert seen == [600, 800, 1_100, 1_600]


def test_topologies_without_emit_go_over_to_windows() -> None:
    """Emissions from before are those of "events", whose fingerprints are what they were then; so
    they are where no window empties.
    """
    declared: dict[str, Any] = {"name": "t", "source": "s", "every": "10s", "statistics": [Count()]}
    of_time = declared | {"span": "1h", "windows": ["1m", "1h"]}
    assert Topology(**of_time).emit == "windows"
    assert fingerprint_of(Topology(**of_time, emit="events")) == "0cdc1aa4fac57d84"
    assert fingerprint_of(Topology(**of_time)) != "0cdc1aa4fac57d84"
    assert fingerprint_of(Topology(**declared, span="9 events")) == "5807ce412dbdfec8"


PICTURE = Path(__file__).parents[3] / "docs" / "when-a-key-is-written.md"


def test_the_picture_of_the_document_is_true() -> None:
    """Each line of it is what a partition counts, emits and tells of such a key."""
    rows = re.findall(r"^(minute|[a-z]+|[0-9]+m) +([0-9xf. ]+)$", PICTURE.read_text(), re.M)
    drawn = {name: cells.split() for name, cells in rows}
    minutes = [int(minute) for minute in drawn.pop("minute")]
    assert drawn.keys() == {"2m", "5m", "10m", "events", "windows", "always", "change", "alert"}
    minute = 60_000
    begin = BEGIN // minute * minute
    for emit in ("events", "windows", "always", "change"):
        declared = topology(
            span="10m",
            every="1m",
            windows=("2m", "5m", "10m"),
            emit=emit,
            alerts=(Alert(name="silent", when="count = 0", window="2m"),),
        )
        processor = PartitionProcessor(declared, SOURCE, PARTITION, MemoryStore())
        events = [("silent", 50_000), ("silent", 110_000)]
        events += [("busy", at) for at in range(115_000, 14 * minute, 5_000)]
        records = [
            Record(offset, b"", encode(key, begin + at, 1), begin + at)
            for offset, (key, at) in enumerate(events)
        ]
        effects = processor.process(batch_of(records))
        emitted = [e for e in emissions_of(outputs_of(effects)) if e.key == "silent"]
        figures = {(e.window_end_ms - begin) // minute: e.figures for e in emitted}
        assert drawn[emit] == ["x" if at in figures else "." for at in minutes]
        for at, of_tick in figures.items():
            for figure in of_tick:
                if figure.statistic == "count":
                    shown = drawn[f"{(figure.window_ms or 0) // minute}m"][minutes.index(at)]
                    assert figure.estimate == int(shown)
        changes = [msgspec.json.decode(it.value) for it in effects.alerts]
        (start, end) = ((it["window_end_ms"] - begin) // minute for it in changes)
        assert drawn["alert"] == ["f" if start <= at < end else "." for at in minutes]
