"""Consumer groups, as the broker sees them."""

import time

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.group_offsets import PASSING_ERRORS

_TIMEOUT_S = 30.0
# A coordinator that moves, or is loaded, answers soon.
_AGAIN_S = 0.5
_ENDED = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def count_workers(bootstrap: str, group: str) -> int:
    """How many workers are members of a group now; one that was killed is, for some seconds."""
    admin = admin_client(bootstrap)  # It must outlive what it is waited for.
    end = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            found = admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S)
            break
        except KafkaException as error:
            kafka_error: KafkaError = error.args[0]
            if kafka_error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            passes = kafka_error.retriable() or kafka_error.code() in PASSING_ERRORS
            if not passes or time.monotonic() > end:
                raise SlidestatError(
                    f"The broker does not describe the group {group}: {kafka_error.name()},"
                    f" {kafka_error.str().rstrip('.')}.",
                    "Check that it is up and what this user may do, and try again.",
                ) from error
        time.sleep(_AGAIN_S)
    return 0 if found.state in _ENDED else max(1, len(found.members))
