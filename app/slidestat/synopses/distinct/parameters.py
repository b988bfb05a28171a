"""Parameters of a randomised wave, and the capacity and the instances that they take.

The proof. x distinct items are in a window; x_l of them reach level l, of the mean m_l = x / 2^l. A
level is complete if x_l < c, the capacity; the estimate is 2^l x_l of the lowest complete level.

Tails. Items reach level l 8-wise independently (field_hash.py), so the even central moments of x_l
up to the 8th are those of a binomial number. A Bernoulli number B and a Poisson number P of one
mean p have E f(B) <= E f(P) for each convex f: f(k) >= f(0) + k (f(1) - f(0)) for whole k >= 0,
and the mean of the right side is E f(B). Sums of independent numbers keep that order. So the
moments are at most those of a Poisson number of mean m: m, m + 3 m^2, m + 25 m^2 + 15 m^3, and
m + 119 m^2 + 490 m^3 + 105 m^4; divided by t^2, t^4, t^6, t^8, each bounds the chance that x_l is
t or more off (Markov), and T(m, s) below is the least of the four for t = s m. It falls in m.

One instance. If x < c, level 0 is complete and the answer exact. Else let L be the lowest level
with (1 + epsilon) m_L <= c; then m_L > v = c / (2 (1 + epsilon)).
- If x_L is less than epsilon m_L off, L is complete, so L or a lower level answers; T(m_L, epsilon)
  bounds the chance that it is not. An answer of L is then less than epsilon x off.
- An answer of L - 1 has x_{L-1} < c < (1 + epsilon) m_{L-1}: it fails only if x_{L-1} is epsilon
  m_{L-1} or more too low.
- An answer of L - i, i >= 2, has x_{L-i} < c = 2 (1 + epsilon) v, where 2^i v < m_{L-i}: so a share
  of 1 - (1 + epsilon) 2^{1-i} or more is missing (and epsilon or more, if it fails).
In all the chance of failure is at most F(c) = T(v, epsilon) + sum over i >= 1 of
T(2^i v, max(epsilon, 1 - (1 + epsilon) 2^{1-i})).

The median of r instances (r odd) fails only if (r + 1) / 2 of them do: a tail of a binomial
distribution, computed, not bounded. Of the pairs (r, c) that bring it to delta, one with the least
r c is taken: one instance down to a delta of about 10^-4.

Predicates. Let y of the x items satisfy a predicate; y_l of them reach level l, with moments at
most those of mean m_l. As above, but for y_L and y_{L-1} their own tails: with a chance of at most
2 F(c), x or y is estimated epsilon x or more off. So both fail with a chance of at most 2 delta for
one instance, and of the binomial tail of 2 F(c) for r: at most 2^((r+1)/2) delta, as with
m = (r-1)/2 the tail is the integral of a multiple of (y (1 - y))^m up to the chance, and
(2 y (1 - 2 y))^m <= 2^m (y (1 - y))^m.

With pairwise independence alone, as in the paper, the same steps would take 5 instances of a
capacity of 11,957 each for epsilon 0.05 and delta 0.01, instead of one of 8,636; with the paper's
constants, it would be 47 of 14,400.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SPAN, check_whole

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
    if not (least <= number <= most) or round(number * parts) / parts != number:
        raise SynopsisError(
            f"{name} must be from {least} to {most}, a multiple of {1 / parts}, not {number!r}"
        )


def checked_epsilon(epsilon: float) -> None:
    """Raise SynopsisError unless `epsilon` is from 0.005 to 0.5 and of at most six decimals."""
    _checked_share("epsilon", epsilon, MIN_EPSILON, MAX_EPSILON, EPSILONS)


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
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("seed", self.seed, 0, 2**63 - 1)


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
