"""Numbers of a global sequence as event times: windows of the last n, whoever saw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import RefereeDriver, TopologyDriver
from slidestat.cli.spark import rollup
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Distinct, Mean, Rate, Statistic, Sum
from slidestat.declare.topology import Topology, require_times
from slidestat.engine.effects import Effects
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.testing.records import MemoryStore
from tests.engine.cases import EVERY_STATISTIC, laws
from tests.engine.checks import check_figures
from tests.engine.memory import batch_of
from tests.engine.model import Record

laws = settings(laws, max_examples=20)

OF_NUMBERS = tuple(statistic for statistic in EVERY_STATISTIC if not statistic.needs_time)


def declared(
    *,
    span: str = "300 events",
    every: str = "40 events",
    lateness: str = "0 events",
    windows: Sequence[str] = (),
    statistics: Sequence[Statistic] = (Count(),),
    publish: str = "",
    **fields: Any,
) -> Topology:
    return Topology(
        name="law",
        source="events",
        span=span,
        every=every,
        lateness=lateness,
        windows=windows,
        statistics=statistics,
        time_field="number",
        time_format="sequence",
        publish=publish,
        **fields,
    )


def lengths(random: Random, span: int) -> list[str]:
    """Lengths of windows, any up to the span."""
    return [f"{n} events" for n in {1, random.randint(1, span), random.randint(1, span), span}]


@dataclass(frozen=True)
class Split:
    """One stream, numbered from 0 on, split over parties: what each has, in the order in which it
    comes; `late` is how many numbers that order may be off by.
    """

    values: list[float]
    parties: list[list[int]]
    late: int
    random: Random

    def __repr__(self) -> str:
        return f"{list(map(len, self.parties))} of {len(self.values)} events, {self.late} late"

    @cached_property
    def exact(self) -> list[Fraction]:
        """The values as they are written."""
        return [Fraction(repr(value)) for value in self.values]

    def event(self, number: int, key: str = "k") -> dict[str, Any]:
        return {"key": key, "number": number, "value": self.values[number]}

    def within(self, end: int, n: int, parties: Sequence[int]) -> list[Fraction]:
        """The values of the window of n numbers that ends at `end`, of these parties."""
        return [
            self.exact[number]
            for party in parties
            for number in self.parties[party]
            if end - n <= number < end
        ]


@st.composite
def splits(draw: st.DrawFn, silent: int = 0) -> Split:
    """Up to six parties, of which one may see nearly all, and `silent` none."""
    random = Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 6))
    skew = draw(st.sampled_from([1.0, 3.0]))
    shares = [skew**-party for party in range(count)] + [0.0] * silent
    size = draw(st.integers(1, 700))
    values = [round(random.lognormvariate(2, 1), 2) for _ in range(size)]
    late = draw(st.sampled_from([0, 7, 60]))
    parties: list[list[int]] = [[] for _ in shares]
    for number in range(size):
        random.choices(parties, shares)[0].append(number)
    # Sorted by what is less than `late` more than its number, none comes behind the watermark.
    parties = [sorted(party, key=lambda n: n + random.random() * late) for party in parties]
    return Split(values, parties, late, random)


def feed(driver: TopologyDriver | RefereeDriver, split: Split) -> None:
    """Each party's events in their order, some in a fetch, the parties mixed in some other."""
    left = [list(reversed(party)) for party in split.parties]
    while any(left):
        party = split.random.choice([n for n, numbers in enumerate(left) if numbers])
        some = split.random.choice([1, 30, 400])
        taken = [left[party].pop() for _ in range(min(some, len(left[party])))]
        driver.send(*map(split.event, taken), partition=party)


def numbers_of(emission: Emission) -> list[int]:
    """Which parties an answer is of."""
    return [int(name.rpartition("/")[2]) for name in emission.parties or ()]


