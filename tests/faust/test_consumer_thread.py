"""The thread that fetches, where the real broker would have to be away for minutes."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP
from hypothesis import given, strategies as st

from slidestat.faust.delivery import (
    BatchApp,
    BatchConsumer,
    BatchConsumerThread,
    TricklePace,
    has_all_of,
    no_client,
    trickle_pace,
)
from tests.engine.cases import laws


class _Waiting:
    """An aiokafka consumer one of whose fetches waits to be tried again when it is stopped."""

    stopped = False

    async def stop(self) -> None:
        self.stopped = True
        fetch = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        fetch.cancel()
        await fetch  # as aiokafka's fetcher does


def test_a_fetch_that_waits_for_a_broker_holds_up_no_end() -> None:
    """The cancellation that aiokafka lets out does not end the thread before it has said that it
    is done.
    """

    async def end() -> _Waiting:
        app = BatchApp("ends", broker="kafka://127.0.0.1:1", store="memory://")
        thread = cast(BatchConsumer, app.consumer)._thread
        thread._consumer = waiting = _Waiting()
        try:
            await thread.on_thread_stop()
        finally:
            thread.thread_loop.close()
        return waiting

    assert asyncio.run(end()).stopped


@pytest.mark.parametrize("fails", [True, False])
def test_a_worker_ends_with_the_tasks_of_its_consumer(*, fails: bool) -> None:
    """aiokafka logs what ends them, and stands still: what is cancelled at an end is no failure."""

    async def lost() -> list[Exception]:
        app = BatchApp("fails", broker="kafka://127.0.0.1:1", store="memory://")
        app.loop = asyncio.get_running_loop()
        app.group_lost = (found := []).append
        thread = cast(BatchConsumerThread, cast(BatchConsumer, app.consumer)._thread)
        task: asyncio.Task[None] = asyncio.ensure_future(_raise() if fails else asyncio.sleep(60))
        task.add_done_callback(lambda ended: thread._ended(no_client, ended))
        if not fails:
            task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        thread.thread_loop.close()
        return found

    assert [str(error) for error in asyncio.run(lost())] == (
        [str(no_client("fails", ValueError("of a bug")))] if fails else []
    )


async def _raise() -> None:
    raise ValueError("of a bug")


def test_fetches_wait_for_more_only_while_records_come() -> None:
    """A topic that brings a record now and then does not wake its worker for each; after a pause a
    record is brought at once.
    """
    unpaced = (1500, 1)
    fetcher = SimpleNamespace(_fetch_max_wait_ms=unpaced[0], _fetch_min_bytes=unpaced[1])

    def waits() -> tuple[int, int]:
        return fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes

    pace = TricklePace()
    for is_trickling in (False, True, True, False, True):
        pace.set(fetcher, None, is_trickling=is_trickling)
        assert (waits() == unpaced) is not is_trickling
        assert waits()[0] <= unpaced[0]


@pytest.mark.parametrize(
    ("due_in_s", "wait_ms"),
    [
        (None, 50),
        (-1.0, 5),
        (0.0, 5),
        (0.0001, 1),
        (0.0042, 5),
        (0.2491, 250),
        (0.3, 250),
        (10.0, 250),
    ],
)
def test_a_fetch_ends_when_the_tick_is_due(due_in_s: float | None, wait_ms: int) -> None:
    """By the clock; then fetches are short. A longer wait brings no more bytes a second."""
    assert trickle_pace(due_in_s) == (wait_ms, 64 * 2**10 * wait_ms // 50)


@pytest.mark.parametrize(
    ("position", "highwater", "stable", "has_all"),
    [
        (10, 10, None, True),
        (10, 12, None, False),
        (10, 12, 10, True),  # What lies behind an open transaction does not come.
        (None, 12, None, True),
    ],
)
def test_the_end_of_a_backlog_waits_for_nothing(
    position: int | None, highwater: int, stable: int | None, *, has_all: bool
) -> None:
    """A fetch that has left records at the broker is not followed by one that waits for more."""
    state = SimpleNamespace(
        position=position,
        has_valid_position=position is not None,
        highwater=highwater,
        lso=stable,
    )
    place, gone = TP("events", 0), TP("events", 1)
    assignment = SimpleNamespace(tps={place}, state_value={place: state}.__getitem__)
    assert has_all_of([place, gone], assignment) is has_all


@pytest.mark.parametrize("done", [True, False])
def test_a_worker_tells_no_offsets_that_the_group_has_refused(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, *, done: bool
) -> None:
    """As of one that was away, and stops before it learns that others have its partitions."""
    place = TP("events", 0)

    async def commit() -> None:
        app = BatchApp("refused", broker="kafka://127.0.0.1:1", store="memory://")
        app.batch_topics = frozenset(("events",))
        consumer = cast(BatchConsumer, app.consumer)
        monkeypatch.setattr(consumer, "_commit", AsyncMock(return_value=done))
        monkeypatch.setattr(consumer, "assignment", lambda: {place})
        monkeypatch.setattr(app.producer, "flush", AsyncMock())
        consumer._committed_offset[place] = 7
        try:
            assert await consumer._commit_offsets({place: 9}) is done
            consumer._tell_committed()
        finally:
            consumer._thread.thread_loop.close()

    with caplog.at_level("INFO"):
        asyncio.run(commit())
    (told,) = (record for record in caplog.records if record.getMessage() == "committed")
    assert told.__dict__["offsets"] == {"events/0": 9 if done else 7}


SOURCE, OTHER = TP("source", 0), TP("t-state-changelog", 0)


@laws
@given(st.one_of(st.none(), st.integers(-1, 9)), st.integers(0, 9))
def test_reading_goes_on_where_a_state_needs_it(committed: int | None, needed: int) -> None:
    """Whatever became of the group's offsets: set back, set forward, or gone, as brokers forget
    those of a group that nobody is in. Of other topics they hold as they are.
    """
    sought: dict[TP, int] = {}

    async def begin(*tps: TP) -> None:
        sought.update(dict.fromkeys(tps, 0))

    async def seek(offsets: dict[TP, int]) -> None:
        sought.update(offsets)

    async def to_committed(_consumer: object) -> dict[TP, int | None]:
        return {SOURCE: committed, OTHER: 7}

    one: Any = BatchConsumer.__new__(BatchConsumer)
    one.app = SimpleNamespace(
        batch_topics=frozenset({SOURCE.topic}), needed_offset=lambda _tp: needed
    )
    one._thread = SimpleNamespace(seek_wait=seek, seek_to_beginning=begin)
    with patch.object(Consumer, "seek_to_committed", to_committed):
        found = asyncio.run(one.seek_to_committed())
    at = committed if committed is not None and committed > 0 else 0
    # Else it is where it was committed; without an offset aiokafka leaves it where it is.
    assert sought == ({SOURCE: min(at, needed)} if not at or needed < at else {})
    assert found[OTHER] == 7
