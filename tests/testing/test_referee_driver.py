"""A referee and its parties in memory."""

from slidestat import RefereeDriver
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Maximum
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import AbsentParty, Emission

NOON = 1_764_072_000_000
MINUTE = 60_000

SPREAD = Topology(
    name="shop",
    source="orders",
    span="1h",
    every="1m",
    statistics=(Count(),),
    publish=("hot",),
)


def order(key: str, at: int) -> dict[str, object]:
    return {"key": key, "time": NOON + at, "value": 1}


def test_a_hot_key_is_answered_for_by_the_referee_alone() -> None:
    """Its events lie in all three partitions: the partitions emit the other keys and not it, the
    referee emits it, whole, under its own name.
    """
    driver = RefereeDriver(Referee(of=SPREAD, patience="10m"), partitions=3)
    for second in range(30):
        driver.send(order("hot", second * 1_000), partition=second % 3)
    driver.send(order("cold2", 59_000), partition=2)
    for partition in range(3):
        driver.send(*[order(f"cold{partition}", 61_000)] * 9, partition=partition)
    assert {emission.key for emission in driver.parties.emissions} == {"cold2"}
    (emission,) = driver.emissions
    assert (emission.topology, emission.key) == ("shop-global", "hot")
    assert emission.window_end_ms == NOON + MINUTE
    assert emission.parties == ["orders/0", "orders/1", "orders/2"]
    assert emission.figures[0].estimate == 30


def test_a_party_that_stays_away_is_named() -> None:
    """The others go on for longer than the patience: the answer is theirs, and says so; with the
    party it is there again.
    """
    driver = RefereeDriver(Referee(of=SPREAD, patience="2m"), partitions=2)
    driver.send(order("hot", 0), partition=0)
    driver.send(*[order("hot", 1_000)] * 2, partition=1)
    for minute in range(1, 5):
        driver.send(order("hot", minute * MINUTE), partition=0)
    first = driver.emissions[0]
    assert first.provisional
    assert first.window_end_ms == NOON + MINUTE
    assert first.parties == ["orders/0"]
    assert first.absent == [AbsentParty("orders/1", NOON)]
    assert first.figures[0].estimate == 1
    driver.send(*[order("hot", 5 * MINUTE)] * 3, partition=1)
    again = next(e for e in driver.emissions if not e.provisional)
    assert again.window_end_ms == first.window_end_ms
    assert again.absent is None
    assert again.figures[0].estimate == 3
    assert not driver.dead_letters


LAST = Topology(
    name="shop",
    source="orders",
    span="10 events",
    every="1m",
    idle="5m",
    statistics=(Count(), Count(name="large", where="value > 5"), Maximum()),
    publish="partition",
)


def counts(emission: Emission) -> list[float | None]:
    return [figure.estimate for figure in emission.figures]


def test_each_party_answers_for_its_own_last_events() -> None:
    """One has had thirty, several in one millisecond, one four and one none: the last ten, all four
    and nothing. What one had leaves its window by its own events alone, not by those of others and
    not by time. An event at the tick is not in it yet.
    """
    driver = RefereeDriver(Referee(of=LAST, patience="1h"), partitions=3)
    # Of the first party's last ten, the large ones are 6 to 9.
    driver.send(*[order("a", n // 3) | {"value": n % 10} for n in range(30)], partition=0)
    driver.send(*[order("a", 7 * n) | {"value": 50} for n in range(4)], partition=1)
    for partition in range(2):
        driver.send(order("a", MINUTE) | {"value": 99}, partition=partition)
    assert driver.emissions == []
    driver.idle_until(NOON + 10 * MINUTE)
    first = driver.emissions[0]
    assert first.window_end_ms == NOON + MINUTE
    assert first.provisional
    assert counts(first)[:2] == [14, 8]
    assert (first.figures[2].lower or 0) <= 50 <= (first.figures[2].upper or 0)
    before = len(driver.emissions)
    for minute in range(1, 4):
        orders = [order("a", minute * MINUTE + n) | {"value": 0} for n in range(20)]
        driver.send(*orders, partition=0)
        driver.send(order("a", minute * MINUTE) | {"value": 0}, partition=2)
    driver.send(order("a", 4 * MINUTE), partition=2)
    driver.idle_until(NOON + 20 * MINUTE)
    last = driver.emissions[-1]
    assert len(driver.emissions) > before
    # Ten of no size of the first; four large ones and that of 99 of the second; three of the third.
    assert counts(last)[:2] == [10 + 5 + 4, 5]
    assert last.parties == ["orders/0", "orders/1", "orders/2"]


def test_a_party_that_is_added_has_a_window_that_fills() -> None:
    """Its events come to those that the others have; without it the answer names it as absent."""
    driver = RefereeDriver(Referee(of=LAST, patience="1m"), partitions=2)
    for minute in range(6):
        driver.send(*[order("a", minute * MINUTE + n) for n in range(12)], partition=0)
    without = driver.emissions[-1]
    assert without.provisional
    assert counts(without)[0] == 10
    assert without.absent == [AbsentParty("orders/1", None)]
    for minute in range(6):
        driver.send(order("a", minute * MINUTE), partition=1)
    final = [emission for emission in driver.emissions if not emission.provisional]
    assert [counts(emission)[0] for emission in final] == [11, 12, 13, 14, 15]
