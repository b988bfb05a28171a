"""What results/*.json say of space and accuracy, as tables for the README."""

import json
from itertools import groupby
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.accuracy.recounted import RESULTS
from benchmarks.documents.markdown import table

PLOTS = RESULTS_FOLDER / "plots.json"
# Each second power of ten is enough for a reader.
_STEP = 100


def space() -> str:
    """Bytes of a count by events in the window and epsilon, with the lower bound beside."""
    rows = json.loads(PLOTS.read_text())["space"]
    epsilons = sorted({row["epsilon"] for row in rows}, reverse=True)
    events = min(row["events"] for row in rows)
    found = []
    for held, of in groupby(rows, lambda row: row["events"]):
        if held == events:
            cells = {row["epsilon"]: _bytes(row) for row in of}
            found.append([f"{held:,}", *(cells[epsilon] for epsilon in epsilons)])
            events *= _STEP
    heads = ["events in the window", *(f"epsilon {100 * epsilon:g} %" for epsilon in epsilons)]
    return table(heads, found)


def _bytes(row: dict[str, Any]) -> str:
    if row["lower_bound"] is None:
        return f"{row['ticks']:,}"
    return f"{row['ticks']:,} ({row['lower_bound']:,.0f})"


def accuracy() -> str:
    """Observed errors as shares of the promised ones; neighbours that are alike share a row."""
    rows = json.loads(RESULTS.read_text())["errors"]
    heads = ("statistic", "median error", "largest", "within promise and bounds")
    found = []
    for cells, of in groupby(rows, _cells):
        found.append((", ".join(f"`{row['statistic']}`" for row in of), *cells))
    return table(heads, found)


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    kept = "all" if row["kept"] == 1 else f"{100 * row['kept']:.1f} %"
    if row["confidence"] < 1:
        kept += f", promised {100 * row['confidence']:g} %"
    return f"{100 * row['median']:.0f} %", f"{100 * row['most']:.0f} %", kept
