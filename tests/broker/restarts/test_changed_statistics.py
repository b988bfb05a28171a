"""Statistics that are added to a group that runs, one worker after the other."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from slidestat.schemas.emission import Emission, Figure
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.workers import DRAIN_S, Stage, Worker, events, produce, undisturbed, wait_until

OLD = 'span="10m", every="20s", windows=("1m",), statistics=(Count(epsilon=0.1),),\n'
NEW = OLD.replace("(Count(epsilon=0.1),)", "(Sum(), Count(epsilon=0.1))")

_decode = msgspec.json.Decoder(Emission).decode


def figures(emissions: dict[bytes, bytes], statistic: str) -> Iterator[tuple[bytes, int, Figure]]:
    for key, value in emissions.items():
        emission = _decode(value)
        for figure in emission.figures:
            if figure.statistic == statistic:
                yield key, emission.window_end_ms, figure


def incomplete(worker: Worker, stage: Stage) -> list[dict[str, object]]:
    """What the worker's status tells of its partitions."""
    status, body = get(worker.url, f"/topologies/{stage.name}/status")
    assert status == 200, body
    partitions = [p for told in body["workers"] for p in told["partitions"]]
    return [added for p in partitions for added in p.get("incomplete", [])]


@pytest.mark.long
def test_a_statistic_is_added_to_a_group_that_runs(make_stage: MakeStage, tmp_path: Path) -> None:
    """Without the flag the change is refused. With it the new worker shares the group with an old
    one until that is stopped, takes over its partition, and an old one that comes back is refused.
    Killed, with its folder lost and without the flag, the new one goes on as it was: each emission
    once, the count of an undisturbed worker in it, the sum since one time of each partition.
    """
    stage = make_stage(body=OLD)
    source = stage.topology.source
    new = Stage(stage.bootstrap, tmp_path / "new", stage.name, source, NEW)
    produce(stage.bootstrap, source, events(4_000))
    stage.drain()
    with new.worker() as refused:
        assert refused.await_end() == 2
        assert "--change-statistics" in refused.said()
    with (
        stage.worker("old").await_ready() as old,
        new.worker("new", None, "--change-statistics").await_ready() as changed,
    ):
        produce(stage.bootstrap, source, events(2_000, start=4_000))
        stage.await_settled([old, changed])
        assert "sum counts events from" in changed.said()
        assert len(incomplete(changed, new)) >= 1
        old.stop()
        wait_until(lambda: len(incomplete(changed, new)) == 2, "both are changed", DRAIN_S)
        with stage.worker("old") as again:
            assert again.await_end() == 2
            assert "statistics are changed" in again.said()
        produce(stage.bootstrap, source, events(2_000, start=6_000))
        new.await_settled([changed])
        changed.kill()
    shutil.rmtree(new.data_dir("new"))
    produce(stage.bootstrap, source, events(30_000, start=8_000))
    new.drain("new")

    emissions = new.emissions()
    expected = undisturbed(stage.topology, new.read(source)).emissions
    assert emissions.keys() == expected.keys()
    assert [*figures(emissions, "count")] == [
        *((key, end, figure) for key, end, figure in figures(expected, "count"))
    ]
    whole = undisturbed(new.topology, new.read(source)).emissions
    right = {(key, end): figure for key, end, figure in figures(whole, "sum")}
    starts = set()
    for key, end, figure in figures(emissions, "sum"):
        if figure.counted_from_ms is None:
            assert figure.lower <= right[key, end].upper
            assert right[key, end].lower <= figure.upper
        else:
            assert end - 60_000 < figure.counted_from_ms
            starts.add(figure.counted_from_ms)
    assert 1 <= len(starts) <= 2
