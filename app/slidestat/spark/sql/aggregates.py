"""basic_count and its relatives: aggregates over rows, approximate with a promise.

Source: `basicCount` of ESL/Stream Mill, an aggregate `(next, t, k)` with a relative error of 1/k;
Datar, Gionis, Indyk, Motwani 2002. Each takes the values `v`, their times `t`, and `k`, by which
its error is 1/k; and at last, if wanted, an interval: then only the rows count that lie within it
before the newest one, its start included, as with RANGE BETWEEN that INTERVAL PRECEDING.

    basic_count(v, t, k)        how many v are 1 (or true): off by at most 1/k of them
    basic_sum(v, t, k)          the sum of v, none negative: off by at most 1/k of it
    basic_quantile(v, t, k, p)  a number within 1/k of a v of rank q, as a share of it, abs(q - p)
                                being at most a tenth of min(p, 1 - p)
    basic_rank_quantile(v, t, k, p)  a v whose rank is off by at most 1/k of the rows
    basic_distinct(v, t, k)     how many different v: off by at most 1/k, in 99 % of cases
    basic_top(v, t, k)          all v that 1/k of the rows have, with how often at least and at most

Rows where v is NULL (or NaN) do not count, as in SQL's own aggregates; of none, counts and sums are
0, a quantile is NULL. `frame_values.py` says which types v may have.

All but basic_top, whose items have bounds, have a form with bounds, `basic_count_bounds`, with the
same arguments. Each has a partial form, `basic_count_partial(v, k)`: the summary of the rows of a
part of a group, which `window_merge` merges.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from slidestat.errors import SlidestatError
from slidestat.spark.sql import frame_values
from slidestat.spark.sql.frames import SPAN, Column, FrameSynopsis, Run
from slidestat.synopses.blocks.parameters import QuantileParameters
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import CountParameters, SumParameters
from slidestat.synopses.core.rounding import with_rounded
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.exponential_histogram.histogram import run_batch
from slidestat.synopses.exponential_histogram.units import MAX_UNITS
from slidestat.synopses.frequent.named_items import run_named_items_batch
from slidestat.synopses.frequent_pairs.layout import PairedParameters
from slidestat.synopses.merge.window_summary import take_summary
from slidestat.synopses.quantiles.quantiles import run_quantile_batch
from slidestat.synopses.value_quantiles.batch import run_value_quantile_batch
from slidestat.synopses.value_quantiles.mapping import LIMIT
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.text import counted

# An aggregate of rows as Spark calls it: over a group, a frame, or a part of a group.
#
# Spark hands a group to one Python worker as a whole: PySpark 4.0 offers partial aggregation to no
# Python function. So what is to be parted is parted in SQL, each part's rows become a summary of at
# most some ten thousand bytes, and summaries merge:
#
#   GROUP BY g, pmod(xxhash64(t), 256)    summary, of each part in its own task
#   GROUP BY g                            window_merge, of at most 256 summaries

A = TypeVar("A")

Figure = tuple[float | None, float | None, float | None]
"""Estimate, lower and upper bound."""

FIGURE = ("estimate", "lower", "upper")

_NOTHING: Figure = (0.0, 0.0, 0.0)
_NO_VALUE: Figure = (None, None, None)
_MOST_KEPT = 8  # synopses of one function in one task: calls that differ in k, say


class FrameAggregate(frame_values.RunsInWorker, Generic[A]):
    """An aggregate function of (v, t, k, ... constants [, interval]) as Spark calls it."""

    def __init__(self, name: str, make: Callable[..., Any], of_none: A, constants: int = 1) -> None:
        self._name = name
        self._make = make
        self._of_none = of_none
        self._constants = constants
        self._synopses: dict[tuple[float, ...], FrameSynopsis[A]] = {}

    def __call__(self, v: pd.Series, *rest: pd.Series) -> A | float | None:
        """Return the estimate over the rows, or the list; raises SlidestatError for bad values."""
        found = self._over(v, *rest)
        return found[0] if isinstance(found, tuple) else found

    def bounds(self, v: pd.Series, *rest: pd.Series) -> dict[str, float] | None:
        """Return the figure over the rows by the names of `FIGURE`; None where there is none.
        Raises SlidestatError for what cannot be counted.
        """
        found: Any = self._over(v, *rest)
        return None if found[0] is None else dict(zip(FIGURE, found, strict=True))

    def _over(self, v: pd.Series, *more: pd.Series) -> A:
        if len(more) - self._constants not in (1, 2):
            raise SlidestatError(
                f"{self._name} was given {counted(1 + len(more), 'argument')}.",
                f"Give v, t, {'k, p' if self._constants == 2 else 'k'}, and maybe an interval.",
            )
        t, *rest = more
        if not len(v):
            return self._of_none
        constants = tuple(_constant(self._name, column) for column in rest[: self._constants])
        length = None
        if len(rest) > self._constants:
            _one(self._name, "the interval", rest[-1])
            length = frame_values.length_of(self._name, rest[-1], t)
        with self._in_words():
            return self._answer(v, t, constants, length)

    def summary(self, v: pd.Series, *constants: pd.Series) -> bytes | None:
        """Summarise the rows, in whatever order they come: bytes that `merge_summaries` takes with
        those of other rows, made with the same k. None of no rows, and of a sum's NULLs alone.
        Raises SlidestatError for what cannot be counted. Cost: O(rows).
        """
        if len(constants) != 1:
            raise SlidestatError(
                f"{self._name}_partial was given {counted(1 + len(constants), 'argument')}.",
                "Give v and k: a part has no time, and a quantile is asked for when it is read.",
            )
        if not len(v):
            return None
        # The state does not depend on the quantile that is asked for.
        known = (_constant(self._name, constants[0]), *(0.5 for _ in range(1, self._constants)))
        rows = np.arange(len(v), dtype=np.int64)
        with self._in_words():
            state, _ = self._run(known)(None, rows, frame_values.values_of(v), len(v), len(v))
            return take_summary(state, len(v)) if state else None

    def _run(self, constants: tuple[float, ...]) -> Run[A]:
        if not constants[0] > 0:
            raise SlidestatError(
                f"{self._name}: k is {constants[0]:g}.", "Give one above 0: the error is 1/k."
            )
        return _of_rows_there(self._make(*constants))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except SynopsisError as error:
            raise SlidestatError(
                f"{self._name}: {error}.", "Give other values, or another k."
            ) from error

    def _answer(
        self, v: pd.Series, t: pd.Series, constants: tuple[float, ...], length: int | None
    ) -> A:
        synopsis = self._synopses.get(constants)
        if synopsis is None:
            if len(self._synopses) == _MOST_KEPT:
                del self._synopses[next(iter(self._synopses))]
            synopsis = self._synopses[constants] = FrameSynopsis(self._run(constants))
        return synopsis.answer(
            frame_values.values_of(v), frame_values.times_of(self._name, t), length
        )


def _of_rows_there(run: Callable[[bytes | None, Column, Batch], tuple[bytes, A]]) -> Run[A]:
    """Return `run` over the rows that have a value, which are the batch of one key and window."""

    def counted(
        state: bytes | None, rows: Integers, values: Column, now: int, n: int
    ) -> tuple[bytes, A]:
        there, values = frame_values.without_nulls(values)
        rows = rows[there]
        return run(state, values, Batch([0, len(rows)], rows, None, [0, 1], [now], [n]))

    return counted


def _one(name: str, what: str, column: pd.Series) -> Any:
    """Return the one value of a column, as its ends show it: to look at all rows would cost those
    of each frame anew.
    """
    first = column.iloc[0]
    if pd.isna(first) or column.iloc[-1] != first:
        raise SlidestatError(
            f"{name}: {what} differs from row to row, or is NULL.", "Give it as a literal."
        )
    return first


def _constant(name: str, column: pd.Series) -> float:
    first = _one(name, "k (or p)", column)
    try:
        return float(first)
    except (TypeError, ValueError) as error:
        raise SlidestatError(
            f"{name}: k (or p) is {first!r}, which is no number.", "Give it as a literal."
        ) from error


QUANTILE_EPSILON = 0.1
"""How far the rows beyond a basic_quantile may be off, as a share of them."""
DISTINCT_DELTA = 0.01
"""How often basic_distinct may be farther off than 1/k."""


def basic_count() -> FrameAggregate[Figure]:
    """Return the aggregate for how many values are 1 (or true); only 0 and 1 are taken."""

    def make(k: float) -> Any:
        parameters = CountParameters(1 / k, SPAN)

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Figure]:
            bits = frame_values.numbers_of("basic_count", values)
            if not np.isin(bits, (0.0, 1.0)).all():
                raise SlidestatError(
                    "basic_count counts bits, and one is neither 0 nor 1.", "Use basic_sum."
                )
            ones = batch.taking(np.flatnonzero(bits))
            return _with_figure(run_batch(parameters, [state], ones))

        return run

    return FrameAggregate("basic_count", make, _NOTHING)


def basic_sum() -> FrameAggregate[Figure]:
    """Return the aggregate for the sum of values that are not negative: whole numbers and decimals
    as they are, others to `FRACTION_DECIMALS` places.
    """

    def make(k: float) -> Any:
        decimals = 0

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Figure]:
            nonlocal decimals
            if len(values):
                decimals = frame_values.decimals_of(values)
            elif state is None:  # With only NULLs, the number of decimals is not known yet.
                return b"", _NOTHING
            parameters = SumParameters(1 / k, SPAN, decimals)
            numbers = frame_values.numbers_of("basic_sum", values)
            _require_summable(values, numbers, decimals)
            return _with_figure(run_batch(parameters, [state], batch.holding(numbers)))

        return run

    return FrameAggregate("basic_sum", make, _NOTHING)


def basic_quantile() -> FrameAggregate[Figure]:
    """Return the aggregate for the p-quantile of numbers, by value."""
    name = "basic_quantile"

    def make(k: float, p: float) -> Any:
        parameters = ValueQuantileParameters(1 / k, QUANTILE_EPSILON, SPAN)

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Figure]:
            numbers = _ranked(name, values)
            if np.any(np.abs(numbers) >= LIMIT):
                raise SlidestatError(
                    f"{name}: a value is 2^50 or more, which has no bin.",
                    "Use basic_rank_quantile, or divide: basic_quantile(v / 1000000, ...).",
                )
            asked = batch.holding(numbers)
            return _with_figure(run_value_quantile_batch(parameters, [state], asked, [p]))

        return run

    return FrameAggregate(name, make, _NO_VALUE, constants=2)


def basic_rank_quantile() -> FrameAggregate[Figure]:
    """Return the aggregate for the p-quantile of numbers, by rank."""
    name = "basic_rank_quantile"

    def make(k: float, p: float) -> Any:
        parameters = QuantileParameters(1 / k, SPAN)

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Figure]:
            asked = batch.holding(_ranked(name, values))
            return _with_figure(run_quantile_batch(parameters, [state], asked, [p]))

        return run

    return FrameAggregate(name, make, _NO_VALUE, constants=2)


def basic_distinct() -> FrameAggregate[Figure]:
    """Return the aggregate for the number of different values."""
    name = "basic_distinct"

    def make(k: float) -> Any:
        parameters = DistinctParameters(round(1 / k, 6), DISTINCT_DELTA, SPAN, seed=0)

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Figure]:
            items = batch.holding(frame_values.items_of(name, values))
            return _with_figure(run_distinct_batch(parameters, [state], items))

        return run

    return FrameAggregate(name, make, _NOTHING)


Listed = list[dict[str, Any]]


def basic_top() -> FrameAggregate[Listed]:
    """Return the aggregate for the most frequent values, in falling order."""

    def make(k: float) -> Any:
        parameters = PairedParameters(1 / k, SPAN)

        def run(state: bytes | None, values: Column, batch: Batch) -> tuple[bytes, Listed]:
            codes, distinct = pd.factorize(frame_values.named("basic_top", values))
            texts = [frame_values.item_text(item) for item in distinct]
            asked = batch.holding(codes)
            result = run_named_items_batch(parameters, [state], asked, texts, parameters.epsilon)
            found = zip(result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True)
            items = [
                {"item": name, "estimate": (low + up) / 2, "lower": low, "upper": up}
                for name, low, up in found
            ]
            return result.states[0], sorted(items, key=lambda i: (-i["estimate"], i["item"]))

        return run

    return FrameAggregate("basic_top", make, [])


def _ranked(name: str, values: Column) -> Floats:
    """Return the numbers of a column; raises SlidestatError for an infinite one."""
    numbers = frame_values.numbers_of(name, values)
    if np.isinf(numbers).any():
        raise SlidestatError(
            f"{name}: a value is infinite, and has no rank.",
            "Add WHERE abs(v) < double('infinity').",
        )
    return numbers


def _require_summable(values: Column, numbers: Floats, decimals: int) -> None:
    """Raise SlidestatError for a value, or the double nearest to it in `numbers`, that a sum with
    so many decimals cannot take.
    """
    most = MAX_UNITS / 10**decimals
    is_bad = ~((numbers >= 0) & (numbers <= most))
    if not decimals:  # A larger one may have the largest for its nearest double.
        for row in np.flatnonzero(numbers == most).tolist():
            is_bad[row] = values[row : row + 1].tolist()[0] > MAX_UNITS
    if not is_bad.any():
        return
    value = float(numbers[is_bad][0])
    if value < 0:
        error, advice = "is negative", "Sum what is above 0 and what is below apart."
    elif math.isinf(value):
        error, advice = "is infinite", "Add WHERE v < double('infinity')."
    else:
        value = values[is_bad].tolist()[0]
        largest = f"{most:.10g}" if float(value) > most else str(MAX_UNITS)
        error = f"is above {largest}, the largest value that {decimals} decimals leave room for"
        advice = "Sum thousands or millions: basic_sum(v / 1000000, ...)."
        if decimals:
            advice = "Sum whole numbers, CAST(v AS BIGINT), or thousands, v / 1000."
    raise SlidestatError(f"basic_sum: {value} {error}.", advice)


def _with_figure(result: Any) -> tuple[bytes, Figure]:
    """Return a result's only state and figure; of quantiles, with bounds before rounding."""
    figures = np.stack((result.estimates, result.lowers, result.uppers)).reshape(3)
    if result.estimates.ndim == 3:
        figures = with_rounded(figures)
    estimate, lower, upper = (None if math.isnan(one) else one for one in figures.tolist())
    return result.states[0], (estimate, lower, upper)
