"""Parameters of a randomised wave, and the capacity and the instances that they take.

Proof of both: docs/proofs.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Self

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SEED, MAX_SPAN, check_whole, is_from

EPSILONS = 10**6  # epsilon is stored in millionths
DELTAS = 10**9
MIN_EPSILON = 0.005
MAX_EPSILON = 0.5
MAX_DELTA = 0.5
MAX_CAPACITY = 1 << 30


def tail(mean: float, share: float) -> float:
    """Return T(mean, share), an upper bound of the chance of a miss by `share` of the mean."""
    s2 = share * share
    s4 = s2 * s2
    m2 = mean * mean
    m4 = m2 * m2
    return min(
        1.0,
        1 / (mean * s2),
        (1 / mean + 3) / (m2 * s4),
        ((1 / mean + 25) / mean + 15) / (m2 * mean * s4 * s2),
        (((1 / mean + 119) / mean + 490) / mean + 105) / (m4 * s4 * s4),
    )


def failure(capacity: int, epsilon: float) -> float:
    """Return F(capacity), an upper bound of the chance that one instance fails."""
    mean = capacity / (2 * (1 + epsilon))
    chance = last = tail(mean, epsilon)
    excess = 2 * (1 + epsilon)
    for _ in range(8):
        mean *= 2
        excess /= 2
        last = tail(mean, max(epsilon, 1 - excess))
        chance += last
    return chance + last  # each further term is at most half of the one before it


def majority(instances: int, chance: float) -> float:
    """Return the chance that most of `instances` fail, each with `chance`, independently."""
    if chance >= 1:
        return 1.0
    total = 0.0
    for failed in range(instances // 2 + 1, instances + 1):
        term = float(comb(instances, failed))
        for i in range(instances):
            term *= chance if i < failed else 1 - chance
        total += term
    return total


def _capacity(instances: int, epsilon: float, delta: float) -> int:
    """Return the least capacity that keeps (epsilon, delta) with so many instances."""
    low, high = 1, MAX_CAPACITY
    while low < high:
        middle = (low + high) >> 1
        if majority(instances, failure(middle, epsilon)) <= delta:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=1024)
def plan(epsilon: float, delta: float) -> tuple[int, int]:
    """Return (instances, capacity) that keep (epsilon, delta): with two instances more, their
    product would be larger.

    Made of sums, products and quotients of doubles alone: the same on every machine.
    """
    instances, capacity = 1, _capacity(1, epsilon, delta)
    while True:
        fewer = _capacity(instances + 2, epsilon, delta)
        if (instances + 2) * fewer >= instances * capacity:
            return instances, capacity
        instances, capacity = instances + 2, fewer


def _checked_share(name: str, number: float, least: float, most: float, parts: int) -> None:
    if not is_from(least, most, number) or round(number * parts) / parts != number:
        raise SynopsisError(
            f"{name} must be from {least} to {most}, a multiple of {1 / parts}, not {number!r}"
        )


def checked_delta(delta: float) -> None:
    """Raise SynopsisError unless `delta` is from 10^-9 to 0.5 and of at most nine decimals."""
    _checked_share("delta", delta, 1 / DELTAS, MAX_DELTA, DELTAS)


@dataclass(frozen=True)
class SketchParameters:
    """The parameters that both synopses of distinct items have."""

    epsilon: float
    delta: float
    span: int
    seed: int

    def __post_init__(self) -> None:
        _checked_share("epsilon", self.epsilon, MIN_EPSILON, MAX_EPSILON, EPSILONS)
        checked_delta(self.delta)
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("seed", self.seed, 0, MAX_SEED)

    @classmethod
    def of_stored(cls, head: Integers) -> Self:
        """Return the parameters that bytes name; raises SynopsisError."""
        epsilon, delta, span, seed = head[:4].tolist()
        return cls(epsilon / EPSILONS, delta / DELTAS, span, seed)

    @property
    def stored(self) -> tuple[int, int, int, int]:
        """The whole numbers that bytes name them by."""
        return round(self.epsilon * EPSILONS), round(self.delta * DELTAS), self.span, self.seed


@dataclass(frozen=True)
class DistinctParameters(SketchParameters):
    """The number of distinct items in windows of up to `span`.

    epsilon: largest relative error wanted, 0.005 to 0.5, at most six decimals. delta: the chance
    of a larger one, 10^-9 to 0.5, at most nine decimals. span: longest window kept, 1 to 2^53, in
    the unit of the event times. seed: 0 to 2^63 - 1, of the hash functions; synopses are merged
    only if theirs is the same. Raises SynopsisError for anything else.
    """

    @property
    def instances(self) -> int:
        """The number of hash functions; the answer is the median of their estimates."""
        return plan(self.epsilon, self.delta)[0]

    @property
    def capacity(self) -> int:
        """The number of items that a level keeps; windows with fewer distinct ones are exact."""
        return plan(self.epsilon, self.delta)[1]

    @property
    def predicate_delta(self) -> float:
        """The chance that the answer for a predicate misses its bounds.

        At most 2^((r + 1) / 2) delta for r instances: 2 delta for one, 8 delta for five.
        """
        return majority(self.instances, 2 * failure(self.capacity, self.epsilon))
