"""What is added up for those who watch: true after any batches, flushes and restarts."""

import msgspec
from hypothesis import given

from slidestat.engine.clock import RECORDS
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.view import PartitionView
from slidestat.live.observed import Observed
from tests.engine.cases import Case, cases, laws
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, rows_of

EVERY_KEY = 10**6


def held(view: PartitionView) -> int:
    return len(list(view.keys("", "", EVERY_KEY)))


def uncounted(processor: PartitionProcessor) -> int:
    """Records that are in no counter, as it is not known yet whether they are dead; while all that
    comes was read before a restart, each is a repeated one.
    """
    return (
        len(processor._intake.suspects) if processor.next_offset == processor.unread_offset else 0
    )


@laws
@given(cases())
def test_keys_and_outcomes_add_up(case: Case) -> None:
    """The number of keys is that of the keys that are listed, whatever came, went silent, was
    written, or was read again; every record of every batch has one outcome, and no counter goes
    back. Those few of which it is not known yet whether they are dead may have two or none after a
    restart.
    """
    store, observed, random = MemoryStore(), Observed("law"), case.random
    work = observed.partition(PARTITION)

    def start() -> PartitionProcessor:
        return PartitionProcessor(case.topology, SOURCE, PARTITION, store, work=work)

    processor = start()
    assert processor.view().keys_held == 0
    sent = place = undecided = restarts = 0
    while place < len(case.records):
        begin = max(0, place - random.choice([0, 0, 0, 3]))
        place = min(len(case.records), place + random.randint(1, 40))
        batch = batch_of(case.records[begin:place])
        repeated = len(batch) - len(batch.since(processor.unread_offset))
        before = processor.reached.counters
        effects = processor.process(batch)
        letters = (*effects.dead_letters, *effects.late)
        taken = processor.reached.counters.since(before)
        assert min(0, *msgspec.structs.astuple(taken)[:6], *taken.left_out.values()) == 0
        observed.processed(batch, letters, taken, repeated, 0.0)
        sent += len(batch)
        assert processor.view().keys_held == held(processor.view())
        if random.random() < 0.5:
            snapshot = processor.snapshot(random.sample(range(SLOTS), random.choice([20, SLOTS])))
            if snapshot is not None:
                store.write(rows_of(snapshot))
                processor.written()
                observed.acknowledged()
            assert processor.view().keys_held == held(processor.view())
        # Those of which it is not known yet whether they are dead.
        assert len(processor._intake.suspects) <= RECORDS
        if random.random() < 0.1:
            undecided += uncounted(processor)
            processor = start()
            restarts += 1
            place = sum(it.offset < processor.next_offset for it in case.records)
            assert processor.view().keys_held == held(processor.view()) == len(store.keys())
    undecided += uncounted(processor)
    outcomes = work.counted + work.dead + work.late + work.passed_over + work.repeated
    assert abs(outcomes + undecided - sent) <= RECORDS * restarts
    assert sum(observed.refusals.values()) == work.dead + work.late
