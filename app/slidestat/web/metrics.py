"""Metrics for Prometheus: read, when they are asked for, from what the pipelines have added up.

Nothing is counted here. A scrape costs a look at each partition that the worker holds.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from slidestat.errors import SlidestatError
from slidestat.live.live_topology import LiveTopology
from slidestat.live.observed import LATENCY_BOUNDS_S, Latencies
from slidestat.repartition.moved_from import in_all
from slidestat.schemas.query import PartitionStatus

_PARTITION = ("topology", "partition")

# The formats that there are, with their versions. `choose_encoder` knows neither weights nor that
# a version may be one that there is not, and fails for one that is no number.
_FORMATS = {"application/openmetrics-text": ("", "1.0.0"), "text/plain": ("", "0.0.4", "1.0.0")}


def chosen_format(request: web.Request) -> tuple[Callable[[Collector], bytes], str]:
    """Return the encoder and the content type of the format that a scraper gives the most weight,
    of those that there are; text in version 0.0.4 if it names none of them.
    """
    best, best_weight = "", 0.0
    for asked in ",".join(request.headers.getall("Accept", ())).lower().split(","):
        kind, *given = (part.strip() for part in asked.split(";"))
        named = {
            name.strip(): value.strip(' "')
            for name, _, value in (it.partition("=") for it in given)
        }
        weight = named.pop("q", "1")
        is_weight = re.fullmatch(r"[01](\.\d*)?", weight) is not None
        if not is_weight or named.get("version", "") not in _FORMATS.get(kind, ()):
            continue
        if float(weight) > best_weight:
            best = ";".join((kind, *(f"{name}={value}" for name, value in named.items())))
            best_weight = float(weight)
    return choose_encoder(best)


def exposition(request: web.Request, collector: Collector) -> web.Response:
    """Return a response with the metrics of a collector."""
    encode, content_type = chosen_format(request)
    return web.Response(body=encode(collector), headers={"Content-Type": content_type})


def worker_registry(
    topologies: Mapping[str, LiveTopology], remaining: Callable[[], int]
) -> CollectorRegistry:
    """Return all metrics of a worker: its topologies', and those of its process; `remaining`
    returns the number of changelog records it still has to read.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(WorkerCollector(topologies, remaining))
    return registry


