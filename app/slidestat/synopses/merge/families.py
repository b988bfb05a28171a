"""Which synopses can be merged, how their bytes are read, and what two of them must share."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from slidestat.synopses.core import envelope
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.distinct_wave import DistinctWave
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram
from slidestat.synopses.extremes.extreme import Extreme
from slidestat.synopses.frequent.frequent_items import FrequentItems
from slidestat.synopses.frequent.named_items import NamedItems
from slidestat.synopses.frequent_pairs.paired_items import PairedItems
from slidestat.synopses.lean_distinct.sketch import LeanDistinct
from slidestat.synopses.moments.spread import Spread
from slidestat.synopses.quantiles.quantiles import Quantiles
from slidestat.synopses.sampling.sample import SampleParameters, SlidingSample
from slidestat.synopses.value_histogram.value_histogram import ValueHistogram
from slidestat.synopses.value_quantiles.sketch import ValueQuantiles
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.count_wave import CountWave
from slidestat.synopses.waves.position_wave import PositionWave
from slidestat.synopses.waves.sum_wave import SumWave

COUNT_HISTOGRAM, SUM_HISTOGRAM, COUNT_WAVE, SUM_WAVE = 1, 2, 3, 4
POSITION_WAVE, AVERAGE_WAVE = 5, 6
EXACT_EXTREME, APPROXIMATE_EXTREME, SPREAD = 8, 9, 10
DRAWS, SAMPLE, QUANTILES, FREQUENT = 11, 12, 13, 14
VALUE_HISTOGRAM, RANDOMISED_WAVE, NAMED_IN_BLOCKS, BY_VALUE = 16, 19, 24, 27
PAIRED, NAMED, LEAN_DISTINCT = 28, 29, 30


class Mergeable(Protocol):
    """The interface of a synopsis that can be a part of a bundle."""

    @property
    def parameters(self) -> object:
        """Return its parameters."""

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to."""

    def check(self) -> None:
        """Raise SynopsisError unless its invariants hold."""


READERS: dict[int, Callable[[bytes], Mergeable]] = {
    COUNT_HISTOGRAM: ExponentialHistogram.from_bytes,
    SUM_HISTOGRAM: ExponentialHistogram.from_bytes,
    COUNT_WAVE: CountWave.from_bytes,
    SUM_WAVE: SumWave.from_bytes,
    POSITION_WAVE: PositionWave.from_bytes,
    AVERAGE_WAVE: AverageWave.from_bytes,
    EXACT_EXTREME: Extreme.from_bytes,
    APPROXIMATE_EXTREME: Extreme.from_bytes,
    SPREAD: Spread.from_bytes,
    DRAWS: SlidingSample.from_bytes,
    SAMPLE: SlidingSample.from_bytes,
    QUANTILES: Quantiles.from_bytes,
    FREQUENT: FrequentItems.from_bytes,
    VALUE_HISTOGRAM: ValueHistogram.from_bytes,
    RANDOMISED_WAVE: DistinctWave.from_bytes,
    NAMED_IN_BLOCKS: NamedItems.from_bytes,
    BY_VALUE: ValueQuantiles.from_bytes,
    PAIRED: PairedItems.from_bytes,
    NAMED: NamedItems.from_bytes,
    LEAN_DISTINCT: LeanDistinct.from_bytes,
}
"""A family that becomes mergeable is a line here, and a module that answers over a union."""


def kind_of(data: bytes) -> int:
    """Return the kind of a stored synopsis that can be merged; SynopsisError for anything else."""
    kind = envelope.kind_of(data)
    if kind not in READERS:
        raise SynopsisError(f"a synopsis of kind {kind} cannot be merged")
    return kind


def read(data: bytes) -> Mergeable:
    """Read a stored synopsis of any kind that can be merged; SynopsisError for anything else."""
    return READERS[kind_of(data)](data)


def shared(parameters: object) -> object:
    """Return what the parameters of all parts must agree in: all but the seed of a sample."""
    if isinstance(parameters, SampleParameters):
        return replace(parameters, seed=0)
    return parameters
