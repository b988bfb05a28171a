"""The metrics of a worker, sent to an OpenTelemetry collector: the same figures as at /metrics.

The variables are OpenTelemetry's own: an endpoint in OTEL_EXPORTER_OTLP_ENDPOINT, or in
..._METRICS_ENDPOINT, begins it. A counter is called as at /metrics without `_total`, which
Prometheus gives it back. Numbers are cumulative, so what a collector did not get once is in what it
gets the next time, and nothing is sent twice.
"""

import asyncio
import gzip
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from math import isfinite
from typing import Any
from urllib.parse import unquote

import aiohttp
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from yarl import URL

from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.live.looks import Looks
from slidestat.redaction import keep_secret

_log = logging.getLogger(__name__)

_OTLP = "OTEL_EXPORTER_OTLP_"
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS, _TIMEOUT_MS = 60_000.0, 10_000.0
_PATH = "v1/metrics"
# Names end with the unit, as Prometheus has it.
_UNITS = {"seconds": "s", "bytes": "By"}
_WORDS = 200


def _setting(name: str) -> str:
    """Return a variable of the exporter: that of metrics, or that of all signals; "" for none."""
    own = os.environ.get(f"{_OTLP}METRICS_{name}", "").strip()
    return own or os.environ.get(f"{_OTLP}{name}", "").strip()


def is_wanted() -> bool:
    """Return whether the environment asks for metrics by OTLP."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = os.environ.get("OTEL_METRICS_EXPORTER", "otlp").replace(" ", "").split(",")
    return bool(_setting("ENDPOINT")) and not is_off and "otlp" in exporters


def _milliseconds(text: str, name: str, otherwise: float) -> float:
    """Return a time in seconds; raises SlidestatError for what is no number of ms."""
    try:
        number = float(text) if text else otherwise
    except ValueError:
        number = 0.0
    if not number > 0 or not isfinite(number):
        raise SlidestatError(
            f"{name} is {text!r}.", "Give a number of milliseconds, such as 10000."
        )
    return number / 1000


def _pairs(text: str) -> dict[str, str]:
    """Return what is in name=text,name=text; texts are percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _one_of(name: str, known: Sequence[str], advice: str) -> str:
    """Return a setting that is one of those that are known, the first by default."""
    text = _setting(name).lower() or known[0]
    if text not in known:
        raise SlidestatError(f"{_OTLP}{name} is {text!r}; metrics are sent as {known[0]}.", advice)
    return text


@dataclass(frozen=True)
class Export:
    """The destination of metrics, and how they are sent, by the environment."""

    url: URL
    interval_s: float
    timeout_s: float
    is_zipped: bool
    headers: Mapping[str, str] = field(repr=False)
    resource: Mapping[str, str]
    tls: ssl.SSLContext | bool

    @classmethod
    def of_environment(cls, worker: str) -> "Export":
        """Read the variables; `worker` is the instance, unless they say something else.

        Raises SlidestatError for what would be sent otherwise than it is asked for.
        """
        port = "Set it to http/protobuf, with the collector's port for it: 4318, mostly."
        _one_of("PROTOCOL", ("http/protobuf",), port)
        temporality = os.environ.get(f"{_OTLP}METRICS_TEMPORALITY_PREFERENCE", "").strip().lower()
        if temporality not in ("", "cumulative"):
            raise SlidestatError(
                f"{_OTLP}METRICS_TEMPORALITY_PREFERENCE is {temporality!r}.",
                "Metrics are cumulative: leave it out, or have a collector make deltas.",
            )
        headers = _pairs(_setting("HEADERS"))
        for secret in headers.values():
            keep_secret(secret)
        own = {
            "service.name": "slidestat",
            "service.version": version("slidestat"),
            "service.instance.id": worker,
        }
        resource = own | _pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        if name := os.environ.get("OTEL_SERVICE_NAME", "").strip():
            resource["service.name"] = name
        unzipped = "Set it to gzip, or leave it out."
        return cls(
            _url(),
            _milliseconds(os.environ.get(_INTERVAL, "").strip(), _INTERVAL, _INTERVAL_MS),
            _milliseconds(_setting("TIMEOUT"), f"{_OTLP}TIMEOUT", _TIMEOUT_MS),
            _one_of("COMPRESSION", ("none", "gzip"), unzipped) == "gzip",
            headers,
            resource,
            _tls(),
        )


