"""Distinct items where a field says something: asked when the events are gone."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import RefereeDriver, TopologyDriver
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Distinct
from slidestat.declare.statistics.distinct import DistinctRunner
from slidestat.declare.statistics.runner import ItemColumn, Unions, Work, united
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.live.questions import DistinctWhere, asked_where
from slidestat.referee.live_referee import RefereeQuery
from slidestat.synopses import Bundle
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.items import item_ids, paired_ids, second_is
from slidestat.testing.records import MemoryStore
from tests.engine.cases import laws
from tests.engine.memory import PARTITION, SOURCE, batch_of
from tests.engine.model import Record
from tests.engine.streams import START_MS

BY_COUNTRY = Distinct(field="user", by="country", epsilon=0.2, delta=0.01)
VISITORS = Topology(
    name="visitors",
    source="requests",
    span="1s",
    every="100ms",
    statistics=(Count(), BY_COUNTRY, Distinct(field="user", epsilon=0.2, delta=0.01)),
)
TEXTS = ("NL", "BE", "N", "", "true", "NL=", "ü" * 256)

Event = tuple[int, str, str]


def random_events(random: Random, size: int) -> list[Event]:
    """(time, user, country), the times rising."""
    times = sorted(START_MS + random.randrange(2_000) for _ in range(size))
    users = random.choice([3, 40])
    return [(time, f"u{random.randrange(users)}", random.choice(TEXTS)) for time in times]


def of_events(events: Sequence[Event]) -> PartitionProcessor:
    processor = PartitionProcessor(VISITORS, SOURCE, PARTITION, MemoryStore())
    processor.process(
        batch_of(
            [
                Record(i, None, event_of(time, user, country), 0)
                for i, (time, user, country) in enumerate(events)
            ]
        )
    )
    return processor


def event_of(time: int, user: str, country: str) -> bytes:
    return msgspec.json.encode(
        {"key": "k", "time": time, "value": 1, "user": user, "country": country}
    )


@settings(laws, max_examples=40)
@given(st.integers(0, 2**32), st.integers(2, 200), st.integers(1, 1_000))
def test_few_are_counted_exactly(seed: int, size: int, length: int) -> None:
    """Of any text, also one that never came, over any window: the users of the events with it; the
    figure of no question is the pairs.
    """
    random = Random(seed)
    events = random_events(random, size)
    view = of_events(events).view()
    events = [event for event in events if event[0] <= view.watermark]
    for text in (*TEXTS, "never"):
        answer = LiveQuery(VISITORS, [f"{length}ms"], where=f"country={text}").answer(view, "k")
        assert answer is not None
        start = answer.window_end_ms - length
        users = {u for time, u, country in events if time >= start and country == text}
        (figure,) = answer.figures
        assert (figure.statistic, answer.where) == ("distinct_user_by_country", f"country={text}")
        assert [figure.estimate, figure.lower, figure.upper] == [len(users)] * 3
    unasked = LiveQuery(VISITORS, [f"{length}ms"]).answer(view, "k")
    assert unasked is not None
    assert unasked.where is None
    figures = {figure.statistic: figure.estimate for figure in unasked.figures}
    inside = [(user, country) for time, user, country in events if time >= start]
    assert figures["distinct_user_by_country"] == len(set(inside))
    assert figures["distinct_user"] == len({user for user, _ in inside})


Seen = tuple[int, str, str]


def state_of(runner: DistinctRunner, events: Sequence[Seen]) -> bytes:
    """The state after these events: (time, user, country), in order."""
    times, users, countries = zip(*events, strict=True)
    places = np.arange(len(events))
    work = Work(
        np.array([0, len(events)]),
        np.array(times, np.int64),
        {},
        {("user",): ItemColumn(users, places), ("country",): ItemColumn(countries, places)},
        *(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)),
    )
    return runner.run([None], work).states[0]


def question(at: int, windows: Sequence[int]) -> Work:
    """A question and no events."""
    return Work(
        *(np.zeros(2, np.int64), np.empty(0, np.int64), {}, {}),
        *(np.array([0, 1]), np.array([at]), np.array(windows)),
    )


def runners(statistic: Distinct, text: str, span: int) -> tuple[DistinctRunner, DistinctWhere]:
    """What keeps a statistic, and the question for a text."""
    keeps = statistic.runner(span, ("user",))
    assert isinstance(keeps, DistinctRunner)
    return keeps, asked_where(f"country={text}", {"": statistic})[""]


TRIALS = 60


@pytest.mark.parametrize("share", [0.5, 0.04])
def test_many_are_within_epsilon_of_all_pairs(share: float) -> None:
    """Of 20,000 pairs some thousand are sampled: bounds and promise miss no more often than the
    confidence says, and the estimates' mean is near what is right.
    """
    random, pairs = Random(5), 20_000
    users = [f"user {i}" for i in range(pairs)]
    misses = promise_misses = 0
    errors = []
    for seed in range(TRIALS):
        statistic = replace(BY_COUNTRY, epsilon=0.1, delta=0.01, seed=seed)
        keeps, where = runners(statistic, "NL", pairs)
        countries = ["NL" if random.random() < share else f"x{i % 9}" for i in range(pairs)]
        state = state_of(keeps, list(zip(range(pairs), users, countries, strict=True)))
        answered = where.runner(pairs, ("user",)).run([state], question(pairs, [pairs]))
        (estimate,), (lower,), (upper,) = answered.answers["distinct"][:, :, 0]
        exact = countries.count("NL")
        misses += not lower <= exact <= upper
        promise_misses += abs(estimate - exact) > statistic.epsilon * pairs
        errors.append((estimate - exact) / exact)
        assert upper > lower  # More than what is counted exactly.
    missed = 1 - where.promise(pairs).confidence
    assert max(misses, promise_misses) <= missed * TRIALS
    deviation = np.std(errors) / TRIALS**0.5
    assert deviation < 0.03
    assert abs(np.mean(errors)) < 4 * deviation


@pytest.mark.parametrize("parties", [1, 3, 64])
def test_parties_together_answer_as_one(parties: int) -> None:
    """The union of parties, of which each saw other events and some the same, answers what one
    synopsis of all events would, to the last bit, in every window.
    """
    random = Random(parties)
    statistic = replace(BY_COUNTRY, epsilon=0.3, delta=0.1, seed=7)
    keeps, where = runners(statistic, "B", 10_000)
    events = [(i // 2, f"user {random.randrange(1_500)}", "AB"[i % 2]) for i in range(4_000)]
    seen: list[list[Seen]] = [[] for _ in range(parties)]
    for event in events:
        for party in {random.randrange(parties) for _ in range(random.choice([1, 1, 3]))}:
            seen[party].append(event)
    parts = {f"t/{i}": state_of(keeps, part) for i, part in enumerate(seen)}
    asked, windows = where.runner(10_000, ("user",)), [1, 50, 500, 10_000]
    together = (
        united(asked)
        .union(Unions([Bundle.of(parts)], [2_000], np.array(windows)))
        .answers["distinct"]
    )
    alone = asked.run([state_of(keeps, events)], question(2_000, windows)).answers["distinct"]
    assert np.array_equal(together, alone)
    for place, window in enumerate(windows):
        users = {user for time, user, text in events if time >= 2_000 - window and text == "B"}
        assert alone[1, 0, place] <= len(users) <= alone[2, 0, place]
    assert together[1, 0, 0] == together[2, 0, 0] == 1
    assert together[1, 0, 3] < together[2, 0, 3]


def test_a_referee_is_asked_like_a_topology() -> None:
    """Users of all partitions, those that two have seen counted once; nobody before any event."""
    referee = Referee(of=replace(VISITORS, publish="partition"), patience="1s")
    driver = RefereeDriver(referee, partitions=2)
    for i in range(60):
        for partition in (0, 1):
            driver.send(
                {
                    "key": "k",
                    "time": START_MS + 10 * i,
                    "value": 1,
                    "user": i % 20 + 10 * partition,
                    "country": "NL" if i % 2 else "BE",
                },
                partition=partition,
            )
    driver.advance_to(START_MS + 1_000)
    view = driver._processors[0].view()
    (stream,) = view.keys("", "", 10)
    for text, users in (("NL", 15), ("BE", 15), ("FR", 0)):
        answer = RefereeQuery(referee, ["1s"], where=f"country={text}").answer(view, stream)
        assert answer is not None
        assert answer.where == f"country={text}"
        assert [(f.estimate, f.lower, f.upper) for f in answer.figures] == [(users,) * 3]


def test_an_event_that_lacks_a_field_is_left_out_by_what_reads_it() -> None:
    driver = TopologyDriver(VISITORS)
    driver.send(*[{"key": "k", "time": START_MS, "value": 1, "user": "u"}] * 2)
    assert driver.dead_letters == []
    (label,) = (label for label in VISITORS.labels if "country" in label)
    assert driver.left_out == {label: 2}


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"where": "land=NL"}, "where is 'land=NL'. Write country=TEXT"),
        ({"where": "country"}, "where is 'country'. Write country=TEXT"),
        ({"where": "country=NL", "statistics": ["count"]}, "'count', which cannot be asked where"),
        ({"where": "country=NL", "statistics": ["distinct_user"]}, "cannot be asked where"),
        ({"where": "country=NL", "statistics": ["dist"]}, "does not have"),
        ({"where": "country=NL", "quantiles": [0.5]}, "no statistic that is asked for"),
        ({"where": ""}, "where is ''. Write country=TEXT"),
        ({"where": "country=" + "x" * 257}, "a text of 257 characters"),
    ],
)
def test_what_cannot_be_asked_is_refused(question: dict[str, object], says: str) -> None:
    with pytest.raises(SlidestatError) as refused:
        LiveQuery(VISITORS, **question)  # type: ignore[arg-type]
    assert says in f"{refused.value.message} {refused.value.advice}"


def test_a_topology_without_by_says_how_to_declare_it() -> None:
    with pytest.raises(SlidestatError, match="no distinct items by a field"):
        LiveQuery(replace(VISITORS, statistics=(Count(), Distinct())), where="country=NL")


@pytest.mark.parametrize("by", [5, ("a", ""), "kafka:key"])
def test_a_by_that_cannot_be_is_refused(by: object) -> None:
    with pytest.raises(SlidestatError, match="the by of distinct"):
        Distinct(field="user", by=by)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statistic", [Distinct(field="user", by="user"), Distinct(by="value"), Distinct(by=("value",))]
)
def test_items_by_themselves_are_refused(statistic: Distinct) -> None:
    with pytest.raises(SlidestatError, match=r"the by of distinct is .*, its field"):
        replace(VISITORS, statistics=(statistic,))


def test_a_delta_of_little_confidence_is_refused() -> None:
    """The answer for one text misses twice as often: 0.1 is the most that still says something."""
    with pytest.raises(SlidestatError, match="the delta of distinct"):
        Distinct(by="country", delta=0.3)
    (asked,) = asked_where("country=NL", {"": Distinct(by="country", delta=0.1)}).values()
    assert asked.promise(1_000).confidence >= 0.8


def test_states_of_another_by_are_others() -> None:
    """What was kept without `by`, or by another field, cannot be asked: it is not taken for it."""
    statistics = (
        Distinct(field="user"),
        Distinct(field="user", by="country"),
        Distinct(field="user", by="geo.country"),
        Distinct(field="user", by=["geo.country"]),
        Distinct(field=["user by country"]),
        Distinct(field=["user by ['country']"]),
    )
    meanings = {
        replace(VISITORS, statistics=(statistic,)).state_meaning["statistics"]
        for statistic in statistics
    }
    assert len(meanings) == len(statistics) - 1  # The last is a name that nobody gives a field.


def test_a_question_takes_no_events_and_no_state_of_others() -> None:
    _, where = runners(BY_COUNTRY, "NL", 1_000)
    other, _ = runners(replace(BY_COUNTRY, seed=1), "NL", 1_000)
    asked = where.runner(1_000, ("user",))
    with pytest.raises(SynopsisError, match="other parameters"):
        asked.run([state_of(other, [(1, "u", "NL")])], question(2, [1]))
    with pytest.raises(SynopsisError, match="takes no events"):
        asked.run([None], replace(question(2, [1]), times=np.array([1])))
    assert asked.run([None], question(2, [1])).answers["distinct"].tolist() == [[[0.0]]] * 3


def pair_count(firsts: Sequence[str], seconds: Sequence[str]) -> int:
    """How many different items there are of pairs that are all different."""
    return len(np.unique(paired_ids(item_ids(firsts), item_ids(seconds, 5))))


def test_pairs_are_told_apart() -> None:
    """One first text with many second ones, many with one, and each with itself; and the second
    text is found again, with its own seed alone.
    """
    many = [str(i) for i in range(200_000)]
    assert pair_count(["bot"] * len(many), many) == len(many)
    assert pair_count(many, ["NL"] * len(many)) == len(many)
    assert pair_count(many, many) == len(many)
    assert pair_count(many, many[::-1]) == len(many)
    items = paired_ids(item_ids(["a", "b", "a"]), item_ids(["NL", "NL", "BE"], 5))
    assert second_is("NL", 5)(items).tolist() == [True, True, False]
    assert not second_is("NL", 6)(items).any()
