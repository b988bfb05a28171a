"""The sender to an OpenTelemetry collector: the figures of /metrics, and spans of batches.

The variables are OpenTelemetry's own. An endpoint in OTEL_EXPORTER_OTLP_ENDPOINT, or in
..._METRICS_ENDPOINT, begins it with metrics: numbers are cumulative, so what a collector did not
get once is in what it gets the next time, and nothing is sent twice. Spans are sent where
OTEL_TRACES_EXPORTER asks for them; those that a collector does not take are gone.
"""

import asyncio
import gzip
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from math import isfinite
from typing import NamedTuple, cast
from urllib.parse import unquote

import aiohttp
from prometheus_client import CollectorRegistry
from yarl import URL

from slidestat.errors import SlidestatError
from slidestat.live.batch_traces import BatchTraces
from slidestat.live.looks import Looks
from slidestat.redaction import keep_header, without_user
from slidestat.web.otlp_requests import MOST_WORDS, MetricRequests, Requests, SpanRequests

_log = logging.getLogger(__name__)

_OTLP = "OTEL_EXPORTER_OTLP_"
_TIMEOUT_MS = 10_000.0
# At its end a worker waits for a collector for this time.
_LAST_S = 1.0
_GRPC_PORT = 4317
_PROTOBUF = "application/x-protobuf"
# The most that is read of an answer.
_MOST_BYTES = 64 * 1024


class Signal(NamedTuple):
    """A kind of data to send: its name in variables and in texts, and what holds without them."""

    name: str
    what: str
    path: str
    exporter: str
    interval: str
    interval_ms: float

    def setting(self, name: str) -> str:
        """Return a variable of the exporter: its own, or that of all signals; "" for none."""
        return _variable(f"{_OTLP}{self.name}_{name}") or _variable(f"{_OTLP}{name}")

    @property
    def is_wanted(self) -> bool:
        """Return whether the environment asks for it by OTLP."""
        is_off = _variable("OTEL_SDK_DISABLED").lower() == "true"
        exporters = _variable(f"OTEL_{self.name}_EXPORTER") or self.exporter
        return not is_off and "otlp" in exporters.replace(" ", "").split(",")


# A collector that is named gets metrics. It gets spans where they are asked for: clusters name it
# for all that they run.
METRICS = Signal(
    "METRICS", "metrics", "v1/metrics", "otlp", "OTEL_METRIC_EXPORT_INTERVAL", 60_000.0
)
SPANS = Signal("TRACES", "spans", "v1/traces", "none", "OTEL_BSP_SCHEDULE_DELAY", 5_000.0)

_SAMPLER, _SHARE = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_PARENT_BASED = "parentbased_"


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def sampled_share() -> float:
    """Return the share of batches whose spans are wanted; raises SlidestatError for another sampler
    than OpenTelemetry's plain ones. A batch has no parent.
    """
    sampler = _variable(_SAMPLER) or "always_on"
    match sampler.removeprefix(_PARENT_BASED):
        case "always_on":
            return 1.0
        case "always_off":
            return 0.0
        case "traceidratio":
            text = _variable(_SHARE) or "1"
            with suppress(ValueError):
                if 0 <= (share := float(text)) <= 1:
                    return share
            raise SlidestatError(
                f"{_SHARE} is {text!r}.", "Give a share from 0 to 1, such as 0.01."
            )
    raise SlidestatError(
        f"{_SAMPLER} is {sampler!r}.", "Set it to always_on, always_off or traceidratio."
    )


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


def _one_of(signal: Signal, name: str, known: Sequence[str], advice: str) -> str:
    """Return a setting that is one of those that are known, the first by default."""
    text = signal.setting(name).lower() or known[0]
    if text not in known:
        problem = f"{_OTLP}{name} is {text!r}; {signal.what} are sent as {known[0]}."
        raise SlidestatError(problem, advice)
    return text


