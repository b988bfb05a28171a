"""A worker that has failed takes in nothing more, though Faust starts its agent again meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from slidestat.declare.topology import Topology
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.settings import WebSide, WorkerSettings

TOPOLOGY = Topology(name="failed", source="events", span="1h", every="1m")
FAILURE = SlidestatError("It cannot be read.", "Correct it.")


class FailingOnce:
    """A pipeline that fails at its first batch, and would take in all that follow."""

    are_changed = False
    due_in_ms = 0

    def __init__(self) -> None:
        self.processed: list[int] = []
        self.is_flushed = False
        self.partitions = self.order = self.steps = self.states = self

    async def open(self, _partitions: object) -> None:
        """It is open."""

    async def check(self, _batch: RecordBatch) -> bool:
        return True

    async def process(self, batch: RecordBatch, _trace: object) -> bool:
        self.processed.append(batch.partition)
        if len(self.processed) == 1:
            raise FAILURE
        return True

    async def emit_all_kept(self) -> None:
        self.is_flushed = True

    def forget(self) -> None:
        """There is nothing."""


def batch(partition: int) -> RecordBatch:
    return RecordBatch("events", partition, np.arange(1), [None], [b"{}"], [0], 0)


async def batches(*some: RecordBatch) -> AsyncIterator[RecordBatch]:
    for one in some:
        yield one


def test_what_comes_after_the_failed_batch_is_not_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor flushed: a partition of which nothing is stored would begin with what comes next, and its
    first records would be lost.
    """
    monkeypatch.setattr(
        "slidestat.faust.worker.parts.TopicWatch", lambda *_: SimpleNamespace(error=None)
    )

    async def run() -> None:
        member = GroupMember(
            WorkerSettings(
                topologies=[TOPOLOGY],
                bootstrap_servers="127.0.0.1:1",
                data_dir=tmp_path,
                partitions=2,
                web=cast(WebSide, SimpleNamespace(canonical_url="http://127.0.0.1:1")),
            )
        )
        crashes: list[BaseException] = []

        async def crash(error: BaseException) -> None:
            crashes.append(error)

        app: Any = member.app
        app.crash = crash
        pipeline = FailingOnce()
        member._pipelines = cast(Any, [pipeline])
        with pytest.raises(SlidestatError):
            await member._absorb(cast(Any, batches(batch(0), batch(1))))
        assert crashes == [FAILURE]
        await member._absorb(cast(Any, batches(batch(0), batch(1))))
        assert pipeline.processed == [0]
        assert await member._flush(whole=True) == {}
        assert not pipeline.is_flushed

    asyncio.run(run())
