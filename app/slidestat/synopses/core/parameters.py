"""Parameters of an exponential histogram, checked once, and what follows from them."""

from dataclasses import dataclass
from numbers import Integral, Rational, Real

from slidestat.synopses.core.errors import SynopsisError

MIN_EPSILON = 1e-6
MAX_SPAN = 1 << 53
MAX_BUCKETS_PER_LEVEL = 500_000  # what MIN_EPSILON asks for
MAX_DECIMALS = 9
MAX_SEED = 2**63 - 1

PARTS = 1_000_000
"""Shares and quantiles are taken in whole millionths."""


def check_whole(name: str, number: object, least: int, most: int) -> None:
    """Raise SynopsisError unless `number` is a whole number from `least` to `most`."""
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not (least <= number <= most):  # type: ignore[operator]
        bits = most.bit_length()
        known = {1 << bits - 1: f"2^{bits - 1}", (1 << bits) - 1: f"2^{bits} - 1"}
        limit = known.get(most, most) if most >= MAX_SPAN else most
        of_others = isinstance(number, Integral) and not isinstance(number, int)
        whose = ", as Python's int" if of_others else ""
        raise SynopsisError(
            f"{name} must be a whole number from {least} to {limit}{whose}, not {number!r}"
        )


def is_from(least: float, most: float, number: object) -> bool:
    """Return whether `number` is a double or a fraction of whole numbers, from `least` to `most`.

    With shorter numbers of NumPy, what follows from parameters would be computed shorter, too.
    """
    is_taken = isinstance(number, float | Rational) and not isinstance(number, bool)
    return is_taken and bool(least <= number <= most)  # type: ignore[operator]


def check_number(name: str, number: float, least: float, most: float) -> None:
    """Raise SynopsisError unless `number` is from `least` to `most`."""
    if not is_from(least, most, number):
        of_others = isinstance(number, Real) and not isinstance(number, float | Rational)
        whose = ", as Python's float" if of_others else ""
        raise SynopsisError(f"{name} must be from {least} to {most}{whose}, not {number!r}")


def check(epsilon: float, span: int) -> None:
    """Raise SynopsisError for an error or a span that no synopsis of these parameters has."""
    check_number("epsilon", epsilon, MIN_EPSILON, 1)
    check_whole("span", span, 1, MAX_SPAN)


def _buckets_per_level(epsilon: float) -> int:
    """Return the smallest l with 1 / (2 l) <= epsilon, compared as doubles.

    So the l of an epsilon of 1 / (2 l) is l again, for each l.
    """
    l = max(1, int(0.5 / epsilon))  # noqa: E741 - the paper's name
    return l if 0.5 / l <= epsilon else l + 1


@dataclass(frozen=True)
class CountingParameters:
    """The parameters of all that is counted by exponential histograms: counts, sums, cells."""

    epsilon: float
    span: int

    def __post_init__(self) -> None:
        check(self.epsilon, self.span)

    @property
    def buckets_per_level(self) -> int:
        """The paper's l = ceil(1 / (2 epsilon)): buckets of each size are l or l + 1."""
        return _buckets_per_level(self.epsilon)

    @property
    def relative_error(self) -> float:
        """The promise, 1 / (2 l) <= epsilon: |estimate - exact| <= relative_error * exact.

        Beyond 2^52 / (2 l) events or units, the rounding of a double (2^-52 of it) comes on top.
        """
        return 0.5 / self.buckets_per_level


@dataclass(frozen=True)
class CountParameters(CountingParameters):
    """A count of events over windows of up to `span`.

    epsilon: largest relative error wanted, 10^-6 to 1. span: longest window kept, 1 to 2^53, in
    the unit of the event times. Raises SynopsisError for anything else.
    """


@dataclass(frozen=True)
class SumParameters(CountingParameters):
    """A sum of non-negative values over windows of up to `span`, in units of 10^-decimals.

    epsilon and span as for a count; decimals 0 to 9. The promise is
    |estimate - exact| <= relative_error * exact, exact being the sum of the values as decimals.
    Once a value had more decimals than that, or came to 2^51 units, 10^-decimals (and a millionth
    of it) and 2^-48 of the sum come on top. Raises SynopsisError for anything else.
    """

    decimals: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("decimals", self.decimals, 0, MAX_DECIMALS)


Parameters = CountParameters | SumParameters
