"""The exact answers of the demo, recomputed from its file, and the comparison with what came."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from app.streaming.topology import Topology
from schemas.statistic import Statistic

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Checked:
    """A statistic beside the exact figure."""

    statistic: Statistic
    exact: float

    @property
    def relative_error(self) -> float:
        """|estimate - exact| / exact; 0 where both are 0."""
        if self.exact == 0:
            return 0.0 if self.statistic.estimate == 0 else float("inf")
        return abs(self.statistic.estimate - self.exact) / self.exact

    @property
    def holds(self) -> bool:
        """Whether the bounds hold the exact figure and the error is within the promise."""
        promised = self.statistic.relative_error * self.exact
        return (
            self.statistic.lower <= self.exact <= self.statistic.upper
            and abs(self.statistic.estimate - self.exact) <= promised
        )


@dataclass(frozen=True, slots=True)
class _Key:
    times: Int64s
    totals: Int64s  # totals[i]: sum of the first i values


class ExactFlights:
    """Counts and sums of the demo's events over any window, exactly."""

    def __init__(self) -> None:
        with resources.as_file(resources.files("app.demo_data") / "flights-2001.parquet") as file:
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
        """How many events there are."""
        return sum(len(key.times) for key in self._keys.values())

    def figure(self, statistic: Statistic) -> float:
        """The exact figure of a statistic's key and window."""
        key = self._keys[statistic.key]
        window = (statistic.window_start_ms, statistic.window_end_ms)
        first, end = np.searchsorted(key.times, window)
        if statistic.statistic == "count":
            return float(end - first)
        return float(key.totals[end] - key.totals[first])

    def expected(self, topology: Topology, partition_of: dict[str, int]) -> set[tuple[str, int]]:
        """The (key, window end) that must be emitted: for each key the ticks after its events that
        the watermark of its partition has passed.
        """
        watermarks: dict[int, int] = {}
        for key, partition in partition_of.items():
            newest = int(self._keys[key].times[-1])
            watermarks[partition] = max(newest, watermarks.get(partition, newest))
        every = topology.every_ms
        wanted = set()
        for key, partition in partition_of.items():
            for tick in np.unique((self._keys[key].times // every + 1) * every).tolist():
                if tick <= watermarks[partition]:
                    wanted.add((key, tick))
        return wanted

    @property
    def keys(self) -> set[str]:
        """All keys."""
        return set(self._keys)


def check(exact: ExactFlights, statistics: Iterable[Statistic]) -> list[Checked]:
    """Each statistic beside its exact figure."""
    return [Checked(statistic, exact.figure(statistic)) for statistic in statistics]
