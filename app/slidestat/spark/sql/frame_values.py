"""Check the columns of an aggregate of rows, and convert their values.

Values are numbers (whole, DECIMAL, floating), truth values, texts, bytes, dates, timestamps and
intervals of days to seconds; NULL and NaN are no value. Lists, maps, structs and variants are
refused: their texts in Python leave parts out. Texts are never read as numbers or as times.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

from slidestat.errors import SlidestatError
from slidestat.spark.sql.frames import Column
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.parameters import MAX_DECIMALS
from slidestat.synopses.distinct.items import item_ids

# Whole numbers with NULLs among them, as they were.
#
# pandas has no NULL among whole numbers, so Spark's Python workers make doubles of such a column:
# beyond 2^53 different numbers become one, and 1 is called '1.0'. There is no setting against it.
# So the workers that run our aggregates keep the numbers of such a column in addition to the
# doubles; other code in them sees the doubles as before.

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


FRACTION_DECIMALS = 6
"""To how many places basic_sum keeps floating-point values."""

_NO_TIME = np.iinfo(np.int64).min  # NaT
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
# What pandas calls columns of objects that are items here, and numbers.
_ITEMS = frozenset({"empty", "string", "bytes", "boolean", "decimal", "date"})
_NUMBERS = frozenset({"empty", "boolean", "decimal"})


def without_nulls(values: Column) -> tuple[npt.NDArray[np.bool_], Column]:
    """Return (which rows have a value, the values of those)."""
    if values.dtype == NULLABLE:
        there = ~values["is_null"]
        return there, values["number"][there]
    there = ~pd.isna(values)
    return there, values[there]


def times_of(name: str, t: pd.Series) -> Integers:
    """Return times as whole numbers of their own unit, of dates seconds; a view where they are
    stored so. Raises SlidestatError for other columns, and for NULL among times.
    """
    column = t.to_numpy()
    if column.dtype == object and pd.api.types.infer_dtype(column) == "date":
        column = column.astype("M8[s]")
    if column.dtype.kind == "M":
        times: Integers = column.view(np.int64)
    elif column.dtype.kind in "iu":
        times = column.astype(np.int64, copy=False)
    elif column.dtype == object and pd.api.types.infer_dtype(column) == "string":
        raise SlidestatError(
            f"{name}: t is a text.", "Say how it is a time: CAST(t AS TIMESTAMP), or to_timestamp."
        )
    else:
        raise SlidestatError(
            f"{name}: t is of type {t.dtype}, or NULL in some rows.",
            "Give a timestamp or a whole number, and add WHERE t IS NOT NULL.",
        )
    if len(times) and (times[0] == _NO_TIME or times.min() == _NO_TIME):
        raise SlidestatError(f"{name}: t is NULL in some rows.", "Add WHERE t IS NOT NULL.")
    return times


def length_of(name: str, interval: pd.Series, t: pd.Series) -> int:
    """Return the interval in the unit of the times; raises SlidestatError for one that is none."""
    first = interval.iloc[0]
    if isinstance(first, pd.Timedelta) and t.dtype.kind in "MO":
        unit = np.datetime_data(t.dtype)[0] if t.dtype.kind == "M" else "s"
        return int(first.as_unit("ns").value) // _NANOSECONDS[unit]
    if isinstance(first, int | np.integer) and t.dtype.kind in "iu":
        return int(first)
    raise SlidestatError(
        f"{name}: the interval is {first!r} and t is of type {t.dtype}.",
        "Give timestamps and an INTERVAL of days to seconds, or whole numbers both.",
    )


def numbers_of(name: str, values: Column) -> Floats:
    """Return values as doubles, whole numbers beyond 2^53 as the nearest; raises SlidestatError for
    what is no number.
    """
    if values.dtype == object:
        is_number = pd.api.types.infer_dtype(values) in _NUMBERS
    else:
        is_number = values.dtype.kind in "iufb"
    if not is_number:
        raise SlidestatError(
            f"{name}: {values[0]!r} is no number.",
            "Give a column of numbers; of texts that are some, CAST(v AS DOUBLE).",
        )
    return np.asarray(values, np.float64)


def decimals_of(values: Column) -> int:
    """Return the number of decimal places to keep: those of the first value, FRACTION_DECIMALS for
    doubles.
    """
    if values.dtype.kind == "f":
        return FRACTION_DECIMALS
    if values.dtype == object and isinstance(values[0], Decimal):
        exponent = values[0].as_tuple().exponent
        return min(MAX_DECIMALS, max(0, -exponent)) if isinstance(exponent, int) else 0
    return 0


def items_of(name: str, values: Column) -> Integers:
    """Return values as 64-bit items: numbers are their own, others the hash of their bytes or text.
    Raises SlidestatError for what is no item.
    """
    values = named(name, values)
    if values.dtype.kind in "iubmM":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    items = (item if isinstance(item, bytes) else item_text(item) for item in values.tolist())
    return item_ids(items)


def named(name: str, values: Column) -> Column:
    """Return the values, which are all items; raises SlidestatError for what is no item."""
    if values.dtype == object and (kind := pd.api.types.infer_dtype(values)) not in _ITEMS:
        what = type(values[0]).__name__ if kind == "mixed" else kind
        raise SlidestatError(
            f"{name}: v is a list, a map, a struct or a variant ({what}), which is no item.",
            "Give it as a text: to_json(v).",
        )
    return values


def item_text(item: Any) -> str:
    """Return an item's name: as SQL has it, but bytes in hexadecimal, as of hex(v)."""
    match item:
        case str():
            return item
        case bytes():
            return item.hex().upper()
        case bool() | np.bool_():
            return "true" if item else "false"
        case Decimal():
            return f"{item:f}"
    return str(item)
