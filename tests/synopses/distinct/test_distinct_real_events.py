"""Distinct values of real events: hosts and pages of a web server, routes of flights."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.distinct.parameters import DistinctParameters
from tests.synopses.distinct.exact_distinct import exact, not_beyond

DATA = Path(__file__).parents[4] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"
WEB = DATA / "nasa_http_19950801.tsv.gz"

pytestmark = pytest.mark.skipif(
    not (FLIGHTS.exists() and WEB.exists()), reason="the folder of real events is not there"
)


def check(times: Integers, items: Integers, queries: Integers, spans: list[int]) -> None:
    """Ask five seeds, and count the answers that miss."""
    true = np.array([[exact(times, items, q - n, q) for n in spans] for q in queries])
    missed = tries = 0
    for seed in range(5):
        parameters = DistinctParameters(0.1, 0.01, max(spans), seed)
        result = run_distinct_batch(
            parameters,
            [None],
            Batch([0, len(times)], times, items, [0, len(queries)], queries, spans),
        )
        few = true < parameters.capacity
        for figures in (result.estimates, result.lowers, result.uppers):
            assert np.array_equal(figures[few], true[few])
        missed += np.count_nonzero(np.abs(result.estimates - true) >= 0.1 * np.maximum(true, 1))
        outside = (result.lowers > true) | (result.uppers < true)
        assert not (outside & (np.abs(result.estimates - true) < 0.1 * true)).any()
        tries += true.size
    assert not_beyond(int(missed), tries, 0.01)


def test_hosts_and_pages_keep_the_promise() -> None:
    """Distinct hosts and pages of a day of a web server, windows of seconds to a day."""
    with gzip.open(WEB, "rt", encoding="latin-1", newline="") as file:
        rows = [
            (int(row["time"]) * 1_000, row["host"], row["url"])
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    rows.sort(key=lambda row: row[0])
    times = np.array([row[0] for row in rows])
    hour = 3_600_000
    queries = np.linspace(times[0] + 1, times[-1] + hour, 12).astype(np.int64)
    for column in (1, 2):
        items = item_ids(row[column] for row in rows)
        assert len(np.unique(items)) == len({row[column] for row in rows})
        check(times, items, queries, [1_000, hour, 6 * hour, 24 * hour])


def test_routes_of_flights_keep_the_promise() -> None:
    """Distinct pairs of airports, windows of an hour to a quarter."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "origin", "destination"])
    table = table.slice(0, 600_000)
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    pairs = zip(table["origin"].to_pylist(), table["destination"].to_pylist(), strict=True)
    items = item_ids(f"{origin}-{destination}" for origin, destination in pairs)
    day = 86_400_000
    queries = np.linspace(times[0] + 1, times[-1] + 2 * day, 8).astype(np.int64)
    check(times, items, queries, [day // 24, day, 7 * day, 90 * day])
