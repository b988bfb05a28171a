"""A statistic of each kind, for what looks at all of them: the reference, tests, benchmarks."""

from typing import Any

from slidestat.declare.statistics import Items, Statistic


def example(kind: type[Statistic], **parameters: Any) -> Statistic:
    """One with these parameters, and else the defaults; where there is none, two items."""
    needed = {"items": ("GET", "POST")} if kind is Items else {}
    return kind(**{**needed, **parameters})
