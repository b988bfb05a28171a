"""Consumer groups, as the broker sees them."""

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.coordinator import ask_coordinator

_TIMEOUT_S = 30.0
_ENDED = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def count_workers(bootstrap: str, group: str) -> int:
    """Return how many workers are members of a group now; one that was killed is, for some
    seconds.
    """
    admin = admin_client(bootstrap)  # It must outlive what it is waited for.
    try:
        found = ask_coordinator(
            lambda: admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S), _TIMEOUT_S
        )
    except KafkaException as error:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise SlidestatError(
            f"The broker does not describe the group {group}: {kafka_error.name()},"
            f" {kafka_error.str().rstrip('.')}.",
            "Check that it is up and what this user may do, and try again.",
        ) from error
    return 0 if found.state in _ENDED else max(1, len(found.members))
