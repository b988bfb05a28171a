"""What a column is made of: the numbers that were given, or an error; never other numbers."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from slidestat.kernels import compile as kernels
from slidestat.synopses import (
    ApproximateCount,
    ApproximateCountParameters,
    AverageParameters,
    AverageWave,
    Batch,
    CounterTable,
    CounterTableParameters,
    CountParameters,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    LpNorm,
    LpNormParameters,
    QuantileParameters,
    Quantiles,
    SampleParameters,
    SlidingSample,
    Spread,
    SpreadParameters,
    SumParameters,
    SumWave,
    SynopsisError,
    ValueHistogram,
    ValueHistogramParameters,
    ValueQuantileParameters,
    ValueQuantiles,
    WaveParameters,
    insert_bits,
    run_extreme_batch,
)

SPAN = 100

VALUED: dict[str, Callable[[], Any]] = {
    "sum": lambda: ExponentialHistogram.create(SumParameters(0.1, SPAN)),
    "extreme": lambda: Extreme.create(ExtremeParameters("maximum", SPAN)),
    "spread": lambda: Spread.create(SpreadParameters(0.1, SPAN)),
    "sample": lambda: SlidingSample.create(SampleParameters(5, SPAN, 1)),
    "quantiles": lambda: Quantiles.create(QuantileParameters(0.1, SPAN)),
    "by value": lambda: ValueQuantiles.create(ValueQuantileParameters(0.1, 0.1, SPAN)),
    "bins": lambda: ValueHistogram.create(ValueHistogramParameters(0.1, SPAN, (1, 2))),
}

NO_NUMBERS: dict[str, Any] = {
    "texts": ["1.5", "2"],
    "texts of an array": np.array(["1.5", "2"]),
    "bytes": [b"1", b"2"],
    "texts among numbers": np.array([1.5, "2"], object),
    "moments": np.array(["2020-01-01", "NaT"], "M8[s]"),
    "moments of pandas": pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
    "durations": np.array([5, 6], "m8[s]"),
    "complex": np.array([1 + 2j, 3]),
    "records": np.array([(1.0,), (2.0,)], [("a", "f8")]),
    "None": [1.5, None],
    "NA": pd.Series([1.5, pd.NA], dtype=object),
    "masked": np.ma.masked_array([1.5, 99.0], [False, True]),
    "masked whole numbers": np.ma.masked_array([1, 99], [False, True]),
    "rows of two lengths": [[1.5], [2.0, 3.0]],
    "a set": {1.5, 2.0},
    "an iterator": iter([1.5, 2.0]),
    "a huge number": [10**400, 1],
    "a whole number between doubles": [2**53 + 1, 1],
    "the largest of 64 bits": np.array([2**63 - 1, 1]),
    "the largest without a sign": np.array([2**64 - 1, 1], np.uint64),
    "a decimal between doubles": [Decimal(2**53 + 1), 1],
}

NUMBERS: dict[str, Any] = {
    "one byte": np.array([1, 2], np.int8),
    "half precision": np.array([1, 2], np.float16),
    "big-endian": np.array([1, 2], ">f8"),
    "big-endian whole numbers": np.array([1, 2], ">i8"),
    "without a sign": np.array([1, 2], np.uint64),
    "each third": np.array([1.0, 0, 0, 2.0])[::3],
    "backwards": np.array([2.0, 1.0])[::-1],
    "Decimal": [Decimal(1), Decimal(2)],
    "Fraction": [Fraction(1), Fraction(2)],
    "a range": range(1, 3),
    "masks without a mark": np.ma.masked_array([1.0, 2.0], [False, False]),
    "pandas": pd.Series([1, 2], index=[7, 5], dtype="Int64"),
    "chunks of Arrow": pa.chunked_array([[1.0], [2.0]]),
}


@pytest.mark.parametrize("name", VALUED)
@pytest.mark.parametrize("sort", NO_NUMBERS)
def test_what_is_no_number_is_refused_and_changes_nothing(name: str, sort: str) -> None:
    """Not read as one, and not rounded in silence."""
    synopsis = VALUED[name]()
    before = synopsis.to_bytes()
    with pytest.raises(SynopsisError):
        synopsis.insert([1, 2], NO_NUMBERS[sort])
    assert synopsis.to_bytes() == before


@pytest.mark.parametrize("name", VALUED)
@pytest.mark.parametrize("sort", NUMBERS)
def test_numbers_of_any_sort_are_the_same_numbers(name: str, sort: str) -> None:
    """The same bytes come of them as of doubles."""
    expected, synopsis = VALUED[name](), VALUED[name]()
    expected.insert([1, 2], [1.0, 2.0])
    synopsis.insert([1, 2], NUMBERS[sort])
    assert synopsis.to_bytes() == expected.to_bytes()


def test_whole_numbers_that_doubles_hold_are_taken() -> None:
    """Up to 2^53 all of them, and beyond those that are doubles."""
    for number in (2**53, -(2**53), 2**53 + 2, 2**62, np.uint64(2**63)):
        highest = Extreme.create(ExtremeParameters("maximum", SPAN))
        highest.insert([1], [number])
        assert highest.query(SPAN).upper == number


ITEMS: dict[str, Callable[[], Any]] = {
    "distinct": lambda: DistinctWave.create(DistinctParameters(0.1, 0.1, SPAN, 1)),
    "table": lambda: CounterTable.create(CounterTableParameters(0.1, SPAN, 5)),
    "norm": lambda: LpNorm.create(LpNormParameters(1, 0.5, 0.5, SPAN)),
    "sum wave": lambda: SumWave.create(WaveParameters(0.1, SPAN)),
    "average": lambda: AverageWave.create(AverageParameters(0.1, SPAN)),
}


@pytest.mark.parametrize("name", ITEMS)
def test_masked_items_are_refused(name: str) -> None:
    """Whole numbers lose their mask as others do."""
    masked = np.ma.masked_array([1, 99], [False, True])
    synopsis = ITEMS[name]()
    for times, items in (([1, 2], masked), (masked, [1, 2]), ([1, 2], [[1], [2, 3]])):
        with pytest.raises(SynopsisError):
            synopsis.insert(times, items)
    synopsis.insert(np.ma.masked_array([1, 2]), [1, 2])
    assert synopsis.now == 3


def test_masked_bits_are_refused() -> None:
    """Of a count of the last events, and of a stream of bits."""
    masked = np.ma.masked_array([1, 1], [False, True])
    with pytest.raises(SynopsisError, match="masked"):
        ApproximateCount.create(ApproximateCountParameters(5, 0.1)).insert(masked)
    with pytest.raises(SynopsisError, match="masked"):
        insert_bits(DistinctWave.create(DistinctParameters(0.1, 0.1, SPAN, 1)), masked)


def test_numbers_without_a_sign_are_not_negative_ones() -> None:
    """Whatever the order of their bytes: of times they are refused, of distinct items taken."""
    for kind in ("<u8", ">u8"):
        largest = np.array([2**64 - 1], kind)
        with pytest.raises(SynopsisError, match="whole numbers, not"):
            ExponentialHistogram.create(CountParameters(0.1, SPAN)).insert(largest)
        distinct = DistinctWave.create(DistinctParameters(0.1, 0.1, SPAN, 1))
        distinct.insert([1], largest)
        assert distinct.kept_items(SPAN).tolist() == [-1]


def test_arrays_of_others_are_run_by_the_machine_code_there_is() -> None:
    """Read-only ones, such as Arrow's, and ones that lie askew: nothing is compiled for them."""
    parameters = ExtremeParameters("maximum", SPAN)
    times, values = pa.array([1, 2, 3]), pa.array([1.0, 3.0, 2.0])
    askew = np.frombuffer(b"." + np.array([1.0, 3.0, 2.0]).tobytes(), np.float64, offset=1)
    expected = run_extreme_batch(parameters, [None], Batch([0, 3], [1, 2, 3], [1.0, 3.0, 2.0]))
    compiled = len(kernels.compiled_here)
    for column in (values, askew):
        found = run_extreme_batch(parameters, [None], Batch(pa.array([0, 3]), times, column))
        assert found.states == expected.states
    assert len(kernels.compiled_here) == compiled
