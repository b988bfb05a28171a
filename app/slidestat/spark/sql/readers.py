"""Synopsis columns in SQL: what a stored synopsis, or the summary of a window, answers.

    window_summary(bytes, n [, at])        the window's own summary: bytes that merge
    window_merge(bytes)                    an aggregate: summaries as one
    window_estimate(bytes, n [, at])       count, sum, extreme, distinct; a spread's mean
    window_variance, window_deviation      of a spread, as window_estimate
    window_quantile(bytes, n, p [, at])    a quantile
    window_rank(bytes, n, v [, at])        how many events are at most v, and which share of all
    window_items(bytes, n, share [, at])   the items with that share of the events or more
    window_item(bytes, n, item [, at])     how often an item came, listed or not

`n` is an INTERVAL, or milliseconds; the window is [at - n, at), `at` a timestamp or milliseconds,
by default the last moment of the synopsis. A timestamp is an instant, whatever the session's zone.
A summary is of one window: its `n` is NULL. Each figure comes with its bounds. The answers are
those of `synopses.merge`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from slidestat.errors import SlidestatError
from slidestat.spark.sql.aggregates import FIGURE
from slidestat.spark.sql.foreign import Foreign
from slidestat.spark.sql.frame_values import RunsInWorker, lengths_of, moments_of, names_of
from slidestat.synopses.core.envelope import is_sealed, kind_of
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.rounding import with_rounded
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.merge.items import WindowItems
from slidestat.synopses.merge.summary import SUMMARY
from slidestat.synopses.merge.window_summary import (
    AnySummary,
    merge_summaries,
    read_summary,
    take_summary,
)

RANK = (*FIGURE, "share", "share_lower", "share_upper")


class Reader(RunsInWorker):
    """A reader of a column of synopses, row by row; `foreign` handles foreign bytes."""

    def __init__(self, foreign: Foreign) -> None:
        self._foreign = foreign

    def summaries(self, data: pd.Series, n: pd.Series, *at: pd.Series) -> pd.Series:
        """Return the summaries of the rows' windows, as bytes."""
        return pd.Series(
            [found and found.to_bytes() for found in self._read(data, n, at)], dtype=object
        )

    def figures(
        self, answer: Callable[[AnySummary], Any], data: pd.Series, n: pd.Series, *at: pd.Series
    ) -> pd.DataFrame:
        """Return estimate, lower and upper of each row; nulls where there is none."""
        rows = [
            None if found is None else figure_of(found, _asked(answer, found))
            for found in self._read(data, n, at)
        ]
        return _table(rows, FIGURE)

    def quantiles(
        self, data: pd.Series, n: pd.Series, p: pd.Series, *at: pd.Series
    ) -> pd.DataFrame:
        """Return a quantile of each row."""

        def quantile(found: AnySummary, share: Any) -> tuple[float | None, ...]:
            wanted = _number("p", share)
            return figure_of(found, _asked(lambda one: one.quantile(wanted), found))

        return _table(self._of_each(quantile, data, n, at, p), FIGURE)

    def ranks(self, data: pd.Series, n: pd.Series, v: pd.Series, *at: pd.Series) -> pd.DataFrame:
        """Return for each row how many events are at most as large as a value, with the share."""
        return _table(self._of_each(_rank, data, n, at, v), RANK)

    def counts_of_item(
        self, data: pd.Series, n: pd.Series, item: pd.Series, *at: pd.Series
    ) -> pd.DataFrame:
        """Return how often an item came, in each row."""
        names = names_of("window_item", item)
        return _table(self._of_each(_count, data, n, at, names), FIGURE)

    def items(self, data: pd.Series, n: pd.Series, share: pd.Series, *at: pd.Series) -> pd.Series:
        """Return the items of each row, most frequent first."""
        return pd.Series(self._of_each(_items, data, n, at, share), dtype=object)

    def merge(self, data: pd.Series) -> bytes | None:
        """Return all summaries as one; None where there are none."""
        good = []
        for one in data:
            if one is None:
                continue
            if not is_sealed(one):
                self._foreign.met(one)
            elif kind_of(one) == SUMMARY:
                good.append(one)
            else:
                raise SlidestatError(
                    "window_merge was given a synopsis that is not the summary of a window.",
                    "Take summaries first: window_merge(window_summary(bytes, n)).",
                )
        try:
            return merge_summaries(good) if good else None
        except SynopsisError as error:
            raise SlidestatError(f"window_merge: {error}.", "Group by the statistic.") from error

    def _of_each(
        self,
        answer: Callable[[AnySummary, Any], Any],
        data: pd.Series,
        n: pd.Series,
        at: tuple[pd.Series, ...],
        asked: Iterable[Any],
    ) -> list[Any]:
        """Return the answer of each row to what it is asked; None where one of the two is NULL."""
        return [
            None if found is None or pd.isna(one) else answer(found, one)
            for found, one in zip(self._read(data, n, at), asked, strict=True)
        ]

    def _read(
        self, data: pd.Series, n: pd.Series, at: tuple[pd.Series, ...]
    ) -> Iterator[AnySummary | None]:
        lengths = lengths_of(n)
        ends = moments_of(at[0]) if at else [None] * len(data)
        if any(isinstance(one, str) for one in data):
            raise SlidestatError(
                "A column of texts is none of synopses.",
                "Give the bytes: unbase64(data) or unhex(data), as they were written.",
            )
        for one, length, end in zip(data, lengths, ends, strict=True):
            yield None if one is None else self._one(bytes(one), length, end)

    def _one(self, data: bytes, n: int | None, at: int | None) -> AnySummary | None:
        try:
            if kind_of(data) == SUMMARY:
                return read_summary(data)
            if n is None and is_sealed(data):
                raise SlidestatError(
                    "n is NULL, but the synopsis answers for any window.", "Give n, an INTERVAL."
                )
            return read_summary(take_summary(data, n or 0, at))
        except SynopsisError as error:
            if is_sealed(data):  # So it is the question that is wrong.
                raise SlidestatError(
                    f"A synopsis cannot answer: {error}.", "Give another n or moment."
                ) from error
            self._foreign.met(data)
            return None


