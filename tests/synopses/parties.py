"""What laws of merging share: one logical stream, and the parties that see parts of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.synopses import (
    AverageParameters,
    AverageWave,
    Bundle,
    CountParameters,
    CountWave,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    FrequentItems,
    FrequentParameters,
    PairedItems,
    PairedParameters,
    PositionWave,
    QuantileParameters,
    Quantiles,
    SampleParameters,
    SlidingSample,
    Spread,
    SpreadParameters,
    SumParameters,
    SumWave,
    ValueHistogram,
    ValueHistogramParameters,
    WaveParameters,
    party_seed,
)
from slidestat.synopses.frequent.named_items import NamedItems

SPAN = 1_000
NUMBERS = (1, 2, 7, 64)

Rng = np.random.Generator
Whose = npt.NDArray[np.int64]

SPLITS: dict[str, Callable[[Rng, int, int], Whose]] = {
    "evenly": lambda rng, size, parties: rng.integers(0, parties, size),
    "by turns": lambda rng, size, parties: np.arange(size) % parties,  # noqa: ARG005
    "skewed": lambda rng, size, parties: np.minimum(rng.zipf(1.5, size), parties) - 1,
    "some silent": lambda rng, size, parties: rng.integers(0, (parties + 1) // 2, size),
    "one after another": lambda rng, size, parties: np.sort(rng.integers(0, parties, size)),
    "some stopped": lambda rng, size, parties: np.where(
        np.arange(size) < size // 2, rng.integers(0, parties, size), 0
    ),
}


@dataclass(frozen=True)
class Split:
    """A stream and who saw which event; `times` do not fall."""

    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    whose: Whose
    parties: int

    def window(self, start: int, end: int) -> npt.NDArray[np.float64]:
        """The values with start <= time < end."""
        return self.values[(self.times >= start) & (self.times < end)]


VALUES: dict[str, Callable[[Rng, int], npt.NDArray[np.float64]]] = {
    "prices": lambda rng, size: np.round(rng.uniform(0, 100, size), 2),
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**6).astype(np.float64),
    "signed": lambda rng, size: np.round(rng.normal(-5, 50, size), 2),
    "far from zero": lambda rng, size: 1e7 + rng.integers(0, 3, size) / 100,
    "constant": lambda rng, size: np.full(size, 7.0),  # noqa: ARG005
}


def drawn(split: str, values: str, parties: int, size: int, seed: int) -> Split:
    """A stream of `size` events, drawn with `seed`, split over the parties."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 0, 1, 2, 3], size)).astype(np.int64)
    whose = SPLITS[split](rng, size, parties).astype(np.int64)
    return Split(times, VALUES[values](rng, size), whose, parties)


@dataclass(frozen=True)
class Family:
    """How a synopsis is made (of the party of that number), and fed."""

    create: Callable[[int], Any]
    takes: str = "values"
    """`values`, `whole` (not negative), `items`, `texts`, or `times` alone."""
    values: tuple[str, ...] = tuple(VALUES)


POSITIVE = ("prices", "zipf", "far from zero", "constant")

