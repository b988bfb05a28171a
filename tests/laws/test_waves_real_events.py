"""The promise of waves on real events: a half year of flights, and a day of a web server."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from app.synopses.waves.wave_parameters import WaveParameters
from tests.laws.test_wave_error import Integers, asked, kept
from tests.wave_oracles import exact_sums

DATA = Path(__file__).parents[3] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"
WEB = DATA / "nasa_http_19950801.tsv.gz"

pytestmark = pytest.mark.skipif(
    not (FLIGHTS.exists() and WEB.exists()), reason="the folder of real events is not there"
)


def check(times: Integers, units: Integers, queries: Integers, spans: Integers) -> None:
    """Count, sum and look back, and compare each answer with the exact one."""
    for epsilon in (0.1, 0.01):
        parameters = WaveParameters(epsilon, int(spans.max()))
        ones = np.ones_like(times)
        counts = exact_sums(times, ones, queries, spans)
        kept(parameters, asked("count", parameters, times, None, queries, spans), counts)
        result = asked("sum", parameters, times, units, queries, spans)
        kept(parameters, result, exact_sums(times, units, queries, spans))
        numbers = np.array([1, 2, 10, 100, 1_000, 10_000])
        result = asked("position", parameters, times, None, queries, numbers)
        seen = np.searchsorted(times, queries)[:, None]
        ages = queries[:, None] - times[np.maximum(seen - numbers, 0)]
        near = (numbers <= seen) & (ages <= parameters.span)
        assert np.all(result.lowers[near] <= ages[near])
        assert np.all(ages[near] <= result.uppers[near])
        errors = np.abs(2 * result.estimates[near] - 2 * ages[near])
        assert np.all((2 * parameters.per_level - 1) * errors <= 2 * ages[near])


@pytest.mark.parametrize("origin", [None, "ORD", "HNL"])
def test_flights_keep_the_promise(origin: str | None) -> None:
    """Departures and miles of all airports, of the busiest, and of a quiet one."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "distance", "origin"])
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    miles = table["distance"].to_numpy().astype(np.int64)
    if origin is not None:
        chosen = np.asarray(table["origin"].to_pylist(), dtype=object) == origin
        times, miles = times[chosen], miles[chosen]
    day = 86_400_000
    queries = np.linspace(times[0] + 1, times[-1] + 8 * day, 800).astype(np.int64)
    check(times, miles, queries, np.array([1, 60_000, 3_600_000, day, 7 * day]))


def test_web_requests_keep_the_promise() -> None:
    """Requests and bytes, of windows of seconds to a day."""
    with gzip.open(WEB, "rt", encoding="latin-1", newline="") as file:
        rows = [
            (int(row["time"]), int(row["bytes"] or 0))
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    rows.sort()
    times, sizes = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    queries = np.linspace(times[0], times[-1] + 90_000, 1_500).astype(np.int64)
    check(times, sizes, queries, np.array([1, 10, 60, 3_600, 86_400]))
