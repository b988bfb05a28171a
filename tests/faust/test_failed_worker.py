"""A worker that has failed takes in nothing more, though Faust starts its agent again meanwhile."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import faust
import numpy as np
import pytest
from aiokafka.errors import (
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from confluent_kafka import KafkaError as LibrdkafkaError, KafkaException

from slidestat.declare.topology import Topology
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.delivery import no_member
from slidestat.faust.worker import run
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.run import LeavingWorker, raise_for_the_user
from slidestat.faust.worker.settings import WebSide, WorkerSettings

TOPOLOGY = Topology(name="failed", source="events", span="1h", every="1m")
FAILURE = SlidestatError("It cannot be read.", "Correct it.")


class FailingOnce:
    """A pipeline that fails at its first batch, and would take in all that follow."""

    are_changed = False

    def __init__(self) -> None:
        self.processed: list[int] = []
        self.is_flushed = False
        self.partitions = self.order = self.steps = self.states = self

    async def open(self, _partitions: object) -> None:
        """It is open."""

    def due_in_ms(self, _partition: int) -> int:
        return 0

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
        "slidestat.faust.worker.parts.TopicWatch",
        lambda *_: SimpleNamespace(error=None, id_of=lambda _topic: ""),
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


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("No space left on device (os error 28)", "There is no room for tables"),
        ("Too many open files (os error 24)", "The worker has no file left to open"),
        ("Read-only file system (os error 30)", "cannot be read: Read-only file system."),
    ],
)
def test_what_the_system_refuses_a_database_is_told(reason: str, told: str, tmp_path: Path) -> None:
    """Also where a database is opened: rocksdict tells it in other words than RocksDB does."""
    with pytest.raises(SlidestatError, match=told) as raised:
        raise_for_the_user(Exception(reason), tmp_path)
    assert raised.value.advice
    with pytest.raises(ValueError, match="os error"):
        raise_for_the_user(ValueError(reason), tmp_path)


@pytest.mark.parametrize(
    ("reason", "told", "exit_code"),
    [
        # What aiokafka raises where a permission is taken back while offsets are asked for.
        (KafkaError("TopicAuthorizationFailedError()"), "do not let this worker", 2),
        (
            KafkaException(LibrdkafkaError(LibrdkafkaError.TOPIC_AUTHORIZATION_FAILED)),
            "do not let this worker",
            2,
        ),
        # Of what is fetched, and of what is subscribed to, the topics are known.
        (TopicAuthorizationFailedError("orders"), "what it needs to with 'orders':", 2),
        (TopicAuthorizationFailedError({"b", "a"}), "what it needs to with 'a', 'b':", 2),
        (UnknownMemberIdError(), "client for Kafka has failed: UnknownMemberIdError", 1),
    ],
)
def test_an_error_of_a_client_is_told(
    reason: Exception, told: str, exit_code: int, tmp_path: Path
) -> None:
    """Whatever it is, a worker does not end with a stack trace: its log has that."""
    with pytest.raises(SlidestatError, match=told) as raised:
        raise_for_the_user(reason, tmp_path)
    assert raised.value.exit_code == exit_code
    assert "nothing is lost" in raised.value.advice


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (InconsistentGroupProtocolError(), "no consumer of another program is in that group"),
        (InvalidSessionTimeoutError(), "group.min.session.timeout.ms"),
    ],
)
def test_why_a_group_takes_no_worker_is_told(reason: Exception, told: str) -> None:
    """A console consumer that was given the group by mistake has nothing to do with permissions."""
    assert re.search(told, no_member("g", reason).advice)


def test_signals_that_come_at_once_are_one_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a group of processes may ask each twice, as `timeout` does: work is committed. One
    that comes later ends it at once.
    """
    left: list[int] = []
    now = 100.0
    monkeypatch.setattr(faust.Worker, "_schedule_shutdown", lambda *_: None)
    monkeypatch.setattr(run, "_leave_at_once", left.append)
    monkeypatch.setattr(run, "monotonic", lambda: now)
    monkeypatch.setattr(run.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))
    before = {number: signal.getsignal(number) for number in run._SIGNALS}
    try:
        worker = LeavingWorker.__new__(LeavingWorker)
        worker._schedule_shutdown(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert left == []
        now += run.ONE_WISH_S
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
