"""What `make bench` runs."""

from benchmarks.delay.due import SUBJECTS
from benchmarks.documents.report import WANTED_RATIOS
from benchmarks.everything import FULL, QUICK
from benchmarks.harness.cases import CASES, CaseName
from benchmarks.harness.systems import BARE, OURS, SYSTEMS

RATIOS = {
    BARE,
    "faust_tumbling_table",
    "quix_tumbling",
    "quix_hopping",
    "quix_sliding",
    "kafka_streams_tumbling",
    "kafka_streams_sliding",
    "bytewax_tumbling",
    "pathway_tumbling",
    "pathway_hopping",
    "spark_tumbling",
}


def test_a_quick_run_has_the_ratios_that_users_look_for() -> None:
    """Each library, each ratio that is wanted, and each workload that ours has to be so fast on."""
    assert set(QUICK.systems) >= RATIOS | {OURS} | set(WANTED_RATIOS[CaseName.SUMS])
    assert {CaseName.SUMS, *QUICK.others} >= set(WANTED_RATIOS)
    for case in set(WANTED_RATIOS) - {CaseName.SUMS}:
        assert set(QUICK.others_systems) >= set(WANTED_RATIOS[case])
    assert QUICK.runs >= 2 <= QUICK.others_runs
    wanted = {case for case, what in CASES.items() if what.wanted is not None}
    assert {CaseName.SUMS, *QUICK.others} >= wanted
    assert set(QUICK.systems) >= set(SUBJECTS) > set(QUICK.restarted)


def test_a_full_run_leaves_out_nothing() -> None:
    """All systems on all workloads, all restarts."""
    assert set(FULL.systems) == set(FULL.others_systems) == set(FULL.restarted) == set(SYSTEMS)
    assert {CaseName.SUMS, *FULL.others} == set(CaseName)
