"""A party that is idle is not one that is gone: it is in provisional answers, not in final ones."""

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from slidestat import RefereeDriver
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.clock import EventClock
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import Emission
from slidestat.schemas.synopsis import (
    ClockKey,
    PartyClock,
    ProvisionalKey,
    SynopsisKey,
    decode_key,
    encode_key,
)
from slidestat.testing.records import MemoryStore
from tests.engine.cases import EVERY_STATISTIC, laws
from tests.engine.checks import check_figures
from tests.engine.memory import batch_of
from tests.engine.model import Record

laws = settings(laws, max_examples=24)
START = 1_764_072_000_000
EVERY = 100


def declared(**fields: Any) -> Topology:
    given = {
        "span": "1s",
        "every": f"{EVERY}ms",
        "windows": ("330ms", "1s"),
        "idle": "1s",
        "statistics": (Count(),),
        "publish": "partition",
    }
    return Topology(name="law", source="events", **{**given, **fields})


def sale(at: int, key: str = "k", value: float = 1) -> dict[str, Any]:
    return {"key": key, "time": START + at, "value": value}


@dataclass(frozen=True)
class Step:
    """An event of a party, or (party None) a look of all at the clock on the wall."""

    party: int | None
    at: int
    value: float = 1


@st.composite
def courses(draw: st.DrawFn) -> tuple[int, list[Step]]:
    """What comes to some parties, each in order of time; some of them may never have anything."""
    random = Random(draw(st.integers(0, 2**32)))
    parties, busy = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    # A party's first event says nothing until there is a second.
    now, steps = (
        0,
        [Step(party, -100, 1.0) for party in range(min(parties, busy)) for _ in range(2)],
    )
    clocks = [0] * parties
    for _ in range(draw(st.integers(1, 60))):
        if random.random() < 0.2:
            now = max(now, *clocks) + random.choice([1, 90, 150, 1_500])
            steps.append(Step(None, now))
            continue
        party = random.randrange(min(parties, busy))
        clocks[party] += random.choice([0, 1, 30, 120, 900])
        steps.append(Step(party, clocks[party], random.choice([1.0, 2.5, 70.0])))
    return parties, steps


# A party's last event jumps further than a single one may move its clock. The event before, which
# came after the look, is behind a tick that the party has not come to.
JUMPED = (
    *(Step(party, -100) for party in (0, 0, 1, 1)),
    *[Step(0, 0)] * 16,
    *(Step(0, 900), Step(0, 1_800), Step(None, 3_300), Step(0, 1_810, 70.0), Step(0, 2_700)),
    *(Step(1, 900), Step(1, 1_800), Step(1, 2_700)),
)


@laws
@given(courses())
@example((2, [*JUMPED]))
def test_answers_with_idle_parties_are_of_what_they_had(course: tuple[int, list[Step]]) -> None:
    """Of every statistic: the exact figure over the parties that are named lies within the bounds;
    of one whose clock has not come to the tick, over all it had when it was last idle. What parties
    say at one look comes one after another: an answer in between has the later ones as of the look
    before. What they say while they are idle leaves no trace in final answers.
    """
    parties, steps = course
    topology = declared(statistics=EVERY_STATISTIC)
    driver = RefereeDriver(Referee(of=topology, patience="300ms"), parties)
    clocks = [EventClock(Checkpoint(next_offset=0), lateness=0) for _ in range(parties)]
    had: list[list[Step]] = [[] for _ in range(parties)]
    when_idle: list[list[Step]] = [[] for _ in range(parties)]
    checked = 0
    for step in steps:
        before = when_idle
        if step.party is None:
            when_idle = [list(events) for events in had]
            driver.idle_until(START + step.at)
        else:
            offset = len(had[step.party])
            had[step.party].append(step)
            clocks[step.party].read(np.array([offset]), np.array([START + step.at]))
            driver.send(sale(step.at, value=step.value), partition=step.party)
        for emission in driver.emissions[checked:]:
            end = emission.window_end_ms - START
            # Those of whom the newest is known: all, or so many of this look.
            for known in range(parties, -1, -1):
                values: dict[int, list[Fraction]] = {n: [] for n in topology.window_lengths}
                for name in emission.parties or ():
                    party = int(name.rpartition("/")[2])
                    # Its own watermark has passed the tick, or it would have if nothing came.
                    has_come = clocks[party].time >= START + end
                    idle = when_idle if party < known else before
                    for n in topology.window_lengths:
                        values[n] += [
                            Fraction(event.value)
                            for event in (had if has_come else idle)[party]
                            if end - n <= event.at < end
                        ]
                try:
                    check_figures(topology, emission.figures, values)
                    break
                except AssertionError:
                    if not known:
                        raise
        checked = len(driver.emissions)
    assert not driver.dead_letters
    never_idle = RefereeDriver(driver.referee, parties)
    for step in steps:
        if step.party is not None:
            never_idle.send(sale(step.at, value=step.value), partition=step.party)
    assert final(driver) == final(never_idle)


