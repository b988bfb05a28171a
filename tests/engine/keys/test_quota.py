"""No key outgrows its windows: what would is refused, the same records however they are read."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from slidestat import TopologyDriver
from slidestat.declare.statistics import Count, LandmarkSum, Maximum, Mean, Norm, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine import quota
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from tests.engine.cases import laws, topology
from tests.engine.checks import check_emissions, emissions_of
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Partition,
    batch_of,
    rows_of,
)
from tests.engine.model import Fate, Model, Record
from tests.engine.partition.test_partition_crash import same_end
from tests.engine.streams import START_MS, TIMES, encode

LARGEST = float(2**44 // 1000)
VALUES = (LARGEST, LARGEST / 2, LARGEST / 65_536, LARGEST / 65_600, 1.25, 0.0)
QUOTA_OF_LAWS = 3 * quota.STEPS

# An event that is refused as a suspect is charged while it waits: batches may show in that.
WITH_SUSPECTS = {"a clock ahead", "clocks far ahead", "nights", "every few minutes", "sparse"}

SUMMED: dict[str, Topology] = {
    "no lateness": topology(),
    "a little lateness": topology(lateness="150ms"),
    "lateness of the span": topology(lateness="1s"),
    "published partitions": topology(lateness="90ms", publish="partition"),
    "no sums": topology(statistics=(Count(), Maximum(), LandmarkSum())),
    "last events": topology(span="9 events", windows=(), lateness="50ms"),
}


@pytest.fixture
def small_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota of three of the largest values."""
    monkeypatch.setattr(quota, "QUOTA", QUOTA_OF_LAWS)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Topology, list[Record], Random]:
    """Topologies and records of a few keys, with many large values."""
    declared = SUMMED[draw(st.sampled_from(sorted(SUMMED)))]
    times = TIMES[draw(st.sampled_from(sorted(set(TIMES) - WITH_SUSPECTS)))]
    random = Random(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 200))
    records = [
        Record(offset, None, encode(random.choice("ab"), START_MS + time, value), START_MS)
        for offset, time, value in zip(
            range(size), times(random, size), random.choices(VALUES, k=size), strict=True
        )
    ]
    return declared, records, random


def recounted(declared: Topology, records: list[Record]) -> set[int]:
    """The offsets that are refused, by a plain count of each key's quota."""
    model = Model(declared, records)
    if declared.span_length.of_events or not any(s.kind == "sum" for s in declared.statistics):
        return set()
    used: dict[tuple[str, int], int] = {}
    refused = set()
    for record, event, fate in zip(records, model.events, model.fates, strict=True):
        steps = 0 if event is None else int(float(event.value) / LARGEST * 65_536)
        if event is None or fate is not Fate.COUNTED or not steps:
            continue
        account = event.key, event.time // declared.span_length.length
        if used.setdefault(account, 0) >= QUOTA_OF_LAWS:
            refused.add(record.offset)
        else:
            used[account] += steps
    return refused


@pytest.mark.usefixtures("small_quota")
def test_the_quota_is_a_function_of_the_records() -> None:
    """Whatever the batches, crashes and restarts, and from wherever reading starts again: the
    records that are refused are those of a plain count in offset order, each with its letter, the
    same each time; counters, synopses and figures are those of the others.
    """
    refusals = []

    @laws
    @given(streams(), st.lists(st.integers(0, 80), max_size=4))
    def law(stream: tuple[Topology, list[Record], Random], crashes: list[int]) -> None:
        declared, records, random = stream
        refused = recounted(declared, records)
        model = Model(declared, records, refused)
        undisturbed = Partition(declared, records, random)
        undisturbed.live()
        letters = [offset for kind, offset, _ in undisturbed.outputs if kind == "dead letter"]
        assert letters == model.offsets(Fate.DEAD) == sorted(refused)
        check_emissions(declared, model, emissions_of(undisturbed.outputs))
        checkpoint = undisturbed.store().newest_checkpoint(declared)
        assert checkpoint.counters == Counters(*model.counts_before(checkpoint.next_offset))

        partition = Partition(declared, records, random)
        for steps in crashes:
            partition.live(steps, forget_offsets=random.random() < 0.3)
        partition.live(forget_offsets=random.random() < 0.3)
        same_end(partition, undisturbed)
        refusals.append(len(refused))

    law()
    assert sum(map(bool, refusals)) > 30


@pytest.mark.usefixtures("small_quota")
def test_what_was_refused_before_the_watermark_is_refused_again() -> None:
    """Read again because an older record still waits, a record is refused by a state that has left
    its stretch behind; its letter was sent.
    """
    declared = topology(lateness="1s")
    start = START_MS // 1_000 * 1_000
    waits, passes = ("b", 1_500, 0.0), ("b", 2_400, 0.0)
    events = [waits, *[("a", 600, LARGEST)] * 4, passes]
    records = [
        Record(offset, None, encode(key, start + time, value), -1)
        for offset, (key, time, value) in enumerate(events)
    ]
    store = MemoryStore()
    for batches, offsets in (([records], [4]), ([records[:3], records[3:]], [])):
        processor = PartitionProcessor(declared, SOURCE, PARTITION, store)
        letters = [
            letter
            for batch in batches
            for letter in processor.process(batch_of(batch)).dead_letters
        ]
        expected = [(offset, Reason.WINDOW_FULL) for offset in offsets]
        assert [(letter.offset, letter.reason) for letter in letters] == expected
        assert processor.reached.counters == Counters(6, 5, 1, 0)
        snapshot = processor.snapshot()
        if snapshot is not None:
            assert snapshot.next_offset == 0
            store.write(rows_of(snapshot))


