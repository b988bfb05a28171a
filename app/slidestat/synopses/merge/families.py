"""Which synopses can be merged, how their bytes are read, and what two of them must share."""

from dataclasses import replace
from typing import ClassVar, Protocol

from slidestat.synopses.core import envelope
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.wave import DistinctWave
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram
from slidestat.synopses.extremes.extreme import Extreme
from slidestat.synopses.frequent.frequent_items import FrequentItems
from slidestat.synopses.frequent.named_items import NamedItems
from slidestat.synopses.frequent_pairs.paired_items import PairedItems
from slidestat.synopses.lean_distinct.sketch import LeanDistinct
from slidestat.synopses.moments.spread import Spread
from slidestat.synopses.quantiles.quantiles import Quantiles
from slidestat.synopses.sampling.sample import SampleParameters, SlidingSample
from slidestat.synopses.value_histogram.counter_table import CounterTable
from slidestat.synopses.value_histogram.value_histogram import ValueHistogram
from slidestat.synopses.value_quantiles.sketch import ValueQuantiles
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.waves import CountWave, PositionWave, SumWave


class Mergeable(Protocol):
    """The interface of a synopsis that can be a part of a bundle."""

    kinds: ClassVar[tuple[int, ...]]
    """The kinds of its stored states."""

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mergeable":
        """Read what was stored; SynopsisError for anything else."""

    @property
    def parameters(self) -> object:
        """Return its parameters."""

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to."""

    def check(self) -> None:
        """Raise SynopsisError unless its invariants hold."""


FAMILIES: tuple[type[Mergeable], ...] = (
    ExponentialHistogram,
    CountWave,
    SumWave,
    PositionWave,
    AverageWave,
    Extreme,
    Spread,
    SlidingSample,
    Quantiles,
    FrequentItems,
    ValueHistogram,
    CounterTable,
    DistinctWave,
    NamedItems,
    ValueQuantiles,
    PairedItems,
    LeanDistinct,
)
"""A family that becomes mergeable is a line here, and a module that answers over a union."""

_OF_KIND = {kind: family for family in FAMILIES for kind in family.kinds}


def kind_of(data: bytes) -> int:
    """Return the kind of a stored synopsis that can be merged; SynopsisError for anything else."""
    kind = envelope.kind_of(data)
    if kind not in _OF_KIND:
        raise SynopsisError(f"a synopsis of kind {kind} cannot be merged")
    return kind


def read(data: bytes) -> Mergeable:
    """Read a stored synopsis of any kind that can be merged; SynopsisError for anything else."""
    return _OF_KIND[kind_of(data)].from_bytes(data)


def shared(parameters: object) -> object:
    """Return what the parameters of all parts must agree in: all but the seed of a sample."""
    if isinstance(parameters, SampleParameters):
        return replace(parameters, seed=0)
    return parameters
