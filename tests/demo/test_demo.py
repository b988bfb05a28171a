"""The demo, as a user runs it."""

import os
import re
import subprocess
import sys

import pytest

from app.demo.exact import Checked, ExactFlights, check
from schemas.statistic import Statistic

VERDICT = re.compile(
    r"(?P<windows>[\d,]+) windows checked, largest relative error observed (?P<worst>[\d.]+)%, "
    r"promised (?P<promised>[\d.]+)%"
)


@pytest.fixture(scope="module")
def exact() -> ExactFlights:
    return ExactFlights()


def test_the_demo_checks_every_figure_and_ends_by_itself(bootstrap_servers: str) -> None:
    """Half a million events pass two workers, and the last line tells promise and observation."""
    run = subprocess.run(
        [sys.executable, "-m", "app.cli", "demo"],
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.strip().splitlines()
    verdict = VERDICT.fullmatch(lines[-1])
    assert verdict is not None, lines[-1]
    assert int(verdict["windows"].replace(",", "")) > 50_000
    assert 0 < float(verdict["worst"]) <= float(verdict["promised"]) == 1.0
    figures = [line for line in lines if re.search(r"\d%\s*$", line)]
    assert len(figures) > 50


def figure(key: str, kind: str, lower: float, estimate: float, upper: float) -> Statistic:
    return Statistic(
        topology="flights",
        statistic=kind,
        key=key,
        window_start_ms=978307200000,
        window_end_ms=978393600000,
        window_ms=86_400_000,
        estimate=estimate,
        lower=lower,
        upper=upper,
        epsilon=0.01,
        relative_error=0.01,
        absolute_error=0.0,
        source_topic="flights",
        source_partition=0,
        source_offset=1,
    )


def test_the_demo_finds_a_broken_bound_and_a_broken_error(exact: ExactFlights) -> None:
    """A figure outside its bounds, or further off than promised, does not hold."""
    honest = check(exact, [figure("ATL", "count", 0, 0, 1e9)])[0]
    count = honest.exact
    assert count > 100
    good = figure("ATL", "count", count, count, count)
    assert Checked(good, count).holds
    assert not Checked(figure("ATL", "count", count + 1, count + 1, count + 2), count).holds
    assert not Checked(figure("ATL", "count", 0, count * 1.011, count * 2), count).holds


def test_the_exact_figures_are_those_of_the_file(exact: ExactFlights) -> None:
    """Counts of all keys over all time add up to the events of the file."""
    assert exact.events == 600_000
    whole = [figure(key, "count", 0, 0, 0) for key in exact.keys]
    everything = [
        Statistic(
            **{
                **{f: getattr(s, f) for f in s.__struct_fields__},
                "window_start_ms": 0,
                "window_end_ms": 4_000_000_000_000,
            }
        )
        for s in whole
    ]
    assert sum(c.exact for c in check(exact, everything)) == 600_000