def flood(declared: Topology, records: int, value: float, time_ms: int = 0) -> TopologyDriver:
    """A driver that had so many records of one hot key, and one of another key after each 1,000."""
    driver = TopologyDriver(declared)
    hot = {"key": "hot", "time": START_MS + time_ms, "value": value}
    for _ in range(records // 1_000):
        driver.send(*[hot] * 1_000, {**hot, "key": "cold", "value": 2.5}, partition=0)
    return driver


def window(statistics: tuple[Statistic, ...], span: str = "10m", every: str = "1m") -> Topology:
    return topology(span=span, every=every, windows=(), statistics=statistics)


def test_a_hot_key_of_the_largest_values_stops_nothing() -> None:
    """Of 300,000 of the largest values of one key in one window, 65,536 are counted and the others
    are dead letters with the reason; another key loses none, and the figures' bounds hold. In the
    next stretch of the span the key counts again, and a window over both has all that was.
    """
    declared = window((Count(), Sum(), Mean(epsilon=0.1)))
    largest = float(2**40 // 1000)
    driver = flood(declared, 300_000, largest)
    assert len(driver.dead_letters) == 300_000 - 65_536
    assert {letter.reason for letter in driver.dead_letters} == {Reason.WINDOW_FULL}
    assert "value: the key's values from" in driver.dead_letters[0].detail
    # The stretch ends at a multiple of the span: one minute before the window does.
    span = 600_000
    following = (START_MS // span + 1) * span + 1_000 - START_MS
    more = {"key": "hot", "time": START_MS + following, "value": largest}
    for _ in range(70):
        driver.send(*[more] * 1_000, partition=0)
    assert len(driver.dead_letters) == 300_000 + 70_000 - 2 * 65_536
    driver.close_windows()
    ends = [e.window_end_ms for e in driver.emissions if e.key == "hot"]
    exact = {"count": 65_536, "sum": 65_536 * int(largest), "mean": int(largest)}
    for name, value in exact.items():
        figure = driver.figure("hot", name, "10m", at=ends[0])
        assert figure.lower is not None
        assert figure.upper is not None
        assert figure.lower <= value <= figure.upper
    assert driver.figure("cold", "sum", "10m", at=ends[0]).estimate == pytest.approx(750, rel=0.01)


@pytest.mark.parametrize("statistic", [Sum(), Mean()], ids=["sum", "mean"])
def test_full_windows_are_within_what_synopses_hold(statistic: Sum | Mean) -> None:
    """The fullest window touches two stretches whose quotas are used up at its two ends."""
    declared = window((statistic,))
    largest = statistic.limits.most
    span = 600_000
    border = (START_MS // span + 1) * span
    driver = TopologyDriver(declared)
    for time in (border - 1, border + span - 2):
        event = {"key": "hot", "time": time, "value": largest}
        # A value of less than a step of the largest is not charged.
        small = {**event, "value": largest / 65_600}
        driver.send(*[event] * 70_000, *[small] * 5_000, partition=0)
    assert len(driver.dead_letters) == 2 * (70_000 - 65_536)
    driver.advance_to(border + span + 60_000)
    assert driver.figure("hot", statistic.kind, "10m").estimate is not None


def test_windows_of_many_events_take_smaller_values() -> None:
    """Up to 131,072 events, the largest values are those of windows of time; of more events, less:
    so that a window of the largest holds no more.
    """
    few, many = (window((Sum(),), span=f"{n} events") for n in (131_072, 262_144))
    assert [t.columns.numbers[0].limits.most for t in (few, many)] == [LARGEST, LARGEST / 2]
    driver = flood(many, 264_000, LARGEST / 2)
    assert not driver.dead_letters
    driver.send({"key": "hot", "time": START_MS, "value": LARGEST}, partition=0)
    assert [letter.reason for letter in driver.dead_letters] == [Reason.VALUE_TOO_LARGE]
    driver.advance_to(START_MS + 60_000)
    sums = driver.figure("hot", "sum", "262144 events")
    assert sums.lower <= 262_144 * int(LARGEST) // 2 <= sums.upper


@pytest.mark.usefixtures("small_quota")
def test_events_of_a_norm_are_charged_one_by_one() -> None:
    """No norm is given more events than it holds, also of a topology that reads no number: those
    beyond are dead letters, and another key loses none.
    """
    holds = QUOTA_OF_LAWS // (quota.STEPS * quota.STEPS >> 28)
    declared = window((Norm(field="key", p=1, epsilon=0.5),))
    driver = flood(declared, 13_000, 1.0)
    assert len(driver.dead_letters) == 13_000 - holds
    assert {letter.reason for letter in driver.dead_letters} == {Reason.WINDOW_FULL}
    assert "the key's events from" in driver.dead_letters[0].detail
    driver.close_windows()
    end = driver.emissions[0].window_end_ms
    norm = driver.figure("hot", "norm_key", "10m", at=end)
    assert norm.lower <= holds <= norm.upper
    assert driver.figure("cold", "norm_key", "10m", at=end).estimate == 13
    # Of a key's last events there are never more than the span.
    driver = flood(window((Norm(field="key", p=1, epsilon=0.5),), span="100 events"), 13_000, 1.0)
    assert not driver.dead_letters


def test_a_norm_of_more_events_than_it_holds_is_refused() -> None:
    """It is said when it is declared."""
    window((Norm(field="key"),), span=f"{2**29} events")
    with pytest.raises(SlidestatError, match="norm is asked for"):
        window((Norm(field="key"),), span=f"{2**29 + 1} events")