def _url() -> URL:
    """Return the whole address: the one of metrics is it, that of all signals is its beginning."""
    text = os.environ.get(f"{_OTLP}METRICS_ENDPOINT", "").strip()
    whole = text or f"{_setting('ENDPOINT').rstrip('/')}/{_PATH}"
    url = URL(whole)
    if url.scheme not in ("http", "https") or not url.host:
        raise SlidestatError(
            f"The OTLP endpoint is {whole!r}.", "Give a URL such as http://collector:4318."
        )
    return url


def _tls() -> ssl.SSLContext | bool:
    """Return what is trusted, and who the worker is; True for what the machine trusts."""
    ca, own, key = map(_setting, ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
    if not ca and not own:
        return True
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if own:
            context.load_cert_chain(own, key or None)
    except OSError as error:
        raise SlidestatError(
            f"A certificate for OTLP cannot be read: {error.strerror or error}.",
            f"Check the files of {_OTLP}CERTIFICATE, ..._CLIENT_CERTIFICATE and ..._CLIENT_KEY.",
        ) from error
    return context


class OtlpRequests:
    """A writer of requests with metrics, in OTLP's protobuf."""

    def __init__(self, resource: Mapping[str, str]) -> None:
        """Create the writer; raises SlidestatError without the packages of the extra."""

        def module(name: str) -> Any:
            what = "Sending metrics by OTLP"
            return module_of_extra(f"opentelemetry.proto.{name}", what, "otlp")

        self._service = module("collector.metrics.v1.metrics_service_pb2")
        self._metrics = module("metrics.v1.metrics_pb2")
        self._common = module("common.v1.common_pb2")
        self._resource = list(self._attributes(resource))
        self._since_ns = time.time_ns()

    def request(self, metrics: Iterable[Metric], now_ns: int) -> bytes:
        """Return the request with metrics as they were at a time, in ns since 1970."""
        request = self._service.ExportMetricsServiceRequest()
        of_resource = request.resource_metrics.add()
        of_resource.resource.attributes.extend(self._resource)
        of_scope = of_resource.scope_metrics.add()
        of_scope.scope.name, of_scope.scope.version = "slidestat", version("slidestat")
        of_scope.metrics.extend(self._converted(metrics, now_ns))
        written: bytes = request.SerializeToString()
        return written

    def refused(self, answer: bytes) -> str:
        """Return what a collector says of points that it did not take; "" if it took all."""
        told = self._service.ExportMetricsServiceResponse.FromString(answer).partial_success
        if not told.rejected_data_points and not told.error_message:
            return ""
        return f"{told.rejected_data_points} points were refused: {told.error_message[:_WORDS]}"

    def _converted(self, metrics: Iterable[Metric], now_ns: int) -> Iterator[Any]:
        for metric in metrics:
            # An info is always 1.
            name = f"{metric.name}_info" if metric.type == "info" else metric.name
            unit = _UNITS.get(name.rpartition("_")[2], "")
            found = self._metrics.Metric(name=name, description=metric.documentation, unit=unit)
            if metric.type == "histogram":
                data = found.histogram
                data.data_points.extend(self._histograms(metric.samples, now_ns))
            elif metric.type == "counter":
                data = found.sum
                data.is_monotonic = True
                totals = (it for it in metric.samples if it.name.endswith("_total"))
                data.data_points.extend(self._numbers(totals, now_ns))
            else:
                data = found.gauge
                data.data_points.extend(self._numbers(metric.samples, now_ns))
            if data.data_points:
                if metric.type in ("histogram", "counter"):
                    data.aggregation_temporality = self._metrics.AGGREGATION_TEMPORALITY_CUMULATIVE
                yield found

    def _numbers(self, samples: Iterable[Sample], now_ns: int) -> Iterator[Any]:
        for sample in samples:
            yield self._metrics.NumberDataPoint(
                attributes=self._attributes(sample.labels),
                start_time_unix_nano=self._since_ns,
                time_unix_nano=now_ns,
                as_double=sample.value,
            )

    def _histograms(self, samples: Iterable[Sample], now_ns: int) -> Iterator[Any]:
        """Yield a point for each set of labels. A bucket of Prometheus has all that is below."""
        parts: dict[frozenset[tuple[str, str]], Any] = {}
        below: dict[frozenset[tuple[str, str]], int] = {}
        for sample in samples:
            labels = {name: text for name, text in sample.labels.items() if name != "le"}
            own = frozenset(labels.items())
            if own not in parts:
                parts[own], below[own] = self._metrics.HistogramDataPoint(), 0
                parts[own].attributes.extend(self._attributes(labels))
                parts[own].start_time_unix_nano, parts[own].time_unix_nano = self._since_ns, now_ns
            point = parts[own]
            if sample.name.endswith("_bucket"):
                point.bucket_counts.append(int(sample.value) - below[own])
                point.count = below[own] = int(sample.value)
                if sample.labels["le"] != "+Inf":
                    point.explicit_bounds.append(float(sample.labels["le"]))
            elif sample.name.endswith("_sum"):
                point.sum = sample.value
        yield from parts.values()

    def _attributes(self, labels: Mapping[str, str]) -> Iterator[Any]:
        for name, text in labels.items():
            value = self._common.AnyValue(string_value=text)
            yield self._common.KeyValue(key=name, value=value)


@asynccontextmanager
async def sending(registry: CollectorRegistry, worker: str, looks: Looks) -> AsyncIterator[None]:
    """Send the metrics of a registry while the context lasts, if the environment asks for it.

    What cannot be sent is logged, and the work goes on: it does not depend on who watches it.
    """
    if not is_wanted():
        yield
        return
    try:
        export = Export.of_environment(worker)
        requests = OtlpRequests(export.resource)
    except SlidestatError as error:
        _log.warning("no metrics are sent by OTLP: %s %s", error, error.advice)
        yield
        return
    task = asyncio.create_task(_send_forever(export, requests, registry, looks))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _send_forever(
    export: Export, requests: OtlpRequests, registry: CollectorRegistry, looks: Looks
) -> None:
    was_refused = False
    timeout = aiohttp.ClientTimeout(total=export.timeout_s)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
        while True:
            await asyncio.sleep(export.interval_s)
            try:
                metrics = await looks.take(lambda: list(registry.collect()))
                body = requests.request(metrics, time.time_ns())
                refusal = await _sent(session, export, requests, body)
            except Exception:  # noqa: BLE001  the next ones may do
                _log.exception("metrics could not be sent by OTLP")
                continue
            if refusal and not was_refused:
                _log.warning("metrics are not taken by %s: %s", export.url.origin(), refusal)
            elif was_refused and not refusal:
                _log.info("metrics are taken again by %s", export.url.origin())
            was_refused = bool(refusal)


async def _sent(
    session: aiohttp.ClientSession, export: Export, requests: OtlpRequests, body: bytes
) -> str:
    """Send a request; return why it was not taken, "" if it was."""
    headers = {**export.headers, "Content-Type": "application/x-protobuf"}
    if export.is_zipped:
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    try:
        async with session.post(
            export.url, data=body, headers=headers, ssl=export.tls, allow_redirects=False
        ) as response:
            answer = await response.read()
            if response.status != 200:
                return f"status {response.status}"
            return requests.refused(answer)
    except TimeoutError:
        return f"no answer within {export.timeout_s:g} s"
    except (aiohttp.ClientError, ValueError) as error:
        return f"{type(error).__name__}: {str(error)[:_WORDS]}"
