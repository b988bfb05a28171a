"""A referee and its parties on records in memory: what it would answer, at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from slidestat.declare.referee import Referee
from slidestat.engine.emissions.output_codec import emission_codec
from slidestat.engine.intake.letters import Letter
from slidestat.engine.publishing import synopsis_partitions
from slidestat.engine.records import RecordBatch
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import Emission
from slidestat.testing.driver import TopologyDriver
from slidestat.testing.records import MemoryStore

_REGISTRY = "mock://slidestat-testing"


class RefereeDriver:
    """A driver that runs a referee on what `partitions` partitions of its topology publish of the
    events sent.

    Events go to the partition of their key, or to the one that is given; a partition to which
    nothing is sent is a party that never comes. `parties` is the topology's own driver.
    """

    def __init__(self, referee: Referee, partitions: int = 1) -> None:
        self.referee = referee
        self.parties = TopologyDriver(referee.of, partitions)
        self.emissions: list[Emission] = []
        self.dead_letters: list[Letter] = []
        self._codec = emission_codec(referee, _REGISTRY)
        self._read = 0
        self._offsets = [0] * synopsis_partitions(referee.of, partitions)
        self._processors = [
            RefereeProcessor(referee, referee.source, number, MemoryStore(), self._codec)
            for number in range(len(self._offsets))
        ]

    def send(self, *events: Mapping[str, Any], partition: int | None = None) -> None:
        """Send events as JSON; what comes of them is there when the call returns."""
        self.parties.send(*events, partition=partition)
        self._judge()

    def advance_to(self, time: int) -> None:
        """Let the watermark of every partition reach `time`, as `TopologyDriver.advance_to`.

        One partition after another: in a step that is longer than the referee's patience, those to
        come are given up for a moment, and provisional answers without them come before the final
        ones.
        """
        self.parties.advance_to(time)
        self._judge()

    def idle_until(self, now: int) -> None:
        """Let no event come until the clock on the wall shows `now`, as
        `TopologyDriver.idle_until`.
        """
        self.parties.idle_until(now)
        self._judge()

    def _judge(self) -> None:
        new = self.parties.published[self._read :]
        self._read = len(self.parties.published)
        for number, processor in enumerate(self._processors):
            records = [record for record in new if record.partition == number]
            if not records:
                continue
            first = self._offsets[number]
            self._offsets[number] += len(records)
            batch = RecordBatch(
                self.referee.source,
                number,
                np.arange(first, self._offsets[number], dtype=np.int64),
                [record.key for record in records],
                [record.value for record in records],
                [record.timestamp for record in records],
                first,
            )
            effects = processor.process(batch)
            self.dead_letters += effects.dead_letters
            self.emissions += [self._codec.decode(value) for _, value, _ in effects.emissions]
