"""Draw the pictures of a file that `benchmarks.documents.pictures` wrote.

python -m benchmarks.peers.draw_pictures DATA.json FOLDER
"""

import json
from math import log2
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.harness.command import typed

matplotlib.use("svg")
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "slidestat"

from matplotlib import pyplot  # noqa: E402 - the backend is chosen first

_SIZE = (8, 4.4)
_HOUR_MS = 3_600_000
# Hours of the axis; narrower bars have no room for their number.
_LEAST_LABELLED_HOURS = 0.9


def _save(figure: Any, folder: Path, name: str) -> None:
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def _buckets(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = pyplot.subplots(figsize=_SIZE)
    colors = matplotlib.colormaps["viridis"]
    start = rows[0]["now"]
    largest = max(size for row in rows for size, _ in row["buckets"])
    for place, row in enumerate(rows):
        # A bucket reaches from the newest event of the one before it to its own newest.
        edges = [row["now"] - 24 * _HOUR_MS, *(time for _, time in row["buckets"])]
        for i, (size, _) in enumerate(row["buckets"]):
            left = (edges[i] - start) / _HOUR_MS
            width = (edges[i + 1] - edges[i]) / _HOUR_MS
            shade = log2(size) / log2(largest)
            axes.barh(place, width, 0.8, left, color=colors(shade), edgecolor="white", lw=0.7)
            if width > _LEAST_LABELLED_HOURS:
                style = {"ha": "center", "va": "center", "fontsize": 7}
                ink = "white" if shade < 0.6 else "black"
                axes.text(left + width / 2, place, str(size), color=ink, **style)
        axes.text(
            (row["now"] - start) / _HOUR_MS + 0.4,
            place,
            f"{row['estimate']:g} (exact {row['exact']})",
            va="center",
            fontsize=7,
        )
    axes.set(xlabel="event time, hours", ylabel="a later moment in each row")
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlim(right=(rows[-1]["now"] - start) / _HOUR_MS + 7)
    axes.set_title("Buckets of an exponential histogram, epsilon 1/4, last 24 hours")
    _save(figure, folder, "buckets")


def _wave(data: dict[str, Any], folder: Path) -> None:
    figure, axes = pyplot.subplots(figsize=_SIZE)
    now = data["now"]
    edge = -data["window_ms"] / _HOUR_MS
    hours = [(time - now) / _HOUR_MS for time, _, _ in data["items"]]
    axes.scatter(hours, [level for _, _, level in data["items"]], s=22, color="C0", zorder=3)
    for hour, (_, rank, level) in zip(hours, data["items"], strict=True):
        if level >= 5:  # below, they stand too close
            above = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
            axes.annotate(str(rank), (hour, level), fontsize=6, **above)
    axes.axvspan(edge, 0, color="C1", alpha=0.15, label="window of 10 hours")
    axes.set(xlabel="event time, hours before now", ylabel="level: ranks that 2^level divides")
    axes.set_title(
        f"Items of a wave, epsilon 1/5: in the window {data['lower']:g} to {data['upper']:g},"
        f" estimate {data['estimate']:g}, exact {data['exact']}"
    )
    axes.legend(fontsize=8, loc="upper left")
    axes.grid(alpha=0.3)
    _save(figure, folder, "wave")


if __name__ == "__main__":
    _file, _folder = map(Path, typed(__doc__, "data", "folder"))
    _data = json.loads(_file.read_text())
    _buckets(_data["buckets"], _folder)
    _wave(_data["wave"], _folder)
