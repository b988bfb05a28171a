"""A restore that is given up for another rebalance, which begins while it still ends."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from slidestat.faust import restore
from slidestat.faust.restore import BulkRecovery

CHANGELOG = TP("t-state-changelog", 0)


class _Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"state"

    def headers(self) -> None:
        return None


@pytest.mark.parametrize("given_up", ["while it reads", "while it writes"])
def test_a_restore_that_is_given_up_writes_nothing_later(
    monkeypatch: pytest.MonkeyPatch, given_up: str
) -> None:
    """What it is about to write it leaves, and what it is writing is waited for: the next restore
    of the same tables has begun by then, and may have written newer states.
    """
    is_reading, is_writing, goes_on = threading.Event(), threading.Event(), threading.Event()
    written: list[int] = []

    def scan(*_what: Any) -> Iterator[_Message]:
        is_reading.set()
        if given_up == "while it reads":
            goes_on.wait(30)
        yield _Message(0)

    class Store:
        def restore(self, _partition: int, rows: list[Any]) -> None:
            is_writing.set()
            goes_on.wait(30)
            written.extend(row[0] for row in rows)

    monkeypatch.setattr(restore, "scan", scan)
    monkeypatch.setattr(restore, "open_scanner", lambda *_, **__: SimpleNamespace(close=int))
    recovery = BulkRecovery.__new__(BulkRecovery)
    recovery._bootstrap_servers = "nowhere"
    recovery.active_highwaters = Counter({CHANGELOG: 0})
    recovery.tables = SimpleNamespace(_changelogs={CHANGELOG.topic: SimpleNamespace(data=Store())})

    async def give_up() -> list[int]:
        restoring = asyncio.ensure_future(recovery._restore({CHANGELOG: -1}))
        reached = is_reading if given_up == "while it reads" else is_writing
        await asyncio.to_thread(reached.wait, 30)
        restoring.cancel()
        asyncio.get_running_loop().call_later(0.05, goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await restoring
        then = list(written)
        await asyncio.to_thread(goes_on.wait, 30)
        return then

    then = asyncio.run(give_up())
    for thread in threading.enumerate():
        if thread.name.startswith("slidestat-restore"):
            thread.join(30)
            assert not thread.is_alive()
    assert then == written == ([] if given_up == "while it reads" else [0])
