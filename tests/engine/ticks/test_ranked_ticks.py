"""What leads in rankings at each tick, published by one partition."""

from hypothesis import given, settings, strategies as st

from tests.engine.cases import Case, cases, laws
from tests.engine.memory import Partition
from tests.engine.partition.test_partition_crash import same_end, undisturbed

RANKED = ("rankings", "windows emptied, rankings, late", "change, rankings")


@settings(laws, max_examples=40)
@given(
    cases(topologies=RANKED, max_size=120),
    st.lists(st.integers(0, 120), min_size=1, max_size=6),
    st.booleans(),
)
def test_crashes_after_any_step_change_no_ranking(
    case: Case, crashes: list[int], forget_offsets: bool
) -> None:
    """Whatever was written before a crash, a part of the states too, and whatever the batches are:
    each part of a ranking is published with the same bytes, and none is missing.
    """
    partition = Partition(case.topology, case.records, case.random)
    for steps in crashes:
        partition.live(steps, forget_offsets=forget_offsets)
    partition.live()
    same_end(partition, undisturbed(case))
