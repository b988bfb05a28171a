"""The worker's own flushes, commits, rebalances and fences, in schedules that follow from seeds.

Workers are killed, lose their folders, are frozen, stopped and cut off, and each callback, request
and thread takes its time by chance. `make simulate` runs many more seeds; one that fails is run
again with SIMULATED_SEED=... and ends in the same way.
"""

import os

import pytest

from tests.faust.simulation.schedule import run_seed

SEED = int(os.environ.get("SIMULATED_SEED", "0"))
SEEDS = int(os.environ.get("SIMULATED_SEEDS", "1" if SEED else "6"))


def run(seed: int) -> None:
    try:
        run_seed(seed)
    except BaseException as error:
        error.add_note(f"run again: make simulate SIMULATED_SEED={seed} SIMULATED_SEEDS=1")
        raise


@pytest.mark.timeout(60 + 5 * SEEDS)
def test_schedules_leave_what_an_undisturbed_worker_leaves() -> None:
    """At least once, and with odd seeds exactly once; and soon after the last fault."""
    for seed in range(SEED, SEED + SEEDS):
        run(seed)


def test_a_seed_is_the_same_schedule_again() -> None:
    """Its faults, the number of steps and the time that it takes."""
    assert run_seed(5) == run_seed(5)