@dataclass(frozen=True)
class Export:
    """The destination of a signal, and how it is sent, by the environment."""

    url: URL
    interval_s: float
    timeout_s: float
    is_zipped: bool
    headers: Mapping[str, str] = field(repr=False)
    resource: Mapping[str, str]
    tls: ssl.SSLContext | bool

    @classmethod
    def of_environment(cls, signal: Signal, worker: str) -> "Export":
        """Read the variables; `worker` is the instance, unless they say something else.

        Raises SlidestatError for what would be sent otherwise than it is asked for.
        """
        port = "Set it to http/protobuf, with the collector's port for it: 4318, mostly."
        _one_of(signal, "PROTOCOL", ("http/protobuf",), port)
        if signal is METRICS:
            _check_kind()
        headers = _pairs(signal.setting("HEADERS"))
        for header in headers.items():
            keep_header(*header)
        own = {
            "service.name": "slidestat",
            "service.version": version("slidestat"),
            "service.instance.id": worker,
        }
        resource = own | _pairs(_variable("OTEL_RESOURCE_ATTRIBUTES"))
        if name := _variable("OTEL_SERVICE_NAME"):
            resource["service.name"] = name
        unzipped = "Set it to gzip, or leave it out."
        return cls(
            _url(signal),
            _milliseconds(_variable(signal.interval), signal.interval, signal.interval_ms),
            _milliseconds(signal.setting("TIMEOUT"), f"{_OTLP}TIMEOUT", _TIMEOUT_MS),
            _one_of(signal, "COMPRESSION", ("none", "gzip"), unzipped) == "gzip",
            headers,
            resource,
            _tls(signal),
        )


def _check_kind() -> None:
    """Raise SlidestatError for metrics of a kind that is not sent."""
    for name, sent, advice in (
        (
            "TEMPORALITY_PREFERENCE",
            "cumulative",
            "Metrics are cumulative: leave it out, or have a collector make deltas.",
        ),
        (
            "DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
            "Histograms have the buckets that they have at /metrics: leave it out.",
        ),
    ):
        text = _variable(f"{_OTLP}METRICS_{name}").lower()
        if text not in ("", sent):
            raise SlidestatError(f"{_OTLP}METRICS_{name} is {text!r}.", advice)


def _url(signal: Signal) -> URL:
    """Return the whole address: the signal's own, or that of all with the signal's path."""
    if not signal.setting("ENDPOINT"):
        raise SlidestatError(
            f"OTEL_{signal.name}_EXPORTER asks for them, and no endpoint is named.",
            f"Set {_OTLP}ENDPOINT, such as to http://collector:4318.",
        )
    text = _variable(f"{_OTLP}{signal.name}_ENDPOINT")
    whole = text or f"{signal.setting('ENDPOINT').rstrip('/')}/{signal.path}"
    shown = without_user(whole)
    try:
        url = URL(whole)
        is_one = url.scheme in ("http", "https") and bool(url.host)
    except ValueError:
        is_one = False
    # The path would be behind it, and so be none.
    is_cut = not text and ("?" in whole or "#" in whole)
    if not is_one or is_cut:
        raise SlidestatError(
            f"The OTLP endpoint is {shown!r}.", "Give a URL such as http://collector:4318."
        )
    twice = tuple(f"/{it.path}/{signal.path}" for it in (METRICS, SPANS))
    if not text and url.path.endswith(twice):
        raise SlidestatError(
            f"{_OTLP}ENDPOINT ends with the path of one signal, and paths are put behind it.",
            f"Leave the path out, or set {_OTLP}{signal.name}_ENDPOINT, which is taken as it is.",
        )
    return url


