"""Check the columns of an aggregate of rows, and convert their values.

Values are numbers (whole, DECIMAL, floating), truth values, texts, bytes, dates, timestamps and
intervals of days to seconds; NULL and NaN are no value. Lists, maps, structs and variants are
refused: their texts in Python leave parts out. Texts are never read as numbers or as times.
"""

from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from inspect import getattr_static
from math import floor
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

# Columns as SQL has them.
#
# Spark's Python workers give pandas what it has a type for. pandas has no NULL among whole numbers,
# so they become doubles: beyond 2^53 different numbers become one, and 1 is called '1.0'. A
# TIMESTAMP becomes the session's wall clock: the hour that clocks repeat comes twice at one time.
# An INTERVAL of more than 292 years wraps. There is no setting against any of it. So the workers
# that run our functions keep such columns as they were, in addition; other code in them sees what
# it always saw.

NULLABLE = np.dtype([("number", np.int64), ("is_null", np.bool_)])
"""An element of a column of whole numbers that has NULLs."""

INSTANT = np.dtype("M8[us]")
"""An element of a column of TIMESTAMP, in UTC whatever the session's zone. A TIMESTAMP_NTZ, the
time of a clock without a zone, is pandas' M8[ns].
"""

_KEPT = "slidestat.column"


class _Kept:
    """The column of a series. pandas copies what is attached for each slice: these are shared."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    def __deepcopy__(self, _memo: object) -> "_Kept":
        return self


class RunsInWorker:
    """A function of columns; the Python worker that it comes to keeps them as SQL has them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Here a Python worker gets the function, before any rows.
        keep_columns()
        self.__dict__.update(state)


def keep_columns() -> None:
    """Make this Python worker keep columns as SQL has them, from the next batch of rows on."""
    if not hasattr(ArrowStreamPandasUDFSerializer, "arrow_to_pandas"):  # PySpark 4.2
        owner: Any = _conversion().ArrowArrayToPandasConversion
        name = "convert"
        _adapt_batches()
    else:
        owner, name = ArrowStreamPandasUDFSerializer, "arrow_to_pandas"
    found = getattr_static(owner, name)
    convert = getattr(found, "__func__", found)
    if getattr(convert, "keeps_columns", False):
        return

    # The rest are of PySpark: since 4.1 the column's place, since 4.2 its type, zone and more.
    def keep(first: Any, column: Any, *rest: Any, **more: Any) -> Any:
        kind = column.type
        _refuse_months(kind)
        values = _as_it_was(column)
        try:
            series = convert(first, column, *rest, **more)
        except pa.ArrowInvalid as error:  # A time beyond the years of pandas' nanoseconds.
            if values is None:
                raise SlidestatError(
                    f"A {kind} is before 1677 or after 2262.", "CAST it AS TIMESTAMP."
                ) from error
            series = pd.Series(values)
        except KeyError:  # A zone of Spark that Python's tables lack, such as UTC+01:00 or Z.
            if values is None:
                raise
            series = pd.Series(values).dt.tz_localize("UTC")
        if pa.types.is_timestamp(kind) and values is None:
            values = series.to_numpy()
        if values is not None:
            series.attrs[_KEPT] = _Kept(values)
        return series

    keep.keeps_columns = True  # type: ignore[attr-defined]
    setattr(owner, name, keep if found is convert else classmethod(keep))


def _adapt_batches() -> None:
    """Make this Python worker hand a group's rows to an aggregate as one batch, as PySpark does
    before 4.2: that release joins columns of pandas, without what is kept with them. And have it
    ask us about intervals of months before it refuses them in its own words.
    """
    serializers: Any = import_module("pyspark.sql.pandas.serializers")
    aggregates = serializers.ArrowStreamAggPandasUDFSerializer
    groups, columns = serializers.ArrowStreamGroupSerializer, _conversion().ArrowBatchTransformer
    read, convert = groups.load_stream, columns.to_pandas.__func__
    if getattr(read, "merges_batches", False):
        return

    def load_stream(self: Any, stream: Any) -> Iterator[Any]:
        for batches in read(self, stream):
            found = list(batches) if isinstance(self, aggregates) else None
            yield batches if found is None else iter([pa.concat_batches(found)] if found else [])

    def to_pandas(cls: Any, batch: Any, *rest: Any, **more: Any) -> Any:
        for kind in batch.schema.types:
            _refuse_months(kind)
        return convert(cls, batch, *rest, **more)

    load_stream.merges_batches = True  # type: ignore[attr-defined]
    groups.load_stream = load_stream
    columns.to_pandas = classmethod(to_pandas)


