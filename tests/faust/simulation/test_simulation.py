"""The worker's own flushes, commits, rebalances and fences, and its mover, in schedules that follow
from seeds.

Workers are killed, lose their folders, are frozen, stopped and cut off, connections are lost with
requests to commit, and each callback, request and thread takes its time by chance. `make simulate`
runs many more seeds; one that fails is run again with SIMULATED_SEED=... and ends in the same way.
"""

import os
from unittest import mock

import pytest

from slidestat.kafka.transactional_producer import ConnectionWatch
from tests.faust.simulation.moved import MovedSchedule
from tests.faust.simulation.schedule import OFTEN, Outcome, Schedule

SEED = int(os.environ.get("SIMULATED_SEED", "0"))
SEEDS = int(os.environ.get("SIMULATED_SEEDS", "1" if SEED else "6"))
KINDS = pytest.mark.parametrize("kind", [Schedule, MovedSchedule])


def run_seed(kind: type[Schedule], seed: int) -> Outcome:
    """At least once, and with odd seeds exactly once."""
    return kind(seed, exactly_once=bool(seed % 2)).run()


@KINDS
@pytest.mark.timeout(60 + 5 * SEEDS)
def test_schedules_leave_what_an_undisturbed_worker_leaves(kind: type[Schedule]) -> None:
    """And soon after the last fault."""
    for seed in range(SEED, SEED + SEEDS):
        try:
            run_seed(kind, seed)
        except BaseException as error:
            again = f"make simulate SIMULATED_SEED={seed} SIMULATED_SEEDS=1"
            error.add_note(f"run again: {again}  ({kind.__name__})")
            raise


@KINDS
def test_a_seed_is_the_same_schedule_again(kind: type[Schedule]) -> None:
    """Its faults, the number of steps and the time that it takes."""
    assert run_seed(kind, 5) == run_seed(kind, 5)


@pytest.mark.parametrize(("kind", "exactly_once"), [(Schedule, True), (MovedSchedule, False)])
def test_transactions_are_torn_without_new_producers_after_commits_in_doubt(
    kind: type[Schedule], *, exactly_once: bool
) -> None:
    """A request to commit that comes late ends the next transaction of the same producer: outputs
    without their states, and moved records without their offsets. Some seeds in ten show it; with
    new producers, the first that does leaves nothing torn.
    """

    def run(seed: int) -> None:
        schedule = kind(seed, exactly_once=exactly_once)
        schedule.brokers.lost_connections = OFTEN
        schedule.run()

    tried: list[int] = []

    def run_seeds() -> None:
        for seed in range(10):
            tried.append(seed)
            run(seed)

    torn = "^(torn|moved of|repeated)"
    with mock.patch.object(ConnectionWatch, "log"), pytest.raises(AssertionError, match=torn):
        run_seeds()
    run(tried[-1])
