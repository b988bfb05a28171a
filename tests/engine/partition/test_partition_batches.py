"""Where a batch ends, and what is delivered twice, never shows."""

from collections.abc import Iterable, Sequence

from hypothesis import given

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.partition import PartitionProcessor
from tests.engine.cases import Case, cases, laws
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Record


class Run:
    """Batches through one processor, everything written once at the end."""

    def __init__(
        self,
        topology: Topology,
        batches: Iterable[Sequence[Record]],
        ahead: EventDecoder | None = None,
    ) -> None:
        self.topology = topology
        self.store = MemoryStore()
        self.outputs: list[Output] = []
        processor = PartitionProcessor(topology, SOURCE, PARTITION, self.store)
        for records in batches:
            batch = batch_of(records)
            if ahead is not None:
                ahead.decode_ahead(batch)
            is_new = batch.offsets[0] >= processor.next_offset
            self.outputs += outputs_of(processor.process(batch))
            assert not (is_new and batch.decoded)
        snapshot = processor.snapshot()
        assert snapshot is not None
        self.store.write(rows_of(snapshot))

    def of_kind(self, kind: str) -> list[Output]:
        return [output for output in self.outputs if output[0] == kind]


def same(one: Run, other: Run) -> None:
    """The same bytes in the same order, and the same synopses behind them."""
    for kind in ("emission", "dead letter", "late"):
        assert one.of_kind(kind) == other.of_kind(kind)
    assert one.store.synopses(one.topology) == other.store.synopses(one.topology)
    checkpoints = (run.store.newest_checkpoint(one.topology) for run in (one, other))
    assert next(checkpoints) == next(checkpoints)


@laws
@given(cases(max_size=60))
def test_any_split_into_batches_gives_the_same_bytes(case: Case) -> None:
    """All at once, one at a time, and any split: statistics, letters, synopses, counters."""
    records, random = case.records, case.random
    whole = Run(case.topology, [records])
    same(whole, Run(case.topology, ([record] for record in records)))
    cuts = sorted(random.sample(range(1, len(records)), random.randint(0, len(records) - 1) // 3))
    same(
        whole,
        Run(
            case.topology,
            (records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)),
        ),
    )


@laws
@given(cases())
def test_redelivered_records_change_nothing(case: Case) -> None:
    """Batches that overlap what was read, or lie wholly before it, add nothing."""
    records, random = case.records, case.random
    batches = []
    read = 0
    while read < len(records):
        start = random.randint(0, read)
        end = random.randint(start + 1, len(records))
        batches.append(records[start:end])
        read = max(read, end)
    same(Run(case.topology, [records]), Run(case.topology, batches))


@laws
@given(cases(max_size=60))
def test_batches_decoded_ahead_give_the_same_bytes(case: Case) -> None:
    """As by the thread that fetches, also where a batch begins with what was read before."""
    records, random = case.records, case.random
    cuts = sorted(random.sample(range(1, len(records)), random.randint(0, len(records) - 1) // 3))
    parts = [
        records[max(0, start - random.randint(0, 3)) : end]
        for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True)
    ]
    ahead = Run(case.topology, parts, EventDecoder(case.topology))
    same(Run(case.topology, [records]), ahead)
