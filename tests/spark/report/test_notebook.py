"""The notebook of the documents, cell by cell, over the lake that it names."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.spark.figures import plot_figures, read_statistics
from tests.docs.markdown import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def test_each_cell_runs_and_says_what_its_text_does(folder: Path) -> None:
    """One row a figure, in bounds that hold beside the events; aggregates as SQL has them."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            text = "".join(cell["source"])
            for name in ("history", "flights.parquet"):
                text = text.replace(f'"{name}"', repr(str(folder / name)))
            exec(text, names)  # noqa: S102 - the document's own
    figures = names["figures"]
    assert (
        figures.count()
        == figures.dropDuplicates(
            ["key", "window_end", "window_ms", "statistic", "quantile", "item"]
        ).count()
    )
    assert {"window_start": "timestamp", "window_end": "timestamp"}.items() <= dict(
        figures.dtypes
    ).items()
    assert set(names["widest"]["key"]) == {"ATL", "ORD", "DFW"}
    beside = names["beside"]
    assert set(beside["city"]) == {"Atlanta", "Chicago", "Dallas"}
    assert len(beside) > 20
    assert ((beside["lower"] <= beside["exact"]) & (beside["exact"] <= beside["upper"])).all()
    flights = names["flights"].toPandas()
    for row in names["by_airport"].collect():
        of_it = flights[flights["origin"] == row.origin]
        last_hour = of_it[of_it["date"] >= of_it["date"].max() - np.timedelta64(1, "h")]
        exact = int(last_hour["delayed"].sum())
        assert abs(row.delayed_last_hour - exact) <= exact / 100
        ranked = np.sort(of_it["delay"].to_numpy())
        nearby = ranked[int(0.945 * len(ranked)) - 1], ranked[int(0.955 * len(ranked))]
        assert nearby[0] * 0.99 <= row.p95 <= nearby[1] * 1.01
    last = {row.origin: row.delayed_so_far for row in names["delayed"].orderBy("date").collect()}
    for origin, found in last.items():
        exact = int(flights[flights["origin"] == origin]["delayed"].sum())
        assert abs(found - exact) <= exact / 10
    drawn = names["counts"].where("key = 'ATL'").orderBy("window_end").toPandas()
    (line,), (band,) = names["axes"].lines, names["axes"].collections
    assert line.get_label() == "ATL count, 1d"
    assert (line.get_ydata() == drawn["estimate"]).all()
    corners = {height for _, height in band.get_paths()[0].vertices}
    assert corners == {*drawn["lower"], *drawn["upper"]}
    figures.unpersist()


def test_what_cannot_be_drawn(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rows, a missing column, too many lines, and a missing matplotlib: each says what to do."""
    figures = read_statistics(spark, str(folder / "history"), "flights").toPandas()
    with pytest.raises(SlidestatError, match="There are 0 lines to draw"):
        plot_figures(figures[:0])
    with pytest.raises(SlidestatError, match="no column 'window_events'"):
        plot_figures(figures.drop(columns="window_events"))
    with pytest.raises(SlidestatError, match="lines to draw") as raised:
        plot_figures(figures)
    assert "where" in raised.value.advice
    axes = plot_figures(figures.query("key == 'ORD' and window_ms == 86400000 and item.isna()"))
    labels = {text.get_text() for text in axes.get_legend().get_texts()}
    assert {"ORD count, 1d", "ORD quantile 0.99, 1d"} < labels
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SlidestatError, match="without matplotlib") as raised:
        plot_figures(figures)
    assert raised.value.advice == "pip install matplotlib"


def test_figures_have_all_that_emissions_tell(spark: "SparkSession", folder: Path) -> None:
    """Each field of a figure is a column, promised errors as numbers; a lake that is not there is
    told.
    """
    figures = read_statistics(spark, str(folder / "history"), "flights")
    assert set(Figure.__struct_fields__) <= set(figures.columns)
    row = figures.where("statistic = 'count'").first()
    assert row is not None
    assert (row.window_end - row.window_start).total_seconds() * 1_000 == row.window_ms
    assert (row.absolute_error, row.confidence, row.provisional) == (0.0, 1.0, False)
    assert row.relative_error > 0
    with pytest.raises(SlidestatError, match="has no records"):
        read_statistics(spark, str(folder / "elsewhere"), "flights")
