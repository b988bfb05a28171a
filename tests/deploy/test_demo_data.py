"""The extract of real events that ships with the package."""

import importlib.resources
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT.parent / "shared" / "data" / "flights-2001-h1.parquet"


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    resource = importlib.resources.files("slidestat") / "demo" / "data" / "flights-2001.parquet"
    with importlib.resources.as_file(resource) as path:
        return pq.read_table(path)


def test_extract_is_found_in_the_package_and_whole(flights: pa.Table) -> None:
    """600,000 events, no null, no empty airport, times that never go back, distances above 0."""
    assert flights.num_rows == 600_000
    assert flights.column_names == ["date", "origin", "destination", "delay", "distance"]
    assert all(column.null_count == 0 for column in flights.columns)
    minutes = flights["date"].cast(pa.int64()).to_numpy()
    assert (minutes[1:] >= minutes[:-1]).all()
    assert (minutes % 60_000 == 0).all()
    for airport in ("origin", "destination"):
        assert pc.min(pc.utf8_length(flights[airport])).as_py() == 3
        assert pc.max(pc.utf8_length(flights[airport])).as_py() == 3
    assert pc.count_distinct(flights["origin"]).as_py() == 223
    assert pc.min(flights["distance"]).as_py() > 0


def test_extract_is_the_source_row_by_row(flights: pa.Table, tmp_path: Path) -> None:
    """The script cuts the shipped rows out of the source again, and changes no value."""
    if not SOURCE.is_file():
        pytest.skip("the source of 3,000,000 rows is not part of the project")
    script = ROOT / "scripts" / "extract_demo_data.py"
    target = tmp_path / "again.parquet"
    subprocess.run([sys.executable, script, SOURCE, target], check=True)
    assert pq.read_table(target).equals(flights)
    rows = pq.read_table(SOURCE, columns=flights.column_names).slice(0, flights.num_rows)
    assert rows.cast(flights.schema).equals(flights)
