"""A backlog is committed once it is read to its end, not when the next commit is due."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from faust.types import TP

from slidestat.declare.topology import Topology
from slidestat.engine.records import RecordBatch
from slidestat.faust.partitions.batch_steps import BACKLOG_RECORDS
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.settings import WebSide, WorkerSettings

_TOPOLOGY = Topology(name="caught-up", source="events", span="1h", every="1m")
_END = 3 * BACKLOG_RECORDS


class _Pipeline:
    """A pipeline that takes all in, of partitions that end at `_END`."""

    are_changed = False

    def __init__(self, open_offsets: int, *, are_few: bool) -> None:
        self.are_few, self.open_offsets = are_few, open_offsets
        self.read = {0: 0, 1: _END}
        self.partitions = self.order = self.steps = self.states = self.offsets = self

    async def open(self, _partitions: object) -> None:
        """It is open."""

    def due_in_ms(self, _partition: int) -> int:
        return 0

    async def check(self, _batch: RecordBatch) -> bool:
        return True

    async def process(self, batch: RecordBatch, _trace: object) -> bool:
        self.read[batch.partition] = int(batch.offsets[-1]) + 1
        return True

    def end(self, _partition: int) -> int:
        return _END

    def waiting(self, _partition: int) -> int:
        return self.open_offsets

    def next_offset(self, partition: int) -> int:
        return self.read[partition]

    def is_end(self, _partition: int, offset: int) -> bool:
        return offset >= _END


async def _batches(*ends: int) -> AsyncIterator[RecordBatch]:
    for end in ends:
        yield RecordBatch("events", 0, np.array([end - 1]), [None], [b"{}"], [0], end - 1)


@pytest.mark.parametrize(
    ("ends", "open_offsets", "commits"),
    [
        # Little by little, as while records come: once a second is enough.
        ([_END - BACKLOG_RECORDS + 1, _END - 1, _END], 0, 0),
        # A backlog, not yet read; then read to its end, once; and what comes after it.
        ([1, _END - 1], 0, 0),
        ([1, _END - 1, _END], 0, 1),
        ([1, _END, _END, _END], 0, 1),
        # One after another: the next commit comes soon enough.
        ([1, _END, 1, _END, 1, _END], 0, 1),
        # What lies behind an open transaction cannot be read.
        ([1, _END], 2 * BACKLOG_RECORDS, 0),
    ],
)
@pytest.mark.parametrize("are_few", [True, False])
def test_a_backlog_is_committed_once_it_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ends: list[int],
    open_offsets: int,
    commits: int,
    *,
    are_few: bool,
) -> None:
    """With all of its states where they are few, so that nothing of it waits for their turn."""
    monkeypatch.setattr(
        "slidestat.faust.worker.parts.TopicWatch",
        lambda *_: SimpleNamespace(error=None, id_of=lambda _topic: ""),
    )

    async def run() -> None:
        member = GroupMember(
            WorkerSettings(
                topologies=[_TOPOLOGY],
                bootstrap_servers="127.0.0.1:1",
                data_dir=tmp_path,
                partitions=2,
                web=cast(WebSide, SimpleNamespace(canonical_url="http://127.0.0.1:1")),
            )
        )
        app: Any = member.app
        begun: list[Coroutine[Any, Any, None]] = []
        commits_made: list[bool] = []

        async def commit() -> None:
            # The first is one that was under way.
            commits_made.append(len(commits_made) % 2 == 1)
            if commits_made[-1]:
                await member._before_commit()

        app._consumer = SimpleNamespace(
            commit=commit,
            assignment=lambda: {TP("events", 0), TP("events", 1)},
            should_stop=False,
        )
        app.add_future = begun.append
        monkeypatch.setattr(type(app), "rebalancing", False)
        flushed: list[bool] = []

        async def flush(*, whole: bool) -> dict[TP, int]:
            flushed.append(whole)
            return {}

        member._flush = flush  # type: ignore[method-assign]
        member._pipelines = cast(Any, [_Pipeline(open_offsets, are_few=are_few)])
        await member._absorb(cast(Any, _batches(*ends)))
        for work in begun:
            await work
        assert commits_made == [False, True] * commits
        await member._before_commit()
        assert flushed == [are_few] * commits + [False]

    asyncio.run(run())
