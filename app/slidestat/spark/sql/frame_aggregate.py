"""An aggregate of rows as Spark calls it: over a group, a frame, or a part of a group.

Spark hands a group to one Python worker as a whole: PySpark 4.0 offers partial aggregation to no
Python function. So what is to be parted is parted in SQL, each part's rows become a summary of at
most some ten thousand bytes, and summaries merge:

    GROUP BY g, pmod(xxhash64(t), 256)    summary, of each part in its own task
    GROUP BY g                            window_merge, of at most 256 summaries
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from slidestat.errors import SlidestatError
from slidestat.spark.sql.frame_values import length_of, times_of, without_nulls
from slidestat.spark.sql.frames import Column, FrameSynopsis, Int64s, Run
from slidestat.spark.sql.whole_numbers import keep_whole_numbers, values_of
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.summaries.window_summary import take_summary

A = TypeVar("A")

_MOST_KEPT = 8  # synopses of one function in one task: calls that differ in k, say


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

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Here a Python worker gets the function, before any rows.
        keep_whole_numbers()
        self.__dict__.update(state)

    def __call__(self, v: pd.Series, t: pd.Series, *rest: pd.Series) -> A | None:
        """Return the answer over the rows; raises SlidestatError for what cannot be counted."""
        if len(rest) not in (self._constants, self._constants + 1):
            raise SlidestatError(
                f"{self._name} was given {2 + len(rest)} arguments.",
                f"Give v, t, {'k, p' if self._constants == 2 else 'k'}, and maybe an interval.",
            )
        if not len(v):
            return self._of_none
        constants = tuple(_constant(self._name, column) for column in rest[: self._constants])
        length = None
        if len(rest) > self._constants:
            length = length_of(self._name, rest[-1], t)
        with self._in_words():
            return self._answer(v, t, constants, length)

    def summary(self, v: pd.Series, k: pd.Series) -> bytes | None:
        """Summarise the rows, in whatever order they come: bytes that `merge_summaries` takes with
        those of other rows, made with the same k. None of no rows, and of a sum's NULLs alone.
        Raises SlidestatError for what cannot be counted. Cost: O(rows).
        """
        if not len(v):
            return None
        # The state does not depend on the quantile that is asked for.
        constants = (_constant(self._name, k), *(0.5 for _ in range(1, self._constants)))
        rows = np.arange(len(v), dtype=np.int64)
        with self._in_words():
            state, _ = self._run(constants)(None, rows, values_of(v), len(v), len(v))
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
    ) -> A | None:
        synopsis = self._synopses.get(constants)
        if synopsis is None:
            if len(self._synopses) == _MOST_KEPT:
                del self._synopses[next(iter(self._synopses))]
            synopsis = self._synopses[constants] = FrameSynopsis(self._run(constants))
        return synopsis.answer(values_of(v), times_of(self._name, t), length)


def _of_rows_there(run: Run[A]) -> Run[A]:
    def counted(
        state: bytes | None, rows: Int64s, values: Column, now: int, n: int
    ) -> tuple[bytes, A]:
        there, values = without_nulls(values)
        return run(state, rows[there], values, now, n)

    return counted


def _constant(name: str, column: pd.Series) -> float:
    first = column.iloc[0]
    if pd.isna(first) or column.iloc[-1] != first:
        raise SlidestatError(
            f"{name}: k (or p) differ from row to row, or are NULL.", "Give them as literals."
        )
    try:
        return float(first)
    except (TypeError, ValueError) as error:
        raise SlidestatError(
            f"{name}: k (or p) is {first!r}, which is no number.", "Give it as a literal."
        ) from error
