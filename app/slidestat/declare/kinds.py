"""The statistics by their kinds, and those of a topology that names none."""

from slidestat.declare import statistics
from slidestat.declare.statistics import (
    Count,
    Deviation,
    Maximum,
    Mean,
    Minimum,
    Quantiles,
    Statistic,
)

# The usual questions about a number: how many, its mean, its spread, its extremes and its tail.
DEFAULT = (Count(), Mean(), Deviation(), Minimum(), Maximum(), Quantiles())

KINDS: dict[str, type[Statistic]] = {
    known.kind: known
    for known in vars(statistics).values()
    if isinstance(known, type) and issubclass(known, Statistic) and known is not Statistic
}
