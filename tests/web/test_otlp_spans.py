"""Spans of batches for a collector of OpenTelemetry, from a worker of its own process."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import IO, Any

import pytest

from slidestat.engine.effects import Effects
from slidestat.engine.records import RecordBatch
from slidestat.live.batch_traces import MOST_TRACES, BatchTraces, now_ns
from slidestat.web.otlp import wanted_traces
from tests.broker.conftest import BODY, make_stage  # noqa: F401 - a fixture
from tests.broker.workers import Stage, Worker, events, produce, wait_until
from tests.engine.memory import batch_of
from tests.engine.model import Record
from tests.web.test_otlp import Collector, collector

ASKED = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": "200"}
STEPS = ("fetch", "wait", "decode", "tick", "flush", "commit")


@contextmanager
def worker_of(stage: Stage, own: Collector, variables: dict[str, str]) -> Iterator[Worker]:
    """A worker that sends to the collector as these variables say."""
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": own.url} | variables

    def start(arguments: Sequence[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "slidestat", *arguments]
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    with Worker(stage.file, stage.data_dir(), stage.bootstrap, start=start) as worker:
        worker.await_ready()
        yield worker


def spans_of(own: Collector) -> list[Any]:
    return [
        span
        for request in own.spans
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(span: Any) -> dict[str, Any]:
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in span.attributes}


def test_each_batch_has_its_way(make_stage: Callable[..., Stage]) -> None:  # noqa: F811
    """Spans of all batches name every record once, and each has all steps, within it and in order;
    times are those of the clock.
    """
    stage = make_stage(body=BODY)
    began = time.time_ns()
    with collector() as own, worker_of(stage, own, ASKED) as worker:
        produce(stage.bootstrap, stage.topology.source, events(3_000))
        stage.await_settled([worker])

        def told() -> int:
            return sum(
                attributes(it)["messaging.batch.message_count"]
                for it in spans_of(own)
                if not it.parent_span_id
            )

        wait_until(lambda: told() >= 3_000, "the spans of all records", 30)
        assert told() == 3_000
        worker.stop()
    found = spans_of(own)
    assert len({it.span_id for it in found}) == len(found)
    roots = [it for it in found if not it.parent_span_id]
    for root in roots:
        steps = [it for it in found if it.parent_span_id == root.span_id]
        assert [it.name for it in steps] == list(STEPS)
        assert {it.trace_id for it in steps} == {root.trace_id}
        assert root.name == f"process {stage.topology.source}"
        assert began - 60e9 < root.start_time_unix_nano == steps[0].start_time_unix_nano
        assert root.end_time_unix_nano == steps[-1].end_time_unix_nano < time.time_ns()
        for step in steps:
            assert step.start_time_unix_nano <= step.end_time_unix_nano
        of_one = {it.name for it in steps if attributes(it)}
        assert of_one == {"decode", "tick"}
    places = Counter(attributes(it)["messaging.destination.partition.id"] for it in roots)
    assert places.keys() == {"0", "1"}
    (resource, *_) = own.spans[0].resource_spans
    assert {it.key for it in resource.resource.attributes} >= {"service.name"}


def test_nobody_who_named_a_collector_alone_gets_spans(
    make_stage: Callable[..., Stage],  # noqa: F811
) -> None:
    stage = make_stage(body=BODY)
    often = {"OTEL_METRIC_EXPORT_INTERVAL": "200"}
    with collector() as own, worker_of(stage, own, often) as worker:
        produce(stage.bootstrap, stage.topology.source, events(500))
        stage.await_settled([worker])
        wait_until(lambda: len(own.requests) > 3, "metrics", 30)
        worker.stop()
    assert own.spans == []


@pytest.mark.parametrize(
    ("variables", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console,otlp", "OTEL_TRACES_SAMPLER": "always_on"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "always_off"}, False),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, False),
    ],
)
def test_when_spans_are_sent(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_wanted: bool
) -> None:
    """Where they are asked for; otherwise nothing is noted."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert (wanted_traces() is not None) is is_wanted


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "always_on, always_off or traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5", "Give a share from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "a tenth", "Give a share from 0 to 1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "5s", "Give a number of milliseconds"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "spans are sent as http/protobuf"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", "no endpoint is named"),
    ],
)
def test_what_cannot_be_sent_is_said(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    text: str,
    words: str,
) -> None:
    """With what to do, and nothing is noted."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv(variable, text)
    assert wanted_traces() is None
    assert words in caplog.text


def batch(number: int) -> RecordBatch:
    return batch_of([Record(number, None, b"{}", 0)])


def test_a_share_is_sampled() -> None:
    """About a tenth of many batches, and no more than may wait."""
    traces = BatchTraces(0.1)
    sampled = 0
    for number in range(20_000):
        traces.fetched([batch(number)], now_ns())
        sampled += traces.begun(batch(number)) is not None
    assert 1_700 < sampled < 2_300


def test_memory_is_bounded_whatever_becomes_of_batches() -> None:
    """Batches that are never processed, flushed, committed or sent do not pile up."""
    traces = BatchTraces(1.0)
    for number in range(3 * MOST_TRACES):
        traces.fetched([batch(number)], now_ns())
    assert traces.begun(batch(0)) is None
    for number in range(3 * MOST_TRACES):
        traces.fetched([batch(number)], now_ns())
        if (trace := traces.begun(batch(number))) is not None:
            traces.processed(trace)
    assert traces.unflushed == MOST_TRACES
    for _ in range(3):
        traces.flushed(now_ns(), traces.unflushed)
        traces.committed()
        traces.fetched([batch(1)], now_ns())
        trace = traces.begun(batch(1))
        assert trace is not None
        traces.processed(trace)
    assert len(traces.take()) == MOST_TRACES
    assert traces.take() == ()


def test_batches_are_fetched_while_others_are_taken() -> None:
    """By another thread: what was never processed is dropped at each fetch."""
    traces, batches = BatchTraces(1.0), [batch(number) for number in range(4 * MOST_TRACES)]
    ended = threading.Event()

    def take() -> None:
        for one in cycle(batches):
            traces.begun(one)
            if ended.is_set():
                return

    before = sys.getswitchinterval()
    thread = threading.Thread(target=take)
    thread.start()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(150):
            traces.fetched(batches, now_ns())
    finally:
        sys.setswitchinterval(before)
        ended.set()
        thread.join()


def test_a_flush_is_that_of_what_came_before_it() -> None:
    """A batch that is processed while a flush is under way waits for the next one."""
    traces = BatchTraces(1.0)
    for number in range(2):
        traces.fetched([batch(number)], now_ns())
        trace = traces.begun(batch(number))
        assert trace is not None
        assert list(trace.of_steps("t", iter([Effects(), Effects()]))) != []
        traces.processed(trace)
    traces.flushed(now_ns(), 1)
    traces.committed()
    (ended,) = traces.take()
    assert ended.offset == 0
    assert [step.name for step in ended.steps] == list(STEPS)
    traces.forget()
    traces.flushed(now_ns(), traces.unflushed)
    traces.committed()
    assert traces.take() == ()
