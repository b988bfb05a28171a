"""The clock of a partition: what wrong clocks, jumps, gaps and few records do to it."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint, decode_checkpoint
from slidestat.engine.clock import LEAST_STEP, EventClock
from slidestat.engine.intake.letters import Letter
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.schemas.dead_letter import Reason
from slidestat.synopses.core.arrays import Integers
from tests.engine.cases import laws
from tests.engine.memory import PARTITION, SOURCE, MemoryStore
from tests.engine.model import Clock
from tests.engine.streams import START_MS

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def clocked(lateness: str, every: str = "1m") -> Topology:
    return Topology(
        name="law",
        source=SOURCE,
        span="2h",
        every=every,
        lateness=lateness,
        statistics=(Count(epsilon=0.1),),
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a stream: offsets of late and of dead records."""

    processor: PartitionProcessor
    late: set[int]
    dead: dict[int, Letter]


def taken(topology: Topology, times: Integers, keys: Callable[[int], str], size: int) -> Outcome:
    """The outcome of a stream that comes in batches of `size`."""
    processor = PartitionProcessor(topology, SOURCE, PARTITION, MemoryStore())
    late, dead = [], []
    for start in range(0, len(times), size):
        rows = range(start, min(start + size, len(times)))
        values = [b'{"key":"%s","time":%d}' % (keys(i).encode(), times[i]) for i in rows]
        batch = RecordBatch(
            SOURCE,
            PARTITION,
            np.arange(rows.start, rows.stop),
            [None] * len(rows),
            values,
            [-1] * len(rows),
            rows.start,
        )
        effects = processor.process(batch)
        late += [letter.offset for letter in effects.late]
        dead += effects.dead_letters
    assert all(letter.reason is Reason.FROM_THE_FUTURE for letter in dead)
    return Outcome(processor, set(late), {letter.offset: letter for letter in dead})


def many(i: int) -> str:
    return f"k{i * 7919 % 100}"


