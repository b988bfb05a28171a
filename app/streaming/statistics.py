"""The statistics a topology may ask for, each with the error it promises."""

from dataclasses import dataclass
from typing import ClassVar

from app.errors import SlidestatError
from app.synopses.parameters import CountParameters, SumParameters


def _check_epsilon(name: str, epsilon: float) -> None:
    if not isinstance(epsilon, int | float) or not 0.0001 <= epsilon <= 1:
        raise SlidestatError(
            f"the epsilon of {name} is {epsilon!r}.",
            "Give a relative error from 0.0001 to 1; 0.01 is one per cent.",
        )


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many events: an exponential histogram."""

    name: ClassVar[str] = "count"
    absolute_error: ClassVar[float] = 0.0
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        _check_epsilon(self.name, self.epsilon)

    def parameters(self, span_ms: int) -> CountParameters:
        return CountParameters(epsilon=self.epsilon, span=span_ms)


@dataclass(frozen=True, kw_only=True)
class Sum:
    """The sum of non-negative values, kept to `decimals` decimal places."""

    name: ClassVar[str] = "sum"
    epsilon: float = 0.01
    decimals: int = 3

    def __post_init__(self) -> None:
        _check_epsilon(self.name, self.epsilon)
        if type(self.decimals) is not int or not 0 <= self.decimals <= 9:
            raise SlidestatError(
                f"the decimals of {self.name} is {self.decimals!r}.",
                "Give a whole number from 0 to 9.",
            )

    @property
    def absolute_error(self) -> float:
        """What rounding may add when values have more than `decimals` decimal places."""
        return float(10**-self.decimals)

    @property
    def largest_value(self) -> float:
        """The largest value an event may have: 2^44 units of the last decimal place.

        A window holds 2^62 units, so it takes a quarter of a million such events to fill it.
        """
        return float(2**44 // 10**self.decimals)

    def parameters(self, span_ms: int) -> SumParameters:
        return SumParameters(epsilon=self.epsilon, span=span_ms, decimals=self.decimals)


Statistic = Count | Sum
