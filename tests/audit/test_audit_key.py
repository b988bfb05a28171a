"""The audit of a key: what a partition puts out holds, and what is wrong is found."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from msgspec import structs

from slidestat.declare.fields import RECORD_KEY, RECORD_TIMESTAMP
from slidestat.declare.forms.resolved import resolved
from slidestat.declare.kinds import KINDS
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import (
    Count,
    Distinct,
    LandmarkCount,
    Maximum,
    Mean,
    Minimum,
    Norm,
    Quantiles,
    Sample,
    TopItems,
)
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.audit import exact_key
from slidestat.spark.audit.declaration import (
    ALWAYS,
    Charge,
    Declaration,
    Turn,
    charges_of,
    declaration_of,
)
from slidestat.spark.audit.events.reading import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
)
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.key import Finding, audit_key, newest
from tests.engine.cases import CLOCKS, Case, cases, laws, topology
from tests.engine.checks import emissions_of, offsets_of
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of, rows_of
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode

NEVER_MS = -(2**62)


def test_every_statistic_can_be_audited() -> None:
    """There is none that an audit would pass over."""
    assert KINDS.keys() == exact_key.KINDS


class Partition:
    """A topology over records: what it put out, and each key's counted events."""

    def __init__(self, asked: Topology, records: Sequence[Record]) -> None:
        processor = PartitionProcessor(asked, SOURCE, PARTITION, MemoryStore())
        outputs = outputs_of(processor.process(batch_of(records)))
        refused = {*offsets_of("late", outputs), *offsets_of("dead letter", outputs)}
        # As an audit in Spark gets it: through JSON, from the declaration in plain tables.
        plain = msgspec.json.decode(msgspec.json.encode(resolved(asked)))
        self.declaration: Declaration = declaration_of(plain)
        self.emissions: dict[str, dict[int, Emission]] = defaultdict(dict)
        for emission in emissions_of(outputs):
            self.emissions[emission.key][emission.window_end_ms] = emission
        events = defaultdict(list)
        for record in records:
            raw = RawRecord(record.key, record.value, record.timestamp)
            if record.offset not in refused and not is_passed_over(self.declaration, raw):
                key, time, texts = read_event(self.declaration, raw)
                events[key].append((time, record.offset, texts))
        self.keys = {key: self._key(rows) for key, rows in events.items()}
        self.rows = events
        self.watermark = processor.watermark

    def _key(self, rows: list[tuple[int, int, list[str | None]]]) -> ExactKey:
        rows.sort(key=lambda row: row[:2])
        columns = {
            name: [texts[place] for _, _, texts in rows]
            for place, name in enumerate(self.declaration.columns)
        }
        times, offsets = ([row[i] for row in rows] for i in (0, 1))
        of_events = self.declaration.of_events
        return ExactKey(
            np.array(times, np.int64), np.array(offsets, np.int64), columns, of_events=of_events
        )

    def audit(self, key: str, complete_from_ms: int = NEVER_MS) -> list[Finding]:
        return list(
            audit_key(
                self.declaration,
                self.keys[key],
                key,
                self.emissions[key],
                self.watermark,
                complete_from_ms,
            )
        )

    def violations(self, key: str, complete_from_ms: int = NEVER_MS) -> list[str]:
        return [
            finding.violation for finding in self.audit(key, complete_from_ms) if finding.violation
        ]


@laws
@given(cases(max_size=120))
def test_what_a_partition_puts_out_is_found_right(case: Case) -> None:
    """Every statistic over any windows, of time and of last events, however late, whatever records
    are bad: each figure holds, uses at most what it promises, and none is missing.
    """
    assume(not case.topology.publishes_partitions)  # These are refused.
    partition = Partition(case.topology, case.records)
    for key in partition.keys:
        for finding in partition.audit(key):
            assert not finding.violation, finding
            assert finding.verdict is not None
            assert finding.verdict.observed is not None
            assert 0 <= finding.verdict.observed <= finding.verdict.promised


STATISTICS = (Count(), Mean(), Quantiles(), TopItems(limit=3), Distinct(), Norm(seed=1))


