"""A ranking: the keys with the largest, or the smallest, values of a figure, at each tick."""

from dataclasses import dataclass
from typing import Literal

from slidestat.declare.alerts import figure_condition
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.naming import NAME, NAME_RULE
from slidestat.declare.values import check_named, check_values
from slidestat.errors import SlidestatError

MOST_PLACES = 1_000
_MOST_RANKINGS = 20


Order = Literal["largest", "smallest"]


def order_of(*, is_of_smallest: bool) -> Order:
    """Return which of the figures comes first in a ranking."""
    return "smallest" if is_of_smallest else "largest"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The keys with the largest, or the smallest, values of a figure, over all partitions, written
    at each tick by the topology's referee.

    name: what it is called, 1 to 100 letters, digits, '.', '_' and '-'.
    by: the figure by which keys are ranked, with its window: "p99_5m", or a derived one.
    largest: how many keys, the largest figure first, 1 to 1,000.
    smallest: how many keys, the smallest figure first; in place of `largest`.
    having: only keys have a place for which this condition may hold: "count_5m >= 100".

    Raises SlidestatError, naming the field, for a ranking that cannot be.
    """

    name: str
    by: str
    largest: int = 0
    smallest: int = 0
    having: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SlidestatError(f"name is {self.name!r}, which cannot name a ranking.", NAME_RULE)
        if not isinstance(self.by, str) or not self.by:
            raise SlidestatError(
                f"by is {self.by!r}, which names no figure.", 'Name one with its window: "p99_5m".'
            )
        for name in ("largest", "smallest"):
            size = getattr(self, name)
            if type(size) is not int or not 0 <= size <= MOST_PLACES:
                raise SlidestatError(
                    f"{name} is {size!r}.", f"Give how many keys, from 1 to {MOST_PLACES:,}."
                )
        if bool(self.largest) == bool(self.smallest):
            raise SlidestatError(
                f"largest is {self.largest}, and smallest is {self.smallest}."
                if self.largest
                else "largest is missing, and so is smallest.",
                "Give how many keys in one of the two: largest = 20.",
            )
        if not isinstance(self.having, str):
            raise SlidestatError(
                f"having is {self.having!r}, which is no condition.",
                'Write one, such as "count_5m >= 100".',
            )
        _ = self.condition

    @property
    def is_of_smallest(self) -> bool:
        """Return whether the smallest figure comes first."""
        return self.smallest > 0

    @property
    def order(self) -> Order:
        """Return which of the figures comes first."""
        return order_of(is_of_smallest=self.is_of_smallest)

    @property
    def size(self) -> int:
        """Return how many places it has."""
        return self.smallest or self.largest

    @property
    def condition(self) -> Expression | None:
        """Return the condition for a key to have a place; None if all may."""
        return figure_condition(self.having, "having") if self.having else None

    @property
    def text(self) -> str:
        """Return all of it but its name, always written the same way."""
        asked = self.condition
        having = "" if asked is None else f" having {asked.text}"
        return f"{self.size} {self.order} by {self.by}{having}"


def check_rankings(rankings: object) -> None:
    """Raise SlidestatError unless these are rankings with different names."""
    example = 'Ranking(name="slowest", by="p99_5m", largest=20)'
    check_named(Ranking, rankings, _MOST_RANKINGS, example)
