"""A question to the state of quantiles by value: how many events are at most as large as a value?

It is asked (`live_query.py`), never declared: a topology keeps the `Quantiles` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import float_info

from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.statistics.quantiles import Quantiles, ValueQuantileRunner
from slidestat.declare.statistics.runner import Runner
from slidestat.errors import SlidestatError


@dataclass(frozen=True, kw_only=True)
class Ranks(Quantiles):
    """The ranks of the given `values` among the events."""

    values: tuple[float, ...]

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ValueQuantileRunner(self.parameters(span), field, ranked=self.values)


def asked_ranks(values: Sequence[float], declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can be asked for ranks of
    `values`.

    Raises SlidestatError for what is no finite number, and where no statistic can be asked.
    """
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not -float_info.max <= value <= float_info.max:
            raise SlidestatError(
                f"rank is {value!r}, which is no finite number.", "Give a value, such as 250."
            )
    asked: dict[str, Statistic] = {
        label: Ranks(**vars(statistic), values=tuple(map(float, values)))
        for label, statistic in declared.items()
        if type(statistic) is Quantiles
    }
    if not asked:
        raise SlidestatError(
            "rank is given, but the topology has no quantiles by value.",
            'Declare them as kind = "quantile", Quantiles() in Python; they count from then on.',
        )
    return asked
