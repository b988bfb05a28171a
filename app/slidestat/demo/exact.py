"""The exact answers of the demo, recomputed from its file, and the comparison with what came."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pyarrow.parquet as pq

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission, Figure
from slidestat.synopses.core.arrays import Integers


@dataclass(frozen=True, slots=True)
class Checked:
    """A figure of an emission with the exact one."""

    emission: Emission
    figure: Figure
    exact: float

    @property
    def relative_error(self) -> float:
        """The relative error |estimate - exact| / exact; 0 where both are 0, infinite without an
        estimate.
        """
        estimate = self.figure.estimate
        if estimate is None:
            return float("inf")
        if self.exact == 0:
            return 0.0 if estimate == 0 else float("inf")
        return abs(estimate - self.exact) / self.exact

    @property
    def holds(self) -> bool:
        """Return whether the bounds hold the exact figure and the error is within the relative
        promise: distances are whole miles, so rounding may add nothing.
        """
        estimate, lower, upper = self.figure.estimate, self.figure.lower, self.figure.upper
        if estimate is None or lower is None or upper is None:
            return False  # A count and a sum exist in any window.
        promised = self.figure.relative_error * self.exact
        return lower <= self.exact <= upper and abs(estimate - self.exact) <= promised


@dataclass(frozen=True, slots=True)
class _Key:
    times: Integers
    totals: Integers  # totals[i]: sum of the first i values


class ExactFlights:
    """The exact counts and sums of the demo's events over any window."""

    def __init__(self) -> None:
        with resources.as_file(
            resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
        ) as file:
            table = pq.read_table(file, columns=["date", "origin", "distance"])
        times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
        values = table["distance"].cast("int64").to_numpy()
        encoded = table["origin"].combine_chunks().cast("string").dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes))
        self._keys: dict[str, _Key] = {}
        for key, rows in zip(
            encoded.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True
        ):
            totals = np.concatenate(([0], np.cumsum(values[rows])))
            self._keys[key] = _Key(times[rows], totals)

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(len(key.times) for key in self._keys.values())

    def figure(self, emission: Emission, figure: Figure) -> float:
        """Return the exact figure of an emission's key and a figure's window.

        Raises SlidestatError for a statistic or a window that the demo does not recompute.
        """
        if figure.window_ms is None:
            raise SlidestatError(
                f"{figure} is of no window of time.", "This is a bug in slidestat."
            )
        key = self._keys[emission.key]
        end_ms = emission.window_end_ms
        first, end = np.searchsorted(key.times, (end_ms - figure.window_ms, end_ms))
        match figure.statistic:
            case "count":
                return float(end - first)
            case "sum":
                return float(key.totals[end] - key.totals[first])
        raise SlidestatError(f"{figure} is neither count nor sum.", "This is a bug in slidestat.")

    def expected(self, topology: Topology, partition_of: dict[str, int]) -> set[tuple[str, int]]:
        """Return the (key, window end) that must be emitted: for each key the ticks after its
        events, and the first ones by which all its events have left a window or the span, up to its
        partition's watermark.
        """
        watermarks: dict[int, int] = {}
        for key, partition in partition_of.items():
            newest = int(self._keys[key].times[-1])
            watermarks[partition] = max(newest, watermarks.get(partition, newest))
        every = topology.every_ms
        lengths = {*topology.window_lengths, topology.span_length.length}
        wanted: set[tuple[str, int]] = set()
        for key, partition in partition_of.items():
            times, watermark = self._keys[key].times, watermarks[partition]
            ticks = (times // every + 1) * every
            wanted.update((key, tick) for tick in ticks[ticks <= watermark].tolist())
            following = np.append(times[1:], watermark)
            for length in lengths:
                empty = ((times + length) // every + 1) * every
                wanted.update((key, tick) for tick in empty[empty <= following].tolist())
        return wanted

    @property
    def keys(self) -> set[str]:
        """The names of all keys."""
        return set(self._keys)


def check(exact: ExactFlights, emissions: Iterable[Emission]) -> list[Checked]:
    """Return each figure of the emissions with the exact one."""
    return [
        Checked(emission, figure, exact.figure(emission, figure))
        for emission in emissions
        for figure in emission.figures
    ]
