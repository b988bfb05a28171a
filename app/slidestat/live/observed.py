"""Counts and positions of a topology's pipeline in this process, for status and metrics.

Everything here is added up once a batch or once a flush, never once a record. Figures count from
the start of the process; what must outlive it is in the checkpoints.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.intake.letters import Letter
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.records import RecordBatch
from slidestat.log import log_event
from slidestat.schemas.dead_letter import Reason

# Upper bounds of the buckets of a latency, in seconds: a flush comes every second.
LATENCY_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Latencies:
    """A histogram of latencies: the number in each bucket; the last bucket has no bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float, count: int) -> None:
        """Record `count` latencies of `seconds`."""
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += count
        self.sum_s += seconds * count


@dataclass(slots=True)
class _Refused:
    """Records of a partition that were not counted since the last flush."""

    topic: str
    first_offset: int
    last_offset: int
    reasons: Counter[Reason] = field(default_factory=Counter)


class Observed:
    """The work of one topology in this process, by partition."""

    def __init__(self, topology: str) -> None:
        self.topology = topology
        self.partitions: dict[int, PartitionWork] = {}
        self.refusals: Counter[Reason] = Counter()
        # The time from taking a batch until the broker has acknowledged its emissions.
        self.emission_latencies = Latencies()
        self.flushes = 0
        # Put on the topic of synopses, with its clocks.
        self.synopsis_records = 0
        self.synopsis_bytes = 0
        self._unacknowledged: list[tuple[float, int]] = []
        self._refused: dict[int, _Refused] = {}

    def partition(self, partition: int) -> PartitionWork:
        """Return the counts of a partition's work, also while another worker has it."""
        return self.partitions.setdefault(partition, PartitionWork())

    def processed(
        self,
        batch: RecordBatch,
        letters: Sequence[Letter],
        taken: Counters,
        repeated: int,
        started: float,
    ) -> None:
        """Count a batch that was taken in, begun at `started` (of time.monotonic): the results of
        its records and of those that waited, with the dead letters; `repeated` records had been
        read before.
        """
        work = self.partition(batch.partition)
        work.batches += 1
        work.counted += taken.counted
        work.dead += taken.dead
        work.late += taken.late
        work.passed_over += taken.passed_over
        work.repeated += repeated
        work.processing_s += time.monotonic() - started
        if letters:
            offsets = [letter.offset for letter in letters]
            reasons = Counter(letter.reason for letter in letters)
            self.refusals.update(reasons)
            refused = self._refused.setdefault(
                batch.partition, _Refused(batch.topic, min(offsets), max(offsets))
            )
            refused.last_offset = max(refused.last_offset, *offsets)
            refused.reasons.update(reasons)

    def emitted(self, partition: int, emissions: Sequence[object], started: float | None) -> None:
        """Count emissions queued because of a batch begun at `started`; None for no batch."""
        if emissions:
            self.partition(partition).emissions += len(emissions)
            if started is not None:
                self._unacknowledged.append((started, len(emissions)))

    def published(self, records: int, size: int) -> None:
        """Count records queued for a referee, `size` bytes of keys and values in all."""
        self.synopsis_records += records
        self.synopsis_bytes += size

    def acknowledged(self) -> None:
        """Record that the broker has acknowledged all that was queued."""
        now = time.monotonic()
        self.flushes += 1
        for started, count in self._unacknowledged:
            self.emission_latencies.add(now - started, count)
        self._unacknowledged.clear()
        for partition, refused in self._refused.items():
            log_event(
                "records not counted",
                topology=self.topology,
                topic=refused.topic,
                partition=partition,
                offset=refused.first_offset,
                last_offset=refused.last_offset,
                reasons={reason.value: count for reason, count in refused.reasons.items()},
            )
        self._refused.clear()
