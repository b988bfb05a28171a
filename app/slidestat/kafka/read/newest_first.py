"""Read a partition backwards from its end, in pieces, for as long as it may take."""

import time
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from slidestat.kafka.read.offset_bounds import offset_bounds
from slidestat.kafka.read.scan import scan_ranges

# The first piece is small: it is there soon, whatever the broker's pace. The later ones cost less.
_FIRST_RECORDS, _MOST_RECORDS = 500, 10_000
_GROWTH = 4

Clock = Callable[[], float]


class NewestFirst:
    """A partition read from its end towards its oldest record."""

    def __init__(self, consumer: Consumer, topic: str, partition: int) -> None:
        """Ask for the ends; raises KafkaException."""
        self._consumer, self._topic, self._partition = consumer, topic, partition
        self._low, self._start = offset_bounds(consumer, topic, partition)

    @property
    def has_all(self) -> bool:
        """Return whether all records have been given, the oldest one too."""
        return self._start <= self._low

    def pieces(self, until: float, clock: Clock = time.monotonic) -> Iterator[list[Message]]:
        """Yield the newest records, then those before them, and so on to the oldest one; those of a
        piece are in order. A piece that is not whole at the time `until` is not given: what is
        given has no hole. Raises KafkaException if the broker fails.
        """
        size = _FIRST_RECORDS
        while not self.has_all:
            start = max(self._low, self._start - size)
            piece = []
            try:
                for message in scan_ranges(
                    self._consumer,
                    self._topic,
                    {self._partition: (start, self._start)},
                    silence_s=until - clock(),
                ):
                    piece.append(message)
                    if clock() > until:
                        return
            except KafkaException as error:
                if error.args[0].code() == KafkaError._TIMED_OUT:
                    return
                raise
            self._start = start
            yield piece
            size = min(_GROWTH * size, _MOST_RECORDS)
