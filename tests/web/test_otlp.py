"""Metrics for a collector of OpenTelemetry: the same figures as at /metrics."""

import asyncio
import gzip
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from slidestat.web.otlp import METRICS
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, get, serving_of

pytestmark = pytest.mark.asyncio

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CUMULATIVE = 2
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Collector:
    """What was sent to a collector: paths, headers and requests."""

    url: str
    status: int = 200
    answer: bytes = b""
    content_type: str = "application/x-protobuf"
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    spans: list[ExportTraceServiceRequest] = field(default_factory=list)

    async def one_more(self) -> ExportMetricsServiceRequest:
        """The next request that begins after this call; AssertionError without."""
        before = len(self.requests) + 1
        for _ in range(600):
            if len(self.requests) > before:
                return self.requests[-1]
            await asyncio.sleep(0.05)
        raise AssertionError(self.paths)


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector that takes metrics and spans by HTTP."""
    found: list[Collector] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (own,) = found
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            own.paths.append(self.path)
            own.headers.append({name.lower(): text for name, text in self.headers.items()})
            if self.path.endswith("/traces"):
                own.spans.append(ExportTraceServiceRequest.FromString(body))
            else:
                own.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(own.status)
            if own.content_type:
                self.send_header("Content-Type", own.content_type)
            if own.status != 204:
                self.send_header("Content-Length", str(len(own.answer)))
            self.end_headers()
            with suppress(OSError):  # Of a long one, the worker reads a part.
                self.wfile.write(own.answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.append(Collector(f"http://127.0.0.1:{server.server_port}"))
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found[0]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of a worker that sends often."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    return monkeypatch


def metrics_of(request: ExportMetricsServiceRequest) -> Iterator[Any]:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def labels(point: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((it.key, it.value.string_value) for it in point.attributes))


def sent(request: ExportMetricsServiceRequest) -> Series:
    """What Prometheus would make of a request."""
    found: Series = {}
    for metric in metrics_of(request):
        kind = metric.WhichOneof("data")
        data = getattr(metric, kind)
        if kind != "gauge":
            assert data.aggregation_temporality == CUMULATIVE
        for point in data.data_points:
            if kind == "histogram":
                below = 0
                bounds = [*map(str, point.explicit_bounds), "+Inf"]
                for bound, count in zip(bounds, point.bucket_counts, strict=True):
                    below += count
                    at = tuple(sorted((*labels(point), ("le", bound))))
                    found[f"{metric.name}_bucket", at] = below
                found[f"{metric.name}_count", labels(point)] = point.count
                found[f"{metric.name}_sum", labels(point)] = point.sum
            else:
                name = f"{metric.name}_total" if kind == "sum" else metric.name
                assert kind != "sum" or data.is_monotonic
                found[name, labels(point)] = point.as_double
    return found


def scraped(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def events() -> list[Record]:
    values = [encode("ab"[i % 2], START_MS + 4_000 * i, i) for i in range(60)]
    return [Record(i, None, it, 0) for i, it in enumerate([*values, b"no json"])]


async def test_the_same_figures_as_at_metrics(asked: pytest.MonkeyPatch) -> None:
    """Every series that a scrape has, under the name and with the number that it has there."""
    with collector() as own:
        asked.setenv(ENDPOINT, own.url)
        async with serving_of(TOPOLOGY, {0: events(), 3: []}) as [worker]:
            found = sent(await own.one_more())
            expected = scraped((await get(worker.url, "/metrics")).body.decode())
        assert set(own.paths) == {"/v1/metrics"}
    moving = {"slidestat_watermark_delay_seconds", "python_gc", "process_"}
    fixed = {key for key in expected if not key[0].startswith(tuple(moving))}
    assert found.keys() >= fixed
    assert {key: found[key] for key in fixed} == {key: expected[key] for key in fixed}
    assert {name for name, _ in found} == {name for name, _ in expected}
    assert found["slidestat_records_total", (*PARTITION, ("topology", "orders"))] == 60


PARTITION = (("outcome", "counted"), ("partition", "0"))


async def test_who_sends_is_said(asked: pytest.MonkeyPatch) -> None:
    """The worker is the instance; what the environment says goes before. Each point has the time
    from which it counts, and names that end with a unit have it.
    """
    asked.setenv("OTEL_SERVICE_NAME", "latencies")
    asked.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")
    asked.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
    asked.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    with collector() as own:
        asked.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{own.url}/otlp/v1/metrics")
        async with serving_of(TOPOLOGY, {0: events()}) as [worker]:
            request = await own.one_more()
        assert own.paths[-1] == "/otlp/v1/metrics"
        assert own.headers[-1]["api-key"] == "s3cret"
    (resource,) = request.resource_metrics
    told = {it.key: it.value.string_value for it in resource.resource.attributes}
    assert told["service.name"] == "latencies"
    assert told["service.instance.id"] == worker.address.worker
    assert told["deployment.environment"] == "prod"
    units = {it.name: it.unit for it in metrics_of(request)}
    assert units["slidestat_state_bytes"] == "By"
    assert units["slidestat_emission_latency_seconds"] == "s"
    assert units["slidestat_keys"] == ""
    (records,) = [it for it in metrics_of(request) if it.name == "slidestat_records"]
    for point in records.sum.data_points:
        assert 0 < point.start_time_unix_nano < point.time_unix_nano


async def test_a_collector_that_is_away(
    asked: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker answers, stops at once, and no log has what is secret in the headers."""
    asked.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret-of-the-collector")
    with collector() as own, caplog.at_level(logging.DEBUG):
        own.status = 401
        asked.setenv(ENDPOINT, own.url)
        async with serving_of(TOPOLOGY, {0: events()}) as [worker]:
            await own.one_more()
            assert (await get(worker.url, "/metrics")).status == 200
    with caplog.at_level(logging.DEBUG):
        asked.setenv(ENDPOINT, "http://127.0.0.1:1")
        async with serving_of(TOPOLOGY, {0: events()}) as [worker]:
            await asyncio.sleep(0.5)
            assert (await get(worker.url, "/metrics")).status == 200
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 5
    assert "s3cret" not in caplog.text


