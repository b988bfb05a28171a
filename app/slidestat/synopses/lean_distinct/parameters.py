"""Parameters of lean distinct items, and how many bitmaps and exact items they take.

How they follow from epsilon and delta: docs/proofs.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import atanh, ceil, log, sqrt
from statistics import NormalDist

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import check_number
from slidestat.synopses.distinct.parameters import SketchParameters

MIN_EPSILON = 0.01
MIN_DELTA = 1e-6
MAX_DELTA = 0.1


@lru_cache(maxsize=1024)
def reach(delta: float) -> tuple[float, float]:
    """Return (k, c): the bounds are where the bits set are k standard deviations and c off."""
    k = NormalDist().inv_cdf(1 - delta / 2)
    return k, 1.6 + k * k / 10


@lru_cache(maxsize=1024)
def bitmaps_for(epsilon: float, delta: float) -> int:
    """Return the least number of bitmaps that keeps (epsilon, delta)."""
    k, c = reach(delta)
    a = atanh(epsilon) / log(2) - 4e-6
    return ceil(((k + sqrt(k * k + 4 * a * c)) / (2 * a)) ** 2)


@dataclass(frozen=True)
class LeanDistinctParameters(SketchParameters):
    """The number of distinct items in windows of up to `span`.

    epsilon: largest relative error wanted, 0.01 to 0.5, at most six decimals. delta: the chance of
    a larger one, 10^-6 to 0.1, at most nine decimals. span, seed: as for `DistinctParameters`.
    Raises SynopsisError for anything else.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon < MIN_EPSILON:
            raise SynopsisError(
                f"epsilon must be from {MIN_EPSILON} to 0.5, not {self.epsilon!r}: a randomised"
                " wave takes less"
            )
        check_number("delta", self.delta, MIN_DELTA, MAX_DELTA)

    @property
    def bitmaps(self) -> int:
        """The number of bitmaps."""
        return bitmaps_for(self.epsilon, self.delta)

    @property
    def exact(self) -> int:
        """The number of newest items that are kept; windows with fewer are answered exactly."""
        return ceil(4 / self.epsilon)