def final(driver: RefereeDriver) -> list[Emission]:
    """The final answers; where the source stood is another matter."""
    found = (it for it in driver.emissions if not it.provisional)
    return [msgspec.structs.replace(it, source_offset=0) for it in found]


def test_a_partition_without_events_is_present_when_it_is_idle() -> None:
    """Not absent, as one whose worker is gone: the answer comes at once, provisionally, without
    waiting for the patience.
    """
    driver = RefereeDriver(Referee(of=declared(), patience="1h"), partitions=3)
    driver.send(sale(10), sale(120), partition=0)
    driver.send(sale(20), sale(130), partition=1)
    assert driver.emissions == []
    driver.idle_until(START + 1_150)
    found = [(e.window_end_ms - START, e.figures[-1].estimate) for e in driver.emissions]
    # Also the events that no watermark has passed are in; then the window of 330 ms empties.
    assert found == [(100, 2), (200, 4), (500, 4), (600, 4)]
    for emission in driver.emissions:
        assert emission.provisional
        assert emission.parties == ["events/0", "events/1", "events/2"]
        assert emission.absent is None


def test_one_answer_for_what_is_idle() -> None:
    """While nothing comes, nothing is answered again, however long that is, but that windows have
    emptied; what has come is.
    """
    driver = RefereeDriver(Referee(of=declared(), patience="1h"), partitions=2)
    driver.send(sale(10), partition=0)
    for now, ticks in ((1_050, [100, 400, 500]), (1_200, [1_100]), (60_000, []), (3_600_000, [])):
        before = len(driver.emissions)
        driver.idle_until(START + now)
        assert [e.window_end_ms - START for e in driver.emissions[before:]] == ticks
    driver.send(sale(4_000_000), partition=0)
    driver.idle_until(START + 4_002_000)
    again = [400, 500, 1_100]
    later = [4_000_100, 4_000_400, 4_000_500, 4_001_100]
    found = [e.window_end_ms - START for e in driver.emissions]
    assert found == [100, *again, *again, *later]


def test_an_event_that_was_on_its_way_is_answered_for() -> None:
    """Though a later tick has been answered for already, provisionally, in the silence."""
    driver = RefereeDriver(Referee(of=declared(), patience="1h"), partitions=2)
    driver.send(sale(10), partition=0)
    driver.idle_until(START + 2_000)
    driver.send(sale(950), partition=0)
    before = len(driver.emissions)
    driver.idle_until(START + 4_000)
    found = [(e.window_end_ms - START, e.figures[-1].estimate) for e in driver.emissions[before:]]
    assert found == [(1_000, 2), (1_300, 1), (1_400, 1), (2_000, 0)]


def test_events_of_a_key_that_wait_for_the_watermark_are_in() -> None:
    """With a lateness, of keys that are spread: an idle party's synopses have what waits, at each
    of its ticks.
    """
    topology = declared(lateness="250ms", publish=("hot",))
    driver = RefereeDriver(Referee(of=topology, patience="1h"), partitions=4)
    for number in range(4):
        driver.send(sale(10, "hot"), sale(150, "hot"), sale(205, "cold"), partition=number)
    driver.idle_until(START + 2_000)
    found = [(e.key, e.window_end_ms - START, e.figures[-1].estimate) for e in driver.emissions]
    told = [(100, 4), (200, 8), (500, 8), (600, 8), (1_200, 0)]
    assert found == [("hot", tick, events) for tick, events in told]


