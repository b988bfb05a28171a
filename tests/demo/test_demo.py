"""The demo, as a user runs it."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from slidestat.declare.forms.files import load_topology
from slidestat.demo.run import Checked, ExactFlights, check, show_lake
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.session import require_spark

LAST_FLIGHT_MS = 981_475_200_000
VERDICT = re.compile(
    r"(?P<figures>[\d,]+) figures checked, largest relative error observed (?P<worst>[\d.]+)%, "
    r"promised (?P<promised>[\d.]+)%"
)


@pytest.fixture(scope="module")
def exact() -> ExactFlights:
    return ExactFlights()


@pytest.mark.long
def test_the_demo_checks_every_figure_and_ends_by_itself(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """600,000 events pass two workers, and a line tells promise and observation; then all
    of it is brought into a lake, audited again, and shown on a page.
    """
    run = subprocess.run(
        [sys.executable, "-m", "slidestat", "demo"],
        cwd=tmp_path,
        env=os.environ
        | {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
            "PYTHONPATH": str(Path(__file__).parents[2] / "app"),
        },
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.strip().splitlines()
    (verdict,) = filter(None, map(VERDICT.fullmatch, lines))
    assert int(verdict["figures"].replace(",", "")) > 50_000
    assert 0 < float(verdict["worst"]) <= float(verdict["promised"]) == 1.0
    figures = [line for line in lines if re.search(r"\d%\s*$", line)]
    assert len(figures) > 50
    try:
        require_spark()
    except SlidestatError:
        assert lines[-1].startswith("Left out: ingest, audit and report.")
        return
    assert re.fullmatch(
        rf"{verdict['figures']} figures in [\d,]+ emissions audited: every promise kept", lines[-2]
    )
    assert lines[-1] == "demo-report.html: open it in a browser"
    assert (tmp_path / "demo-report.html").stat().st_size > 100_000


def test_without_a_java_for_spark_the_rest_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line says what was left out, and what to install for it."""
    monkeypatch.setattr("slidestat.spark.spark_java.RELEASES", ())
    console = Console(file=StringIO(), width=1_000)
    show_lake(load_topology("flights"), "nowhere:1", tmp_path, console)
    assert isinstance(console.file, StringIO)
    (line,) = console.file.getvalue().splitlines()
    assert line.startswith("Left out: ingest, audit and report. Spark needs Java 17 or 21; tried ")
    assert "Install a Java 17 or 21" in line
    assert not list(tmp_path.iterdir())


def test_without_spark_its_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whole, in its brackets: a line said to install 'slidestat', which was installed."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    console = Console(file=StringIO(), width=1_000)
    show_lake(load_topology("flights"), "nowhere:1", tmp_path, console)
    assert isinstance(console.file, StringIO)
    assert "slidestat[spark]" in console.file.getvalue()


def emission(key: str, *figures: Figure, end_ms: int = 978_393_600_000) -> Emission:
    return Emission(
        topology="flights",
        key=key,
        window_end_ms=end_ms,
        figures=list(figures),
        source_topic="flights",
        source_partition=0,
        source_offset=1,
    )


def count(
    lower: float | None, estimate: float | None, upper: float | None, window_ms: int = 86_400_000
) -> Figure:
    return Figure("count", estimate, lower, upper, window_ms=window_ms, relative_error=0.01)


def test_the_demo_finds_a_broken_bound_and_a_broken_error(exact: ExactFlights) -> None:
    """A figure outside its bounds, further off than promised, or not there does not hold."""
    (found,) = check(exact, [emission("ATL", count(0, 0, 1e9))])
    flights = found.exact
    assert flights > 100

    def holds(figure: Figure) -> bool:
        return Checked(emission("ATL", figure), figure, flights).holds

    assert holds(count(flights, flights, flights))
    assert not holds(count(flights + 1, flights + 1, flights + 2))
    assert not holds(count(0, flights * 1.011, flights * 2))
    assert not holds(count(None, None, None))
    assert not holds(count(0, flights, None))


def test_the_demo_refuses_what_it_cannot_recompute(exact: ExactFlights) -> None:
    """A figure of another statistic or without a window of time is not taken for a sum."""
    for strange in (
        Figure("mean", 1.0, 1.0, 1.0, window_ms=1),
        Figure("count", 1.0, 1.0, 1.0, window_events=10),
    ):
        with pytest.raises(SlidestatError, match=strange.statistic):
            check(exact, [emission("ATL", strange)])


def test_what_is_due(exact: ExactFlights) -> None:
    """A key is due at a tick if it has events since the tick before, or if its window has become
    empty since then, until the watermark.
    """
    day, every = 86_400_000, 21_600_000
    topology = replace(load_topology("flights"), span="1d", windows=())
    figures = [count(0, 0, 0, n) for n in (every, day, day + every)]
    due, silent = set(), 0
    for key in exact.keys:
        for end_ms in range(978_307_200_000, LAST_FLIGHT_MS + 1, every):
            checked = check(exact, [emission(key, *figures, end_ms=end_ms)])
            new, inside, inside_or_just_out = (c.exact for c in checked)
            if new or inside_or_just_out > inside == 0:
                due.add((key, end_ms))
                silent += not new
    assert exact.expected(topology, dict.fromkeys(exact.keys, 0)) == due
    assert silent  # Else it would have shown nothing of windows that become empty.


def test_the_exact_figures_are_those_of_the_file(exact: ExactFlights) -> None:
    """Counts of all keys over all time add up to the events of the file."""
    assert exact.events == 600_000
    always = 4_000_000_000_000
    everything = [emission(key, count(0, 0, 0, always), end_ms=always) for key in exact.keys]
    assert sum(c.exact for c in check(exact, everything)) == 600_000