def of_total(summary: AnySummary) -> Any:
    """Return the count, sum, extreme or distinct count of a summary; of a spread its mean."""
    return summary.mean() if hasattr(summary, "mean") else summary.answer()  # type: ignore[union-attr]


def _table(rows: Iterable[tuple[Any, ...] | None], names: Sequence[str]) -> pd.DataFrame:
    nothing = (None,) * len(names)
    return pd.DataFrame([row or nothing for row in rows], columns=list(names), dtype=object)


def _asked(answer: Callable[[Any], Any], summary: AnySummary) -> Any:
    try:
        return answer(summary)
    except AttributeError as error:
        raise SlidestatError(
            f"A {type(summary).__name__} has no such answer.",
            "Ask totals, extremes and distinct with window_estimate, values with window_quantile, "
            "those of the statistic quantile with window_rank, items with window_items.",
        ) from error
    except SynopsisError as error:
        raise SlidestatError(f"A synopsis cannot answer: {error}.", "Ask otherwise.") from error


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise SlidestatError(
            f"{name} is {value!r}, which is no number.", "It comes before the moment, at."
        ) from error


def _rank(summary: AnySummary, value: Any) -> tuple[float | None, ...]:
    number = _number("v", value)
    rank = _asked(lambda one: one.rank(number), summary)
    return *_numbers(rank.at_most), *_numbers(rank.share_at_most)


def _count(summary: AnySummary, item: str) -> tuple[float, float, float]:
    """Return an item's count; for one that is not listed, from none to as many as it may have."""
    if not isinstance(summary, WindowItems):
        raise SlidestatError(
            f"A {type(summary).__name__} has no items.", "Give synopses of the statistic top."
        )
    try:
        ids = item_ids([item]) if summary.texts is not None else np.array([int(item)], np.int64)
    except (ValueError, OverflowError) as error:
        raise SlidestatError(
            f"window_item: the item is {item!r}, and the synopsis is of numbers.",
            "Give a whole number of 64 bits.",
        ) from error
    place = int(np.searchsorted(summary.ids, ids[0]))
    lower, upper = 0, summary.unlisted
    if place < len(summary.ids) and summary.ids[place] == ids[0]:
        lower, upper = int(summary.lowers[place]), int(summary.uppers[place])
    return (lower + upper) / 2, float(lower), float(upper)


def figure_of(summary: AnySummary, answer: Any) -> tuple[float | None, ...]:
    """Return estimate, lower and upper of an answer of a summary, None where there is none."""
    numbers = _numbers(answer)
    if summary.are_values and None not in numbers:
        return tuple(with_rounded(np.array(numbers, np.float64)).tolist())
    return numbers


def _numbers(answer: Any) -> tuple[float | None, ...]:
    numbers = (float(answer.estimate), float(answer.lower), float(answer.upper))
    return tuple(None if math.isnan(number) else number for number in numbers)


def _items(summary: AnySummary, share: Any) -> list[dict[str, Any]]:
    least = _number("share", share)
    return [
        {"item": item.name, **{name: getattr(item, name) for name in FIGURE}}
        for item in _asked(lambda one: one.items(least), summary)
    ]