@pytest.fixture
def partition() -> Partition:
    """One key, two values, an event each 10 ms."""
    asked = replace(topology(statistics=STATISTICS), windows=("330ms",))
    records = [
        Record(i, b"", encode("a", START_MS + 10 * i, i % 3 // 2 + 0.5), START_MS)
        for i in range(100)
    ]
    return Partition(asked, records)


def altered(partition: Partition, number: int, **changes: object) -> list[str]:
    """The violations when a figure of the last emission is another."""
    (tick,) = list(partition.emissions["a"])[-1:]
    emission = partition.emissions["a"][tick]
    figures = list(emission.figures)
    figures[number] = msgspec.structs.replace(figures[number], **changes)
    partition.emissions["a"][tick] = msgspec.structs.replace(emission, figures=figures)
    return partition.violations("a")


def place(partition: Partition, name: str) -> tuple[int, Figure]:
    """The first figure of a statistic in the last emission."""
    figures = list(partition.emissions["a"].values())[-1].figures
    return next((i, f) for i, f in enumerate(figures) if f.statistic == name)


@pytest.mark.parametrize("name", ["count", "mean", "quantile", "top", "distinct", "norm"])
def test_bounds_that_do_not_hold_the_figure(partition: Partition, name: str) -> None:
    """Both of them above the exact figure, or both below, by the smallest step there is."""
    assert partition.violations("a") == []
    number, figure = place(partition, name)
    exact = next(
        f.verdict.exact
        for f in reversed(partition.audit("a"))
        if f.verdict is not None and f.figure == figure
    )
    # A norm is recomputed in doubles, a mean of halves and threes is none.
    step = 1e-6 if name in ("norm", "mean") else 0.0
    above = np.nextafter(float(exact), np.inf) + step
    below = np.nextafter(float(exact), -np.inf) - step
    assert altered(partition, number, lower=above, upper=above) == ["outside its bounds"]
    assert altered(partition, number, lower=below, upper=below) == ["outside its bounds"]


@pytest.mark.parametrize("name", ["count", "mean", "quantile", "top", "distinct", "norm"])
def test_an_error_larger_than_promised(partition: Partition, name: str) -> None:
    """An estimate far off is found, though its bounds hold the exact figure."""
    number, _ = place(partition, name)
    off = altered(partition, number, estimate=1e6, lower=-1e6, upper=1e6)
    assert off == ["more off than promised"]


def test_figures_that_should_not_be_there_or_are_not(partition: Partition) -> None:
    """No estimate of what exists, a statistic that nobody declared, an item that never came."""
    assert altered(partition, 0, estimate=None, lower=None, upper=None) == ["no figure"]
    number, _ = place(partition, "top")
    assert set(altered(partition, number, item="never")) == {
        "no figure",
        "more off than promised",
        "a top item not listed",
    }
    assert altered(partition, 0, statistic="sum")[:2] == [
        "emitted without count",
        "not declared: statistic sum, window_ms 330",
    ]


def test_emissions_that_lack_what_is_declared(partition: Partition) -> None:
    """A statistic that is in none of its windows, one of several quantiles; what nobody declared is
    told, too. Of emissions that do not say by which declaration they are, nothing is missed.
    """
    tick, emission = list(partition.emissions["a"].items())[-1]
    quantiles = [figure for figure in emission.figures if figure.statistic == "quantile"]
    gone = [figure for figure in emission.figures if figure.statistic == "mean"] + quantiles[:1]
    kept = [figure for figure in emission.figures if figure not in gone]
    partition.emissions["a"][tick] = msgspec.structs.replace(emission, figures=kept)
    expected = ["emitted without mean", "emitted without 1 of 3 figures of quantile"]
    assert partition.violations("a") == expected
    asked = (partition.declaration, partition.keys["a"], "a", partition.emissions["a"])
    unmarked = audit_key(*asked, partition.watermark, NEVER_MS, is_marked=False)
    assert [finding.violation for finding in unmarked if finding.violation] == []
    other = msgspec.structs.replace(quantiles[0], quantile=0.123)
    partition.emissions["a"][tick] = msgspec.structs.replace(emission, figures=[*kept, other])
    foreign = "not declared: statistic quantile, window_ms 330, quantile 0.123"
    assert partition.violations("a") == [*expected, foreign]


def test_what_a_declaration_was_not_in_charge_of_it_need_not_emit(partition: Partition) -> None:
    """Ticks outside of its charge, and those that another declaration emitted, are not missed."""
    ticks = sorted(partition.emissions["a"])
    missing = ticks[2:5]
    for tick in missing:
        del partition.emissions["a"][tick]
    asked = (partition.declaration, partition.keys["a"], "a", partition.emissions["a"])

    def violations(charges: tuple[Charge, ...], by_others: Sequence[int] = ()) -> list[int]:
        found = audit_key(*asked, partition.watermark, NEVER_MS, charges, by_others)
        return [finding.window_end_ms for finding in found if finding.violation == "not emitted"]

    assert violations(ALWAYS) == missing
    assert violations(ALWAYS, missing[:1]) == missing[1:]
    assert (
        violations((Charge(-NEVER_MS, missing[1]), Charge(missing[1] + 1, -NEVER_MS)))
        == missing[2:]
    )


@pytest.mark.parametrize("emit", ["events", "windows", "always"])
def test_when_a_silent_key_is_due(emit: str) -> None:
    """A missing word about a window that has emptied is a violation, and so is an emission at any
    other tick. What one value of `emit` asks for is not what another does.
    """
    asked = topology(windows=("200ms", "500ms"), emit=emit)
    events = [("silent", 510), ("silent", 590), *(("busy", at) for at in range(600, 2_400, 50))]
    begin = START_MS // 1_000 * 1_000
    records = [
        Record(offset, b"", encode(key, begin + at, 1), begin + at)
        for offset, (key, at) in enumerate(events)
    ]
    whole = Partition(asked, records)
    assert whole.violations("silent") == []
    for tick, emission in list(whole.emissions["silent"].items()):
        del whole.emissions["silent"][tick]
        assert whole.violations("silent") == ["not emitted"]
        whole.emissions["silent"][tick] = emission
    for at in range(600, 2_300, 100):
        if begin + at in whole.emissions["silent"]:
            continue
        other = structs.replace(
            Partition(replace(asked, emit="always"), records)
            .emissions["silent"]
            .get(begin + at, emission),
            window_end_ms=begin + at,
        )
        whole.emissions["silent"][begin + at] = other
        assert "emitted without a reason" in whole.violations("silent")
        del whole.emissions["silent"][begin + at]


@pytest.mark.parametrize("tolerance", ["0%", "20%"])
def test_a_record_that_is_left_out_is_missed_where_the_newest_is_not_true(tolerance: str) -> None:
    """Each record of emit = "change" is needed where figures are exact: without it, the one before
    is not true at its tick. An emission at a tick at which none may be has no reason.
    """
    extremes = (Minimum(epsilon=0), Maximum(epsilon=0))
    asked = topology(
        windows=("200ms", "500ms"), emit="change", tolerance=tolerance, statistics=extremes
    )
    events = [("a key", at) for at in (110, 510, 590, *range(1_710, 2_900, 7))]
    events = sorted(events + [("busy", at) for at in range(600, 4_900, 50)], key=lambda it: it[1])
    begin = START_MS // 1_000 * 1_000
    records = [
        Record(offset, b"", encode(key, begin + at, offset * offset), begin + at)
        for offset, (key, at) in enumerate(events)
    ]
    whole = Partition(asked, records)
    assert whole.violations("a key") == []
    ticks = sorted(whole.emissions["a key"])
    assert len(ticks) > 10
    for tick in ticks:
        emission = whole.emissions["a key"].pop(tick)
        found = whole.violations("a key")
        is_first = tick == ticks[0] or begin + 1_800 == tick
        assert found[:1] == ["not emitted" if is_first else "the newest record is not true"]
        whole.emissions["a key"][tick] = emission
    late = structs.replace(emission, window_end_ms=begin + 4_800)
    whole.emissions["a key"][begin + 4_800] = late
    assert "emitted without a reason" in whole.violations("a key")


EXACT = (Minimum(epsilon=0), Maximum(epsilon=0))
CHOSEN = [
    {"emit": "change"},
    {"emit": "change", "tolerance": "30%"},
    {"emit": "events", "having": "maximum_200ms >= 40 or minimum_500ms < 2"},
    {"emit": "windows", "having": "maximum_200ms >= 40"},
    {"emit": "always", "having": "minimum_200ms < maximum_200ms and maximum_200ms >= 40"},
    {"emit": "change", "having": "maximum_500ms - minimum_500ms >= 30"},
    {"emit": "change", "tolerance": "30%", "having": "maximum_500ms >= 30"},
]


@pytest.mark.parametrize("fields", CHOSEN, ids=str)
@settings(laws, max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_a_record_too_many_or_too_few_is_found(fields: dict[str, str], seed: int) -> None:
    """Where figures are exact and decide what is written: any record that is left out is missed,
    and any of another tick has no reason. Twenty of each are tried, as each takes an audit.
    """
    random, at, begin = Random(seed), 0, START_MS // 1_000 * 1_000
    events = []
    for _ in range(random.randint(1, 25)):
        at += random.choice([1, 30, 90, 260, 700, 1_300])
        events.append(("a key", at))
    events += [("busy", time) for time in range(0, at + 2_500, 50)]
    events.sort(key=lambda event: event[1])
    records = [
        Record(offset, b"", encode(key, begin + time, random.choice([1, 8, 33, 60])), begin + time)
        for offset, (key, time) in enumerate(events)
    ]
    asked = topology(windows=("200ms", "500ms"), statistics=EXACT, **fields)
    whole = Partition(asked, records)
    written = whole.emissions["a key"]
    assert whole.violations("a key") == []
    for tick in random.sample(sorted(written), min(20, len(written))):
        emission = written.pop(tick)
        assert {*whole.violations("a key")} & {"not emitted", "the newest record is not true"}, tick
        written[tick] = emission
    every_tick = Partition(replace(asked, emit="always", tolerance="0%", having=""), records)
    others = every_tick.emissions["a key"].keys() - written.keys()
    for tick in random.sample(sorted(others), min(20, len(others))):
        written[tick] = every_tick.emissions["a key"][tick]
        assert "emitted without a reason" in whole.violations("a key"), tick
        del written[tick]


def test_a_condition_that_reads_the_past_is_judged() -> None:
    """A record at which more came than 500 ms before is missed, and none is where less came."""
    begin = START_MS // 1_000 * 1_000
    times = [*range(0, 900, 10), *range(900, 1_500, 100), *range(1_500, 2_400, 15)]
    events = [("a key", time) for time in times] + [("busy", time) for time in range(0, 5_000, 50)]
    records = [
        Record(offset, b"", encode(key, begin + time, 1), begin + time)
        for offset, (key, time) in enumerate(sorted(events, key=lambda event: event[1]))
    ]
    having = "count_200ms > 2 * ago(count_200ms, '500ms')"
    asked = topology(windows=("200ms",), statistics=(Count(epsilon=0.05),), emit="always")
    every = Partition(asked, records).emissions["a key"]
    whole = Partition(replace(asked, having=having), records)
    written = whole.emissions["a key"]
    assert whole.violations("a key") == []
    assert 3 < len(written) < len(every)

    def came(end: int) -> int:
        return sum(end - 200 <= begin + time < end for time in times)

    for tick in sorted(written):
        emission = written.pop(tick)
        is_missed = came(tick) > 2 * came(tick - 500)
        assert ("not emitted" in whole.violations("a key")) == is_missed
        written[tick] = emission


def test_a_value_of_emit_that_an_audit_does_not_know_is_refused() -> None:
    """An audit of this version does not take it for one that it knows."""
    plain = msgspec.json.decode(msgspec.json.encode(resolved(topology(emit="windows"))))
    with pytest.raises(msgspec.ValidationError, match="emit"):
        declaration_of(plain | {"emit": "sometimes"})


def test_charges_go_from_turn_to_turn() -> None:
    """Until the next declaration's first tick; until the last own one, where the next emits at
    another interval. One may come again.
    """
    turns = [
        Turn(0, 100, None, "a"),
        Turn(0, 200, 150, "b"),
        Turn(0, 300, 250, "a"),
        Turn(0, 400, 350, "c"),
        Turn(1, 100, None, "c"),
    ]
    forever = ALWAYS[0].until_ms
    assert charges_of(turns, {"a": 50, "b": 50, "c": 20}) == {
        (0, "a"): (Charge(-forever, 200), Charge(300, 351)),
        (0, "b"): (Charge(200, 300),),
        (0, "c"): (Charge(400, forever),),
        (1, "c"): ALWAYS,
    }


def test_emissions_that_are_missing_or_differ(partition: Partition) -> None:
    """One that is not there is missing; two final ones of one tick must be the same; a final one
    replaces the provisional ones, whichever comes last.
    """
    tick, emission = list(partition.emissions["a"].items())[-1]
    final = msgspec.json.encode(emission)
    early = msgspec.json.encode(msgspec.structs.replace(emission, provisional=True, figures=[]))
    assert newest("a", tick, [(1, final), (2, final)]) == (emission, [])
    assert newest("a", tick, [(2, final), (1, early), (3, early)]) == (emission, [])
    other = msgspec.json.encode(msgspec.structs.replace(emission, source_offset=5))
    found, violations = newest("a", tick, [(1, final), (2, other)])
    assert found == emission
    assert [violation.violation for violation in violations] == ["emitted twice, differently"]
    for bad in (b"", final.replace(b"0.5", b'"0.5"', 1), final[:-1], b"\xff" + final):
        found, violations = newest("a", tick, [(1, bad)])
        assert (found, [it.violation[:12] for it in violations]) == (None, ["no emission:"])

    del partition.emissions["a"][tick]
    assert partition.violations("a") == ["not emitted"]
    # Its window has lost events to the broker's retention: nothing can be said of it.
    assert partition.violations("a", tick) == []


def test_a_provisional_figure_is_of_the_events_before_it(partition: Partition) -> None:
    """What came after the record that it rests on is not in it."""
    tick, emission = list(partition.emissions["a"].items())[3]
    early = [Figure("count", 2.0, 2.0, 2.0, window_ms=330, relative_error=0.01)]
    partition.emissions["a"][tick] = msgspec.structs.replace(
        emission, figures=early, source_offset=5, provisional=True
    )
    # All else was not told.
    without = {f"emitted without {name}" for name in ("mean", "quantile", "distinct", "norm")}
    assert set(partition.violations("a")) == {"a top item not listed", *without}
    partition.emissions["a"][tick] = msgspec.structs.replace(
        emission, figures=early, source_offset=6, provisional=True
    )
    assert "more off than promised" in partition.violations("a")


@pytest.mark.parametrize(
    "record", [None, b"", b"[]", b"{}", b'{"key":[],"time":2,"value":3}', b"["]
)
def test_a_record_that_is_no_event(partition: Partition, record: bytes | None) -> None:
    """It is told as unreadable, whatever it is."""
    with pytest.raises(UnreadableError):
        read_event(partition.declaration, RawRecord(b"k", record, 0))


@pytest.mark.parametrize("time_format", CLOCKS)
def test_keys_and_times_are_those_that_a_worker_reads(time_format: str) -> None:
    """Of whole numbers and of the record's own keys, and of times in every format."""
    times: list[object] = {
        "ms": [START_MS, START_MS + 1],
        "s": [START_MS // 1_000, START_MS / 1_000 + 0.123, START_MS / 1_000 + 0.9999],
        "us": [START_MS * 1_000, START_MS * 1_000 + 1_999],
        "ns": [START_MS * 1_000_000 + 1_999_999],
        "iso8601": [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20.123456Z",
            "2023-11-15T00:13:20.1239999+02:00",
            "2023-11-14T22:13:21,5Z",
        ],
        "iso8601-utc": [
            "2023-11-14T22:13:20",
            "2023-11-14 22:13:20.1239999",
            "2023-11-14T22:13:20Z",
        ],
    }[time_format]
    read_by_worker = 0
    for key_field, time_field in (
        ("key", "time"),
        (RECORD_KEY, "time"),
        *([("key", RECORD_TIMESTAMP)] if time_format == "ms" else []),
    ):
        asked = Topology(
            name="t",
            source="s",
            span="1h",
            every="1m",
            statistics=(Count(),),
            key_field=key_field,
            time_field=time_field,
            time_format=time_format,
        )
        declared = declaration_of(msgspec.json.decode(msgspec.json.encode(resolved(asked))))
        for place, time in enumerate(times):
            for key in ("é", -7):
                value = json.dumps({"key": key, "time": time}).encode()
                raw = RawRecord(b"kafka", value, START_MS + place)
                read = EventDecoder(asked).decode([raw.value], [raw.key], [raw.timestamp_ms])
                if read.refusals:
                    continue
                read_by_worker += 1
                found = read_event(declared, raw)
                assert found[:2] == (read.keys[0].as_py(), int(read.times[0])), time
    assert read_by_worker


def test_computed_fields_are_those_that_a_worker_computes() -> None:
    """Keys, numbers and items, and the same events refused."""
    asked = Topology(
        name="shops",
        source="payments",
        span="1h",
        every="1m",
        computed=(
            "coalesce(shop + 0, took) as who",
            "took / parts as took_s",
            "lower(card) || '!' as brand",
        ),
        key_field="who",
        value_field="took_s",
        statistics=(
            Mean(name="mean", where="parts <> 3"),
            Distinct(field="brand"),
            Distinct(field="took_s", name="shares"),
            Count(),
        ),
    )
    declared = declaration_of(msgspec.json.decode(msgspec.json.encode(resolved(asked))))
    columns = asked.columns
    numbers = [c.path[0] for c in columns.numbers]
    items = [c.path[0] for c in columns.items]
    seen = []
    for shop, took, parts, card in product(
        (None, 7, 1.5, "x"), (None, 3, 0.1), (None, 0, 3, 7.0), (None, "VISA", 5)
    ):
        event = {"time": START_MS, "shop": shop, "took": took, "parts": parts, "card": card}
        raw = RawRecord(b"k", msgspec.json.encode(event), START_MS)
        read = EventDecoder(asked).decode([raw.value], [raw.key], [raw.timestamp_ms])
        try:
            key, _, texts = read_event(declared, raw)
        except UnreadableError:
            key, texts = "", []
        seen.append(bool(key))
        assert [key] * bool(key) == read.keys.to_pylist(), event
        for (paths, is_item, where), text in zip(declared.columns, texts, strict=False):
            name = paths[0][0]
            if is_item:
                assert read.items[items.index(name)][0].as_py() == text, event
            elif where:
                number = read.numbers[numbers.index(name)][0]
                assert str(number) == str(np.nan if text is None else float(text)), event
    assert 10 < sum(seen) < len(seen)


def test_nothing_is_due_of_a_key_that_is_published() -> None:
    """A referee answers for it; all other keys are audited."""
    records = [
        Record(i, b"", encode("ab"[i % 2], START_MS + 10 * i, 1), START_MS) for i in range(100)
    ]
    partition = Partition(topology(publish=("a",), statistics=(Count(),)), records)
    assert partition.emissions.keys() == {"b"}
    assert partition.audit("a") == []
    assert partition.violations("b") == []
    partition.emissions["b"].popitem()
    assert partition.violations("b") == ["not emitted"]


def test_pairs_of_two_fields_are_counted() -> None:
    """Distinct items by a field: each pair once, though texts joined would be one."""
    asked = topology(statistics=(Distinct(field="user", by="country", name="pairs"),))
    users = [("ab", "c"), ("a", "bc"), ("a", "bc"), ('a"', "b"), ("a", '"b')]
    events = [
        {"key": "a", "time": START_MS + i, "value": 1, "user": user, "country": country}
        for i, (user, country) in enumerate(users)
    ]
    events += [{**events[0], "time": START_MS + 10_000}] * 9
    records = [
        Record(i, b"", msgspec.json.encode(event), START_MS) for i, event in enumerate(events)
    ]
    partition = Partition(asked, records)
    whole = next(f for f in partition.audit("a") if f.figure and f.figure.window_ms == 1_000)
    assert whole.verdict is not None
    assert whole.verdict.exact == 4
    assert partition.violations("a") == []
    tick = next(iter(partition.emissions["a"]))
    first = partition.emissions["a"][tick]
    wrong = msgspec.structs.replace(first.figures[-1], estimate=5.0, lower=5.0, upper=5.0)
    partition.emissions["a"][tick] = msgspec.structs.replace(
        first, figures=[*first.figures[:-1], wrong]
    )
    assert partition.violations("a") == ["more off than promised"]


ADDED = (Mean(), Minimum(epsilon=0), TopItems(), Quantiles(), LandmarkCount(), Sample(size=3))


def test_figures_of_statistics_that_were_added_are_judged_from_their_start() -> None:
    """In each window they are of the events since then, and of those alone: with another start the
    same figures are violations.
    """
    before = topology(statistics=(Count(),))
    after = topology(statistics=(Count(), *ADDED))
    records = [
        Record(place, None, encode("k", START_MS + 13 * place, place % 7), START_MS)
        for place in range(150)
    ]
    store = MemoryStore()
    first = PartitionProcessor(before, SOURCE, PARTITION, store)
    emitted = emissions_of(outputs_of(first.process(batch_of(records[:50]))))
    by_others = {emission.window_end_ms for emission in emitted}
    snapshot = first.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    second = PartitionProcessor(after, SOURCE, PARTITION, store, change_statistics=True)
    found = emissions_of(outputs_of(second.process(batch_of(records[50:]))))
    audited = Partition(after, records)

    def violations(emissions: Iterable[Emission]) -> list[Finding]:
        by_tick = {emission.window_end_ms: emission for emission in emissions}
        place = audited.declaration, audited.keys["k"], "k", by_tick, audited.watermark, NEVER_MS
        return [it for it in audit_key(*place, by_others=by_others) if it.violation]

    assert any(f.counted_from_ms is not None for e in found for f in e.figures)
    assert violations(found) == []
    earlier = [
        structs.replace(e, figures=[structs.replace(f, counted_from_ms=None) for f in e.figures])
        for e in found
    ]
    assert {it.figure.statistic for it in violations(earlier) if it.figure} >= {
        "landmark_count",
        "top",
    }


def test_objectives_and_the_past_in_derived_figures_are_audited() -> None:
    """Burn rates, with events that are neither good nor bad, and ratios to the past are recounted:
    what is written holds, and a rate that was made up does not.
    """
    asked = Topology(
        name="law",
        source=SOURCE,
        span="1s",
        every="100ms",
        windows=("200ms",),
        derived=("up_bad_200ms / ago(up_bad_200ms, '300ms') as worse",),
        slos=(Slo(name="up", good="value < 5", objective=0.9, alerts=[]),),
    )
    rng = Random(3)
    values = [rng.choice((1, 3, 7, 9, None)) for _ in range(200)]
    records = [
        Record(
            i, None, json.dumps({"key": "a", "time": START_MS + 13 * i, "value": value}).encode(), 0
        )
        for i, value in enumerate(values)
    ]
    partition = Partition(asked, records)
    names = {figure.statistic for it in partition.emissions["a"].values() for figure in it.figures}
    assert {"worse", "up_burn_200ms", "up_budget_left"} <= names
    assert partition.violations("a") == []
    tick = max(it for it in partition.emissions["a"] if it < START_MS + 2_500)
    emission = partition.emissions["a"][tick]
    for name in ("worse", "up_burn_200ms", "up_budget_left"):
        made_up = [
            structs.replace(it, estimate=77.0, lower=76.0, upper=78.0)
            if it.statistic == name
            else it
            for it in emission.figures
        ]
        partition.emissions["a"][tick] = structs.replace(emission, figures=made_up)
        assert any(name in it or "bounds" in it for it in partition.violations("a")), name
        partition.emissions["a"][tick] = emission
