"""A referee and its parties in memory."""

from slidestat import RefereeDriver
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import AbsentParty

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