FAMILIES: dict[str, Family] = {
    "count": Family(
        lambda _: ExponentialHistogram.create(CountParameters(0.1, SPAN)), "times", ("constant",)
    ),
    "coarse count": Family(
        lambda _: ExponentialHistogram.create(CountParameters(0.5, SPAN)), "times", ("constant",)
    ),
    "sum": Family(
        lambda _: ExponentialHistogram.create(SumParameters(0.05, SPAN, 2)), "values", POSITIVE
    ),
    "count wave": Family(
        lambda _: CountWave.create(WaveParameters(0.1, SPAN)), "times", ("constant",)
    ),
    "coarsest count wave": Family(
        lambda _: CountWave.create(WaveParameters(1.0, SPAN)), "times", ("constant",)
    ),
    "coarsest sum wave": Family(
        lambda _: SumWave.create(WaveParameters(1.0, SPAN)), "whole", POSITIVE
    ),
    "sum wave": Family(lambda _: SumWave.create(WaveParameters(0.1, SPAN)), "whole", POSITIVE),
    "ages": Family(
        lambda _: PositionWave.create(WaveParameters(0.1, SPAN)), "times", ("constant",)
    ),
    "coarsest ages": Family(
        lambda _: PositionWave.create(WaveParameters(1.0, SPAN)), "times", ("constant",)
    ),
    "average": Family(
        lambda _: AverageWave.create(AverageParameters(0.1, SPAN)), "whole", POSITIVE
    ),
    "minimum": Family(lambda _: Extreme.create(ExtremeParameters("minimum", SPAN))),
    "rough maximum": Family(lambda _: Extreme.create(ExtremeParameters("maximum", SPAN, 0.1))),
    "spread": Family(lambda _: Spread.create(SpreadParameters(0.2, SPAN, 2))),
    "coarse spread": Family(lambda _: Spread.create(SpreadParameters(0.5, SPAN, 2))),
    "quantiles": Family(lambda _: Quantiles.create(QuantileParameters(0.1, SPAN))),
    "coarse quantiles": Family(lambda _: Quantiles.create(QuantileParameters(0.5, SPAN))),
    "items": Family(
        lambda _: FrequentItems.create(FrequentParameters(0.1, SPAN)), "items", ("zipf",)
    ),
    "named items": Family(
        lambda _: NamedItems.create(PairedParameters(0.1, SPAN)), "texts", ("zipf",)
    ),
    "items in pairs": Family(
        lambda _: PairedItems.create(PairedParameters(0.1, SPAN)), "items", ("zipf",)
    ),
    "bins": Family(
        lambda _: ValueHistogram.create(
            ValueHistogramParameters(0.1, SPAN, (-50.0, 0.0, 7.0, 30.0))
        )
    ),
    # one seed for all parties
    "distinct": Family(
        lambda _: DistinctWave.create(DistinctParameters(0.5, 0.5, SPAN, 9)), "items", ("zipf",)
    ),
    "sample": Family(
        lambda party: SlidingSample.create(SampleParameters(5, SPAN, party_seed(3, str(party))))
    ),
    "draws": Family(
        lambda party: SlidingSample.create(
            SampleParameters(3, SPAN, party_seed(4, str(party)), replacement=True)
        )
    ),
}


def taken(name: str, split: Split) -> Split:
    """The stream with the values that the family takes of it."""
    takes = FAMILIES[name].takes
    if takes == "whole":
        return Split(split.times, np.rint(np.abs(split.values)), split.whose, split.parties)
    return split


def columns(name: str, times: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> list[Any]:
    """What a synopsis of the family is fed with."""
    takes = FAMILIES[name].takes
    if takes == "times":
        return [times]
    if takes == "texts":
        return [times, texts(values)]
    return [times, values if takes == "values" else values.astype(np.int64)]


def texts(values: npt.NDArray[np.float64]) -> list[str]:
    """Values as texts, one of them longer than what is stored of a text."""
    return [f"{int(value)}" if value != 2 else "2" * 300 for value in values.tolist()]


def party_name(party: int) -> str:
    return f"partition-{party}"


def synopsis(name: str, split: Split, party: int, until: int | None = None) -> Any:
    """The synopsis of what a party saw before event `until`; the stream is as `taken` gave it."""
    made = FAMILIES[name].create(party)
    mine = split.whose[:until] == party
    times, values = split.times[:until][mine], split.values[:until][mine]
    made.insert(*columns(name, times, values))
    return made


def bundle(name: str, split: Split, until: int | None = None) -> Bundle:
    """What all parties sent after `until` events of the stream."""
    return Bundle.of(
        {
            party_name(party): synopsis(name, split, party, until).to_bytes()
            for party in range(split.parties)
        }
    )