def _conversion() -> Any:
    return import_module("pyspark.sql.conversion")


def _refuse_months(kind: pa.DataType) -> None:
    if str(kind) == "month_interval":  # PyArrow knows no such block.
        raise SlidestatError(
            "An INTERVAL of months or years has no one length.",
            "Give one of days, hours, minutes or seconds: INTERVAL 30 DAYS.",
        )


def values_of(series: pd.Series) -> npt.NDArray[Any]:
    """Return the values of a series as Spark hands it to a function, or of a slice of it, as SQL
    has them: of whole numbers with NULLs among them, elements of `NULLABLE`, of a TIMESTAMP those
    of `INSTANT`.

    A view: equal slices lie at one place. Raises SlidestatError for times that another function of
    Python returned: of the hour that clocks repeat, it is not known which they are.
    """
    kept = series.attrs.get(_KEPT)
    if kept is None:
        if series.dtype.kind == "M":
            raise SlidestatError(
                "A function of Python returned a time: its zone is not known here.",
                "Return milliseconds from it, a BIGINT.",
            )
        values: npt.NDArray[Any] = series.to_numpy()
        return values
    start = series.index.start  # Spark's series have a RangeIndex, and slices a part of it.
    found: npt.NDArray[Any] = kept.values[start : start + len(series)]
    return found


def _as_it_was(column: Any) -> npt.NDArray[Any] | None:
    """Return the values of a column that pandas would change; None for others."""
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count:
        numbers = np.empty(len(column), NULLABLE)
        numbers["is_null"] = column.is_null().to_numpy(zero_copy_only=False)
        numbers["number"] = column.fill_null(0).to_numpy(zero_copy_only=False)
        return numbers
    if pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz):
        unit = INSTANT if pa.types.is_timestamp(kind) else np.dtype("m8[us]")
        counts: npt.NDArray[Any] = (
            column.cast(pa.int64()).fill_null(_NO_TIME).to_numpy(zero_copy_only=False)
        )
        return counts.view(unit)
    return None


FRACTION_DECIMALS = 6
"""To how many places basic_sum keeps floating-point values."""

_FIRST_PLAIN, _FIRST_POWER = 1e-3, 1e7
_NO_TIME = np.iinfo(np.int64).min  # NaT
_PER_SECOND = {"s": 1, "us": 10**6, "ns": 10**9}
# pandas' words for columns of objects that are items here, and numbers.
_ITEMS = frozenset({"empty", "string", "bytes", "boolean", "decimal", "date"})
_NUMBERS = frozenset({"empty", "boolean", "decimal"})
_DECIMALS = frozenset({"empty", "decimal"})


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
    column = _without_dates(values_of(t), "M8[s]")
    if column.dtype.kind == "M":
        times: Integers = column.view(np.int64)
    elif column.dtype.kind in "iu":
        times = column.astype(np.int64, copy=False)
    elif _is_textual(column):
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
    first, times = values_of(interval)[0], _without_dates(values_of(t), "M8[s]")
    kinds = first.dtype.kind if isinstance(first, np.generic) else "", times.dtype.kind
    is_negative = kinds[0] in ("i", "m") and first < np.zeros((), first.dtype)
    if is_negative:
        raise SlidestatError(f"{name}: the interval is negative.", "Give one of 0 or more.")
    if kinds == ("m", "M") and not np.isnat(first):
        microseconds = int(first.astype("m8[us]").astype(np.int64))
        return microseconds * _PER_SECOND[np.datetime_data(times.dtype)[0]] // _PER_SECOND["us"]
    if kinds[0] in ("i", "u") and kinds[1] in "iu":
        return int(first)
    raise SlidestatError(
        f"{name}: the interval is {interval.iloc[0]!r} and t is of type {t.dtype}.",
        "Give timestamps and an INTERVAL of days to seconds, or whole numbers both.",
    )


