"""Requests to an OpenTelemetry collector, in OTLP's protobuf.

A counter is called as at /metrics without `_total`, which Prometheus gives it back.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from os import urandom
from typing import Any, ClassVar

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from slidestat.extras import module_of_extra
from slidestat.live.batch_traces import BatchTrace

# Names end with the unit, as Prometheus has it.
_UNITS = {"seconds": "s", "bytes": "By"}
MOST_WORDS = 200


def _module(name: str) -> Any:
    return module_of_extra(f"opentelemetry.proto.{name}", "Sending by OTLP", "otlp")


class Requests:
    """A writer of requests about a resource, to the service of a `signal`, with its `items`; it may
    reject some of `what` it is sent, and counts them in the field `rejected`.
    """

    signal: ClassVar[str]
    items: ClassVar[str]
    what: ClassVar[str]
    rejected: ClassVar[str]

    def __init__(self, resource: Mapping[str, str]) -> None:
        """Create the writer; raises SlidestatError without the packages of the extra."""
        self._common = _module("common.v1.common_pb2")
        self._service = _module(f"collector.{self.signal}.v1.{self.signal}_service_pb2")
        self._resource = list(self._attributes(resource))

    def refused(self, answer: bytes) -> str:
        """Return what a collector says of what it did not take; "" if it took all."""
        found = self._decoded("ServiceResponse", answer).partial_success
        rejected, message = getattr(found, self.rejected), str(found.error_message)[:MOST_WORDS]
        if not rejected:
            return message and f"all {self.what} are taken, with a warning: {message}"
        return f"{rejected} {self.what} were refused: {message}"

    def reason(self, answer: bytes) -> str:
        """Return why a collector took nothing: the text of its google.rpc.Status, which is the same
        field as in a partial success.
        """
        return str(self._decoded("PartialSuccess", answer).error_message)[:MOST_WORDS]

    def _decoded(self, kind: str, answer: bytes) -> Any:
        """Return an answer, an empty one for what is none: not all that answers is a collector."""
        from google.protobuf.message import DecodeError  # of the extra

        message = getattr(self._service, f"Export{self.signal.title()}{kind}")
        try:
            return message.FromString(answer)
        except DecodeError:
            return message()

    def _written(self, items: Iterable[Any]) -> bytes:
        """Return the request with these items."""
        request = getattr(self._service, f"Export{self.signal.title()}ServiceRequest")()
        of_resource = getattr(request, f"resource_{self.items}").add()
        of_resource.resource.attributes.extend(self._resource)
        of_scope = getattr(of_resource, f"scope_{self.items}").add()
        of_scope.scope.name, of_scope.scope.version = "slidestat", version("slidestat")
        getattr(of_scope, self.items).extend(items)
        written: bytes = request.SerializeToString()
        return written

    def _attributes(self, labels: Mapping[str, str | int]) -> Iterator[Any]:
        for name, value in labels.items():
            kind = "string_value" if isinstance(value, str) else "int_value"
            yield self._common.KeyValue(key=name, value=self._common.AnyValue(**{kind: value}))


class MetricRequests(Requests):
    """A writer of requests with metrics."""

    signal, items, what, rejected = "metrics", "metrics", "points", "rejected_data_points"

    def __init__(self, resource: Mapping[str, str]) -> None:
        super().__init__(resource)
        self._metrics = _module("metrics.v1.metrics_pb2")
        self._since_ns = time.time_ns()

    def request(self, metrics: Iterable[Metric], now_ns: int) -> bytes:
        """Return the request with metrics as they were at a time, in ns since 1970."""
        return self._written(self._converted(metrics, now_ns))

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


class SpanRequests(Requests):
    """A writer of requests with spans: one of a batch, and within it one of each step."""

    signal, items, what, rejected = "trace", "spans", "spans", "rejected_spans"

    def __init__(self, resource: Mapping[str, str]) -> None:
        super().__init__(resource)
        self._trace = _module("trace.v1.trace_pb2")

    def request(self, traces: Iterable[BatchTrace]) -> bytes:
        """Return the request with the ways of batches."""
        return self._written(span for trace in traces for span in self._spans(trace))

    def _spans(self, trace: BatchTrace) -> Iterator[Any]:
        trace_id, root = urandom(16), urandom(8)
        span = self._trace.Span
        began_ns = min(step.began_ns for step in trace.steps) + trace.epoch_ns
        ended_ns = max(step.ended_ns for step in trace.steps) + trace.epoch_ns
        about: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.destination.name": trace.topic,
            "messaging.destination.partition.id": str(trace.partition),
            "messaging.batch.message_count": trace.records,
            "messaging.kafka.offset": trace.offset,
        }
        yield span(
            trace_id=trace_id,
            span_id=root,
            name=f"process {trace.topic}",
            kind=span.SPAN_KIND_CONSUMER,
            start_time_unix_nano=began_ns,
            end_time_unix_nano=ended_ns,
            attributes=self._attributes(about),
        )
        for step in trace.steps:
            of_one = {"slidestat.topology": step.topology} if step.topology else {}
            yield span(
                trace_id=trace_id,
                span_id=urandom(8),
                parent_span_id=root,
                name=step.name,
                kind=span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=step.began_ns + trace.epoch_ns,
                end_time_unix_nano=step.ended_ns + trace.epoch_ns,
                attributes=self._attributes(of_one),
            )
