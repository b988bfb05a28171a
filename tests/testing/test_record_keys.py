"""Topologies whose key and time are those that Kafka keeps of a record."""

import pytest

from slidestat import TopologyDriver
from slidestat.declare.statistics import Count, Sum
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import measure

START = 1_764_072_000_000
MINUTE = 60_000


def of_records(*statistics: Statistic) -> Topology:
    """A topology that reads a record's own key and timestamp."""
    return Topology(
        name="orders",
        source="orders",
        key_field="kafka:key",
        time_field="kafka:timestamp",
        span="5m",
        every="1m",
        lateness="10s",
        statistics=statistics,
    )


def test_records_are_counted_under_their_own_key_at_their_own_time() -> None:
    """Whatever fields of such names say; late and bad ones are set aside; a crash is not seen."""
    driver = TopologyDriver(of_records(Count(), Sum()), partitions=3)
    driver.send({"value": 2, "key": "x", "time": 1}, {"value": 3}, key="é", timestamp=START)
    driver.send({"value": 5}, key="b", timestamp=START + 1)
    driver.advance_to(START + MINUTE)
    driver.send({"value": 7}, key="é", timestamp=START)
    driver.send({"value": 7})
    driver.send_bytes(b"{}", key=b"\xff", timestamp=START + MINUTE)
    assert driver.figure("é", "sum", "5m").upper == 5
    assert driver.figure("b", "count", "5m").estimate == 1
    assert [letter.key for letter in driver.late] == ["é".encode()]
    assert sorted(letter.reason for letter in driver.dead_letters) == ["bad-key", "bad-key"]
    emissions = list(driver.emissions)
    driver.restart()
    assert driver.emissions == emissions
    driver.close_windows()
    assert driver.figure("é", "count", "5m").estimate == 0


@pytest.mark.parametrize("statistics", [(Count(),), (Count(), Sum())])
def test_the_memory_of_a_key_is_measured_all_the_same(statistics: tuple[Statistic, ...]) -> None:
    """Also where nothing of the JSON is read at all."""
    declared = of_records(*statistics)
    by_fields = Topology(
        name="orders", source="orders", span="5m", every="1m", lateness="10s", statistics=statistics
    )
    assert [f.state_bytes for f in measure(declared)] == [f.state_bytes for f in measure(by_fields)]
