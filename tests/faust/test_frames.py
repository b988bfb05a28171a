"""The way of a batch to a kernel is short: a traceback and a profile are read frame by frame."""

import asyncio
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slidestat.declare.alerts import Alert
from slidestat.declare.topology import Topology
from slidestat.faust.pipeline import Pipeline
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.settings import WebSide, WorkerSettings
from slidestat.synopses.exponential_histogram import histogram
from tests.engine.memory import SmallMemoryProcessor
from tests.faust.test_failed_worker import batches
from tests.faust.test_slices import (
    EVERYONE,
    LATER,
    TOPOLOGY,
    Outputs,
    nothing,
    pipeline as pipeline_of,
)

MOST_FRAMES = 12
AGENT = "_absorb"

WAYS = {
    "emitted after events": TOPOLOGY,
    "emitted at every tick": replace(TOPOLOGY, emit="always"),
    "with alerts": replace(TOPOLOGY, alerts=[Alert(name="many", when="count_1m > 3")]),
    "with synopses at an interval": replace(TOPOLOGY, synopses="2s"),
    "published for a referee": replace(TOPOLOGY, publish="partition"),
}


def member_of(pipeline: Pipeline, folder: Path) -> GroupMember:
    """A member of a group that has one partition, and no broker."""
    member = GroupMember(
        WorkerSettings(
            topologies=[pipeline.topology],
            bootstrap_servers="127.0.0.1:1",
            data_dir=folder,
            partitions=1,
            web=cast(WebSide, SimpleNamespace(canonical_url="http://127.0.0.1:1")),
        )
    )
    member._pipelines = [pipeline]
    app = cast(Any, member.app)
    app.consumer = SimpleNamespace(should_stop=False, assignment=set)
    app.rebalancing = False
    return member


def frames_below_agent(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Note the functions on the stack at each call of the kernel of counts, from the agent on."""
    found: list[list[str]] = []
    kernel = histogram.run

    def noted(*arguments: Any) -> Any:
        names = [frame.name for frame in traceback.extract_stack()[:-1]]
        found.append(names[names.index(AGENT) :])
        return kernel(*arguments)

    monkeypatch.setattr(histogram, "run", noted)
    return found


@pytest.mark.parametrize("topology", WAYS.values(), ids=WAYS)
def test_no_more_frames_than_this_lie_between_the_agent_and_a_kernel(
    topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent counts, and the kernel does not. Events that are absorbed as too many wait, though
    no tick is due, have the same short way.
    """
    monkeypatch.setattr(
        "slidestat.faust.partitions.held_partitions.PartitionProcessor", SmallMemoryProcessor
    )
    monkeypatch.setattr(
        "slidestat.faust.worker.parts.TopicWatch",
        lambda *_: SimpleNamespace(error=None, id_of=lambda _topic: ""),
    )

    async def run() -> list[list[str]]:
        pipeline = pipeline_of(Outputs(nothing), topology=topology)
        member = member_of(pipeline, tmp_path)
        found = frames_below_agent(monkeypatch)
        await member._absorb(cast(Any, batches(EVERYONE, LATER)))
        return found

    longest = max(asyncio.run(run()), key=len)
    assert len(longest) <= MOST_FRAMES, longest
