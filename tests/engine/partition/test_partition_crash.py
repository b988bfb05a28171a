"""A crash at any point, and a restart anywhere, end in what an undisturbed run ends in."""

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from random import Random

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from slidestat.declare.statistics import Count, Maximum, Sum
from slidestat.engine.effects import Effects
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from tests.engine.cases import Case, cases, laws, topology
from tests.engine.checks import emissions_of, offsets_of
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    Partition,
    SmallMemoryProcessor,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Fate, Model, Record
from tests.engine.streams import START_MS, encode


def sent(outputs: list[Output]) -> dict[tuple[str, bytes | int], tuple[object, ...]]:
    """Each record that was sent; one that was sent again is the same to the byte."""
    first: dict[tuple[str, bytes | int], tuple[object, ...]] = {}
    for kind, key, rest in outputs:
        assert first.setdefault((kind, key), rest) == rest
    return first


def undisturbed(case: Case) -> Partition:
    """A partition whose worker took all in one batch, which costs a tenth of many with little
    memory: that batches and memory never show is what the laws of crashes and batches say.
    """
    partition = Partition(case.topology, case.records, case.random)
    partition.live_at_once()
    return partition


def through_crashes(case: Case, crashes: Iterable[int]) -> Partition:
    """A partition that ended well at last; before, it crashed after so many steps, each time."""
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps)
    partition.live()
    return partition


def same_end(one: Partition, other: Partition) -> None:
    """The same records were sent, the same synopses and counters are stored."""
    assert sent(one.outputs) == sent(other.outputs)
    assert one.store().synopses(one.topology) == other.store().synopses(one.topology)
    assert one.store().newest_checkpoint(one.topology) == other.store().newest_checkpoint(
        one.topology
    )


@laws
@given(cases(), st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_crashes_after_any_step_leave_no_trace(case: Case, crashes: list[int]) -> None:
    """Whether outputs, a part of the changelog, the store or the commit were reached: the worker
    that comes after, with other batches, ends where an undisturbed one does. So does one that reads
    from the first record again, before every checkpoint that is kept.
    """
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.3)
    for _ in range(2):
        partition.live(forget_offsets=case.random.random() < 0.5)
    same_end(partition, undisturbed(case))
    repeats_nothing_acknowledged(partition)


def repeats_nothing_acknowledged(partition: Partition) -> None:
    """However few of the states were written: what was acknowledged before a flush that was whole
    in the changelog is not sent again, neither with the committed offsets nor without them.
    """
    for flushed, start in partition.starts:
        again = {output[:2] for output in partition.outputs[start:]}
        assert again.isdisjoint(output[:2] for output in partition.outputs[flushed])


# Each example is run on from some sixty deaths.
@settings(laws, max_examples=40)
@given(cases(max_size=30), st.integers(0, 2**32))
def test_each_single_step_may_be_the_last(case: Case, seed: int) -> None:
    """One run, crashed after each of its steps in turn: all that may be left is gone on from, by
    three in four in one batch.
    """
    whole = undisturbed(case)
    partition = Partition(case.topology, case.records, Random(seed))
    deaths = partition.live_and_die()
    for left in (*deaths, partition):
        if case.random.random() < 0.25:
            left.live()
        else:
            left.live_at_once()
        same_end(left, whole)


# Rules in any order, against a plain list of the events.

DECLARED = [
    topology(windows=("330ms", "1s"), lateness="150ms", statistics=(Count(epsilon=0.01), *more))
    for more in ((), (Sum(),), (Maximum(epsilon=0),), (Maximum(epsilon=0), Sum()))
]


