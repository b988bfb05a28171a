"""How synopses look over a real stream: the pictures of docs/theory.md that no measurement takes.

    python -m benchmarks.documents.pictures    # results/pictures.json, buckets.svg, wave.svg

The stream are the flights that left Atlanta, of the demo's file. matplotlib has an environment of
its own.
"""

import subprocess
from importlib import resources
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import REPOSITORY, RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.peers.environments import environment_python
from slidestat.synopses import CountParameters, ExponentialHistogram
from slidestat.synopses.waves.parameters import WaveParameters
from slidestat.synopses.waves.waves import CountWave

_RESULTS = RESULTS_FOLDER
DATA = _RESULTS / "pictures.json"
_AIRPORT = "ATL"
_HOUR_MS = 3_600_000
_SPAN_MS = 24 * _HOUR_MS
_MOMENTS = 9
_BETWEEN_MS = 3 * _HOUR_MS
_WINDOW_MS = 10 * _HOUR_MS


def departures() -> npt.NDArray[np.int64]:
    """int64[events]: when flights left the airport, in milliseconds, not falling."""
    file = resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
    with resources.as_file(file) as path:
        flights = pq.read_table(path, columns=["date", "origin"])
    times = flights.filter(pc.equal(flights["origin"], _AIRPORT))["date"]
    return np.sort(times.cast("int64").to_numpy())


def buckets(times: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """A histogram with epsilon 1/4 at moments three hours apart, from the third day on."""
    first = int(times[0]) // _SPAN_MS * _SPAN_MS + 2 * _SPAN_MS
    histogram = ExponentialHistogram.create(CountParameters(epsilon=0.25, span=_SPAN_MS))
    rows = []
    taken = 0
    for moment in (first + i * _BETWEEN_MS for i in range(_MOMENTS)):
        end = int(np.searchsorted(times, moment))
        histogram.insert(times[taken:end])
        taken = end
        answer = histogram.query(_SPAN_MS, now=moment)
        exact = int(end - np.searchsorted(times, moment - _SPAN_MS))
        rows.append(
            {
                "now": moment,
                "buckets": histogram.buckets(),
                "estimate": answer.estimate,
                "exact": exact,
            }
        )
    return rows


def wave(times: npt.NDArray[np.int64]) -> dict[str, Any]:
    """A wave with epsilon 1/5 at one moment: its items as [time, rank, level], and an answer."""
    moment = int(times[0]) // _SPAN_MS * _SPAN_MS + 3 * _SPAN_MS
    end = int(np.searchsorted(times, moment))
    counts = CountWave.create(WaveParameters(epsilon=0.2, span=_SPAN_MS))
    counts.insert(times[:end])
    answer = counts.query(_WINDOW_MS, now=moment)
    return {
        "now": moment,
        "window_ms": _WINDOW_MS,
        "items": [[item.time, item.through, item.level] for item in counts.items()],
        "estimate": answer.estimate,
        "lower": answer.lower,
        "upper": answer.upper,
        "exact": int(end - np.searchsorted(times, moment - _WINDOW_MS)),
    }


def main() -> None:
    """Run the stream, write what is drawn, and draw it."""
    times = departures()
    data = {"buckets": buckets(times), "wave": wave(times)}
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    subprocess.run(  # noqa: S603 - our own module
        [environment_python("plots"), "-m", "benchmarks.peers.draw_pictures", DATA, _RESULTS],
        cwd=REPOSITORY,
        check=True,
    )
    print(f"written: {DATA} and two pictures beside it")


if __name__ == "__main__":
    typed(__doc__)
    main()
