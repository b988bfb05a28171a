"""Windows that may lack records which were gone before they were read say so."""

from dataclasses import replace
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from slidestat.declare.rankings import Ranking
from slidestat.declare.statistics import Count, LandmarkCount, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Loss, decode_checkpoint, joined
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import Publication
from slidestat.engine.records import RecordBatch
from slidestat.live.live_query import LiveQuery
from slidestat.live.live_ranking import KeySlice, LiveRanking
from slidestat.schemas.emission import Emission
from slidestat.schemas.ranking import PublishedPart
from slidestat.text import Row
from tests.engine.cases import laws
from tests.engine.memory import PARTITION, SOURCE, MemoryStore

START = 1_600_000_000_000
LATENESS, AHEAD = 3_000, 20_000
TOPOLOGY = Topology(
    name="lossy",
    source=SOURCE,
    span="1m",
    every="5s",
    windows=("5s", "30s"),
    lateness="3s",
    ahead="20s",
    statistics=(Count(epsilon=0.1),),
)
_decode = msgspec.json.Decoder(Emission).decode


class Source:
    """Events in the order of their records' timestamps: most of them of late, some further back,
    and a few of a clock that is as far ahead as it may be.
    """

    def __init__(self, random: Random, count: int) -> None:
        self.timestamps = [START + 700 * i for i in range(count)]
        self.times = [
            time + random.choice([0, 0, 0, -LATENESS // 2, -LATENESS, -2 * LATENESS])
            for time in self.timestamps
        ]
        if random.random() < 0.5:
            rogue = random.randrange(count)
            self.times[rogue] = self.timestamps[rogue] + random.randint(0, AHEAD)
        self.values = [
            b'{"key":"%s","time":%d,"value":1}' % (random.choice([b"a", b"b"]), time)
            for time in self.times
        ]

    def batch(self, first: int, end: int) -> RecordBatch:
        return RecordBatch(
            SOURCE,
            PARTITION,
            np.arange(first, end),
            [None] * (end - first),
            self.values[first:end],
            self.timestamps[first:end],
            first,
        )


def processor(
    topology: Topology = TOPOLOGY, store: MemoryStore | None = None
) -> PartitionProcessor:
    return PartitionProcessor(topology, SOURCE, PARTITION, store or MemoryStore())


def fed(
    one: PartitionProcessor, source: Source, first: int, end: int, random: Random
) -> list[bytes]:
    """What records [first, end) lead to, in batches of any size."""
    emissions = []
    while first < end:
        part = min(end, first + random.randint(1, 40))
        emissions += [value for _, value, _ in one.process(source.batch(first, part)).emissions]
        first = part
    return emissions


@pytest.mark.parametrize("stamp", [-1, 0, 2**63 - 1])
def test_a_loss_ends_with_no_timestamp_that_bounds_it(stamp: int) -> None:
    """Records of old producers have none, and others are in microseconds: an event may be missing
    from all windows then, up to the last time that an event may have.
    """
    source = Source(Random(0), 200)
    source.timestamps = [stamp] * 200
    one = processor()
    fed(one, source, 0, 20, Random(0))
    one.lose(20, 40)
    after = [_decode(value) for value in fed(one, source, 40, 200, Random(0))]
    assert len(after) > 10
    for emission in after:
        assert emission.lost is not None
        assert emission.lost.until_ms in (None, 4_102_444_800_000)


@pytest.mark.parametrize("seed", range(50))
def test_no_window_lacks_a_record_without_saying_so(seed: int) -> None:
    """Whichever event of a lost record would have been counted: each emission whose windows it
    belongs to is marked. What comes before the loss has the bytes that it always had, and batches
    do not show.
    """
    random = Random(seed)
    source = Source(random, 200)
    first = random.randint(1, 150)
    end = random.randint(first + 1, 180)
    whole = processor()
    refused = {
        letter.offset
        for effects in whole.steps(source.batch(0, 200))
        for letter in (*effects.late, *effects.dead_letters)
    }
    lost = [source.times[offset] for offset in range(first, end) if offset not in refused]

    runs = []
    for _ in range(2):
        one = processor()
        before = fed(one, source, 0, first, random)
        one.lose(first, end)
        runs.append((before, fed(one, source, end, 200, random)))
    assert runs[0] == runs[1]
    before, after = runs[0]
    assert before == [
        value for _, value, _ in processor().process(source.batch(0, first)).emissions
    ]
    for value in after:
        emission = _decode(value)
        if emission.lost is not None:
            assert emission.lost.records == end - first
            continue
        window_end = emission.window_end_ms
        assert not [time for time in lost if window_end - 30_000 <= time < window_end]


TIMES = st.integers(0, 12)


@laws
@given(TIMES, TIMES, TIMES.map(lambda n: n + 1))
def test_a_loss_concerns_the_windows_that_have_a_time_of_it(
    first: int, last: int, length: int
) -> None:
    """Once it is closed; while it is open, all that end behind its first time."""
    loss, ends = Loss(1, first, first), np.arange(30)
    assert loss.concerns(ends, length).tolist() == (ends > first).tolist()
    closed = loss.closed(last)
    assert not closed.is_open
    times = set(range(first, max(first, last) + 1))
    assert closed.concerns(ends, length).tolist() == [
        not times.isdisjoint(range(end - length, end)) for end in ends.tolist()
    ]
    assert closed.concerns(ends, None).tolist() == (ends > first).tolist()


@laws
@given(TIMES, TIMES, TIMES, TIMES, TIMES.map(lambda n: n + 1) | st.none())
def test_losses_that_windows_still_lack_are_joined(
    first: int, last: int, second: int, since: int, length: int | None
) -> None:
    """The records of both are counted, and every window that ends behind the watermark and may
    lack records of one is one that may lack those of both.
    """
    before, watermark = Loss(2, first, first).closed(last), first + since
    found = joined(before, 3, second, watermark, length)
    ends = np.arange(watermark + 1, watermark + 40)
    concerned = before.concerns(ends, length)
    assert found.records == (5 if concerned[0] else 3)
    assert found.is_open
    for one in (before, Loss(3, second, second)):
        assert not np.any(one.concerns(ends, length) & ~found.concerns(ends, length))
    assert found.closed(0).last == max(second, before.last if concerned[0] else 0)
    assert joined(None, 3, second, watermark, length) == Loss(3, second, second)


def test_marks_end_where_the_windows_lack_nothing() -> None:
    """A loss marks the emissions of a while, and is counted beside what was read."""
    source = Source(Random(1), 400)
    one = processor()
    one.process(source.batch(0, 50))
    one.lose(50, 80)
    marks = [
        _decode(value).lost is not None
        for _, value, _ in one.process(source.batch(80, 400)).emissions
    ]
    assert marks[0]
    assert not marks[-1]
    assert marks == sorted(marks, reverse=True)
    snapshot = one.snapshot()
    assert snapshot is not None
    counters = decode_checkpoint(snapshot.checkpoint, TOPOLOGY.state_meaning).counters
    assert counters.lost == 30
    assert counters.read == counters.counted + counters.dead + counters.late


def test_what_reads_the_past_is_marked_as_long_as_it_reads_the_loss() -> None:
    """Its own windows may lack nothing any more: whether it is written, or what a derived figure
    or a place in a ranking is, depends on earlier ones.
    """
    source = Source(Random(1), 400)
    before = "ago(count_30s, '30s')"
    having = f"count_30s > 0.5 * {before}"
    rankings = (
        Ranking(name="most", by="count_30s", largest=3),
        Ranking(name="chosen", by="count_30s", largest=3, having=having),
        Ranking(name="risen", by="more", largest=3),
    )
    declared = {
        "always": TOPOLOGY,
        "chosen": replace(TOPOLOGY, having=having),
        "derived": replace(TOPOLOGY, derived=(f"count_30s - {before} as more",), rankings=rankings),
    }
    ends, ranked = {}, {}
    for name, topology in declared.items():
        one = processor(replace(topology, emit="always"))
        one.process(source.batch(0, 50))
        one.lose(50, 80)
        effects = one.process(source.batch(80, 400))
        found = [_decode(value) for _, value, _ in effects.emissions]
        ends[name] = max(it.window_end_ms for it in found if it.lost is not None)
        for record in effects.published:
            if isinstance(record, Publication):
                part = msgspec.json.decode(record.synopsis, type=PublishedPart)
                if any(it.lost for it in part.contenders):
                    ranked[record.stream] = record.tick
    later = ends["always"] + 30_000
    assert ends == {"always": ends["always"], "chosen": later, "derived": later}
    assert ranked == {"most": ends["always"], "risen": later, "chosen": later}


def test_a_loss_outlives_a_restart() -> None:
    """Also one behind which nothing has come yet; two of them are one as long as both matter."""
    source = Source(Random(2), 200)
    store, one = MemoryStore(), processor()
    one.process(source.batch(0, 50))
    one.lose(50, 60)
    one.process(source.batch(60, 100))
    one.lose(100, 110)
    first = one.view().loss
    assert first is not None
    assert first.is_open
    assert first.records == 20
    snapshot = one.snapshot()
    assert snapshot is not None
    # What waits for the watermark is read again: the checkpoint lies before the second loss.
    checkpoint = decode_checkpoint(snapshot.checkpoint, TOPOLOGY.state_meaning)
    assert checkpoint.next_offset < 100
    assert checkpoint.counters.lost == 10
    store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
    again = processor(store=store)
    again.process(source.batch(again.next_offset, 100))
    again.lose(100, 110)
    assert again.view().loss == first
    assert again.process(source.batch(110, 200)) == one.process(source.batch(110, 200))


@pytest.mark.parametrize(
    "changed",
    [
        {"span": "50 events", "windows": ("10 events",)},
        {"statistics": (Count(epsilon=0.1), LandmarkCount())},
    ],
)
def test_windows_that_reach_back_over_any_time_are_marked_for_ever(changed: dict) -> None:
    """Those of a key's last events, and totals since its first."""
    source = Source(Random(1), 400)
    one = processor(replace(TOPOLOGY, **changed))
    assert not any(
        _decode(value).lost for _, value, _ in one.process(source.batch(0, 50)).emissions
    )
    one.lose(50, 80)
    emissions = one.process(source.batch(80, 400)).emissions
    assert all(_decode(value).lost is not None for _, value, _ in emissions)


def test_emissions_that_are_written_one_by_one_say_it_too() -> None:
    """Those that list items, in the same order as those of numbers."""
    source = Source(Random(1), 400)
    found = []
    for statistics in ((Count(),), (Count(), TopItems(field="key"))):
        one = processor(replace(TOPOLOGY, statistics=statistics))
        one.process(source.batch(0, 50))
        one.lose(50, 80)
        emissions = one.process(source.batch(80, 400)).emissions
        found.append([(key, _decode(value).lost) for key, value, _ in emissions])
    assert found[0] == found[1]
    assert {lost is None for _, lost in found[0]} == {True, False}


def test_questions_are_answered_with_what_they_may_lack() -> None:
    """By the windows that are asked for; and to people, by the window of each figure."""
    source = Source(Random(1), 400)
    one = processor()
    one.process(source.batch(0, 50))
    query = LiveQuery(TOPOLOGY)
    before = query.answer(one.view(), "a")
    assert before is not None
    assert before.lost is None
    one.lose(50, 80)
    one.process(source.batch(80, 100))
    view = one.view()
    assert view.loss is not None
    answer = query.answer(view, "a")
    assert answer is not None
    assert answer.lost == view.loss.as_record()
    row = Row("a", answer.window_end_ms, answer.figures[0], lost=answer.lost)
    assert row.marks == "may lack 30 lost records"
    behind = view.loss.last + 10_000
    marks = {
        figure.window_ms: Row("a", behind, figure, lost=answer.lost).marks
        for figure in answer.figures
    }
    assert marks == {5_000: "", 30_000: "may lack 30 lost records"}


def test_answers_with_derived_figures_have_their_mark() -> None:
    """Those read windows of the topology, and of the past, whatever windows are asked for."""
    source = Source(Random(1), 400)
    declared = replace(TOPOLOGY, derived=("count_30s - ago(count_30s, '30s') as more",))
    one = processor(declared)
    one.process(source.batch(0, 50))
    one.lose(50, 80)
    questions = [
        (5_000, LiveQuery(declared, ["5s"], ["count"])),
        (30_000, LiveQuery(declared, statistics=["count"])),
        (60_000, LiveQuery(declared, ["5s"])),
        (60_000, LiveQuery(declared, statistics=["more"])),
        (60_000, LiveQuery(declared)),
    ]
    rankings = [
        (30_000, LiveRanking(declared, "count_30s")),
        (60_000, LiveRanking(declared, "more")),
    ]
    for first in range(80, 400):
        one.process(source.batch(first, first + 1))
        view = one.view()
        assert view.loss is not None

        def may_lack(end: int, reach: int, loss: Loss = view.loss) -> bool:
            return end > loss.first and (loss.is_open or end - reach <= loss.last)

        for reach, question in questions:
            answer = question.answer(view, "a")
            assert answer is not None
            assert (answer.lost is not None) == may_lack(answer.window_end_ms, reach)
        for reach, ranking in rankings:
            [it] = ranking.answer(ranking.part(KeySlice.of(view, ["a"]))).places
            assert it.lost == may_lack(it.window_end_ms, reach)
    assert not it.lost