@pytest.mark.parametrize(
    ("lateness", "disorder_ms", "per_second"),
    [
        ("0s", 0, 1_000),
        ("0s", 0, 10),
        ("10s", 3_000, 1_000),
        ("10s", 10_000, 1_000),
        ("1m", 60_000, 1_000),
        ("5m", 300_000, 100),
        ("1h", 600_000, 100),
    ],
)
def test_one_wrong_clock_in_ten_thousand(lateness: str, disorder_ms: int, per_second: int) -> None:
    """One in 10,000 events lies anywhere up to a day ahead: fewer than 0.01 % of the good ones are
    late, none is dead, and of the wrong ones those that lie beyond lateness and step are.
    """
    random = np.random.default_rng(19)
    count = 300_000
    good = START_MS + np.arange(count) * (SECOND // per_second)
    good -= random.integers(0, disorder_ms + 1, count)
    wrong = random.random(count) < 1 / 10_000
    ahead = random.integers(1, DAY, count) * wrong
    outcome = taken(clocked(lateness), good + ahead, many, 20_000)
    assert len(outcome.late) < count / 10_000
    assert set(outcome.dead) <= set(np.flatnonzero(wrong).tolist())
    topology = clocked(lateness)
    for offset in np.flatnonzero(ahead > 2 * topology.lateness_ms + 3 * SECOND + disorder_ms):
        assert offset in outcome.dead or offset > count - 16


def _steady(count: int) -> Integers:
    return START_MS + np.arange(count) * 100


def _several_together() -> tuple[Integers, set[int]]:
    times, wrong = _steady(3_000), {1_000, 1_001, 1_003, 1_004, 1_005, 1_009, 1_010, 1_013}
    for place in wrong:
        times[place] += HOUR + 60 * place
    return times, wrong


def _first() -> tuple[Integers, set[int]]:
    times = _steady(3_000)
    times[0] += 59 * MINUTE
    return times, {0}


def _second() -> tuple[Integers, set[int]]:
    times = _steady(3_000)
    times[1] += 59 * MINUTE
    return times, {1}


def _steady_device() -> tuple[Integers, set[int]]:
    times, wrong = _steady(20_000), set(range(50, 19_900, 100))
    for place in wrong:
        times[place] += 30 * MINUTE
    return times, wrong


def _clock_that_runs_away() -> tuple[Integers, set[int]]:
    """A device whose clock runs twice as fast: refused once it is too far off, it moves nothing."""
    times, wrong = _steady(20_000), set(range(5_000, 19_900, 100))
    for place in wrong:
        times[place] += (place - 4_900) * 100
    return times, wrong


def _quiet() -> tuple[Integers, set[int]]:
    times, wrong = START_MS + np.arange(2_000) * MINUTE, {700, 1_500}
    for place in wrong:
        times[place] += 6 * HOUR
    return times, wrong


def _after_a_night() -> tuple[Integers, set[int]]:
    times = _steady(3_000)
    times[1_500:] += 9 * HOUR
    times[1_504] += HOUR
    return times, {1_504}


ADVERSARIES = {
    "several close together": _several_together,
    "the first record": _first,
    "the second record": _second,
    "a device, one in a hundred": _steady_device,
    "a clock that runs away": _clock_that_runs_away,
    "an event a minute": _quiet,
    "just after a night": _after_a_night,
}


@pytest.mark.parametrize("name", sorted(ADVERSARIES))
# Each size and each kind of keys, small batches with one of them: the clock reads no key.
@pytest.mark.parametrize(
    ("keys", "size"),
    [(many, 1), (lambda _: "a", 7), (many, 5_000), (lambda _: "a", 5_000)],
    ids=["many keys-1", "one key-7", "many keys-5000", "one key-5000"],
)
def test_adversaries(name: str, keys: Callable[[int], str], size: int) -> None:
    """Each wrong record is dead, no good one is late or dead, and at the end event time is that of
    the newest good one; whatever the batches.
    """
    times, wrong = ADVERSARIES[name]()
    # A batch costs as much as hundreds of records, and a tick as a batch: small batches have the
    # first faults alone, and ticks are far apart.
    most = {1: 1_600, 7: 7_000}.get(size)
    outcome = taken(clocked("0s", every="1h"), times[:most], keys, size)
    read = outcome.processor.next_offset
    good = [time for place, time in enumerate(times[:read].tolist()) if place not in wrong]
    near = {p for p in wrong if name == "a clock that runs away" and p < 5_200}
    assert outcome.late <= near | set(range(5_000, 5_500) if near else ())
    assert {p for p in wrong if p < read} - near <= set(outcome.dead) <= wrong
    assert outcome.processor.watermark == max(good)
    counters = outcome.processor.reached.counters
    assert counters.read == counters.counted + counters.dead + counters.late == read


def test_a_letter_says_how_far_ahead_of_the_others_it_was() -> None:
    times = _steady(100)
    times[50] += 59 * MINUTE
    letter = taken(clocked("0s"), times, many, 10).dead[50]
    # The clock was at the record of 15 places on.
    assert letter.detail == f"{59 * MINUTE - 1_500} ms ahead of the records around it"
    assert str(times[50]).encode() in (letter.value or b"")


@pytest.mark.parametrize("gap_ms", [10 * SECOND, 9 * HOUR, 40 * DAY])
@pytest.mark.parametrize("lateness", ["0s", "10s"])
def test_true_jumps_are_followed(gap_ms: int, lateness: str) -> None:
    """After a gap that all records make the ninth moves the clock: none is late or dead."""
    times = _steady(2_000)
    times[1_000:] += gap_ms
    topology = clocked(lateness)
    before = taken(topology, times[:1_008], many, 1_008)
    assert before.processor.watermark == times[999] - topology.lateness_ms
    assert before.processor.reached.counters.read == 1_000
    after = taken(topology, times[:1_009], many, 1_009)
    assert after.processor.watermark == times[1_008] - topology.lateness_ms
    assert after.processor.reached.counters.counted == 1_009
    whole = taken(topology, times, many, 100)
    assert not whole.late
    assert not whole.dead


def test_where_records_are_far_apart_a_step_is_as_long() -> None:
    """An event every minute, or twenty at once every minute: from the third record on the clock is
    that of the newest record, or of a record of its minute.
    """
    clock = EventClock(Checkpoint(0), 0)
    apart = START_MS + np.arange(500) * MINUTE
    assert clock.read(np.arange(500), apart).clocks[2:].tolist() == apart[2:].tolist()
    for together in (2, 5, 9, 20):
        clock = EventClock(Checkpoint(0), 0)
        times = START_MS + np.arange(2_000) // together * MINUTE
        clocks, refused = clock.read(np.arange(2_000), times)
        assert not refused
        last_of_each = slice(together * 20 - 1, None, together)
        assert clocks[last_of_each].tolist() == times[last_of_each].tolist()


def test_history_that_is_replayed_behind_itself_is_late() -> None:
    times = np.concatenate((_steady(1_000), _steady(1_000)))
    outcome = taken(clocked("0s"), times, many, 300)
    assert outcome.late == set(range(1_000, 1_999))
    assert not outcome.dead


def test_a_suspect_at_the_end_waits() -> None:
    """It holds up its own commit alone, and is in no counter; it is provisional in its time."""
    times = _steady(100)
    times[99] += HOUR
    processor = taken(clocked("0s"), times, many, 30).processor
    snapshot = processor.snapshot()
    assert snapshot is not None
    assert snapshot.next_offset == 99
    assert processor.next_offset == 100
    assert processor.reached.counters.read == 99
    ends = [
        [end for effects in processor.provisional(now) for _, _, end in effects.emissions]
        for now in (int(times[98]) + MINUTE, int(times[99]) + DAY)
    ]
    assert max(ends[0]) < times[99] < max(ends[1])


STREAMS: dict[str, list[int | None]] = {
    "near": [0, 1, 30, -20, 300],
    "a second or so": [0, 999, 1_000, 1_001, -1_000, None],
    "disorder": [0, 40, 5_000, -5_000, 9_000, -9_000],
    "rogues": [5] * 20 + [10**6, -(10**6)],
    "nights": [5] * 20 + [10**7],
    "anything": [None, 0, 7, -7, 2_000, -2_500, 10**5, -(10**5), 10**8, -(10**8)],
}


@laws
@given(
    st.sampled_from(sorted(STREAMS)),
    st.sampled_from([0, 150, 8_000, 100_000]),
    st.integers(1, 150),
    st.integers(0, 2**32),
)
def test_the_clock_is_that_of_the_document(name: str, lateness: int, size: int, seed: int) -> None:
    """Against plain Python: in any batches, and from any record on as a checkpoint there has it."""
    random, time, times = Random(seed), START_MS, []
    for _ in range(size):
        jump = random.choice(STREAMS[name])
        time += jump or 0
        times.append(NO_TIME if jump is None else time)
    offsets = np.cumsum([random.choice([1, 1, 3]) for _ in times])
    model, expected, refused = Clock(lateness), [], []
    for offset, moment in zip(offsets.tolist(), times, strict=True):
        if moment != NO_TIME and (unconfirmed := model.read(offset, moment)):
            refused.append(unconfirmed)
        expected.append(max(model.time, NO_TIME))

    clock, settled, place = EventClock(Checkpoint(0), lateness), 0, 0
    clocks, found = [], []
    while place < size:
        end = place + random.randint(1, 40)
        reading = clock.read(offsets[place:end], np.array(times[place:end]))
        clocks[place:], place = reading.clocks.tolist(), min(end, size)
        found += reading.refused
        if random.random() < 0.5:  # A checkpoint, at any record since the last one.
            settled = random.randint(settled, place)
            next_offset = int(offsets[settled - 1]) + 1 if settled else 0
            recent = clock.settle(next_offset)
            if random.random() < 0.5:  # A crash: reading begins there again.
                reached = clocks[settled - 1] if settled else NO_TIME
                stored = msgspec.msgpack.encode(Checkpoint(next_offset, reached, recent=recent))
                clock = EventClock(msgspec.msgpack.decode(stored, type=Checkpoint), lateness)
                place = settled
    assert clocks == expected
    # One that was read before a crash is refused again, and its offset is not known any more.
    assert {offset for offset, *_ in found} - {-1} <= {offset for offset, _ in refused}
    assert {ahead for _, ahead, _ in found} == {ahead for _, ahead in refused}


@laws
@given(st.sampled_from(sorted(STREAMS)), st.integers(0, 2**32))
def test_eight_of_sixteen_move_nothing(name: str, seed: int) -> None:
    """Whatever eight of any 16 records in a row say: beyond what the others come to in order, the
    clock goes by two steps at most.
    """
    random = Random(seed)
    good = START_MS + np.arange(400) * 3
    times = good.copy()
    # The same places of each 16: so there are eight in any 16 in a row.
    places = random.sample(range(16), 8)
    wrong = [i for i in range(16, 400) if i % 16 in places]
    times[wrong] += [abs(random.choice(STREAMS[name]) or 0) * 7 for _ in wrong]
    clocks = EventClock(Checkpoint(0), 0).read(np.arange(400), times).clocks
    assert (clocks[1:] <= good[1:] + 2 * LEAST_STEP).all()


def test_a_checkpoint_of_version_1_goes_on() -> None:
    """It has the largest time alone: the next record that is near moves the clock."""
    stored = msgspec.msgpack.encode([1, [7, START_MS, [7, 7, 0, 0]], {}])
    checkpoint = decode_checkpoint(stored, {})
    clock = EventClock(checkpoint, 0)
    assert clock.time == START_MS
    assert clock.read(np.array([7]), np.array([START_MS + 900])).clocks.tolist() == [START_MS + 900]
    far = EventClock(checkpoint, 0)
    assert far.read(np.array([7]), np.array([START_MS + HOUR])).clocks.tolist() == [START_MS]