def published(driver: RefereeDriver) -> list[Record]:
    return [
        Record(i, record.key, record.value, record.timestamp)
        for i, record in enumerate(driver.parties.published)
    ]


def answered(referee: Referee, records: list[Record]) -> list[Emission]:
    processor = RefereeProcessor(referee, referee.source, 0, MemoryStore())
    rows = [record._replace(offset=i) for i, record in enumerate(records)]
    effects = processor.process(batch_of(rows))
    assert not effects.dead_letters
    return [msgspec.json.decode(value, type=Emission) for _, value, _ in effects.emissions]


def test_what_a_worker_says_that_has_lost_the_party_is_passed_over() -> None:
    """One that froze while its party was idle wakes up when others have published more of it."""
    referee = Referee(of=declared(), patience="1h")
    driver = RefereeDriver(referee, partitions=2)
    driver.send(sale(10), sale(10), partition=0)
    driver.send(sale(20), sale(20), partition=1)
    driver.idle_until(START + 5_000)
    idle = [r for r in published(driver) if isinstance(decode_key(r.key or b""), ProvisionalKey)]
    of_one = [record for record in idle if b"events/1" in (record.key or b"")]
    driver.send(*[sale(3_000)] * 3, partition=1)
    driver.send(*[sale(3_050)] * 3, partition=0)
    new = [r for r in published(driver) if r not in idle]
    # Were it believed, there would be an answer at 3,100 without the event at 3,000.
    driver.send(sale(3_150), partition=0)
    latest = published(driver)[len(idle) + len(new) :]
    found = answered(referee, [*new, *of_one, *latest])
    assert [e.window_end_ms - START for e in found] == [100, 400, 500, 1_100]
    assert not any(e.provisional for e in found)


def test_half_of_what_a_party_says_is_not_believed() -> None:
    """A referee that starts again between the synopses of an idle party and its clock has lost
    them: the party is not present on account of its clock alone.
    """
    referee = Referee(of=declared(), patience="1h")
    driver = RefereeDriver(referee, partitions=2)
    driver.send(sale(10), partition=0)
    driver.send(sale(20), partition=1)
    driver.idle_until(START + 5_000)
    records = published(driver)
    assert answered(referee, records)
    for lost, record in enumerate(records):
        if isinstance(decode_key(record.key or b""), ProvisionalKey) and record.value:
            assert answered(referee, records[:lost] + records[lost + 1 :]) == []


def test_it_starts_again_as_if_nobody_had_been_idle() -> None:
    """What idle parties say is not stored; said again, it is there again."""
    referee = Referee(of=declared(), patience="1h")
    driver = RefereeDriver(referee, partitions=2)
    driver.send(sale(10), sale(110), partition=0)
    driver.idle_until(START + 1_500)
    records, store = published(driver), MemoryStore()
    processor = RefereeProcessor(referee, referee.source, 0, store)
    processor.process(batch_of(records))
    assert processor.view().present.absent == []
    snapshot = processor.snapshot()
    assert snapshot is not None
    store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
    again = RefereeProcessor(referee, referee.source, 0, store)
    absent = [(party.party, party.since_ms) for party in again.view().present.absent]
    assert absent == [("events/0", START + 100), ("events/1", None)]
    driver.send(sale(120), partition=0)
    driver.idle_until(START + 1_600)
    later = published(driver)[len(records) :]
    again.process(batch_of([r._replace(offset=len(records) + i) for i, r in enumerate(later)]))
    assert again.view().present.absent == []


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (ProvisionalKey(ClockKey("law", "events/0")), 3),
        (ProvisionalKey(SynopsisKey("law", "count", "events", "events/0")), 5),
    ],
)
def test_a_provisional_key_is_one_part_longer(key: ProvisionalKey, parts: int) -> None:
    """So that compaction keeps both, and no reader takes the one for the other."""
    data = encode_key(key)
    assert len(msgspec.json.decode(data)) == parts
    assert decode_key(data) == key
    with pytest.raises(msgspec.ValidationError):
        decode_key(data.replace(b"provisional", b"final"))


def test_a_final_clock_says_nothing_of_what_is_announced() -> None:
    """Its bytes are those that earlier versions wrote."""
    wire = msgspec.json.encode(PartyClock(1_000, 2, 7))
    assert wire == b'{"tick_ms":1000,"parties":2,"source_offset":7}'
