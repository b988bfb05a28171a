"""Parameters of a wave, checked once, and what follows from them."""

from dataclasses import dataclass

from slidestat.synopses.core.parameters import check, check_number

MAX_PER_LEVEL = 500_001
"""Needed for an epsilon of 10^-6."""

MAX_VALUE = 1 << 53
"""No single value of a sum may be more."""


@dataclass(frozen=True)
class WaveParameters:
    """A wave over windows of up to `span`: of a count, of a sum of whole numbers, or of positions.

    epsilon: largest relative error wanted, 10^-6 to 1. span: longest window kept, 1 to 2^53, in
    the unit of the event times. Raises SynopsisError for anything else.
    """

    epsilon: float
    span: int

    def __post_init__(self) -> None:
        check(self.epsilon, self.span)

    @property
    def per_level(self) -> int:
        """The number of items that a level keeps: the paper's (1 / epsilon + 1) / 2, rounded up.

        The smallest c with 1 / (2 c - 1) <= epsilon, compared as doubles: so the c of an epsilon of
        1 / (2 c - 1) is c again, for each c.
        """
        c = max(1, int((1 / self.epsilon + 1) / 2))
        while 1 / (2 * c - 1) > self.epsilon:
            c += 1
        while c > 1 and 1 / (2 * c - 3) <= self.epsilon:
            c -= 1
        return c

    @property
    def relative_error(self) -> float:
        """The promise, 1 / (2 per_level - 1) <= epsilon, of what is estimated.

        From 2^52 on, the rounding of a double (2^-52 of it) comes on top.
        """
        return 1 / (2 * self.per_level - 1)


@dataclass(frozen=True)
class AverageParameters:
    """An average of whole numbers over windows of up to `span`; the two as for `WaveParameters`.

    epsilon starts at 10^-5 here, as the waves inside need less than half of it.
    """

    epsilon: float
    span: int

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, 1e-5, 1)
        check(self.epsilon, self.span)

    @property
    def waves(self) -> WaveParameters:
        """Return the parameters of count and sum inside: an e with 2 e / (1 - e) <= epsilon.

        That is the paper's e <= epsilon / (2 + epsilon); of e = 1 / (2 c - 1) it is 1 / (c - 1).
        """
        c = max(2, int(1 / self.epsilon))
        while 1 / (c - 1) > self.epsilon:
            c += 1
        return WaveParameters(1 / (2 * c - 1), self.span)

    @property
    def relative_error(self) -> float:
        """The promise, at most epsilon; the rounding of a double (2^-51 of it) comes on top."""
        return 1 / (self.waves.per_level - 1)
