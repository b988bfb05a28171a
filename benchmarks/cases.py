"""What is measured: named topologies, each with the topic that it is measured on."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.streaming.statistics import DEFAULT, Count, Mean, Statistic, Sum
from app.streaming.topology import Topology
from benchmarks.workload import KeyDistribution


class CaseName(StrEnum):
    """The name of a case."""

    COMPARE = "compare"
    SUMS = "sums"
    DEFAULT = "default"
    MILLION_KEYS = "million-keys"


@dataclass(frozen=True)
class Case:
    """Statistics of three windows up to an hour, and the events that they are of.

    `mean_gap_ms` lies between two events; `wanted` is how many events a second a worker is to do,
    None where it is compared with plain Faust instead.
    """

    statistics: Sequence[Statistic]
    wanted: int | None
    keys: int = 1_000
    distribution: KeyDistribution = KeyDistribution.ZIPF
    mean_gap_ms: float = 10.0


_SUMS = (Count(epsilon=0.01), Sum(epsilon=0.01, decimals=3))

CASES = {
    CaseName.COMPARE: Case(_SUMS, None),
    CaseName.SUMS: Case((*_SUMS, Mean()), 250_000),
    CaseName.DEFAULT: Case(DEFAULT, 120_000),
    # A million keys bring more events a second than a thousand do.
    CaseName.MILLION_KEYS: Case(DEFAULT, 50_000, 1_000_000, KeyDistribution.ZIPF_STEEP, 0.1),
}


def make_topology(case: CaseName, topic: str, name: str, every: str) -> Topology:
    """The topology of a case; raises SlidestatError if `every` is no duration."""
    return Topology(
        name=name,
        source=topic,
        span="1h",
        every=every,
        windows=("1m", "5m", "1h"),
        statistics=CASES[case].statistics,
    )
