"""What `make bench` runs."""

from benchmarks.cases import CaseName
from benchmarks.due import SUBJECTS
from benchmarks.everything import FULL, QUICK
from benchmarks.report import WANTED_RATIOS
from benchmarks.systems import BARE, OURS, SYSTEMS

RATIOS = {
    BARE,
    "faust_tumbling_table",
    "quix_tumbling",
    "quix_hopping",
    "quix_sliding",
    "kafka_streams_tumbling",
    "kafka_streams_sliding",
    "bytewax_tumbling",
    "spark_tumbling",
    "spark_hopping",
}


def test_a_quick_run_has_the_ratios_that_users_look_for() -> None:
    """Each library, in the windows that it has, and each ratio that is wanted."""
    assert set(QUICK.systems) >= RATIOS | {OURS} | set(WANTED_RATIOS)
    assert QUICK.runs >= 2
    assert set(QUICK.systems) >= set(SUBJECTS) > set(QUICK.restarted)


def test_a_full_run_leaves_out_nothing() -> None:
    """All systems, all workloads, all restarts."""
    assert set(FULL.systems) == set(FULL.restarted) == set(SYSTEMS)
    assert {CaseName.SUMS, *FULL.others} == set(CaseName)