class Lives(RuleBasedStateMachine):
    """A partition's log, changelog and outputs, one database, and the workers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []
        self.now = START_MS
        self.declared, self.era = 0, 0
        self.changelog: list[tuple[str | None, bytes | None]] = []
        self.database, self.position = MemoryStore(), 0
        self.committed = 0
        # By era, as figures differ from one to the next.
        self.outputs: list[tuple[int, Output]] = []
        self.worker: PartitionProcessor | None = None
        self.queued: deque[Output] = deque()
        self.flushing: Iterator[None] | None = None
        self.read_to = 0

    @rule(
        key=st.sampled_from("abc"),
        gaps=st.lists(st.sampled_from((0, 1, 40, 110, 400, 1_500)), min_size=1, max_size=6),
        behind=st.sampled_from((0, 0, 0, 100, 300)),
        is_read=st.sampled_from((True, True, True, False)),
    )
    def arrive(self, key: str, gaps: list[int], behind: int, is_read: bool) -> None:
        """Records come to the source."""
        for gap in gaps:
            self.now += gap
            value = encode(key, self.now - behind, len(self.records) % 7)
            value = value if is_read else b"no json"
            self.records.append(Record(len(self.records), None, value, self.now))

    @precondition(lambda self: self.worker is None)
    @rule(is_small=st.booleans(), lost=st.sampled_from(("", "", "folder", "offsets")))
    def start(self, is_small: bool, lost: str) -> None:
        """A worker restores what its database lacks, or all; and reads from the committed offset,
        or from the first one.
        """
        if lost == "folder":
            self.database, self.position = MemoryStore(), 0
        self.database.write(self.changelog[self.position :])
        self.position = len(self.changelog)
        self.read_to = 0 if lost == "offsets" else self.committed
        make = SmallMemoryProcessor if is_small else PartitionProcessor
        place = DECLARED[self.declared], SOURCE, PARTITION, self.database
        self.worker = make(*place, change_statistics=self.is_told())
        if self.worker.has_new_statistics:
            snapshot = self.worker.snapshot(())
            assert snapshot is not None
            self._store(rows_of(snapshot))
            self.worker.written()

    def is_told(self) -> bool:
        """Whether a checkpoint tells of the states, if there are any."""
        return self.database.checkpoint() is not None or not self.database.keys()

    @precondition(lambda self: self.worker is None and self.records and self.is_told())
    @rule(declared=st.integers(0, len(DECLARED) - 1))
    def change_statistics(self, declared: int) -> None:
        """The next worker has other statistics."""
        self.declared, self.era = declared, self.era + 1

    @precondition(lambda self: self.worker is not None)
    @rule(
        size=st.integers(1, 12),
        more_follows=st.booleans(),
        dies_after=st.none() | st.integers(0, 3),
    )
    def read(self, size: int, more_follows: bool, dies_after: int | None) -> None:
        """A worker takes a batch in, also while a flush waits for the broker."""
        assert self.worker is not None
        batch = self._batch(size)
        if batch is None:
            return
        self._queue(islice(self.worker.steps(batch, more_follows=more_follows), dies_after))
        if dies_after is not None:
            self.crash(0.5)

    @precondition(lambda self: self.worker is not None and self.flushing is None)
    @rule(every=st.sampled_from((1, 1, 2, 5)), steps=st.integers(0, 3))
    def begin_to_flush(self, every: int, steps: int) -> None:
        """The keys of some of the slots have their turn, or all, and outputs are sent first."""
        self.flushing = self._flush(range(0, SLOTS, every))
        while self.flushing is not None and (self.queued or steps):
            steps -= not self.queued
            next(self.flushing, None)

    @precondition(lambda self: self.flushing is not None)
    @rule(steps=st.sampled_from((1, 2, 5, 50)), dies=st.booleans())
    def go_on_flushing(self, steps: int, dies: bool) -> None:
        """Outputs, rows of the changelog, the database and the commit, one after another."""
        for _ in range(steps):
            if self.flushing is not None:
                next(self.flushing, None)
        if dies:
            self.crash(0)

    @precondition(lambda self: self.worker is not None)
    @rule(ahead=st.sampled_from((0, 500, 5_000)))
    def look_ahead(self, ahead: int) -> None:
        """Provisional emissions leave no trace."""
        assert self.worker is not None
        for _ in self.worker.provisional(self.now + ahead):
            pass

    @precondition(lambda self: self.worker is not None)
    @rule(share=st.floats(0, 1))
    def crash(self, share: float) -> None:
        """The producer has sent a share of what was queued."""
        self._send(islice(self.queued, round(share * len(self.queued))))
        self.worker, self.flushing = None, None
        self.queued.clear()

    def teardown(self) -> None:
        """The last worker reads all, and ends."""
        if self.worker is None:
            self.start(False, "")
        assert self.worker is not None
        while self.flushing is not None:
            next(self.flushing, None)
        while (batch := self._batch(50)) is not None:
            self._queue(self.worker.steps(batch))
        for _ in self._flush(range(SLOTS)):
            pass
        self._send(self.queued)
        self._check()

    # What rules do.

    def _batch(self, size: int) -> RecordBatch | None:
        taken = self.records[self.read_to : self.read_to + size]
        self.read_to += len(taken)
        return batch_of(taken) if taken else None

    def _queue(self, steps: Iterable[Effects]) -> None:
        for effects in steps:
            self.queued += outputs_of(effects)

    def _send(self, outputs: Iterable[Output]) -> None:
        self.outputs += ((self.era, output) for output in outputs)

    def _store(self, rows: list[tuple[str | None, bytes | None]]) -> None:
        self.changelog += rows
        self.database.write(rows)
        self.position = len(self.changelog)

    def _flush(self, slots: Iterable[int]) -> Iterator[None]:
        worker = self.worker
        assert worker is not None
        self._queue(worker.kept_back())
        snapshot = worker.snapshot(slots)
        if snapshot is not None:
            yield
            while self.queued:
                self._send([self.queued.popleft()])
                yield
            for row in (rows := rows_of(snapshot)):
                self.changelog.append(row)
                yield
            self.database.write(rows)
            self.position = len(self.changelog)
            worker.written()
            yield
            self.committed = snapshot.next_offset
        self.flushing = None

    def _check(self) -> None:
        """Each emission is there, repeated ones are the same, and each figure's bounds hold."""
        model = Model(DECLARED[0], self.records)
        first: dict[tuple[int, str, bytes | int], object] = {}
        for era, (kind, key, rest) in self.outputs:
            assert first.setdefault((era, kind, key), rest) == rest
        outputs = [output for _, output in self.outputs]
        emissions = emissions_of(outputs)
        assert {(e.window_end_ms, e.key) for e in emissions} == {e[:2] for e in model.emissions}
        assert set(offsets_of("late", outputs)) == set(model.offsets(Fate.LATE))
        assert set(offsets_of("dead letter", outputs)) == set(model.dead)
        of_key = model.of_key()
        for emission in emissions:
            end = emission.window_end_ms
            for figure in emission.figures:
                assert figure.window_ms is not None
                since = max(end - figure.window_ms, figure.counted_from_ms or 0)
                values = [e.value for e in of_key[emission.key] if since <= e.time < end]
                right = exactly(figure.statistic, [value for value in values if value is not None])
                if right is None:
                    assert figure.estimate is None
                else:
                    assert figure.lower is not None
                    assert figure.upper is not None
                    assert figure.lower <= right <= figure.upper
        if self.database.checkpoint() is not None:
            stored = self.database.newest_checkpoint(DECLARED[self.declared])
            read, _, _, late = model.counts_before(stored.next_offset)
            assert (stored.counters.read, stored.counters.late) == (read, late)


def exactly(statistic: str, values: list[Fraction]) -> Fraction | None:
    """The statistic of a list."""
    if statistic == "maximum":
        return max(values, default=None)
    return Fraction(len(values)) if statistic == "count" else sum(values, Fraction())


TestLives = Lives.TestCase
TestLives.settings = settings(laws, max_examples=40, stateful_step_count=40)
