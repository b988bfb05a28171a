"""basic_count and its relatives as functions of columns, as those of pyspark.sql.functions.

Their promises are described in `aggregates.py`. `v` is the value, `t` its time, each a column or
its name; the error is 1/k; and `within`, an interval, keeps the rows within it before the newest
one. With `bounds`, the answer is a map of `estimate`, `lower` and `upper`. They are known without
`register_functions`, and take `.over(window)`.
"""

from datetime import timedelta
from functools import cache
from typing import Any

from pyspark.sql import Column, functions as f

from slidestat.spark.sql.functions import make_aggregate

_Name = Column | str
_Within = Column | timedelta | int | None


def basic_count(
    v: _Name, t: _Name, k: float, within: _Within = None, *, bounds: bool = False
) -> Column:
    """Return how many values are 1 or true: off by at most 1/k of them."""
    return _called("basic_count", v, t, within, k, bounds=bounds)


def basic_sum(
    v: _Name, t: _Name, k: float, within: _Within = None, *, bounds: bool = False
) -> Column:
    """Return the sum of values, none negative: off by at most 1/k of it."""
    return _called("basic_sum", v, t, within, k, bounds=bounds)


def basic_quantile(
    v: _Name, t: _Name, k: float, p: float, within: _Within = None, *, bounds: bool = False
) -> Column:
    """Return the value of rank p, within 1/k of the value, of a rank that is off by a tenth of the
    rows beyond it.
    """
    return _called("basic_quantile", v, t, within, k, p, bounds=bounds)


def basic_rank_quantile(
    v: _Name, t: _Name, k: float, p: float, within: _Within = None, *, bounds: bool = False
) -> Column:
    """Return a value of rank p, off by at most 1/k of the rows in rank."""
    return _called("basic_rank_quantile", v, t, within, k, p, bounds=bounds)


def basic_distinct(
    v: _Name, t: _Name, k: float, within: _Within = None, *, bounds: bool = False
) -> Column:
    """Return the number of different values: off by 1/k at most in 99 % of cases, exact if few."""
    return _called("basic_distinct", v, t, within, k, bounds=bounds)


def basic_top(v: _Name, t: _Name, k: float, within: _Within = None) -> Column:
    """Return each value that 1/k of the rows have, most frequent first, with its count's bounds."""
    return _called("basic_top", v, t, within, k)


def _called(
    name: str, v: _Name, t: _Name, within: _Within, *constants: float, bounds: bool = False
) -> Column:
    last = [] if within is None else [f.lit(within)]
    called: Column = _function(name, bounds=bounds)(v, t, *map(f.lit, constants), *last)
    return called


@cache
def _function(name: str, *, bounds: bool) -> Any:
    return make_aggregate(name, bounds=bounds)
