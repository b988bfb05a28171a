"""Was every event counted, once? Each figure on the output topic against the exact answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness.exact import Exact
from benchmarks.harness.figures import Figure, violation_of
from benchmarks.harness.workload import Workload
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

_FETCH = 50_000
_TIMEOUT_S = 30.0
_ROUNDING = 1e-12  # of this module's own divisions
# Above, every second, third ... record is looked into. All are looked for.
_MOST_FIGURES = 4_000_000
# Figures that need all values of a window are checked in a sample of this many.
_SAMPLE = 2_000
_SEARCHED = ("count", "sum", "mean")


@dataclass(frozen=True)
class Check:
    """Output records, the figures compared in them, and the largest relative error of those that
    promise one.
    """

    records: int
    figures: int
    largest_relative_error: float
    promised_relative_error: float


class _Head(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int


class _Emission(_Head, gc=False):
    figures: list[Figure]


def check_output(workload: Workload, topology: Topology, bootstrap: str) -> Check:
    """Compare what a finished worker put out with the exact answers.

    Every key and tick with events must be there, and no other; with all statistics and windows;
    nothing may be late or dead. Of counts, sums and means each exact figure must lie between its
    bounds, counts and sums be as close as promised; of what needs the values of a window a sample,
    whose promises are compared too. Raises SlidestatError otherwise.
    """
    for topic in (topology.dead_letter_topic, topology.late_topic):
        if records := _records(bootstrap, topic, workload.partitions):
            raise _impossible(f"{records} good events went to {topic}")
    series = _series(topology)
    wanted = _records(bootstrap, topology.output_topic, workload.partitions)
    step = ceil(wanted * len(series) / _MOST_FIGURES) or 1
    decode, decode_head = (msgspec.json.Decoder(kind).decode for kind in (_Emission, _Head))
    keys, ends, emissions = np.empty(wanted, np.int64), np.empty(wanted, np.int64), []
    for place, value in enumerate(_read(bootstrap, topology.output_topic, wanted, workload)):
        head = decode(value) if place % step == 0 else decode_head(value)
        keys[place], ends[place] = workload.key_number(head.key), head.window_end_ms
        if isinstance(head, _Emission):
            emissions.append(head)
    check_complete(workload, topology, keys, ends)
    for emission in emissions:
        if [(f.statistic, f.window_ms, f.quantile) for f in emission.figures] != series:
            raise _impossible(f"{emission} has not the figures of {series}")
    figures = [figure for emission in emissions for figure in emission.figures]
    keys, ends = np.repeat(keys[::step], len(series)), np.repeat(ends[::step], len(series))
    return check_figures(Exact(workload), wanted, figures, keys, ends)


def _series(topology: Topology) -> list[tuple[str, int, float | None]]:
    return [
        (label, window, series.quantile)
        for statistic, label in zip(topology.statistics, topology.labels, strict=True)
        for window in topology.window_lengths
        for series in statistic.series()
    ]


def check_figures(
    exact: Exact, records: int, figures: list[Figure], keys: Integers, ends: Integers
) -> Check:
    """Compare the figures of windows of keys[i] that end at ends[i].

    Raises SlidestatError if a bound or a promise does not hold.
    """
    starts = ends - np.array([figure.window_ms for figure in figures], np.int64)
    counts, cents = exact.of(keys, starts, ends)
    names = np.array([figure.statistic for figure in figures])
    estimates, lowers, uppers = (_numbers(figures, name) for name in ("estimate", "lower", "upper"))
    with np.errstate(invalid="ignore"):
        means = cents / (100 * counts)
    # Rounding to the nearest double keeps the order that exact figures and bounds have.
    wanted = np.select([names == "count", names == "sum"], [counts, cents / 100], means)
    searched = np.isin(names, _SEARCHED)
    holds = (lowers <= wanted) & (wanted <= uppers)
    holds |= (names == "mean") & (counts == 0) & np.isnan(estimates)
    outside = np.flatnonzero(searched & ~holds)
    if len(outside):
        raise _impossible(
            f"{len(outside)} of {np.sum(searched)} bounds do not hold, such as"
            f" {figures[outside[0]]}, exactly {wanted[outside[0]]}"
        )
    relative = np.isin(names, ("count", "sum")) & (wanted > 0)
    # A topology need not have one that promises a relative error.
    largest = float(np.max(np.abs(estimates[relative] / wanted[relative] - 1), initial=0.0))
    promised = max(
        (figure.relative_error for figure in figures if figure.statistic in ("count", "sum")),
        default=0.0,
    )
    if largest > promised * (1 + _ROUNDING):
        raise _impossible(f"the largest relative error is {largest}, not {promised}")
    others = np.flatnonzero(~searched)
    if len(others) > _SAMPLE:
        others = np.random.default_rng(0).choice(others, _SAMPLE, replace=False)
    for i in others.tolist():
        values = exact.cents(int(keys[i]), int(starts[i]), int(ends[i]))
        if violation := violation_of(figures[i], values):
            raise _impossible(f"{figures[i]}: {violation}")
    return Check(records, int(searched.sum()) + len(others), largest, promised)


def _numbers(figures: list[Figure], name: str) -> npt.NDArray[np.float64]:
    # A missing figure becomes NaN, which lies between no bounds.
    return np.array([getattr(figure, name) for figure in figures], np.float64)


def check_complete(workload: Workload, topology: Topology, keys: Integers, ends: Integers) -> None:
    """Each key must have the emissions of the ticks after its events and of those by which all of
    them have left the span, or a window where `emit` asks for it, as far as its partition has come,
    and no other.
    """
    every, emptied = topology.every_ms, [topology.span_length.length]
    if topology.emit == "windows":
        emptied += topology.window_lengths
    order = np.lexsort((workload.times, workload.keys))
    of, times = workload.keys[order], workload.times[order]
    newest = np.zeros(workload.partitions, np.int64)
    np.maximum.at(newest, of % workload.partitions, times)
    passed = newest[of % workload.partitions]
    following = np.where(np.append(np.diff(of) == 0, False), np.append(times[1:], 0), passed)
    ticks = (times // every + 1) * every
    first = ticks[0]

    def places(keys: Integers, ticks: Integers) -> Integers:
        return np.unique(keys + workload.key_count * (ticks - first))

    is_passed = ticks <= passed
    wanted = places(of[is_passed], ticks[is_passed])
    for length in emptied:
        empty = ((times + length) // every + 1) * every
        is_passed = empty <= following
        wanted = np.union1d(wanted, places(of[is_passed], empty[is_passed]))
    found = places(keys, ends)
    missing, more = np.setdiff1d(wanted, found), np.setdiff1d(found, wanted)
    if len(missing) or len(more):
        raise _impossible(
            f"{len(missing)} of {len(wanted)} emissions are missing, {len(more)} were not due"
        )


def _read(bootstrap: str, topic: str, wanted: int, workload: Workload) -> Iterator[bytes]:
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    read = 0
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(workload.partitions)])
        while read < wanted:
            # No more than there are: it would wait for the rest until its time is up.
            messages = consumer.consume(min(_FETCH, wanted - read), timeout=_TIMEOUT_S)
            if not messages:
                raise _impossible(f"{topic} gave {read} of {wanted} records")
            read += len(messages)
            for message in messages:
                yield message.value() or b""
    finally:
        consumer.close()


def _records(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = Consumer({**client_config(bootstrap), "group.id": f"{topic}-check"})
    try:
        ends = (
            consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=_TIMEOUT_S)
            for p in range(partitions)
        )
        return sum(high - low for low, high in ends)
    finally:
        consumer.close()


def _impossible(what: str) -> SlidestatError:
    return SlidestatError(f"The figures are worth nothing: {what}.", "Report it.")
