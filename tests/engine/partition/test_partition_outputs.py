"""What a partition puts out is what the model says, and every record is accounted for."""

from random import Random

from hypothesis import given, strategies as st

from slidestat.engine.checkpoints.checkpoint import Checkpoint, Counters
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import NO_TIME
from slidestat.schemas.dead_letter import Reason
from tests.engine.cases import Case, cases, laws, topology
from tests.engine.checks import check_emissions, emissions_of, offsets_of
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, Output, Partition, batch_of
from tests.engine.model import Fate, Model, Record
from tests.engine.streams import KEYS, START_MS, VALUES, encode


# Longer streams than elsewhere: windows in which synopses have merged much are looked at here.
@laws
@given(cases(max_size=250))
def test_what_one_worker_leaves_is_what_the_model_says(case: Case) -> None:
    """All that is sent and stored in one run of a worker, in any batches, in each respect."""
    model = Model(case.topology, case.records)
    partition = Partition(case.topology, case.records, case.random)
    partition.live()
    # For each key with events since the tick before: the exact figure lies within the bounds, the
    # estimate within the promise, and the source offset is that of the record that passed the tick.
    check_emissions(case.topology, model, emissions_of(partition.outputs))
    every_refused_or_late_record_is_one_letter(case, model, partition.outputs)
    read_is_counted_and_dead_and_late_at_every_commit(case, model, partition.commits)


def every_refused_or_late_record_is_one_letter(
    case: Case, model: Model, sent: list[Output]
) -> None:
    """Dead and late letters are exactly the model's, as soon as that is clear, with the original's
    key, bytes and timestamp; a late one tells by how much, and so does one that was far ahead.
    """
    assert offsets_of("dead letter", sent) == model.dead
    assert offsets_of("late", sent) == model.offsets(Fate.LATE)
    original = {record.offset: record for record in case.records}
    for kind, offset, rest in sent:
        if kind not in ("dead letter", "late"):
            continue
        assert isinstance(offset, int)
        key, value, timestamp, reason, detail, _ = rest
        assert original[offset] == (offset, key, value, timestamp)
        if kind == "late":
            assert reason is Reason.LATE
            assert detail == f"{model.late_by[offset]} ms behind the watermark"
        else:
            assert reason is not Reason.LATE
            if offset in model.ahead:
                ahead = model.ahead[offset]
                assert detail == f"{ahead} ms ahead of the records around it"


def read_is_counted_and_dead_and_late_at_every_commit(
    case: Case, model: Model, commits: list[Checkpoint]
) -> None:
    """A checkpoint's counters are the model's for the records before its offset, with what each
    statistic left out of them, and its largest time is theirs.
    """
    assert commits
    for checkpoint in commits:
        read, counted, dead, late = model.counts_before(checkpoint.next_offset)
        left_out = model.left_out_before(checkpoint.next_offset)
        passed_over = model.passed_over_before(checkpoint.next_offset)
        assert checkpoint.counters == Counters(
            *(read, counted, dead, late), passed_over=passed_over, left_out=left_out
        )
        assert read == counted + dead + late + passed_over
        watermark = model.watermark_before(checkpoint.next_offset)
        if watermark == float("-inf"):
            assert checkpoint.max_time == NO_TIME
        else:
            assert checkpoint.max_time - case.topology.lateness_ms == watermark


@laws
@given(
    st.sampled_from(sorted(KEYS)),
    st.sampled_from(sorted(VALUES)),
    st.integers(2, 300),
    st.integers(0, 2**32),
)
def test_disorder_within_the_lateness_changes_no_figure(
    keys: str, values: str, size: int, seed: int
) -> None:
    """A stream whose events are up to the lateness behind gives the figures of the stream sorted by
    time, to the last bit; only the source offsets are its own.
    """
    random = Random(seed)
    lateness = 150
    declared = topology(lateness=f"{lateness}ms")
    # No ties: values with parts of a unit are added in order of (time, offset).
    times = sorted(random.sample(range(START_MS, START_MS + 10 * size), size))
    bodies = [encode(KEYS[keys](random), time, VALUES[values](random)) for time in times]
    # Sorted by time + noise, no event comes more than the noise behind a later one.
    noise = [time + random.randint(0, lateness) for time in times]
    disordered = [bodies[i] for i in sorted(range(size), key=lambda i: (noise[i], i))]
    flush = [encode("~", times[-1] + 10_000, 0)] * 16

    def figures(stream: list[bytes], *, at_once: bool) -> list[tuple[object, ...]]:
        records = [Record(i, None, body, 0) for i, body in enumerate([*stream, *flush])]
        partition = Partition(declared, records, random)
        if at_once:
            partition.live_at_once()
        else:
            partition.live()
        assert not offsets_of("late", partition.outputs)
        found = emissions_of(partition.outputs)
        return [(it.window_end_ms, it.key, it.figures) for it in found]

    assert figures(disordered, at_once=False) == figures(bodies, at_once=True)


@laws
@given(cases())
def test_nothing_is_emitted_before_it_is_due(case: Case) -> None:
    """A worker may let records wait for as long as a partition says that no tick is due."""
    processor = PartitionProcessor(case.topology, SOURCE, PARTITION, MemoryStore())
    left = list(case.records)
    while left:
        size = case.random.randint(1, len(left))
        before, due_in_ms = processor.watermark, processor.due_in_ms
        effects = processor.process(batch_of(left[:size]))
        assert 0 < due_in_ms <= case.topology.every_ms
        assert not effects.emissions or processor.watermark >= before + due_in_ms
        del left[:size]
