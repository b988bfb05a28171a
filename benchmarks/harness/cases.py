"""What is measured: named workloads, each a topology and the topic that it is measured on."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.harness.workload import KeyDistribution, Workload, draw, flights
from slidestat.declare.kinds import DEFAULT
from slidestat.declare.statistics import (
    Count,
    Distinct,
    Mean,
    Quantiles,
    Statistic,
    Sum,
    TopItems,
)
from slidestat.declare.topology import Topology


class CaseName(StrEnum):
    """The name of a workload."""

    SUMS = "sums"
    QUIET_SUMS = "quiet-sums"
    DEFAULT = "default"
    MILLION_KEYS = "million-keys"
    ONE_KEY = "one-key"
    UNIFORM = "uniform"
    WIDE = "wide"
    QUANTILES = "quantiles"
    FLIGHTS = "flights"
    DECIDING = "deciding"


@dataclass(frozen=True)
class Case:
    """Statistics of three windows, and the events that they are of.

    `mean_gap_ms` lies between two events, so that the longest window holds its length / mean_gap_ms
    of them; `note_bytes` are in each record for nothing; without a `distribution` the events are
    real flights. `wanted` is how many events a second a worker is to do, if that is said.
    """

    statistics: Sequence[Statistic]
    wanted: int | None = None
    keys: int = 1_000
    distribution: KeyDistribution | None = KeyDistribution.ZIPF
    mean_gap_ms: float = 10.0
    note_bytes: int = 0
    windows: tuple[str, ...] = ("1m", "5m", "1h")
    every: str = "1m"

    def draw(self, events: int, keys: int, partitions: int) -> Workload:
        """Draw so many events, or as many flights as there are."""
        if self.distribution is None:
            return flights(partitions).part(0, events)
        gap, note = self.mean_gap_ms, self.note_bytes
        return draw(events, keys, self.distribution, partitions, gap, note)


_SUMS = (Count(epsilon=0.01), Sum(epsilon=0.01, decimals=3), Mean())
_UNIFORM, _STEEP = KeyDistribution.UNIFORM, KeyDistribution.ZIPF_STEEP

CASES = {
    CaseName.SUMS: Case(_SUMS, 250_000),
    CaseName.QUIET_SUMS: Case(_SUMS, every="10m"),
    CaseName.DEFAULT: Case(DEFAULT, 120_000),
    # A million keys bring more events a second than a thousand do.
    CaseName.MILLION_KEYS: Case(DEFAULT, 50_000, 1_000_000, _STEEP, 0.1),
    CaseName.ONE_KEY: Case(_SUMS, keys=1, mean_gap_ms=0.36),
    CaseName.UNIFORM: Case(_SUMS, keys=100_000, distribution=_UNIFORM, mean_gap_ms=0.1),
    CaseName.WIDE: Case(_SUMS, note_bytes=434),
    CaseName.QUANTILES: Case((Quantiles(),)),
    CaseName.DECIDING: Case(
        (
            Quantiles(field="took", quantiles=(0.5, 0.95, 0.99)),
            Distinct(field="user"),
            TopItems(field="path"),
        ),
        mean_gap_ms=7.2,
        windows=("1h",),
        every="10s",
    ),
    CaseName.FLIGHTS: Case(_SUMS, distribution=None, windows=("1d", "7d"), every="6h"),
}


def make_topology(case: CaseName, topic: str, name: str, every: str) -> Topology:
    """The topology of a case; raises SlidestatError if `every` is no duration."""
    return Topology(
        name=name,
        source=topic,
        span=CASES[case].windows[-1],
        every=every,
        windows=CASES[case].windows,
        statistics=CASES[case].statistics,
    )
