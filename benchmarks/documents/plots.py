"""Space, errors and cost against span: measured, and drawn as benchmarks/results/*.svg.

    python -m benchmarks.documents.plots              # windows of up to 10^7 events: some minutes
    python -m benchmarks.documents.plots 1e9          # as in the README: an hour

The figures are in results/plots.json, those of errors in results/statistics.json; matplotlib has an
environment of its own.
"""

import subprocess

import msgspec

from benchmarks import REPOSITORY
from benchmarks.accuracy import errors
from benchmarks.documents.measured_synopses import PLOTS
from benchmarks.harness.command import typed
from benchmarks.harness.results import machine
from benchmarks.peers.environments import environment_python
from benchmarks.size import space_of_counts
from benchmarks.speed import spans

_LARGEST = 10**7
_LARGEST_SPAN = 7


def main(largest: int) -> None:
    """Measure, write the figures and draw them."""
    data = {
        "machine": machine(),
        "space": [row._asdict() for row in space_of_counts.rows(largest)],
        "spans": [row._asdict() for row in spans.rows(min(len(str(largest)) - 1, _LARGEST_SPAN))],
    }
    PLOTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    errors.main(errors.EVENTS)
    python = environment_python("plots")
    subprocess.run(  # noqa: S603 - our own module
        [python, "-m", "benchmarks.peers.draw_plots", PLOTS.parent],
        cwd=REPOSITORY,
        check=True,
    )
    print(f"written: {PLOTS} and three plots")


if __name__ == "__main__":
    main(*typed(__doc__, largest=_LARGEST))
