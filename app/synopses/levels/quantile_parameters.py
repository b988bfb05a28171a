"""What a user chooses for quantiles, checked once, and what is promised then."""

from dataclasses import dataclass

from app.synopses.errors import SynopsisError
from app.synopses.levels.quantile_layout import choose, promise
from app.synopses.parameters import MAX_SPAN

MIN_EPSILON = 0.001
MAX_EPSILON = 0.5


@dataclass(frozen=True)
class QuantileParameters:
    """Quantiles of windows of up to `span`.

    epsilon: largest rank error wanted, as a share of the window's events, 0.001 to 0.5. span:
    longest window kept, 1 to 2^53, in the unit of the event times: for the last N events, number
    the events and give the numbers as times. Raises SynopsisError for anything else.
    """

    epsilon: float
    span: int

    def __post_init__(self) -> None:
        if not (MIN_EPSILON <= self.epsilon <= MAX_EPSILON):
            raise SynopsisError(
                f"epsilon of quantiles must be from {MIN_EPSILON} to {MAX_EPSILON}, "
                f"not {self.epsilon!r}"
            )
        whole = isinstance(self.span, int) and not isinstance(self.span, bool)
        if not whole or not (1 <= self.span <= MAX_SPAN):
            raise SynopsisError(f"span must be a whole number from 1 to 2^53, not {self.span!r}")

    @property
    def rank_error(self) -> float:
        """The promise: a rank of the estimate is at most this share of the window's events off.

        It is at most epsilon. The ranks of lower and upper are at most twice as far off.
        """
        return promise(*choose(self.epsilon))