class WorkerCollector(Collector):
    """The metrics of a worker's topologies."""

    def __init__(
        self, topologies: Mapping[str, LiveTopology], remaining: Callable[[], int]
    ) -> None:
        self._lives = topologies
        self._remaining = remaining

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, each with all its labels."""
        yield InfoMetricFamily(
            "slidestat_build", "The version that runs.", {"version": version("slidestat")}
        )
        yield GaugeMetricFamily(
            "slidestat_recovery_remaining_records",
            "Changelog records to be read before the worker goes on.",
            self._remaining(),
        )
        yield from self._of_records()
        yield from self._of_flushes()
        yield from self._of_synopses()
        yield from self._of_alerts()
        yield from self._of_moves()
        yield from self._of_latencies()
        yield from self._of_work()
        yield from self._of_status()

    def _of_records(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            "slidestat_ready",
            "1 while the topology's partitions can be asked.",
            labels=["topology"],
        )
        refused = CounterMetricFamily(
            "slidestat_refused_records",
            "Records that are on the late or the dead-letter topic, by reason.",
            labels=["topology", "reason"],
        )
        for name, live in self._lives.items():
            ready.add_metric([name], live.is_ready)
            for reason, count in sorted(live.held.observed.refusals.items()):
                refused.add_metric([name, reason.value], count)
        yield from (ready, refused)

    def _of_flushes(self) -> Iterator[Metric]:
        flushes = CounterMetricFamily(
            "slidestat_flushes",
            "Times that what was emitted has been acknowledged, before states are written.",
            labels=["topology"],
        )
        records = CounterMetricFamily(
            "slidestat_changelog_records", "Written to the changelog.", labels=["topology"]
        )
        size = CounterMetricFamily(
            "slidestat_changelog_bytes",
            "Keys and values written to the changelog, before compression.",
            labels=["topology"],
        )
        for name, live in self._lives.items():
            flushes.add_metric([name], live.held.observed.flushes)
            written_records, written_bytes = live.held.changelog_written()
            records.add_metric([name], written_records)
            size.add_metric([name], written_bytes)
        yield from (flushes, records, size)

    def _of_synopses(self) -> Iterator[Metric]:
        published = CounterMetricFamily(
            "slidestat_synopsis_records",
            "Published for a referee: synopses, and the clocks of the partitions.",
            labels=["topology"],
        )
        published_size = CounterMetricFamily(
            "slidestat_synopsis_bytes",
            "Keys and values published for a referee, before compression.",
            labels=["topology"],
        )
        for name, live in self._lives.items():
            if live.topology.has_referee:
                published.add_metric([name], live.held.observed.synopsis_records)
                published_size.add_metric([name], live.held.observed.synopsis_bytes)
        yield from (published, published_size)

    def _of_alerts(self) -> Iterator[Metric]:
        firing = GaugeMetricFamily(
            "slidestat_alert_firing_keys",
            "For how many keys of this worker's partitions an alert fires.",
            labels=["topology", "alert"],
        )
        for name, live in self._lives.items():
            for alert, keys in live.held.firing().items():
                firing.add_metric([name, alert], keys)
        yield firing

    def _of_moves(self) -> Iterator[Metric]:
        behind = GaugeMetricFamily(
            "slidestat_repartition_lag_records",
            "Records of the source that are not moved to the topic by key yet, of the worker that"
            " moves them; offsets, so at most.",
            labels=["topology"],
        )
        behind_s = GaugeMetricFamily(
            "slidestat_repartition_lag_seconds",
            "How long ago the oldest of them that was fetched was written.",
            labels=["topology"],
        )
        source_behind = GaugeMetricFamily(
            "slidestat_repartition_source_lag_records",
            "Of each source, its records that are not moved to the topic by key yet.",
            labels=["topology", "source"],
        )
        source_behind_s = GaugeMetricFamily(
            "slidestat_repartition_source_lag_seconds",
            "How long ago the oldest of them that was fetched was written.",
            labels=["topology", "source"],
        )
        now = time.time()
        for name, live in self._lives.items():
            if (moving := live.held.behind()) is None:
                continue
            for labels, lag, records, seconds in (
                ([name], in_all(moving.values()), behind, behind_s),
                *(([name, it], one, source_behind, source_behind_s) for it, one in moving.items()),
            ):
                records.add_metric(labels, lag.records)
                if (since := lag.seconds(now)) is not None:
                    seconds.add_metric(labels, since)
        yield from (behind, behind_s, source_behind, source_behind_s)

    def _of_latencies(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily(
            "slidestat_emission_latency_seconds",
            "From taking up the batch that closed a window to the broker's acknowledgement of the"
            " emission.",
            labels=["topology"],
        )
        for name, live in self._lives.items():
            latencies = live.held.observed.emission_latencies
            latency.add_metric([name], _buckets(latencies), latencies.sum_s)
        yield latency

    def _of_work(self) -> Iterator[Metric]:
        works = {
            (name, str(partition)): work
            for name, live in self._lives.items()
            for partition, work in sorted(live.held.observed.partitions.items())
        }
        records = CounterMetricFamily(
            "slidestat_records",
            "Records taken in, by what became of them; repeated ones had been read before.",
            labels=[*_PARTITION, "outcome"],
        )
        lookups = CounterMetricFamily(
            "slidestat_key_lookups",
            "States of keys that a batch needed, by whether they were in memory.",
            labels=[*_PARTITION, "result"],
        )
        for labels, work in works.items():
            for outcome in ("counted", "dead", "late", "passed_over", "repeated"):
                records.add_metric([*labels, outcome], getattr(work, outcome))
            lookups.add_metric([*labels, "hit"], work.cache_hits)
            lookups.add_metric([*labels, "miss"], work.cache_misses)
        yield from (records, lookups)
        for name, text, field in (
            ("slidestat_batches", "Fetches taken in.", "batches"),
            ("slidestat_emissions", "Records queued for the output topic.", "emissions"),
            ("slidestat_processing_seconds", "Time spent on batches.", "processing_s"),
            ("slidestat_kernel_seconds", "Of it, time in the synopses' kernels.", "kernel_s"),
        ):
            family = CounterMetricFamily(name, text, labels=_PARTITION)
            for labels, work in works.items():
                family.add_metric(labels, getattr(work, field))
            yield family

    def _of_status(self) -> Iterator[Metric]:
        now_s = time.time()
        lag = _gauge("slidestat_lag_records", "Records of the partition that are not read yet.")
        waiting = _gauge(
            "slidestat_waiting_records",
            "Records behind a transaction that its producer has not ended; offsets, so at most.",
        )
        watermark = _gauge(
            "slidestat_watermark_timestamp_seconds", "Event time that the partition has reached."
        )
        delay = _gauge(
            "slidestat_watermark_delay_seconds", "How far the watermark is behind the clock."
        )
        keys = _gauge("slidestat_keys", "Keys with a state.")
        state = _gauge("slidestat_state_bytes", "What the states take in RocksDB.")
        lost = CounterMetricFamily(
            "slidestat_lost_records",
            "Gone before they were read, in the partition's whole life; offsets, so at most.",
            labels=_PARTITION,
        )
        left_out = CounterMetricFamily(
            "slidestat_left_out_records",
            "Counted records that a statistic leaves out, as they lack its field; in the"
            " partition's whole life.",
            labels=[*_PARTITION, "statistic"],
        )
        statuses = ((name, it) for name, live in self._lives.items() for it in _status(live))
        for name, status in statuses:
            labels = name, str(status.partition)
            if status.end_offset is not None:
                lag.add_metric(labels, max(0, status.end_offset - status.next_offset))
            waiting.add_metric(labels, status.waiting)
            if status.watermark_ms is not None:
                watermark.add_metric(labels, status.watermark_ms / 1000)
                delay.add_metric(labels, now_s - status.watermark_ms / 1000)
            if status.keys is not None:
                keys.add_metric(labels, status.keys)
            state.add_metric(labels, status.state_bytes)
            lost.add_metric(labels, status.lost)
            for statistic, count in sorted(status.left_out.items()):
                left_out.add_metric([*labels, statistic], count)
        yield from (lag, waiting, watermark, delay, keys, state, lost, left_out)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=_PARTITION)


def _status(live: LiveTopology) -> list[PartitionStatus]:
    try:
        return live.status()
    except SlidestatError:
        return []  # The next batch of that partition raises the error, and stops the worker.


def _buckets(latencies: Latencies) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus has them."""
    bounds = [*map(floatToGoString, LATENCY_BOUNDS_S), "+Inf"]
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(bounds, latencies.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
