"""Partitions are shared out evenly among real workers, and move with their states."""

from collections.abc import Sequence

from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.workers import DRAIN_S, Stage, Worker, events, produce, wait_until


def shares(stage: Stage, worker: Worker) -> list[int]:
    """How many partitions each worker of the group has, as one of them says."""
    status, body = get(worker.url, f"/topologies/{stage.topology.name}/status")
    if status != 200 or any(each["state"] != "ready" for each in body["workers"]):
        return []
    return sorted(len(each["partitions"]) for each in body["workers"])


def await_shares(stage: Stage, workers: Sequence[Worker], wanted: list[int]) -> None:
    """Return once all workers are ready with as many partitions as this."""
    for worker in workers:
        worker.await_ready()
    wait_until(lambda: shares(stage, workers[0]) == wanted, f"shares {wanted}", DRAIN_S)


def test_a_third_worker_takes_its_share(make_stage: MakeStage) -> None:
    """Of four partitions, workers that come one after another have 4, then 2 and 2, then 2, 1 and
    1; when one leaves, 2 and 2. All that they emit is as if there were one.
    """
    stage = make_stage(partitions=4)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(4_000))
    with stage.worker("a") as one, stage.worker("b") as two:
        await_shares(stage, (one, two), [2, 2])
        produce(stage.bootstrap, source, events(4_000, start=4_000))
        with stage.worker("c") as three:
            await_shares(stage, (one, two, three), [1, 1, 2])
            produce(stage.bootstrap, source, events(4_000, start=8_000))
            stage.await_settled((one, two, three))
            one.stop()
            await_shares(stage, (two, three), [2, 2])
            produce(stage.bootstrap, source, events(4_000, start=12_000))
            stage.await_settled((two, three))
            for worker in (two, three):
                worker.stop()
    stage.check()
