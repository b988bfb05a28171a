"""The promise on real events: a half year of flights, and a day of a web server."""

import csv
import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from slidestat.synopses import Batch, CountParameters, SumParameters, run_batch
from slidestat.synopses.core.arrays import Integers

DATA = Path(__file__).parents[4] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"
WEB = DATA / "nasa_http_19950801.tsv.gz"

pytestmark = pytest.mark.skipif(
    not (FLIGHTS.exists() and WEB.exists()), reason="the folder of real events is not there"
)


def check(times: Integers, units: Integers, scale: int, queries: Integers, spans: Integers) -> None:
    """Count the events and sum the units, and compare each answer with the exact one."""
    for epsilon in (0.1, 0.01, 0.001):
        counts = CountParameters(epsilon, int(spans.max()))
        sums = SumParameters(epsilon, int(spans.max()), len(str(scale)) - 1)
        for parameters, values, weights, by in (
            (counts, None, np.ones_like(times), 1),
            (sums, units / scale, units, scale),
        ):
            result = run_batch(
                parameters,
                [None],
                Batch([0, len(times)], times, values, [0, len(queries)], queries, spans),
            )
            prefix = np.concatenate([[0], np.cumsum(weights)])
            start = np.searchsorted(times, queries[:, None] - spans)
            exact = prefix[np.searchsorted(times, queries)][:, None] - prefix[start]
            share = Fraction(1, 2 * parameters.buckets_per_level)
            rows = zip(
                exact.ravel().tolist(),
                result.estimates.ravel().tolist(),
                result.lowers.ravel().tolist(),
                result.uppers.ravel().tolist(),
                strict=True,
            )
            for total, estimate, lower, upper in rows:
                true = Fraction(total, by)
                assert lower <= true <= upper
                assert abs(Fraction(estimate) - true) <= true * share


@pytest.mark.parametrize("origin", [None, "ORD", "HNL"])
def test_flights_keep_the_promise(origin: str | None) -> None:
    """Departures and miles of all airports, of the busiest, and of a quiet one."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "distance", "origin"])
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    miles = table["distance"].to_numpy()
    if origin is not None:
        chosen = np.asarray(table["origin"].to_pylist(), dtype=object) == origin
        times, miles = times[chosen], miles[chosen]
    day = 86_400_000
    queries = np.linspace(times[0] + 1, times[-1] + 8 * day, 800).astype(np.int64)
    spans = np.array([1, 60_000, 3_600_000, day, 7 * day])
    check(times, miles, 1, queries, spans)


def test_web_requests_keep_the_promise() -> None:
    """Requests, and kilobytes to three decimals, of windows of seconds to a day."""
    with gzip.open(WEB, "rt", encoding="latin-1", newline="") as file:
        rows = [
            (int(row["time"]), int(row["bytes"] or 0))
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    rows.sort()
    times, sizes = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    queries = np.linspace(times[0], times[-1] + 90_000, 1_500).astype(np.int64)
    check(times, sizes, 1_000, queries, np.array([1, 10, 60, 3_600, 86_400]))
