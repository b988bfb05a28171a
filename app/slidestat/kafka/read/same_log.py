"""Whether a partition's log is still the one that was read; it may not be, though its topic is the
same. After an unclean election of a leader, or the loss of a disk, a log ends before what was read,
and its later offsets get other records. Then the last record that was read is not there, or is
another one. A new leader has a larger epoch, which all that it appends has (KIP-101): so the first
offset with an epoch that was never read is where the logs part.
"""

from bisect import bisect_right
from contextlib import closing

from confluent_kafka import Consumer, Message

from slidestat.engine.records import UNKNOWN_EPOCH, LogMark, record_checksum
from slidestat.kafka.read.scan import offset_bounds, open_scanner, scan_ranges

# One record is wanted, and a fetch brings its batch at least.
_ANSWER_S = 5.0
_LEAST = {"queued.min.messages": 1, "fetch.message.max.bytes": 1, "fetch.queue.backoff.ms": 10}


def first_difference(bootstrap: str, topic: str, partition: int, mark: LogMark) -> int | None:
    """Return the first offset up to the mark's that is known to have another record than was read,
    or none any more; None if the log has the record that was marked, or if that is not known, as it
    was deleted or compacted away.

    Costs a connection, and the read of one record. Raises KafkaException if no broker answers.
    """
    with closing(_Log(bootstrap, topic, partition)) as log:
        return log.first_difference(mark)


def mark_of(message: Message) -> LogMark:
    """Return the mark of a record that was read."""
    epoch = message.leader_epoch()
    checksum = record_checksum(message.timestamp()[1], message.key(), message.value())
    return LogMark(message.offset() or 0, UNKNOWN_EPOCH if epoch is None else epoch, checksum)


class _Log:
    """The log of a partition as it is now, whoever may read its records."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._consumer: Consumer = open_scanner(
            bootstrap, {"isolation.level": "read_uncommitted", **_LEAST}
        )
        self._topic, self._partition = topic, partition

    def close(self) -> None:
        self._consumer.close()

    def first_difference(self, mark: LogMark) -> int | None:
        low, high = offset_bounds(self._consumer, self._topic, self._partition, _ANSWER_S)
        if mark.offset < low:
            return None
        if mark.offset >= high:
            return self._first_newer(low, high, mark)
        found = self._mark_at(mark.offset, mark.offset + 1)
        if found is None or _are_alike(found, mark):
            return None
        return self._first_newer(low, mark.offset, mark)

    def _first_newer(self, low: int, end: int, mark: LogMark) -> int:
        """Return the first offset from `low` on whose record has a larger epoch than the mark, and
        `end` if none before it is known to.
        """
        if mark.leader_epoch == UNKNOWN_EPOCH:
            return end

        def epoch(offset: int) -> int:
            found = self._mark_at(offset, end)
            return mark.leader_epoch if found is None else found.leader_epoch

        return low + bisect_right(range(low, end), mark.leader_epoch, key=epoch)

    def _mark_at(self, start: int, end: int) -> LogMark | None:
        """Return the mark of the first record in [start, end); None if there is none."""
        offsets = {self._partition: (start, end)}
        for message in scan_ranges(self._consumer, self._topic, offsets, silence_s=_ANSWER_S):
            return mark_of(message)
        return None


def _are_alike(found: LogMark, mark: LogMark) -> bool:
    """Return whether two marks may be of one record: an epoch that is not known may be any."""
    has_epochs = UNKNOWN_EPOCH not in (found.leader_epoch, mark.leader_epoch)
    return found.checksum == mark.checksum and not (
        has_epochs and found.leader_epoch != mark.leader_epoch
    )
