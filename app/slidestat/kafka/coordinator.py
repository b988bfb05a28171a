"""Ask a group's coordinator, which may have just started, moved or taken the group over."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

_T = TypeVar("_T")

_PAUSE_S = 0.2
_PASSING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
    }
)


def ask_coordinator(ask: Callable[[], _T], within_s: float) -> _T:
    """Return what `ask` returns, asking again while the coordinator does not answer yet.

    Raises KafkaException for another error, and for any after `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            kafka_error: KafkaError = error.args[0]
            passes = kafka_error.retriable() or kafka_error.code() in _PASSING
            if not passes or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)
