"""basic_count and its relatives: aggregates over rows, approximate with a promise.

Source: `basicCount` of ESL/Stream Mill, an aggregate `(next, t, k)` with a relative error of 1/k;
Datar, Gionis, Indyk, Motwani 2002. Each takes the values `v`, their times `t`, and `k`, by which
its error is 1/k; and at last, if wanted, an interval: then only the rows count that lie within it
before the newest one, its start included, as with RANGE BETWEEN that INTERVAL PRECEDING.

    basic_count(v, t, k)        how many v are 1 (or true): off by at most 1/k of them
    basic_sum(v, t, k)          the sum of v, none negative: off by at most 1/k of it
    basic_quantile(v, t, k, p)  a v whose rank is off by at most 1/k of the rows
    basic_distinct(v, t, k)     how many different v: off by at most 1/k, in 99 % of cases
    basic_top(v, t, k)          all v that 1/k of the rows have, with how often at least and at most

Rows where v is NULL (or NaN) do not count, as in SQL's own aggregates; of none, counts and sums are
0, a quantile is NULL.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from slidestat.errors import SlidestatError
from slidestat.spark.sql.frames import SPAN, Column, FrameSynopsis, Int64s, Run
from slidestat.synopses.blocks.parameters import FrequentParameters, QuantileParameters
from slidestat.synopses.core.batch import run_batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_DECIMALS, CountParameters, SumParameters
from slidestat.synopses.distinct.distinct_batch import run_distinct_batch
from slidestat.synopses.distinct.distinct_parameters import DistinctParameters
from slidestat.synopses.distinct.item_ids import item_ids
from slidestat.synopses.frequent.named_batch import run_named_items_batch
from slidestat.synopses.quantiles.quantile_batch import run_quantile_batch

A = TypeVar("A")
Float64s = npt.NDArray[np.float64]

_NO_TIME = np.iinfo(np.int64).min  # NaT

DISTINCT_DELTA = 0.01
"""How often basic_distinct may be farther off than 1/k."""
FRACTION_DECIMALS = 6
"""To how many places basic_sum keeps floating-point values."""

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MOST_KEPT = 8  # synopses of one function in one task: calls that differ in k, say


def basic_count() -> "FrameAggregate[float]":
    """How many of the values are 1 (or true); others than 0 and 1 are refused."""

    def make(k: float) -> Any:
        parameters = CountParameters(1 / k, SPAN)

        def run(
            state: bytes | None, rows: Int64s, values: Column, now: int, n: int
        ) -> tuple[bytes, float]:
            bits = _numbers("basic_count", values)
            if not np.isin(bits, (0.0, 1.0)).all():
                raise SlidestatError(
                    "basic_count counts bits, and one is neither 0 nor 1.", "Use basic_sum."
                )
            ones = rows[bits == 1]
            asked = ([0, 1], [now], [n])
            result = run_batch(parameters, [state], [0, len(ones)], ones, None, *asked)
            return result.states[0], result.only().estimate

        return run

    return FrameAggregate("basic_count", make, 0.0)


def basic_sum() -> "FrameAggregate[float]":
    """The sum of values that are not negative: whole numbers and decimals as they are, others to
    `FRACTION_DECIMALS` places.
    """

    def make(k: float) -> Any:
        def run(
            state: bytes | None, rows: Int64s, values: Column, now: int, n: int
        ) -> tuple[bytes, float]:
            parameters = SumParameters(1 / k, SPAN, _decimals(values))
            numbers = _numbers("basic_sum", values)
            asked = ([0, 1], [now], [n])
            result = run_batch(parameters, [state], [0, len(rows)], rows, numbers, *asked)
            return result.states[0], result.only().estimate

        return run

    return FrameAggregate("basic_sum", make, 0.0)


def basic_quantile() -> "FrameAggregate[float]":
    """The p-quantile of numbers."""

    def make(k: float, p: float) -> Any:
        parameters = QuantileParameters(1 / k, SPAN)

        def run(
            state: bytes | None, rows: Int64s, values: Column, now: int, n: int
        ) -> tuple[bytes, float | None]:
            numbers = _numbers("basic_quantile", values)
            asked = ([0, 1], [now], [n], [p])
            result = run_quantile_batch(parameters, [state], [0, len(rows)], rows, numbers, *asked)
            return result.states[0], _number(result.estimates[0, 0, 0])

        return run

    return FrameAggregate("basic_quantile", make, None, constants=2)


def basic_distinct() -> "FrameAggregate[float]":
    """How many different values."""

    def make(k: float) -> Any:
        parameters = DistinctParameters(round(1 / k, 6), DISTINCT_DELTA, SPAN, seed=0)

        def run(
            state: bytes | None, rows: Int64s, values: Column, now: int, n: int
        ) -> tuple[bytes, float]:
            asked = ([0, 1], [now], [n])
            result = run_distinct_batch(
                parameters, [state], [0, len(rows)], rows, _items(values), *asked
            )
            return result.states[0], result.only().estimate

        return run

    return FrameAggregate("basic_distinct", make, 0.0)


Listed = list[dict[str, Any]]


def basic_top() -> "FrameAggregate[Listed]":
    """The values that came most often, those first that came more often."""

    def make(k: float) -> Any:
        parameters = FrequentParameters(1 / k, SPAN)

        def run(
            state: bytes | None, rows: Int64s, values: Column, now: int, n: int
        ) -> tuple[bytes, Listed]:
            codes, distinct = pd.factorize(pd.Series(values))
            texts = [_text(item) for item in distinct.tolist()]
            result = run_named_items_batch(
                parameters,
                [state],
                [0, len(rows)],
                rows,
                codes,
                texts,
                *([0, 1], [now], [n]),
                parameters.epsilon,
            )
            found = zip(result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True)
            items = [
                {"item": name, "estimate": (low + up) / 2, "lower": low, "upper": up}
                for name, low, up in found
            ]
            return result.states[0], sorted(items, key=lambda i: (-i["estimate"], i["item"]))

        return run

    return FrameAggregate("basic_top", make, [])


class FrameAggregate(Generic[A]):
    """An aggregate function of (v, t, k, ... constants [, interval]) as Spark calls it."""

    def __init__(
        self, name: str, make: Callable[..., Any], of_none: A | None, constants: int = 1
    ) -> None:
        self._name = name
        self._make = make
        self._of_none = of_none
        self._constants = constants
        self._synopses: dict[tuple[float, ...], FrameSynopsis[A]] = {}

    def __call__(self, v: pd.Series, t: pd.Series, *rest: pd.Series) -> A | None:
        """The answer over the rows; raises SlidestatError for what cannot be counted."""
        if len(rest) not in (self._constants, self._constants + 1):
            raise SlidestatError(
                f"{self._name} was given {2 + len(rest)} arguments.",
                f"Give v, t, {'k, p' if self._constants == 2 else 'k'}, and maybe an interval.",
            )
        if not len(v):
            return self._of_none
        constants = tuple(_constant(self._name, column) for column in rest[: self._constants])
        if not constants[0] > 0:
            raise SlidestatError(
                f"{self._name}: k is {constants[0]:g}.", "Give one above 0: the error is 1/k."
            )
        length = None
        if len(rest) > self._constants:
            length = _length(self._name, rest[-1], t)
        try:
            return self._answer(v, t, constants, length)
        except SynopsisError as error:
            raise SlidestatError(
                f"{self._name}: {error}.", "Give other values, or another k."
            ) from error

    def _answer(
        self, v: pd.Series, t: pd.Series, constants: tuple[float, ...], length: int | None
    ) -> A | None:
        synopsis = self._synopses.get(constants)
        if synopsis is None:
            if len(self._synopses) == _MOST_KEPT:
                del self._synopses[next(iter(self._synopses))]
            run = self._make(*constants)
            synopsis = self._synopses[constants] = FrameSynopsis(_without_nulls(run))
        return synopsis.answer(v.to_numpy(), _times(self._name, t), length)


def _without_nulls(run: Run[A]) -> Run[A]:
    def counted(
        state: bytes | None, rows: Int64s, values: Column, now: int, n: int
    ) -> tuple[bytes, A]:
        there = ~pd.isna(values)
        return run(state, rows[there], values[there], now, n)

    return counted


def _times(name: str, t: pd.Series) -> Int64s:
    """Times as whole numbers of their own unit; a view where they are stored so."""
    column = t.to_numpy()
    if column.dtype == object:  # Dates.
        column = pd.to_datetime(t).to_numpy()
    if column.dtype.kind == "M":
        times: Int64s = column.view(np.int64)
    elif column.dtype.kind in "iu":
        times = column.astype(np.int64, copy=False)
    else:
        raise SlidestatError(
            f"{name}: t is of type {t.dtype}, or NULL in some rows.",
            "Give a timestamp or a whole number, and add WHERE t IS NOT NULL.",
        )
    if len(times) and (times[0] == _NO_TIME or times.min() == _NO_TIME):
        raise SlidestatError(f"{name}: t is NULL in some rows.", "Add WHERE t IS NOT NULL.")
    return times


def _length(name: str, interval: pd.Series, t: pd.Series) -> int:
    """The interval in the unit of the times."""
    first = interval.iloc[0]
    if isinstance(first, pd.Timedelta) and t.dtype.kind in "MO":
        unit = np.datetime_data(t.dtype)[0] if t.dtype.kind == "M" else "ns"
        return int(first.as_unit("ns").value) // _NANOSECONDS[unit]
    if isinstance(first, int | np.integer) and t.dtype.kind in "iu":
        return int(first)
    raise SlidestatError(
        f"{name}: the interval is {first!r} and t is of type {t.dtype}.",
        "Give timestamps and an INTERVAL of days to seconds, or whole numbers both.",
    )


def _constant(name: str, column: pd.Series) -> float:
    first = column.iloc[0]
    if pd.isna(first) or column.iloc[-1] != first:
        raise SlidestatError(
            f"{name}: k (or p) differ from row to row, or are NULL.", "Give them as literals."
        )
    return float(first)


def _decimals(values: Column) -> int:
    if values.dtype.kind == "f":
        return FRACTION_DECIMALS
    if values.dtype == object and len(values) and isinstance(values[0], Decimal):
        exponent = values[0].as_tuple().exponent
        return min(MAX_DECIMALS, max(0, -exponent)) if isinstance(exponent, int) else 0
    return 0


def _items(values: Column) -> Int64s:
    """Values as 64-bit items; numbers are their own, others the hash of their text."""
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    return item_ids([_text(item) for item in values.tolist()])


def _text(item: object) -> str:
    return item if isinstance(item, str) else str(item)


def _number(figure: float) -> float | None:
    return None if math.isnan(figure) else float(figure)


def _numbers(name: str, values: Column) -> Float64s:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise SlidestatError(
            f"{name}: {values[0]!r} is no number.", "Give a column of numbers."
        ) from error
