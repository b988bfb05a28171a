"""Was every event counted, once? Each statistic on the output topic against the exact answer."""

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
    """Statistics compared, and the largest relative error among them."""

    statistics: int
    largest_relative_error: float
    promised_relative_error: float


class _Figures(msgspec.Struct, gc=False):
    statistic: str
    key: str
    window_start_ms: int
    window_end_ms: int
    estimate: float
    lower: float
    upper: float
    relative_error: float


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

    Every key and minute with events must be there, each figure between its bounds, each error
    within the promise, and nothing may be late or dead. Raises SlidestatError otherwise.
    """
    for topic in (topology.dead_letter_topic, topology.late_topic):
        if records := _records(bootstrap, topic, workload.partitions):
            raise _impossible(f"{records} good events went to {topic}")
    figures = _read(bootstrap, topology.output_topic, workload.partitions)
    keys = np.array([key_number(figure.key) for figure in figures], np.int64)
    starts = np.array([figure.window_start_ms for figure in figures], np.int64)
    ends = np.array([figure.window_end_ms for figure in figures], np.int64)
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
    _check_complete(workload, topology, keys[is_count], starts[is_count], ends[is_count])
    estimates = np.array([figure.estimate for figure in figures])
    busy = exact > 0
    largest = float(np.max(np.abs(estimates[busy] / exact[busy] - 1)))
    promised = max(figure.relative_error for figure in figures)
    if largest > promised * (1 + _ROUNDING):
        raise _impossible(f"the largest relative error is {largest}, not {promised}")
    return Check(len(figures), largest, promised)


def _check_complete(
    workload: Workload, topology: Topology, keys: Int64s, starts: Int64s, ends: Int64s
) -> None:
    """Each key with events before a tick that its partition has passed must have that tick's
    counts, of every window.
    """
    every = topology.every_ms
    ticks = (workload.times // every + 1) * every
    parts = workload.keys % workload.partitions
    newest = np.zeros(workload.partitions, np.int64)
    np.maximum.at(newest, parts, workload.times)
    passed = ticks <= newest[parts]
    first = ticks[0]
    wanted = np.unique(workload.keys[passed] + workload.key_count * (ticks[passed] - first))
    for window in topology.windows_ms:
        of_window = ends - starts == window
        found = keys[of_window] + workload.key_count * (ends[of_window] - first)
        missing = np.setdiff1d(wanted, found)
        if len(missing):
            raise _impossible(
                f"{len(missing)} of {len(wanted)} counts of windows of {window} ms are missing"
            )


def _read(bootstrap: str, topic: str, partitions: int) -> list[_Figures]:
    wanted = _records(bootstrap, topic, partitions)
    consumer = Consumer(
        {
            **client_config(bootstrap),
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    decode = msgspec.json.Decoder(_Figures).decode
    figures: list[_Figures] = []
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        while len(figures) < wanted:
            # No more than there are: it would wait for the rest until its time is up.
            missing = wanted - len(figures)
            messages = consumer.consume(min(_FETCH, missing), timeout=_TIMEOUT_S)
            if not messages:
                raise _impossible(f"{topic} gave {len(figures)} of {wanted} records")
            figures.extend(decode(message.value() or b"") for message in messages)
    finally:
        consumer.close()
    return figures


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
