"""Distinct items where a field says something: asked when the events are gone."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SlidestatError
from app.streaming.live_query import LiveQuery
from app.streaming.live_referee import RefereeQuery
from app.streaming.partition import PartitionProcessor
from app.streaming.referee import Referee
from app.streaming.runners import DistinctRunner, ItemColumn, Work
from app.streaming.statistics import Count, Distinct
from app.streaming.topology import Topology
from app.streaming.unions import unite
from app.synopses.distinct import DistinctParameters
from app.synopses.distinct.item_ids import item_ids
from app.synopses.distinct.paired_ids import paired_ids, second_is
from app.synopses.merge import Bundle
from app.testing import RefereeDriver, TopologyDriver
from app.testing.memory_store import MemoryStore
from tests.streaming.cases import laws
from tests.streaming.memory import PARTITION, SOURCE, batch_of
from tests.streaming.model import Record
from tests.streaming.streams import START_MS

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


@laws
@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 1_000))
def test_few_are_counted_exactly(seed: int, size: int, length: int) -> None:
    """Of any text, also one that never came, over any window: the users of the events with it; the
    figure of no question is the pairs.
    """
    random = Random(seed)
    events = random_events(random, size)
    view = of_events(events).view()
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


def states_of(runner: DistinctRunner, users: list[str], countries: list[str]) -> bytes:
    """The state after an event a millisecond of each user, with a country."""
    count = len(users)
    columns = {
        path: ItemColumn(texts, np.arange(count))
        for path, texts in ((runner.field, users), (runner.by, countries))
        if path is not None
    }
    nothing = np.empty(0, np.int64)
    work = Work(
        np.array([0, count]), np.arange(count), {}, columns, np.zeros(2, np.int64), nothing, nothing
    )
    return runner.run([None], work).states[0]


TRIALS = 400


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_many_are_within_epsilon_of_all_pairs(share: float) -> None:
    """Over a thousand pairs at an epsilon where some fifty are sampled: bounds and promise miss no
    more often than the confidence says, and do not miss together with it never being needed.
    """
    random, misses, promise_misses = Random(5), 0, 0
    pairs, span = 1_000, 10_000
    users = [f"user {i}" for i in range(pairs)]
    for seed in range(TRIALS):
        statistic = replace(BY_COUNTRY, epsilon=0.5, delta=0.3, seed=seed).where("NL")
        runner = DistinctRunner(statistic._parameters(span), ("user",), ("country",))
        countries = ["NL" if random.random() < share else f"x{i % 9}" for i in range(pairs)]
        asked = statistic.runner(span, ("user",))
        window = np.array([span])
        work = Work(
            *(np.zeros(2, np.int64), np.empty(0, np.int64), {}, {}),
            *(np.array([0, 1]), np.array([pairs]), window),
        )
        answered = asked.run([states_of(runner, users, countries)], work)
        (estimate,), (lower,), (upper,) = answered.answers["distinct"][:, :, 0]
        exact = countries.count("NL")
        misses += not lower <= exact <= upper
        promise_misses += abs(estimate - exact) > statistic.epsilon * pairs
        assert upper > lower  # More than what is counted exactly.
    missed = 1 - statistic.promise(span).confidence
    assert max(misses, promise_misses) <= missed * TRIALS


@pytest.mark.parametrize("parties", [1, 3, 64])
def test_parties_together_answer_as_one(parties: int) -> None:
    """The union of parties answers what one synopsis of all events would, to the last bit; what
    several have seen counts once.
    """
    parameters = DistinctParameters(epsilon=0.3, delta=0.1, span=10_000, seed=7)
    runner = DistinctRunner(parameters, ("user",), ("country",))
    statistic = Distinct(field="user", by="country", epsilon=0.3, delta=0.1, seed=7).where("B")
    asked = statistic.runner(10_000, ("user",))
    users = [f"user {i % 1_500}" for i in range(2_000)]
    countries = ["AB"[i % 2] for i in range(2_000)]
    parts = {
        f"t/{party}": states_of(
            runner,
            [*users[party:], *users[:party]],
            [*countries[party:], *countries[:party]],
        )
        for party in range(0, 2 * parties, 2)
    }
    windows = np.array([500, 10_000])
    united = unite(asked, [Bundle.of(parts)], [2_000], windows).answers["distinct"]
    if parties == 1:
        work = Work(
            *(np.zeros(2, np.int64), np.empty(0, np.int64), {}, {}),
            *(np.array([0, 1]), np.array([2_000]), windows),
        )
        alone = asked.run([states_of(runner, users, countries)], work).answers["distinct"]
        assert np.array_equal(united, alone)
    low, high = united[1:, 0, 1]
    assert low <= 750 <= high


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


def test_a_field_that_is_missing_makes_a_dead_letter() -> None:
    driver = TopologyDriver(VISITORS)
    driver.send({"key": "k", "time": START_MS, "value": 1, "user": "u"})
    (letter,) = driver.dead_letters
    assert "country" in letter.detail


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"where": "land=NL"}, "where is 'land=NL'. Write country=TEXT"),
        ({"where": "country"}, "where is 'country'. Write country=TEXT"),
        ({"where": "country=NL", "statistics": ["count"]}, "'count', which cannot be asked where"),
        ({"where": "country=NL", "statistics": ["distinct_user"]}, "cannot be asked where"),
        ({"where": "country=NL", "statistics": ["dist"]}, "does not have"),
        ({"where": "country=NL", "quantiles": [0.5]}, "no statistic that is asked for"),
    ],
)
def test_what_cannot_be_asked_is_refused(question: dict[str, object], says: str) -> None:
    with pytest.raises(SlidestatError) as refused:
        LiveQuery(VISITORS, **question)  # type: ignore[arg-type]
    assert says in f"{refused.value.message} {refused.value.advice}"


def test_a_topology_without_by_says_how_to_declare_it() -> None:
    with pytest.raises(SlidestatError, match="no distinct items by a field"):
        LiveQuery(replace(VISITORS, statistics=(Count(), Distinct())), where="country=NL")


@pytest.mark.parametrize("by", ["user", 5, ("a", ""), "kafka:key"])
def test_a_by_that_cannot_be_is_refused(by: object) -> None:
    with pytest.raises(SlidestatError, match="the by of distinct"):
        Distinct(field="user", by=by)  # type: ignore[arg-type]


def test_states_without_by_are_others() -> None:
    """What was kept without `by` cannot be asked, so it is not taken for what was kept with it."""
    plain = replace(VISITORS, statistics=(Distinct(field="user"),))
    by = replace(VISITORS, statistics=(Distinct(field="user", by="country"),))
    other = replace(VISITORS, statistics=(Distinct(field="user", by="city"),))
    meanings = {t.state_meaning["statistics"] for t in (plain, by, other)}
    assert len(meanings) == 3


def test_pairs_are_told_apart() -> None:
    """The second text is found again; few of many first ones are taken for others."""
    users = item_ids(map(str, range(100_000)))
    one, two = (np.full_like(users, item_ids([text])[0]) for text in ("NL", "BE"))
    items = np.concatenate((paired_ids(users, one), paired_ids(users, two)))
    assert len(np.unique(items)) == len(items)
    assert np.array_equal(second_is("NL")(items), np.arange(len(items)) < len(users))
