"""Where a look at a topic finds records, whatever its partitions are like."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from slidestat.infer import sampling

PARTITIONS = 12


class Broker:
    """The answers for offsets, on a clock of their own: some partitions have no leader."""

    def __init__(self, unled: set[int]) -> None:
        self.now = 0.0
        self._unled = unled

    def monotonic(self) -> float:
        return self.now

    def offset_bounds(self, _: Any, __: str, partition: int, timeout_s: float) -> tuple[int, int]:
        if partition in self._unled:
            self.now += timeout_s + 0.01
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        self.now += 0.002
        return 0, 100


@pytest.mark.parametrize("unled", [set(), {0}, {5}, {0, 3, 6, 9}, {8, 9, 10, 11}])
def test_partitions_without_a_leader_hide_no_other_one(
    unled: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first one, which is waited for as long as that of a new topic may need."""
    broker = Broker(unled)
    monkeypatch.setattr(sampling, "time", broker)
    monkeypatch.setattr(sampling, "offset_bounds", broker.offset_bounds)
    found = sampling._known_bounds(cast(Consumer, None), "t", PARTITIONS, 200)
    assert set(found) == set(range(PARTITIONS)) - unled


def test_a_topic_without_leaders_holds_up_a_start_for_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many partitions it has."""
    broker = Broker(set(range(1_000)))
    monkeypatch.setattr(sampling, "time", broker)
    monkeypatch.setattr(sampling, "offset_bounds", broker.offset_bounds)
    assert not sampling._known_bounds(cast(Consumer, None), "t", 1_000, 200)
    assert broker.now < 12
