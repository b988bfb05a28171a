"""Whole numbers with NULLs among them, as they were.

pandas has no NULL among whole numbers, so Spark's Python workers make doubles of such a column:
beyond 2^53 different numbers become one, and 1 is called '1.0'. There is no setting against it. So
the workers that run our aggregates keep the numbers of such a column in addition to the doubles;
other code in them sees the doubles as before.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

from slidestat.errors import SlidestatError

NULLABLE = np.dtype([("number", np.int64), ("is_null", np.bool_)])
"""An element of a column of whole numbers that has NULLs."""

_KEPT = "slidestat.whole_numbers"


class _Kept:
    """The numbers of a series. pandas copies what is attached for each slice: these are shared."""

    def __init__(self, numbers: npt.NDArray[Any]) -> None:
        self.numbers = numbers

    def __deepcopy__(self, _memo: object) -> "_Kept":
        return self


def keep_whole_numbers() -> None:
    """Make this Python worker keep whole numbers, from the next batch of rows on."""
    convert = ArrowStreamPandasUDFSerializer.arrow_to_pandas
    if getattr(convert, "keeps_whole_numbers", False):
        return

    def arrow_to_pandas(self: Any, column: Any) -> Any:
        if str(column.type) == "month_interval":  # PyArrow knows no such block.
            raise SlidestatError(
                "An INTERVAL of months or years has no one length.",
                "Give one of days, hours, minutes or seconds: INTERVAL 30 DAYS.",
            )
        series = convert(self, column)  # type: ignore[no-untyped-call]
        if pa.types.is_integer(column.type) and column.null_count:
            series.attrs[_KEPT] = _Kept(_numbers(column))
        return series

    arrow_to_pandas.keeps_whole_numbers = True  # type: ignore[attr-defined]
    ArrowStreamPandasUDFSerializer.arrow_to_pandas = arrow_to_pandas  # type: ignore[method-assign]


def values_of(series: pd.Series) -> npt.NDArray[Any]:
    """Return the values of a series as Spark hands it to an aggregate, or of a slice of it; of
    whole numbers with NULLs among them, elements of `NULLABLE`.

    A view: equal slices lie at one place.
    """
    kept = series.attrs.get(_KEPT)
    if kept is None:
        values: npt.NDArray[Any] = series.to_numpy()
        return values
    start = series.index.start  # Spark's series have a RangeIndex, and slices a part of it.
    numbers: npt.NDArray[Any] = kept.numbers[start : start + len(series)]
    return numbers


def _numbers(column: Any) -> npt.NDArray[Any]:
    numbers = np.empty(len(column), NULLABLE)
    numbers["is_null"] = column.is_null().to_numpy()
    numbers["number"] = column.fill_null(0).to_numpy()
    return numbers