def moments_of(at: pd.Series) -> list[int | None]:
    """Return moments in milliseconds since 1970, finer ones falling to the one before; dates and
    TIMESTAMP_NTZ in UTC. Raises SlidestatError for other columns.
    """
    return _milliseconds(_without_dates(values_of(at), "M8[ms]"), "M", "at", "a TIMESTAMP")


def lengths_of(n: pd.Series) -> list[int | None]:
    """Return intervals in milliseconds, as numbers are. Raises SlidestatError for others."""
    return _milliseconds(values_of(n), "m", "n", "an INTERVAL of days to seconds")


def _milliseconds(column: Column, kind: str, name: str, wanted: str) -> list[int | None]:
    if column.dtype.kind == kind:
        counts = column.astype(f"{kind}8[ms]").astype(np.int64)
        return [None if ms == _NO_TIME else ms for ms in counts.tolist()]
    if column.dtype.kind in "iu":
        numbers: list[int | None] = column.tolist()
        return numbers
    if column.dtype == NULLABLE:
        return [None if is_null else number for number, is_null in column.tolist()]
    is_decimal = column.dtype == object and pd.api.types.infer_dtype(column) in _DECIMALS
    if is_decimal or (column.dtype.kind == "f" and not np.isinf(column).any()):
        return [None if pd.isna(one) else floor(one) for one in column.tolist()]
    raise SlidestatError(
        f"{name} is neither {wanted} nor milliseconds.",
        f"Give {wanted}, or a number of milliseconds, a BIGINT.",
    )


def _without_dates(column: Column, kind: str) -> Column:
    """Return times of this kind for dates, at midnight in UTC; other columns as they are."""
    is_of_dates = column.dtype == object and pd.api.types.infer_dtype(column) == "date"
    return column.astype(kind) if is_of_dates else column


def _is_textual(column: Column) -> bool:
    return column.dtype == object and pd.api.types.infer_dtype(column) == "string"


def numbers_of(name: str, values: Column) -> Floats:
    """Return values as doubles, whole ones rounded to them; raises SlidestatError for others."""
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
    """Return the decimals to keep: those of the first value, FRACTION_DECIMALS for doubles."""
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
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "us":
        # Items are nanoseconds: states and summaries have them so.
        return values.astype(np.int64) * (_PER_SECOND["ns"] // _PER_SECOND["us"])
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


def names_of(name: str, items: pd.Series) -> list[str | None]:
    """Return items by their names, None for NULL; raises SlidestatError for what is no item."""
    there, values = without_nulls(values_of(items))
    found = np.full(len(items), None, object)
    found[there] = [item_text(item) for item in named(name, values)]
    names: list[str | None] = found.tolist()
    return names


def item_text(item: Any) -> str:
    """Return an item's name: as SQL has it, but bytes in hexadecimal, as of hex(v), and a TIMESTAMP
    in UTC, with a Z: what SQL calls it depends on the session.
    """
    match item:
        case np.datetime64():
            day, _, clock = str(item).partition("T")
            fraction = clock[8:].rstrip("0").removesuffix(".")
            return f"{day} {clock[:8]}{fraction}{'Z' if item.dtype == INSTANT else ''}"
        case str():
            return item
        case bytes():
            return item.hex().upper()
        case bool() | np.bool_():
            return "true" if item else "false"
        case Decimal():
            return f"{item:f}"
        case float() | np.floating():
            return _float_text(item + type(item)(0))  # -0.0 is 0.0
    return str(item)


def _float_text(item: float | np.floating[Any]) -> str:
    """Return a float's shortest text, of its own width, with a power where SQL has one."""
    if np.isinf(item):
        return "Infinity" if item > 0 else "-Infinity"
    if item == 0 or _FIRST_PLAIN <= abs(float(item)) < _FIRST_POWER:
        return np.format_float_positional(item, trim="0")
    text = np.format_float_scientific(item, trim="0", exp_digits=1)
    return text.replace("e+", "E").replace("e", "E")