@laws
@given(splits())
def test_windows_are_of_the_last_n_of_the_whole(split: Split) -> None:
    """Of every statistic, over any n up to the span, split over parties, out of order within the
    lateness: at each tick that all have passed, the exact figure of the last n numbers, whoever saw
    them, lies within the bounds, and there are n of them.
    """
    topology = declared(
        lateness=f"{split.late} events",
        windows=lengths(split.random, 300),
        statistics=OF_NUMBERS,
        publish="partition",
    )
    referee = Referee(of=topology, patience="100000 events", correctable="100000 events")
    driver = RefereeDriver(referee, len(split.parties))
    feed(driver, split)
    driver.advance_to(len(split.values) + topology.every_ms)
    assert not driver.parties.late
    assert not driver.parties.dead_letters
    everyone = range(len(split.parties))
    ends = []
    for emission in driver.emissions:
        end = emission.window_end_ms
        assert not emission.provisional
        assert numbers_of(emission) == list(everyone)
        if end > len(split.values):
            continue  # What moves the watermark on is counted there.
        ends.append(end)
        values = {n: split.within(end, n, everyone) for n in topology.window_lengths}
        assert all(len(of) == min(n, end) for n, of in values.items())
        check_figures(topology, emission.figures, values)
    assert ends == list(range(40, len(split.values) + 1, 40))


@laws
@given(splits(silent=1), st.integers(0, 200))
def test_a_silent_party_is_absent_after_the_patience(split: Split, patience: int) -> None:
    """Once the furthest is `patience` numbers ahead: an answer of the others, within its bounds
    over what they saw, that names the silent one.
    """
    topology = declared(
        lateness=f"{split.late} events", windows=lengths(split.random, 300), publish="partition"
    )
    referee = Referee(of=topology, patience=f"{patience} events", correctable="100000 events")
    driver = RefereeDriver(referee, len(split.parties))
    feed(driver, split)
    silent = len(split.parties) - 1
    reached = max(clock for clock in clocks(driver)) if driver.parties.published else 0
    for emission in driver.emissions:
        assert emission.provisional
        assert emission.window_end_ms <= reached - patience
        assert f"events/{silent}" in [party.party for party in emission.absent or ()]
        present = numbers_of(emission)
        end = emission.window_end_ms
        values = {n: split.within(end, n, present) for n in topology.window_lengths}
        check_figures(topology, emission.figures, values)
    if reached - patience >= topology.every_ms:
        assert driver.emissions


def clocks(driver: RefereeDriver) -> list[int]:
    """The ticks of the parties' clocks."""
    return [record.timestamp for record in driver.parties.published if not record.headers]


