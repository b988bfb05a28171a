"""The offsets of a partition, also of one that the client does not know yet. That is over within
milliseconds on a broker of one node, so a consumer is made up that says so for as long as asked.
"""

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from slidestat.kafka.read import scan as module
from slidestat.kafka.read.scan import offset_bounds


class ForgetfulConsumer:
    """Answers only after so many errors."""

    def __init__(self, code: int, times: int) -> None:
        self._code, self._left = code, times
        self.asked = 0

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        self.asked += 1
        assert (place.topic, place.partition, timeout) == ("t", 3, 30.0)
        self._left -= 1
        if self._left >= 0:
            raise KafkaException(KafkaError(self._code))
        return 4, 9


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_topic_just_made_is_asked_for_again(code: int) -> None:
    """`slidestat replay` ended with "Local: Unknown partition" of a changelog just made."""
    assert offset_bounds(cast(Consumer, ForgetfulConsumer(code, 3)), "t", 3) == (4, 9)


def test_what_lasts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_WITHIN_S", 0.1)
    consumer = ForgetfulConsumer(KafkaError._UNKNOWN_PARTITION, 1_000)
    with pytest.raises(KafkaException, match="Unknown partition"):
        offset_bounds(cast(Consumer, consumer), "t", 3)
    assert consumer.asked > 1


def test_another_error_is_raised_at_once() -> None:
    consumer = ForgetfulConsumer(KafkaError.TOPIC_AUTHORIZATION_FAILED, 1_000)
    with pytest.raises(KafkaException):
        offset_bounds(cast(Consumer, consumer), "t", 3)
    assert consumer.asked == 1
