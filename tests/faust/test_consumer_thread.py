"""The thread that fetches, where the real broker would have to be away for minutes."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import numpy as np
import pytest
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.types import TP
from hypothesis import given, strategies as st

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch
from slidestat.faust.delivery import (
    BatchApp,
    BatchConsumer,
    BatchConsumerThread,
    DueTicks,
    TricklePace,
    has_all_of,
    no_client,
    trickle_pace,
)
from slidestat.kafka.fetches.columns import FetchedColumns, Fetches
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
        pace.note(100.0, 0)
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
        (0.3, 150),  # Another one follows before the tick.
        (10.0, 250),
    ],
)
def test_a_fetch_ends_when_the_tick_is_due(due_in_s: float | None, wait_ms: int) -> None:
    """By the clock; then fetches are short. A longer wait brings no more bytes a second."""
    assert trickle_pace(due_in_s, None) == (wait_ms, 64 * 2**10 * wait_ms // 50)


@pytest.mark.parametrize(
    ("due_in_s", "bytes_per_s", "pace"),
    [
        (None, 1e5, (50, 65_536)),
        (0.0, 1e5, (5, 6_553)),
        (0.1, 1e5, (97, 10_200)),
        (0.001, 1e5, (1, 300)),
        (0.001, 0.0, (1, 1)),  # The next record ends it.
        (0.001, -1e5, (1, 1)),
        (0.1, 1e9, (97, 131_072)),  # A busy topic is fetched as often as ever.
        (0.4, 1e5, (200, 262_144)),
    ],
)
def test_a_fetch_ends_with_the_bytes_that_come_before_the_tick(
    due_in_s: float | None, bytes_per_s: float, pace: tuple[int, int]
) -> None:
    """At the rate of late: with the first records behind the tick, which a broker's clock is late
    for by milliseconds.
    """
    assert trickle_pace(due_in_s, bytes_per_s) == pace


def test_the_rate_is_that_of_the_last_fetches() -> None:
    """A pause is forgotten, and so is what was fetched by another consumer before."""
    fetcher = SimpleNamespace(_fetch_max_wait_ms=1500, _fetch_min_bytes=1)
    pace = TricklePace()
    for number in range(40):
        pace.note(number * 0.25 + (100 if number > 20 else 0), number * 25_000)
        pace.set(fetcher, 0.1, is_trickling=True)
    assert fetcher._fetch_min_bytes == 10_200
    pace.note(200.0, 0)
    pace.set(fetcher, 0.1, is_trickling=True)
    assert fetcher._fetch_min_bytes == 1


@pytest.mark.parametrize(
    ("fetched_at", "due_in_ms", "due_at"),
    [
        (10.2, 500, 10.6),  # This batch came later after its last event than the one before.
        (10.2, 300, 10.5),  # This one came sooner.
        (10.7, 950, 11.65),  # The tick was passed.
        (10.2, 0, None),  # Event time gives no idea any more.
    ],
)
def test_a_tick_is_due_after_the_least_delay(
    fetched_at: float, due_in_ms: int, due_at: float | None
) -> None:
    """As others have the worker's own work in them."""
    due = DueTicks()
    due.note(0, 10.0, 600)
    assert due.next(10.0) == 10.6
    due.note(0, fetched_at, due_in_ms)
    assert due.next(fetched_at) == pytest.approx(due_at)


def test_an_idle_partition_does_not_keep_a_worker_awake() -> None:
    """Event time stands still there, however near to its next tick."""
    due = DueTicks()
    due.note(0, 10.0, 2)
    found = []
    for step in range(20):
        due.note(1, 10.0 + step / 100, 900 - 10 * step)
        found.append(due.next(10.0 + step / 100))
    assert found[:11] == [10.002] * 11
    assert found[11:] == pytest.approx([10.9] * 9)


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


def test_a_backlog_is_decoded_in_the_thread_that_fetches() -> None:
    """A small batch is not, and an error is left to the batch's turn."""
    small, large = TP("events", 0), TP("events", 1)
    fetched = {
        tp: FetchedColumns(
            np.arange(size, dtype=np.int64),
            np.zeros(size, np.int64),
            *(BinaryColumn.of([b"{}"] * size) for _ in range(2)),
            [()] * size,
        )
        for tp, size in ((small, 2_999), (large, 3_000))
    }
    assignment = SimpleNamespace(tps=(), all_consumed_offsets=dict)
    consumer: Any = SimpleNamespace(
        _fetcher=SimpleNamespace(
            _records=Fetches({"events"}, {}), _fetch_max_wait_ms=500, _fetch_min_bytes=1
        ),
        _subscription=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment)),
    )
    ahead: list[RecordBatch] = []

    def decode_ahead(batch: RecordBatch) -> None:
        ahead.append(batch)
        raise ZeroDivisionError

    async def fetch() -> Any:
        app = BatchApp("ahead", broker="kafka://127.0.0.1:1", store="memory://")
        app.batch_topics, app.decode_ahead = frozenset({"events"}), decode_ahead
        thread = cast(BatchConsumerThread, cast(BatchConsumer, app.consumer)._thread)
        try:
            with patch.object(
                AIOKafkaConsumerThread, "_fetch_records", AsyncMock(return_value=fetched)
            ):
                return await thread._fetch_records(consumer, {small, large})
        finally:
            thread.thread_loop.close()

    found = asyncio.run(fetch())
    assert [len(found[tp][0]) for tp in (small, large)] == [2_999, 3_000]
    assert ahead == found[large]


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
