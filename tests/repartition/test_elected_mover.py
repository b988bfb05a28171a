"""What an elected mover does about errors, without a broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.transactional_producer import LostError
from slidestat.repartition import elected_mover
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import Move

TOPOLOGY = Topology(name="t", sources=["eu", "us"], span="1h", every="1m", lateness="5s")


class FailingMover:
    """A mover that fails at once."""

    error: Exception
    has_moved = False

    def __init__(self, _move: Move, _goes_on: Callable[[], bool]) -> None:
        """Do nothing."""

    def run(self) -> None:
        raise self.error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> ElectedMover:
    monkeypatch.setattr(elected_mover, "Mover", FailingMover)
    return ElectedMover(Move("b:9092", TOPOLOGY))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError.INVALID_TIMESTAMP, "--entity-name t-repartition .*message.timestamp.after"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "largest of theirs, .*t-repartition .*max.message.bytes="),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "transaction.max.timeout.ms to 60000"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "doctor"),
    ],
)
def test_what_brokers_refuse_ends_it_with_what_to_do(
    failing: ElectedMover, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    monkeypatch.setattr(FailingMover, "error", KafkaException(KafkaError(code)), raising=False)
    failing.elect([0])
    failing._thread.join(10)
    with pytest.raises(SlidestatError, match=advice) as refused:
        raise failing.failure or AssertionError
    assert "cannot be moved to 't-repartition'" in str(refused.value)


@pytest.mark.parametrize(
    "error", [LostError("in doubt"), KafkaException(KafkaError(KafkaError._TIMED_OUT))]
)
@pytest.mark.parametrize("has_moved", [False, True])
def test_it_pauses_for_longer_after_each_failure(
    failing: ElectedMover, monkeypatch: pytest.MonkeyPatch, error: Exception, *, has_moved: bool
) -> None:
    """A connection that breaks at each commit would have it begin anew twice a second; one that
    moved records meanwhile begins soon.
    """
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 9:
            failing._is_stopping.set()
        return False

    monkeypatch.setattr(FailingMover, "error", error, raising=False)
    monkeypatch.setattr(FailingMover, "has_moved", has_moved)
    monkeypatch.setattr(failing._is_stopping, "wait", wait)
    failing.elect([0])
    failing._thread.join(10)
    assert failing.failure is None
    assert pauses[0] <= 1
    if has_moved:
        assert max(pauses) <= 1
        return
    assert all(later > pause / 2 for pause, later in zip(pauses, pauses[2:], strict=False))
    assert 15 <= pauses[-1] <= 30
