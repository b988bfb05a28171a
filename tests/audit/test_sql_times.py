"""Times in SQL are instants: whatever the session's zone is, and whatever its clocks do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

from slidestat.errors import SlidestatError
from slidestat.spark.sql import aggregates
from slidestat.spark.sql.frame_values import (
    items_of,
    keep_columns,
    lengths_of,
    moments_of,
    times_of,
    values_of,
)

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Around the hours that New York, Berlin and Lord Howe repeat and leave out, and Apia's lost day.
_TURNS = (1_762_063_200, 1_772_953_200, 1_761_440_400, 1_743_296_400, 1_743_865_200, 1_325_239_200)


def series(zone: str, column: pa.Array) -> pd.Series:
    """Return a column as a worker of Spark hands it to a function, in a session of that zone."""
    keep_columns()
    worker = ArrowStreamPandasUDFSerializer(timezone=zone, safecheck=True, assign_cols_by_name=True)
    if hasattr(worker, "arrow_to_pandas"):
        return worker.arrow_to_pandas(pa.chunked_array([column]))
    from pyspark.sql.conversion import ArrowBatchTransformer  # PySpark 4.2

    (found,) = ArrowBatchTransformer.to_pandas(pa.record_batch([column], ["it"]), zone)
    return found


def instants(us: list[int | None]) -> pa.Array:
    return pa.array(us, pa.int64()).cast(pa.timestamp("us", "UTC"))


near_turns = st.builds(
    lambda turn, us: turn * 1_000_000 + us,
    st.sampled_from(_TURNS),
    st.integers(-7_200_000_000, 7_200_000_000),
)
# From year 1 to 9999: pandas' nanoseconds have fewer.
anywhere = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@settings(deadline=None, max_examples=150)
@given(us=st.lists(near_turns | anywhere, min_size=1), zone=st.sampled_from(ZONES))
def test_a_timestamp_is_its_instant(us: list[int], zone: str) -> None:
    """As the time of a row, as the end of a window, and as an item; to the very microsecond."""
    column = series(zone, instants(us))
    assert times_of("f", column).tolist() == us
    assert moments_of(column) == [one // 1_000 for one in us]
    assert len(np.unique(items_of("f", values_of(column)))) == len(set(us))
    assert moments_of(series(zone, instants([*us, None])))[-1] is None


@settings(deadline=None, max_examples=60)
@given(us=st.lists(near_turns, min_size=1, max_size=30), zone=st.sampled_from(ZONES))
def test_aggregates_are_those_of_a_session_in_utc(us: list[int], zone: str) -> None:
    """Counts within an interval, distinct times, and the texts of the most frequent ones."""
    t = series(zone, instants(us))
    one, k = pd.Series(np.ones(len(us), np.int64)), pd.Series(np.full(len(us), 100.0))
    half_hour = series(zone, pa.array([timedelta(minutes=30)] * len(us)))
    newest = max(us)
    exact = sum(newest - 1_800_000_000 <= time for time in us)
    assert aggregates.basic_count()(one, t, k, half_hour) == exact
    assert aggregates.basic_distinct()(t, t, k) == len(set(us))
    top = aggregates.basic_top()(t, t, k)
    assert {datetime.fromisoformat(item["item"]) for item in top} == {
        _EPOCH + timedelta(microseconds=time) for time in us
    }


@pytest.mark.parametrize("zone", ZONES)
def test_what_has_no_zone_is_in_utc(zone: str) -> None:
    """A TIMESTAMP_NTZ and a DATE; numbers are milliseconds, rounded down."""
    noon = datetime(2025, 11, 25, 12, 0)
    noon_ms = int(noon.replace(tzinfo=UTC).timestamp() * 1_000)
    ntz = series(zone, pa.array([noon, None], pa.timestamp("us")))
    assert moments_of(ntz) == [noon_ms, None]
    days = series(zone, pa.array([noon.date(), None], pa.date32()))
    assert moments_of(days) == [noon_ms - 43_200_000, None]
    assert moments_of(series(zone, pa.array([noon_ms, None]))) == [noon_ms, None]
    assert moments_of(series(zone, pa.array([-1.5]))) == [-2]
    top = aggregates.basic_top()(ntz[:1], ntz[:1], pd.Series([10.0]))
    assert [item["item"] for item in top] == ["2025-11-25 12:00:00"]
    instant = series(zone, pa.array([noon.replace(tzinfo=ZoneInfo(zone))]))
    (item,) = aggregates.basic_top()(instant, instant, pd.Series([10.0]))
    assert item["item"].endswith(":00Z")


def test_intervals_do_not_wrap() -> None:
    """One of more than pandas' 292 years is as long as it says."""
    long = series("UTC", pa.array([timedelta(days=200_000), None]))
    assert lengths_of(long) == [200_000 * 86_400_000, None]
    t = series("UTC", instants([0, 86_400_000_000 * 150_000]))
    ones, k = pd.Series([1, 1]), pd.Series([100.0, 100.0])
    both = series("UTC", pa.array([timedelta(days=200_000)] * 2))
    assert aggregates.basic_count()(ones, t, k, both) == 2


def test_what_is_no_moment_is_refused() -> None:
    """A text, an interval for a moment, a moment for a length, and another function's time."""
    text, day = pd.Series(["2025-11-25"], dtype=object), series("UTC", pa.array([timedelta(1)]))
    now = series("UTC", instants([0]))
    for wrong in (text, day, series("UTC", pa.array([float("inf")]))):
        with pytest.raises(SlidestatError, match="at is neither a TIMESTAMP nor milliseconds"):
            moments_of(wrong)
    for wrong in (text, now):
        with pytest.raises(SlidestatError, match="n is neither an INTERVAL"):
            lengths_of(wrong)
    with pytest.raises(SlidestatError, match="its zone is not known here"):
        moments_of(pd.Series(pd.to_datetime(["2025-11-25"])))
    with pytest.raises(SlidestatError, match="CAST it AS TIMESTAMP"):
        series("UTC", pa.array([datetime(9999, 12, 31)], pa.timestamp("us")))