def partial(rejected: int, message: str) -> bytes:
    told = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
    return ExportMetricsServiceResponse(partial_success=told).SerializeToString()


# As google.rpc.Status is written: its code, then its message.
UNAUTHENTICATED = b"\x08\x10\x12\x07no user"
PROTOBUF, JSON, PAGE = "application/x-protobuf", "application/json", "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("status", "content_type", "answer", "words"),
    [
        (200, PROTOBUF, b"", ""),
        (200, PROTOBUF, b"\xff no protobuf", ""),
        (200, PROTOBUF, b"\xff" * 10_000_000, ""),
        (200, JSON, b'{"partialSuccess":{}}', ""),
        (200, "", b"", ""),
        (202, "text/plain", b"accepted", ""),
        (204, "", b"", ""),
        (200, PAGE, b"<html>Log in</html>", "status 200, text/html"),
        (302, PAGE, b"", "status 302, text/html"),
        (200, PROTOBUF, partial(3, "too old"), "3 points were refused: too old"),
        (200, PROTOBUF, partial(0, "old names"), "all points are taken, with a warning: old names"),
        (401, PROTOBUF, UNAUTHENTICATED, "status 401, no user"),
        (503, PROTOBUF, b"\xff no protobuf", "status 503"),
        (429, JSON, b"{}", "status 429, application/json"),
    ],
)
async def test_what_a_collector_answers(
    asked: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
    content_type: str,
    answer: bytes,
    words: str,
) -> None:
    """Whatever it is, it is no trace in the log, and is told once; not all of them answer as
    OpenTelemetry asks for, and have taken all.
    """
    with collector() as own, caplog.at_level(logging.DEBUG, "slidestat.web.otlp"):
        own.status, own.content_type, own.answer = status, content_type, answer
        asked.setenv(ENDPOINT, own.url)
        async with serving_of(TOPOLOGY, {0: []}):
            for _ in range(2):
                await own.one_more()
        logged = [it.getMessage() for it in caplog.records]
        assert logged == ([f"metrics to {own.url}: {words}"] if words else [])


async def test_a_signals_own_address_lacks_the_path(
    asked: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is taken as it is, as OpenTelemetry has it (opentelemetry-python 3200)."""
    with collector() as own:
        own.status = 404
        asked.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", own.url)
        async with serving_of(TOPOLOGY, {0: []}):
            await own.one_more()
        assert set(own.paths) == {"/"}
    assert "mostly with /v1/..." in caplog.text


async def test_the_last_figures_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an interval that a worker does not live to see the end of."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    with collector() as own:
        monkeypatch.setenv(ENDPOINT, own.url)
        async with serving_of(TOPOLOGY, {0: events()}):
            assert own.requests == []
        (last,) = own.requests
    assert sent(last)["slidestat_records_total", (*PARTITION, ("topology", "orders"))] == 60


async def test_a_collector_that_hangs_holds_no_worker_up(
    asked: pytest.MonkeyPatch,
) -> None:
    """At its end it waits for a second."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    asked.setenv(ENDPOINT, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        async with serving_of(TOPOLOGY, {0: []}):
            await asyncio.sleep(0.3)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 4


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "'grpc'; metrics are sent as http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "DELTA", "Metrics are cumulative"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "Give a number of milliseconds"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "Give a number of milliseconds"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "nan", "Give a number of milliseconds"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "gzip, or leave it out"),
        ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2", "Histograms have"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector:4318", "Give a URL such as"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "ftp://me:s3cret@c:4318", "'ftp://c:4318'"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://[::1:4318", "Give a URL such as"),
        (ENDPOINT, "http://collector:4318?token=1", "Give a URL such as"),
        (ENDPOINT, "http://collector:4318/v1/traces/", "Leave the path out"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "cannot be read"),
    ],
)
async def test_what_cannot_be_sent_is_said(
    asked: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    text: str,
    words: str,
) -> None:
    """With what to do; the worker goes on: clusters set these variables for all that they run."""
    with collector() as own:
        asked.setenv(ENDPOINT, own.url)
        asked.setenv(variable, text)
        async with serving_of(TOPOLOGY, {0: []}) as [worker]:
            assert (await get(worker.url, "/metrics")).status == 200
            await asyncio.sleep(0.3)
        assert own.paths == []
    assert words in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: "http://c:4318"}, True),
        ({ENDPOINT: ""}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://c:4318", "OTEL_METRICS_EXPORTER": "console, otlp"}, True),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
async def test_when_metrics_are_sent(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: bool
) -> None:
    """Where a collector for them is named, and nothing turns it off."""
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert (METRICS.is_wanted and bool(METRICS.setting("ENDPOINT"))) is wanted