def _tls(signal: Signal) -> ssl.SSLContext | bool:
    """Return what is trusted, and who the worker is; True for what the machine trusts."""
    ca, own, key = map(signal.setting, ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
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


Body = Callable[[], Awaitable[bytes]]
"""A maker of the next request, b"" for none."""


class _Sender(NamedTuple):
    """One signal, what it is sent with, and where to."""

    signal: Signal
    export: Export
    requests: Requests

    @classmethod
    def of_environment(cls, signal: Signal, worker: str) -> "_Sender | None":
        """Return how the signal is sent, None for not at all: the log has what is wrong."""
        if not signal.is_wanted or (signal is METRICS and not signal.setting("ENDPOINT")):
            return None
        try:
            export = Export.of_environment(signal, worker)
            writer = MetricRequests if signal is METRICS else SpanRequests
            return cls(signal, export, writer(export.resource))
        except SlidestatError as error:
            _log_refusal(signal, error)
            return None


def _log_refusal(signal: Signal, error: SlidestatError) -> None:
    _log.warning("no %s are sent by OTLP: %s", signal.what, error)


def wanted_traces() -> BatchTraces | None:
    """Return where traces are noted to be sent; None, so none are, unless the environment asks."""
    try:
        share = sampled_share() if SPANS.is_wanted else 0.0
    except SlidestatError as error:
        _log_refusal(SPANS, error)
        return None
    return BatchTraces(share) if share and _Sender.of_environment(SPANS, "") else None


@asynccontextmanager
async def sending(
    registry: CollectorRegistry, worker: str, looks: Looks, traces: BatchTraces | None = None
) -> AsyncIterator[None]:
    """Send the metrics of a registry and these traces while the context lasts, as the environment
    asks for it.

    Spans that cannot be sent are logged; the work does not depend on them.
    """
    tasks, is_over = [], asyncio.Event()
    if (metrics := _Sender.of_environment(METRICS, worker)) is not None:
        writer = cast(MetricRequests, metrics.requests)

        async def figures() -> bytes:
            found = await looks.take(lambda: list(registry.collect()))
            return writer.request(found, time.time_ns())

        tasks.append(asyncio.create_task(_send_on(metrics, figures, is_over)))
    if traces is not None and (spans := _Sender.of_environment(SPANS, worker)) is not None:
        of_spans = cast(SpanRequests, spans.requests)

        async def ways() -> bytes:
            ended = await looks.take(traces.take)
            return of_spans.request(ended) if ended else b""

        tasks.append(asyncio.create_task(_send_on(spans, ways, is_over)))
    try:
        yield
    finally:
        is_over.set()
        _, late = await asyncio.wait(tasks, timeout=_LAST_S) if tasks else ((), ())
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send_on(sender: _Sender, next_body: Body, is_over: asyncio.Event) -> None:
    """Send what there is after each interval, and once it is over."""
    was_refused = False
    export, what = sender.export, sender.signal.what
    timeout = aiohttp.ClientTimeout(total=export.timeout_s)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
        while not is_over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), export.interval_s)
            try:
                body = await next_body()
                refusal = await _sent(session, export, sender.requests, body) if body else ""
            except Exception:  # noqa: BLE001  the next ones may do
                # The work may have ended first.
                if not is_over.is_set():
                    _log.exception("%s could not be sent by OTLP", what)
                continue
            if refusal and not was_refused:
                _log.warning("%s to %s: %s", what, export.url.origin(), refusal)
            elif body and was_refused and not refusal:
                _log.info("%s are taken again by %s", what, export.url.origin())
            was_refused = bool(refusal) or (was_refused and not body)


async def _sent(
    session: aiohttp.ClientSession, export: Export, requests: Requests, body: bytes
) -> str:
    """Send a request; return why it was not taken, "" if it was."""
    headers = {**export.headers, "Content-Type": _PROTOBUF}
    if export.is_zipped:
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    try:
        async with session.post(
            export.url, data=body, headers=headers, ssl=export.tls, allow_redirects=False
        ) as response:
            answer = b""
            async for chunk in response.content.iter_any():
                answer += chunk
                if len(answer) >= _MOST_BYTES:
                    break
            # Some collectors take all and answer with 202 or 204, in JSON, or with nothing. A page
            # is a login.
            is_taken = 200 <= response.status < 300 and response.content_type != "text/html"
            is_protobuf = response.content_type == _PROTOBUF
            if is_taken:
                return requests.refused(answer) if is_protobuf else ""
            problem = requests.reason(answer) if is_protobuf else response.content_type
            lacks_path = response.status == HTTPStatus.NOT_FOUND and export.url.path == "/"
            of_path = "; its own ENDPOINT is the whole address, mostly with /v1/..." * lacks_path
            return f"status {response.status}" + (f", {problem}" if problem else "") + of_path
    except TimeoutError:
        return f"no answer within {export.timeout_s:g} s"
    except (aiohttp.ClientError, ValueError) as error:
        problem = f"{type(error).__name__}: {str(error)[:MOST_WORDS]}"
        of_grpc = "; collectors take gRPC there, and this by 4318, mostly"
        return problem + of_grpc * (export.url.port == _GRPC_PORT)
