"""Parameters of quantiles and frequent items, checked once, and the errors that follow."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from slidestat.synopses.blocks import frequent_layout, memory, quantile_layout
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.parameters import MAX_SEED, MAX_SPAN, check_number, check_whole
from slidestat.synopses.quantiles import random_layout

MIN_EPSILON = 0.001
MAX_EPSILON = 0.5
MIN_DELTA = 1e-9
MAX_DELTA = 0.5


@dataclass(frozen=True)
class SummaryParameters:
    """The parameters that all summaries of values by rank, and of items, share."""

    epsilon: float
    span: int

    what: ClassVar[str]
    stored_shares: ClassVar[int] = 1
    """How many of its numbers are no whole ones."""

    @classmethod
    def of_bytes(cls, shares: list[float], span: int, _seed: int) -> Self:
        """Return the parameters that bytes name; raises SynopsisError."""
        return cls(shares[0], span)

    def __post_init__(self) -> None:
        check_number(f"epsilon of {self.what}", self.epsilon, MIN_EPSILON, MAX_EPSILON)
        check_whole("span", self.span, 1, MAX_SPAN)


@dataclass(frozen=True)
class DrawnParameters(SummaryParameters):
    """The parameters of a summary that draws numbers."""

    delta: float
    seed: int

    stored_shares: ClassVar[int] = 2

    @classmethod
    def of_bytes(cls, shares: list[float], span: int, seed: int) -> Self:
        """Return the parameters that bytes name; raises SynopsisError."""
        return cls(shares[0], span, shares[1], seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, MIN_DELTA, MAX_DELTA)
        check_whole("seed", self.seed, 0, MAX_SEED)

    @property
    def shares(self) -> Floats:
        """epsilon and delta."""
        return np.array([self.epsilon, self.delta])


@dataclass(frozen=True)
class BlockParameters(SummaryParameters):
    """The parameters that all summaries of blocks share."""

    kind: ClassVar[int]
    stored_kind: ClassVar[int]

    @property
    def layout(self) -> tuple[int, int, int]:
        """levels, fineness and fresh, of the layout of this kind."""
        raise NotImplementedError

    @property
    def head(self) -> Integers:
        """The whole numbers that kernels take: see memory.py."""
        return np.array([self.kind, self.span, *self.layout, 0, self.stored_kind], np.int64)

    @property
    def shares(self) -> Floats:
        """The other numbers."""
        return np.array([self.epsilon])


@dataclass(frozen=True)
class QuantileParameters(BlockParameters):
    """Quantiles of windows of up to `span`.

    epsilon: largest rank error wanted, as a share of the window's events, 0.001 to 0.5. span:
    longest window kept, 1 to 2^53, in the unit of the event times: for the last N events, number
    the events and give the numbers as times. Raises SynopsisError for anything else.
    """

    kind: ClassVar[int] = memory.QUANTILES
    stored_kind: ClassVar[int] = memory.QUANTILES
    what: ClassVar[str] = "quantiles"

    @property
    def layout(self) -> tuple[int, int, int]:
        """levels, fineness and fresh, of quantile_layout.py."""
        return quantile_layout.choose(self.epsilon)

    @property
    def rank_error(self) -> float:
        """The promise: a rank of the estimate is at most this share of the window's events off.

        It is at most epsilon. The ranks of lower and upper are at most twice as far off.
        """
        return quantile_layout.promise(*self.layout)


@dataclass(frozen=True)
class RandomQuantileParameters(DrawnParameters, BlockParameters):
    """Quantiles of windows of up to `span`, by random thinning.

    epsilon, span: as for `QuantileParameters`. delta: how often an answer may be farther off, 1e-9
    to 0.5. seed: 0 to 2^63 - 1; streams with the same seed are thinned alike. Raises SynopsisError
    for anything else.
    """

    kind: ClassVar[int] = memory.RANDOM_QUANTILES
    stored_kind: ClassVar[int] = memory.RANDOM_QUANTILES
    what: ClassVar[str] = "quantiles"

    @property
    def layout(self) -> tuple[int, int, int]:
        """levels, fineness and fresh, of random_layout.py."""
        return random_layout.choose(self.epsilon, self.delta)

    @property
    def head(self) -> Integers:
        """The whole numbers that kernels take: see memory.py."""
        return np.array([self.kind, self.span, *self.layout, self.seed, self.stored_kind], np.int64)

    @property
    def rank_error(self) -> float:
        """Return the largest error of an estimate's rank, kept with probability 1 - delta at least.

        It is a share of the window's events, at most epsilon. lower <= the quantile <= upper with
        the same chance; their ranks are at most twice as far off then.
        """
        return random_layout.promise(*self.layout, self.delta)


@dataclass(frozen=True)
class FrequentParameters(BlockParameters):
    """Frequent items of windows of up to `span`.

    epsilon: by which share of the window's events a count may be too low, 0.001 to 0.5. span:
    longest window kept, 1 to 2^53, in the unit of the event times: for the last N events, number
    the events and give the numbers as times. Raises SynopsisError for anything else.
    """

    kind: ClassVar[int] = memory.FREQUENT
    stored_kind: ClassVar[int] = memory.FREQUENT
    what: ClassVar[str] = "frequent items"

    @property
    def layout(self) -> tuple[int, int, int]:
        """levels, fineness and fresh, of frequent_layout.py."""
        return frequent_layout.choose(self.epsilon)

    @property
    def relative_width(self) -> float:
        """The promise: upper - lower is less than this share of the window's events, or 0.

        It is at most epsilon; the estimate, in the middle, is off by half of it at most.
        """
        return frequent_layout.promise(*self.layout)


@dataclass(frozen=True)
class FixedQuantileParameters(QuantileParameters):
    """Quantiles of the last `span` events, as `QuantileParameters` but for that one window alone.

    Each event has a number of its own for its time. In windows of n < span events, ranks are off by
    at most epsilon min(span, events so far).
    """

    stored_kind: ClassVar[int] = memory.FIXED_QUANTILES


@dataclass(frozen=True)
class FixedRandomQuantileParameters(RandomQuantileParameters):
    """Quantiles of the last `span` events, as `RandomQuantileParameters` but for that one window.

    In windows of n < span events, ranks are off by at most epsilon of span.
    """

    stored_kind: ClassVar[int] = memory.FIXED_RANDOM_QUANTILES


@dataclass(frozen=True)
class FixedFrequentParameters(FrequentParameters):
    """Frequent items of the last `span` events, as `FrequentParameters` but for that one window.

    Each event has a number of its own for its time. In windows of n < span events, bounds lie less
    than epsilon min(span, events so far) apart.
    """

    stored_kind: ClassVar[int] = memory.FIXED_FREQUENT