@laws
@given(splits())
def test_keys_of_a_sequence(split: Split) -> None:
    """Without a referee: a key's events among the last n numbers of its partition's sequence, not
    the key's last n events; and the key's last emission comes when the span has left them.
    """
    keys = "abc"
    topology = declared(
        lateness=f"{split.late} events",
        windows=lengths(split.random, 300),
        statistics=OF_NUMBERS,
        every="25 events",
    )
    driver = TopologyDriver(topology)
    of_key: dict[str, list[int]] = {key: [] for key in keys}
    left = sorted(range(len(split.values)), key=lambda n: n + split.random.random() * split.late)
    while left:
        some = split.random.choice([1, 30, 400])
        fetched = [(split.random.choices(keys, (10, 3, 1))[0], number) for number in left[:some]]
        for key, number in fetched:
            of_key[key].append(number)
        driver.send(*(split.event(number, key) for key, number in fetched), partition=0)
        del left[:some]
    driver.close_windows()
    assert not driver.late
    for emission in driver.emissions:
        end = emission.window_end_ms
        inside = {
            n: [split.exact[i] for i in of_key[emission.key] if end - n <= i < end]
            for n in topology.window_lengths
        }
        check_figures(topology, emission.figures, inside)
    for key, numbers in of_key.items():
        ends = [e.window_end_ms for e in driver.emissions if e.key == key]
        assert {(number // 25 + 1) * 25 for number in numbers} <= set(ends)
        if numbers:
            assert ends[-1] == (max(numbers) + 300) // 25 * 25 + 25


def processed(*values: bytes, topology: Topology, timestamp: int) -> Effects:
    """What a partition makes of records with this Kafka timestamp."""
    records = [Record(i, None, value, timestamp) for i, value in enumerate(values)]
    return PartitionProcessor(topology, "events", 0, MemoryStore()).process(batch_of(records))


def record(number: object) -> bytes:
    return msgspec.json.encode({"key": "k", "number": number, "value": 1})


@pytest.mark.parametrize("timestamp", [-1, 0, 1, 5_000, 1_764_072_000_000])
def test_kafka_timestamps_say_nothing_of_numbers(timestamp: int) -> None:
    """A number far beyond the record's timestamp is no event from the future."""
    values = [record(0)] * 2 + [record(10**11)] * 3
    effects = processed(*values, topology=declared(every="1 events"), timestamp=timestamp)
    assert not effects.dead_letters
    assert len(effects.emissions) >= 1


@pytest.mark.parametrize("statistic", [Mean(field="number"), Sum(field="number")])
def test_a_statistic_of_the_number_is_refused(statistic: Statistic) -> None:
    """It decides which windows an event is in."""
    with pytest.raises(SlidestatError, match="reads 'number', which is the time"):
        declared(statistics=[Count(), statistic])


@pytest.mark.parametrize("number", [-1, 1.5, "7", None, EARLIEST_TIME_MS, 1_764_072_000_000])
def test_what_is_no_number_of_a_sequence_is_a_dead_letter(number: object) -> None:
    """Also a time: it would move the watermark beyond all numbers."""
    effects = processed(
        record(3), record(number), record(4), topology=declared(), timestamp=1_764_072_000_000
    )
    (letter,) = effects.dead_letters
    assert letter.offset == 1
    assert letter.reason in ("bad-time", "wrong-type")
    assert "number" in letter.detail


def test_the_largest_number_is_counted() -> None:
    """The last before the times begin."""
    driver = TopologyDriver(declared())
    driver.send({"key": "k", "number": EARLIEST_TIME_MS - 50, "value": 1})
    driver.send({"key": "k", "number": EARLIEST_TIME_MS - 1, "value": 1})
    assert not driver.dead_letters
    assert driver.figure("k", "count", "300 events").estimate == 1


def test_a_late_number_says_by_how_many() -> None:
    """In events, not in milliseconds."""
    driver = TopologyDriver(declared(lateness="10 events"))
    driver.send(*({"key": "k", "number": number, "value": 1} for number in (100, 100, 83)))
    (letter,) = driver.late
    assert letter.detail == "7 events behind the watermark"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"span": "1h"}, "span is '1h', but event times are numbers of a sequence"),
        ({"every": "1m"}, "every is '1m', but event times are numbers of a sequence"),
        ({"every": "0 events"}, "every is 0"),
        ({"windows": ("5m",)}, "windows is '5m'"),
        ({"windows": ("301 events",)}, "longer than the span"),
        ({"windows": ("0 events",)}, "windows is 0"),
        ({"lateness": "1s"}, "lateness is '1s'"),
        ({"lateness": "301 events"}, "lateness is '301 events', more than the span"),
        ({"ahead": "2h"}, "ahead is '2h'"),
        ({"idle": "5s"}, "idle is '5s'"),
        ({"span": "400_000_000_000 events"}, "longer than a sequence may be"),
        ({"span": "9" * 13 + " events"}, "span is '9+ events'"),
        ({"statistics": (Rate(),)}, "rate is asked for"),
        ({"time_field": "kafka:timestamp"}, "time_format is 'sequence'"),
    ],
)
def test_what_a_sequence_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    """With the field at fault, and what to write."""
    base: dict[str, Any] = {
        "name": "law",
        "source": "events",
        "span": "300 events",
        "every": "40 events",
        "time_field": "number",
        "time_format": "sequence",
        "statistics": (Count(),),
    }
    with pytest.raises(SlidestatError, match=said):
        Topology(**{**base, **fields})


