"""A topic read by a command: opened, closed, with errors as messages for the user."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException

from slidestat.errors import SlidestatError
from slidestat.kafka.read.scan import open_scanner


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """Yield a consumer for `scan` and for requests for the offsets of `topic`; it belongs to no
    group.

    Errors of the broker within the context become a SlidestatError that names the topic.
    """
    consumer = open_scanner(bootstrap)
    try:
        yield consumer
    except KafkaException as error:
        raise SlidestatError(
            f"The topic {topic!r} cannot be read: {error.args[0].str().rstrip('.')}.",
            "Check that the broker is up and what this user may read, and try again.",
        ) from error
    finally:
        consumer.close()
