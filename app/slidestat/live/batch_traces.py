"""The ways of sampled batches, from their fetch to the commit behind them, in time.

A trace is begun where a batch is fetched, in the consumer's thread; what comes after is noted by
the loop of the work, which the web side's looks run on too. Where nobody asks for traces there is
no object of this kind, and nothing is noted.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from slidestat.engine.effects import Effects
from slidestat.engine.records import RecordBatch

# Each has some steps: as many spans as OpenTelemetry's own queue has.
MOST_TRACES = 256
now_ns = time.monotonic_ns


class Step(NamedTuple):
    """A step of a batch's way, in ns of `now_ns`; of one topology, or of all ("")."""

    name: str
    topology: str
    began_ns: int
    ended_ns: int


@dataclass(slots=True)
class BatchTrace:
    """The way of one batch; steps in the order in which they ended."""

    topic: str
    partition: int
    offset: int
    records: int
    # Nanoseconds since 1970 minus those of `now_ns`: a clock that is set meanwhile changes no
    # duration.
    epoch_ns: int
    steps: list[Step] = field(default_factory=list)

    def add(self, name: str, began_ns: int, topology: str = "") -> int:
        """Add a step that ends now, and return when that is."""
        ended_ns = now_ns()
        self.steps.append(Step(name, topology, began_ns, ended_ns))
        return ended_ns

    def of_steps(self, topology: str, steps: Iterator[Effects]) -> Iterator[Effects]:
        """Yield the steps of a partition: all records are decoded in the first one, and those that
        follow emit ticks, with what is waited for meanwhile.
        """
        began_ns, name = now_ns(), "decode"
        for effects in steps:
            if name == "decode":
                began_ns, name = self.add(name, began_ns, topology), "tick"
            yield effects
        self.add(name, began_ns, topology)


class BatchTraces:
    """The traces of one process."""

    def __init__(self, share: float) -> None:
        """Create the traces of a share of all batches, above 0 and up to 1."""
        self._share = share
        self._random = Random()  # noqa: S311  nobody's secret
        # Two threads take from it: each by one call that nothing interrupts.
        self._fetched: OrderedDict[tuple[str, int, int], BatchTrace] = OrderedDict()
        # Traces that wait for their flush, for their commit, and to be sent.
        self._processed: list[BatchTrace] = []
        self._flushed: list[BatchTrace] = []
        self._ended: deque[BatchTrace] = deque(maxlen=MOST_TRACES)
        self._flushed_at_ns = 0

    def fetched(self, batches: Iterable[RecordBatch], began_ns: int) -> None:
        """Begin the traces of batches that one fetch has brought."""
        for batch in batches:
            if self._random.random() >= self._share:
                continue
            # Traces of partitions that were given up meanwhile are never processed.
            while len(self._fetched) >= MOST_TRACES:
                with suppress(KeyError):
                    self._fetched.popitem(last=False)
            place = _place(batch)
            trace = BatchTrace(*place, len(batch), time.time_ns() - now_ns())
            trace.add("fetch", began_ns)
            self._fetched[place] = trace

    def begun(self, batch: RecordBatch) -> BatchTrace | None:
        """Return the trace of a batch that is to be processed now; None for most."""
        trace = self._fetched.pop(_place(batch), None)
        if trace is not None:
            trace.add("wait", trace.steps[-1].ended_ns)
        return trace

    def processed(self, trace: BatchTrace) -> None:
        """Note that a batch is processed as a whole."""
        if len(self._processed) + len(self._flushed) < MOST_TRACES:
            self._processed.append(trace)

    def flushed(self, began_ns: int, before: int) -> None:
        """Note that the first `before` waiting batches are done: outputs and states are durable."""
        flushed, self._processed = self._processed[:before], self._processed[before:]
        for trace in flushed:
            self._flushed_at_ns = trace.add("flush", began_ns)
        self._flushed += flushed

    @property
    def unflushed(self) -> int:
        """The number of batches that wait for a flush."""
        return len(self._processed)

    def committed(self) -> None:
        """Note that offsets are committed after the last flush."""
        ended, self._flushed = self._flushed, []
        for trace in ended:
            trace.add("commit", self._flushed_at_ns)
        self._ended += ended

    def forget(self) -> None:
        """Drop what was given up: its records are read again, here or elsewhere."""
        self._processed, self._flushed = [], []

    def take(self) -> Sequence[BatchTrace]:
        """Return the traces that have ended since the last call; the newest of them, if many."""
        taken = tuple(self._ended)
        self._ended.clear()
        return taken


def _place(batch: RecordBatch) -> tuple[str, int, int]:
    return batch.topic, batch.partition, int(batch.offsets[0])
