"""Draw the plots of a file that `benchmarks.documents.plots` wrote: it has its own environment.

python -m benchmarks.peers.draw_plots FOLDER
"""

import json
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.harness.command import typed

matplotlib.use("svg")
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "slidestat"

from matplotlib import pyplot  # noqa: E402 - the backend is chosen first

_SIZE = (7, 4.2)


def _save(figure: Any, folder: Path, name: str) -> None:
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def _space(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = pyplot.subplots(figsize=_SIZE)
    for color, epsilon in enumerate(sorted({row["epsilon"] for row in rows}, reverse=True)):
        mine = [row for row in rows if row["epsilon"] == epsilon]
        events = [row["events"] for row in mine]
        style = {"color": f"C{color}", "marker": "o", "markersize": 3}
        axes.plot(events, [row["ticks"] for row in mine], label=f"stored, {epsilon}", **style)
        bound = [(row["events"], row["lower_bound"]) for row in mine if row["lower_bound"]]
        axes.plot(*zip(*bound, strict=True), label=f"lower bound, {epsilon}", ls="--", **style)
    axes.set(xscale="log", yscale="log", xlabel="events in the window", ylabel="bytes")
    axes.set_title("Bytes of a count, and the least that a deterministic one needs")
    axes.legend(fontsize=7, ncols=2)
    axes.grid(alpha=0.3)
    _save(figure, folder, "space")


def _errors(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(_SIZE[0], 1 + 0.25 * len(rows)))
    names = [
        row["statistic"] + (f" ({row['confidence']:.0%})" if row["confidence"] < 1 else "")
        for row in rows
    ]
    axes.barh(names, [row["most"] for row in rows], color="C0", alpha=0.4, label="largest")
    axes.barh(names, [row["median"] for row in rows], color="C0", label="median", height=0.4)
    axes.axvline(1, color="C3", label="promised")
    axes.set(xlabel="observed error as a share of the promised one")
    axes.invert_yaxis()
    axes.set_title("Errors: observed and promised (with which confidence, if not always)")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3, axis="x")
    _save(figure, folder, "errors")


def _spans(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = pyplot.subplots(figsize=_SIZE)
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        events = [10 ** row["exponent"] for row in mine]
        axes.plot(events, [row["ns"] for row in mine], marker="o", label=name)
        low, high = ([row[end] for row in mine] for end in ("low_ns", "high_ns"))
        axes.fill_between(events, low, high, alpha=0.2)
    axes.set(xscale="log", xlabel="events in the span", ylabel="ns an event, CPU")
    axes.set_ylim(bottom=0)
    axes.set_title("Cost of an event as the span grows (middle half shaded)")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    _save(figure, folder, "spans")


if __name__ == "__main__":
    (_folder,) = map(Path, typed(__doc__, "folder"))
    _data = json.loads((_folder / "plots.json").read_text())
    _space(_data["space"], _folder)
    _errors(json.loads((_folder / "statistics.json").read_text())["errors"], _folder)
    _spans(_data["spans"], _folder)
