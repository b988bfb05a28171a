"""Whether the brokers answer, asked time and again: the clients wait for them in silence."""

import asyncio

from slidestat.errors import SlidestatError
from slidestat.kafka.producer import BulkProducer
from slidestat.log import tell

LOOK_EVERY_S = 5.0
_PATIENCE_S = 3.0


def went_away_at_start() -> SlidestatError:
    """The fault of a worker whose brokers have answered once, and do not any more before it has
    joined its group.
    """
    return SlidestatError(
        "The Kafka broker went away while the worker was starting.",
        "Start the worker again when the broker is back: nothing is lost.",
    )


class BrokerContact:
    """Tells once when the brokers fall silent, and once when they answer again."""

    def __init__(self, producer: BulkProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._answered = True

    async def look(self) -> None:
        """Ask, waiting a few seconds at most; nothing else waits for it."""
        loop = asyncio.get_running_loop()
        answered = await loop.run_in_executor(
            None, self._producer.is_answered, self._topic, _PATIENCE_S
        )
        if answered != self._answered:
            self._answered = answered
            if answered:
                tell("brokers answer", "the brokers answer again")
            else:
                tell(
                    "brokers silent",
                    "the brokers do not answer: this worker asks on, and goes on where it was once"
                    " they do",
                )
