"""Parameters of quantiles by value, checked once, and what follows from them."""

from dataclasses import dataclass
from math import ceil, exp2, log, log1p
from typing import Self

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SPAN, PARTS, CountParameters, check_number

_LEAST_ERROR, _LARGEST_ERROR = 0.001, 0.5
_LEAST_EPSILON, _LARGEST_EPSILON = 0.001, 0.5
_ROUNDING = 2.0**-40
_MOST_BINS = 1_000


@dataclass(frozen=True)
class ValueQuantileParameters:
    """Quantiles over windows of up to `span`, by value.

    relative_error: how far a value may be off, as a share of it, 0.001 to 0.5. epsilon: how far
    the number of events beyond it may be off, as a share of that number, 0.001 to 0.5, taken down
    to the millionth. span: longest window kept, 1 to 2^53, in the unit of the event times. Raises
    SynopsisError for anything else.
    """

    relative_error: float
    epsilon: float
    span: int

    def __post_init__(self) -> None:
        _check("relative_error", self.relative_error, _LEAST_ERROR, _LARGEST_ERROR)
        _check("epsilon", self.epsilon, _LEAST_EPSILON, _LARGEST_EPSILON)
        CountParameters(1.0, self.span)

    @classmethod
    def of_bytes(cls, per_octave: int, epsilon_parts: int, span: int) -> Self | None:
        """Return the parameters with so many bins an octave and millionths, None if there are none.

        relative_error is then the promised one, but not below the least that may be asked for.
        """
        if not (1 <= span <= MAX_SPAN and 1 <= per_octave <= _MOST_BINS):
            return None
        ratio = exp2(1.0 / per_octave)
        try:
            found = cls(max(_LEAST_ERROR, (ratio - 1) / (ratio + 1)), epsilon_parts / PARTS, span)
        except SynopsisError:
            return None
        made = found.bins_per_octave, found.epsilon_parts
        return found if made == (per_octave, epsilon_parts) else None

    @property
    def bins_per_octave(self) -> int:
        """The number of bins from one power of two to the next: edges are 2^(j/B).

        The fewest with 2^(1/B) <= gamma = (1 + a) / (1 - a), so that a bin's middle is within
        a = relative_error of all that is in it (DDSketch, lemma 2).
        """
        gamma = log1p(self.relative_error) - log1p(-self.relative_error)
        return ceil(log(2.0) / gamma * (1.0 - _ROUNDING))

    @property
    def value_error(self) -> float:
        """The promise of values, at most relative_error: half a bin, as a share of its middle."""
        ratio = exp2(1.0 / self.bins_per_octave)
        return (ratio - 1.0) / (ratio + 1.0) + 2.0**-50

    @property
    def rank_value_error(self) -> float:
        """By how much values of one bin differ at most, as a share of either; see `Rank`."""
        return exp2(1.0 / self.bins_per_octave) - 1.0 + 2.0**-50

    @property
    def epsilon_parts(self) -> int:
        """epsilon in whole millionths."""
        return int(self.epsilon * PARTS * (1.0 + _ROUNDING))

    @property
    def total_buckets_per_level(self) -> int:
        """The l of the exponential histogram of all events: 1 / (2 l + 1) <= (e / (1 + e))^2."""
        inverse = ((PARTS + self.epsilon_parts) ** 2, self.epsilon_parts**2)
        return max(1, -(-(inverse[0] - inverse[1]) // (2 * inverse[1])))


def _check(name: str, number: float, least: float, most: float) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise SynopsisError(f"{name} must be a number, not {number!r}")
    check_number(name, number, least, most)
