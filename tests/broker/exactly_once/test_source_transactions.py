"""Sources that are written in transactions: what has ended and how far a worker is does not depend
on the markers that they leave, nor on one that its producer never ends.
"""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from slidestat.infer.sampling import sample_topic
from slidestat.kafka.read import open_transactions
from slidestat.kafka.read.open_transactions import OpenTransactions
from slidestat.log import logging_to_stderr
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.restarts.test_replay import replay
from tests.broker.workers import Stage, Worker, produce, wait_until

NOON = 1_700_000_000_000
SOON_S = 30.0
BODY = 'span="1h", every="1m", windows=("1h",), idle="2s", statistics=(Count(epsilon=0.01),),\n'


def values(start: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    for place in range(start, start + count):
        yield b"a", b'{"key":"a","time":%d}' % (NOON + 1_000 * place)


def transaction(stage: Stage, start: int, count: int) -> Producer:
    """A producer with an open transaction of so many events, which the broker has."""
    producer = Producer(
        {
            "bootstrap.servers": stage.bootstrap,
            "transactional.id": stage.name,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SOON_S)
    producer.begin_transaction()
    for key, value in values(start, count):
        producer.produce(stage.topology.source, value, key)
    producer.flush(SOON_S)
    return producer


def progress(stage: Stage, worker: Worker) -> dict[str, Any]:
    """What its status has of the only partition."""
    _, body = get(worker.url, f"/topologies/{stage.name}/status")
    (partition,) = body["workers"][0]["partitions"]
    return {name: partition[name] for name in ("read", "next_offset", "end_offset", "waiting")}


def metric(worker: Worker, name: str) -> float:
    with urllib.request.urlopen(f"{worker.url}/metrics") as metrics:  # noqa: S310
        lines = metrics.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


def provisional(stage: Stage) -> list[float]:
    """The estimates that were emitted before their time."""
    (records,) = stage.read(stage.topology.output_topic).values()
    found = [json.loads(record.value or b"") for record in records]
    return [one["figures"][0]["estimate"] for one in found if one.get("provisional")]


def test_markers_and_an_open_transaction(make_stage: MakeStage) -> None:
    """Behind markers nothing is left to read. An open transaction hides what lies behind it: that
    waits, and what was counted before it is emitted as for any partition that is silent.
    """
    stage = make_stage(partitions=1, body=BODY)
    with stage.worker().await_ready() as worker:
        transaction(stage, 0, 10).commit_transaction(SOON_S)
        transaction(stage, 5, 3).abort_transaction(SOON_S)
        all_read = {"read": 10, "next_offset": 15, "end_offset": 15, "waiting": 0}
        wait_until(lambda: progress(stage, worker) == all_read, "all is read", SOON_S)
        wait_until(lambda: metric(worker, "slidestat_lag_records") == 0, "no lag", SOON_S)
        produce(stage.bootstrap, stage.topology.source, values(10, 10))
        hanging = transaction(stage, 20, 1)
        produce(stage.bootstrap, stage.topology.source, values(21, 5))
        waits = {"read": 20, "next_offset": 25, "end_offset": 31, "waiting": 6}
        wait_until(lambda: progress(stage, worker) == waits, "six wait", SOON_S)
        assert metric(worker, "slidestat_waiting_records") == 6
        wait_until(lambda: 20 in provisional(stage), "what was counted is emitted", SOON_S)
        hanging.abort_transaction(SOON_S)
        done = {"read": 25, "next_offset": 32, "end_offset": 32, "waiting": 0}
        wait_until(lambda: progress(stage, worker) == done, "all is read", SOON_S)
        assert metric(worker, "slidestat_lag_records") == 0
        wait_until(lambda: 25 in provisional(stage), "what came then is emitted", SOON_S)
        worker.stop()
    assert sample_topic(stage.bootstrap, stage.topology.source, 100).topic_records == 25


def test_a_plan_tells_what_waits(make_stage: MakeStage) -> None:
    """A replay ends before an open transaction: it says which records of which partition are left,
    unless it is to end before them anyway.
    """
    stage = make_stage(partitions=1, body=BODY)
    transaction(stage, 0, 10).commit_transaction(SOON_S)
    told = replay(stage, "--dry-run").stdout
    assert "offsets 0 to 10" in told
    assert "wait behind" not in told
    hanging = transaction(stage, 10, 1)
    produce(stage.bootstrap, stage.topology.source, values(11, 5))
    told = replay(stage, "--dry-run").stdout
    assert "offsets 0 to 10" in told
    assert (
        "6 records of partition 0 wait behind a transaction that its producer has not ended: they"
        " are not replayed" in told
    )
    planned = json.loads(replay(stage, "--dry-run", "--json").stdout)
    assert planned["partitions"][0]["waiting"] == 6
    assert "wait behind" not in replay(stage, "--dry-run", "--to", "5").stdout
    hanging.abort_transaction(SOON_S)


def test_waiting_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After half a minute in which nothing could be read, and each half minute; not while
    transactions end and others begin.
    """
    now = [0.0]
    monkeypatch.setattr(open_transactions.time, "monotonic", lambda: now[0])
    watch = OpenTransactions()
    logged = []
    with logging_to_stderr():
        for second in range(100):
            now[0] = float(second)
            ends = {("t", 0): (second, second + 3), ("t", 1): (7, 10), ("t", 2): (5, 5)}
            watch.look(ends if second < 70 else {})
            lines = capsys.readouterr().err.splitlines()
            logged += [(second, line.split(" ", 2)[2]) for line in lines]  # After date and time.
    text = "3 records of t/1 wait behind a transaction that its producer has not ended"
    assert logged == [(30, text), (60, text)]
