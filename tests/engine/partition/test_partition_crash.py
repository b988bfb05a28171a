"""A crash at any point, and a restart anywhere, end in what an undisturbed run ends in."""

from random import Random

from hypothesis import given, settings, strategies as st

from tests.engine.cases import Case, cases, laws
from tests.engine.memory import Output, Partition


def sent(outputs: list[Output]) -> dict[tuple[str, bytes | int], tuple[object, ...]]:
    """Each record that was sent; one that was sent again is the same to the byte."""
    first: dict[tuple[str, bytes | int], tuple[object, ...]] = {}
    for kind, key, rest in outputs:
        assert first.setdefault((kind, key), rest) == rest
    return first


def undisturbed(case: Case) -> Partition:
    partition = Partition(case.topology, case.records, case.random)
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
    that comes after, with other batches, ends where an undisturbed one does.
    """
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps)
    partition.live()
    same_end(partition, undisturbed(case))


@laws
@given(cases(), st.lists(st.integers(0, 120), min_size=1, max_size=6))
def test_a_crash_repeats_no_output_from_before_the_last_flush(
    case: Case, crashes: list[int]
) -> None:
    """However few of the states were written: what was acknowledged before a flush that was whole
    in the changelog is not sent again, neither with the committed offsets nor without them.
    """
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.3)
    partition.live()
    for flushed, start in partition.starts:
        again = {output[:2] for output in partition.outputs[start:]}
        assert again.isdisjoint(output[:2] for output in partition.outputs[flushed])


# Each example is run on from some eighty deaths.
@settings(laws, max_examples=80)
@given(cases(max_size=40), st.integers(0, 2**32))
def test_each_single_step_may_be_the_last(case: Case, seed: int) -> None:
    """One run, crashed after each of its steps in turn: all that may be left is gone on from."""
    whole = undisturbed(case)
    partition = Partition(case.topology, case.records, Random(seed))
    deaths = partition.live_and_die()
    for left in (*deaths, partition):
        left.live()
        same_end(left, whole)


@laws
@given(cases(), st.lists(st.integers(0, 120), min_size=1, max_size=4))
def test_lost_group_offsets_leave_no_trace(case: Case, crashes: list[int]) -> None:
    """Reading starts from the first record again, before every checkpoint that is kept."""
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=case.random.random() < 0.5)
    partition.live(forget_offsets=True)
    partition.live(forget_offsets=True)
    same_end(partition, undisturbed(case))