def test_a_referee_of_a_sequence_counts_events() -> None:
    """Patience and what is correctable too: a duration is refused, also the default one."""
    topology = declared(publish="partition")
    for fields in ({"patience": "1m"}, {"patience": "1 events"}):
        with pytest.raises(SlidestatError, match="but event times are numbers of a sequence"):
            Referee(of=topology, **fields)
    referee = Referee(of=topology, patience="5 events", correctable="1_000 events")
    assert (referee.patience_ms, referee.correctable_ms) == (5, 1_000)


def test_states_of_times_and_of_numbers_are_told_apart() -> None:
    """What is stored of one is refused by the other."""
    sequence = declared()
    times = Topology(
        name="law",
        source="events",
        span="300ms",
        every="40ms",
        time_field="number",
        statistics=(Count(),),
    )
    assert sequence.state_meaning["span"] == "300 events"
    assert sequence.state_meaning["time_field"] == "number in sequence"
    assert sequence.state_meaning["lateness"] == "0 events"
    assert times.state_meaning["lateness"] == "0 ms"


def test_what_goes_by_times_refuses_a_sequence() -> None:
    """With what to do instead."""
    with pytest.raises(SlidestatError, match="a backfill goes by times"):
        require_times(declared(), "a backfill")


def test_a_rollup_refuses_windows_of_events(tmp_path: Path) -> None:
    """As it takes of each synopsis what came since the one before, by time."""
    file = tmp_path / "last.toml"
    file.write_text(
        'name = "last"\nsource = "s"\nspan = "9 events"\nevery = "1m"\npublish = "partition"\n'
        '[[statistics]]\nkind = "count"\n'
    )
    with pytest.raises(SlidestatError, match="span of '9 events', and a rollup goes by times"):
        rollup(str(file), str(tmp_path / "lake"), "1d")


def test_a_position_that_many_parties_saw_an_event_at_counts_once() -> None:
    """Scenario 3 of Gibbons and Tirthapura: in how many of the last n positions did any of the
    streams have a 1? Each party is a partition; the positions' numbers are the items.
    """
    ones = Distinct(field="number", name="ones", where="bit = 1", epsilon=0.2, seed=3)
    topology = declared(
        span="4000 events",
        windows=("100 events", "4000 events"),
        every="500 events",
        statistics=(ones,),
        publish="partition",
    )
    referee = Referee(of=topology, patience="100000 events", correctable="100000 events")
    driver = RefereeDriver(referee, 3)
    random = Random(5)
    bits = [[int(random.random() < share) for _ in range(6_000)] for share in (0.2, 0.5, 0.02)]
    for first in range(0, 6_000, 250):
        for party, stream in enumerate(bits):
            some = range(first, first + 250)
            driver.send(
                *({"key": "k", "number": n, "bit": stream[n]} for n in some), partition=party
            )
    union = [any(column) for column in zip(*bits, strict=True)]
    driver.advance_to(6_000)
    assert not driver.parties.dead_letters
    told = [(e.window_end_ms, figure) for e in driver.emissions for figure in e.figures]
    assert len(told) >= 22
    for end, figure in told:
        if end <= len(union):
            exact = sum(union[max(0, end - (figure.window_events or 0)) : end])
            assert figure.statistic == "ones"
            assert figure.lower <= exact <= figure.upper
            assert abs(figure.estimate - exact) <= 0.2 * exact
    assert max(figure.upper - figure.lower for _, figure in told) > 0


def test_a_stream_begins_with_its_first_number() -> None:
    """The lateness leads a party's watermark below number 0: no referee is told of such a tick,
    which would be a dead letter to it.
    """
    topology = declared(lateness="100 events", publish="partition")
    driver = RefereeDriver(Referee(of=topology, patience="1000 events", correctable="9000 events"))
    driver.send(*({"key": "k", "number": number} for number in range(500)))
    assert not driver.dead_letters
    assert clocks(driver) == list(range(0, 400, 40))
