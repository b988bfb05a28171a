"""Was every event counted, once? Each figure on the output topic against the exact answer."""

from dataclasses import dataclass

import msgspec
import numpy as np
from confluent_kafka import Consumer, TopicPartition

from app.client.connection import client_config
from app.errors import SlidestatError
from app.streaming.topology import Topology
from benchmarks.workload import Int64s, Workload, key_number

_FETCH = 50_000
_TIMEOUT_S = 30.0
_ROUNDING = 1e-12  # of this module's own divisions


@dataclass(frozen=True)
class Check:
    """Output records, the figures in them, all compared, and the largest relative error."""

    records: int
    figures: int
    largest_relative_error: float
    promised_relative_error: float


# What is compared of an emission; quicker to decode than all of it.
class _Figure(msgspec.Struct, gc=False):
    statistic: str
    window_ms: int
    estimate: float
    lower: float
    upper: float
    relative_error: float


class _Emission(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int
    figures: list[_Figure]


class _Exact:
    """Exact counts and sums of any key and window, by searching the sorted events."""

    def __init__(self, workload: Workload) -> None:
        self._start = int(workload.times[0])
        self._stride = int(workload.times[-1]) - self._start + 2
        codes = workload.keys * self._stride + (workload.times - self._start)
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        self._cents = np.concatenate(([0], np.cumsum(workload.cents[order])))

    def of(self, keys: Int64s, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
        """Counts and sums (in cents) of the events of keys[i] in [starts[i], ends[i])."""
        below = self._position(keys, starts)
        above = self._position(keys, ends)
        return above - below, self._cents[above] - self._cents[below]

    def _position(self, keys: Int64s, times: Int64s) -> Int64s:
        since_start = np.clip(times - self._start, 0, self._stride - 1)
        return np.searchsorted(self._codes, keys * self._stride + since_start)


def check_output(workload: Workload, topology: Topology, bootstrap: str) -> Check:
    """Compare all that a finished worker put out with the exact answers.

    Every key and tick with events must be there, with all statistics and windows, each exact
    figure between its bounds, each error within the promise, and nothing may be late or dead.
    Raises SlidestatError otherwise.
    """
    for topic in (topology.dead_letter_topic, topology.late_topic):
        if records := _records(bootstrap, topic, workload.partitions):
            raise _impossible(f"{records} good events went to {topic}")
    emissions = _read(bootstrap, topology.output_topic, workload.partitions)
    _check_complete(workload, topology, emissions)
    figures = [figure for emission in emissions for figure in emission.figures]
    each = len(figures) // len(emissions)
    keys = np.repeat(np.array([key_number(e.key) for e in emissions], np.int64), each)
    ends = np.repeat(np.array([e.window_end_ms for e in emissions], np.int64), each)
    starts = ends - np.array([figure.window_ms for figure in figures], np.int64)
    is_count = np.array([figure.statistic == "count" for figure in figures])
    counts, cents = _Exact(workload).of(keys, starts, ends)
    # Rounding to the nearest double keeps the order that exact sum and bounds have.
    exact = np.where(is_count, counts, cents / 100)
    lower = np.array([figure.lower for figure in figures])
    upper = np.array([figure.upper for figure in figures])
    outside = np.flatnonzero((lower > exact) | (exact > upper))
    if len(outside):
        worst = figures[outside[0]]
        raise _impossible(
            f"{len(outside)} of {len(figures)} bounds do not hold, such as {worst}, "
            f"exactly {exact[outside[0]]}"
        )
    estimates = np.array([figure.estimate for figure in figures])
    busy = exact > 0
    largest = float(np.max(np.abs(estimates[busy] / exact[busy] - 1)))
    promised = max(figure.relative_error for figure in figures)
    if largest > promised * (1 + _ROUNDING):
        raise _impossible(f"the largest relative error is {largest}, not {promised}")
    return Check(len(emissions), len(figures), largest, promised)


def _check_complete(workload: Workload, topology: Topology, emissions: list[_Emission]) -> None:
    """Each key must have the emissions of the ticks after its events and of those by which all of
    them have left the span, as far as its partition has come, and no other; and each emission the
    figures of every statistic and window.
    """
    series = [(label, n) for label in topology.labels for n in topology.window_lengths]
    for emission in emissions:
        if [(figure.statistic, figure.window_ms) for figure in emission.figures] != series:
            raise _impossible(f"{emission} has not the figures of {series}")
    every, span = topology.every_ms, topology.span_length.length
    order = np.lexsort((workload.times, workload.keys))
    keys, times = workload.keys[order], workload.times[order]
    newest = np.zeros(workload.partitions, np.int64)
    np.maximum.at(newest, keys % workload.partitions, times)
    passed = newest[keys % workload.partitions]
    following = np.where(np.append(np.diff(keys) == 0, False), np.append(times[1:], 0), passed)
    ticks, empty = (times // every + 1) * every, ((times + span) // every + 1) * every
    first = ticks[0]

    def places(keys: Int64s, ticks: Int64s) -> Int64s:
        return np.unique(keys + workload.key_count * (ticks - first))

    of_events, of_gaps = ticks <= passed, empty <= following
    wanted = np.union1d(
        places(keys[of_events], ticks[of_events]), places(keys[of_gaps], empty[of_gaps])
    )
    found = places(
        np.array([key_number(emission.key) for emission in emissions], np.int64),
        np.array([emission.window_end_ms for emission in emissions], np.int64),
    )
    missing, more = np.setdiff1d(wanted, found), np.setdiff1d(found, wanted)
    if len(missing) or len(more):
        raise _impossible(
            f"{len(missing)} of {len(wanted)} emissions are missing, {len(more)} were not due"
        )


def _read(bootstrap: str, topic: str, partitions: int) -> list[_Emission]:
    wanted = _records(bootstrap, topic, partitions)
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    decode = msgspec.json.Decoder(_Emission).decode
    emissions: list[_Emission] = []
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        while len(emissions) < wanted:
            # No more than there are: it would wait for the rest until its time is up.
            missing = wanted - len(emissions)
            messages = consumer.consume(min(_FETCH, missing), timeout=_TIMEOUT_S)
            if not messages:
                raise _impossible(f"{topic} gave {len(emissions)} of {wanted} records")
            emissions.extend(decode(message.value() or b"") for message in messages)
    finally:
        consumer.close()
    return emissions


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
