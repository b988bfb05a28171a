"""Documents tell the figures that were measured, as results/ has them, and no others."""

from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from benchmarks.delay.latency import Latency
from benchmarks.documents.measured_speed import comparison, deciding, deciding_keys, workloads
from benchmarks.documents.written import (
    DOCUMENTS,
    TEXTS,
    measured_speed,
    measured_synopses,
    places,
    renewed,
)
from benchmarks.harness import results
from benchmarks.harness.bench import Bench, Restart, Run
from benchmarks.harness.cases import CaseName
from benchmarks.harness.measure import Measurement
from benchmarks.harness.results import Outcome, as_data, replace_workloads, write
from benchmarks.harness.systems import BARE, OURS, SYSTEMS, System
from benchmarks.speed.throughput import compare

FAUST, SPARK = "faust_tumbling_table", "spark_tumbling"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_figures_in_documents_are_those_of_the_results(document: Path) -> None:
    """README and docs say what results/*.json say; `make figures` writes them anew."""
    text = document.read_text("utf-8")
    assert renewed(text) == text


def test_each_figure_is_told_once() -> None:
    """Every text has its place in a document, and just one."""
    found = [name for document in DOCUMENTS for name in places(document.read_text("utf-8"))]
    assert sorted(found) == sorted(TEXTS)


def test_a_document_that_differs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte that was measured otherwise changes the README, and nothing outside its place."""
    plots = msgspec.json.decode(measured_synopses.PLOTS.read_bytes())
    plots["space"][0]["ticks"] += 1
    changed = tmp_path / "plots.json"
    changed.write_bytes(msgspec.json.encode(plots))
    monkeypatch.setattr(measured_synopses, "PLOTS", changed)
    text = DOCUMENTS[0].read_text("utf-8")
    now = renewed(text)
    differing = zip(text.splitlines(), now.splitlines(), strict=True)
    assert sum(before != after for before, after in differing) == 1


def run(events_per_s: float, changelog_bytes: int = 0) -> Run:
    measurement = Measurement(1_000, 1_000 / events_per_s, 1.0, None, 0.0, 300 * 2**20)
    return Run(measurement, 1_300, 0.0, 0.0, 0, changelog_bytes, 1_000, 10)


@pytest.fixture
def latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of two rounds in which one system could not run."""
    outcome = Outcome(
        [
            {OURS: run(200_000), BARE: run(400_000), FAUST: run(2_500, 12_000)},
            {OURS: run(210_000), BARE: run(400_000), FAUST: run(3_000, 12_000)},
        ]
    )
    others = dict.fromkeys(results_of_nobody(), "not here")
    outcome.cannot.update(others)
    settings = {"events": 1_000, "bytes_per_event": 55, "keys": 10, "runs": 2}
    more: dict[str, Any] = {
        "latency": {
            "rate": 2_000,
            "systems": {
                OURS: Latency(10, 12.4, 1_034.0, "the partition's next record", 14.6, 1_040.0),
                FAUST: Latency(10, 8.0, 21.0, "each record"),
                SPARK: {"cannot": "not here"},
            },
        },
        "restarts": {OURS: Restart(10, 3.25, 4.0), SPARK: {"cannot": "not here"}},
    }
    file = tmp_path / "latest.json"
    write(file, {CaseName.SUMS: as_data(outcome, settings)}, more)
    monkeypatch.setattr(results, "LATEST", file)
    return file


def results_of_nobody() -> list[str]:
    return [name for name in SYSTEMS if name not in (OURS, BARE, FAUST)]


@pytest.mark.usefixtures("latest")
def test_the_long_text_has_costs_and_who_cannot() -> None:
    """Memory, changelog, latency and restart of each system; of one that cannot, why."""
    text = comparison()
    assert (
        "| slidestat | sliding, all windows, with bounds | 205,000 (200,000 - 210,000)"
        " | - | - | 300 | 0 | 12, 1,034 | 15, 1,040 | 3.2, 4.0 |"
    ) in text
    assert "| 2,750 (2,500 - 3,000) | 75 (70 - 80) | 1 | 300 | 12 | 8, 21 | - | - |" in text
    assert "- without spark_tumbling: not here" in text


def test_without_results_a_document_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was measured, there are no figures."""
    monkeypatch.setattr(results, "LATEST", tmp_path / "none.json")
    assert workloads() == comparison()
    assert "make bench" in comparison()


def test_a_workload_measured_alone_takes_the_place_of_its_own(latest: Path) -> None:
    """All else of the whole run stays: ratios, above all, are of one run."""
    before = msgspec.json.decode(latest.read_bytes())
    alone = {"systems": {OURS: {"live_core_percent": 4.5}}}
    replace_workloads(latest, {"latencies": alone})
    after = msgspec.json.decode(latest.read_bytes())
    assert after["workloads"].pop("latencies") == alone
    before["workloads"].pop("latencies", None)
    assert after == before


class _Bench(Bench):
    """A bench whose runs take no time."""

    def __init__(self) -> None:
        pass

    def run(self, _system: System) -> Run:
        return run(1_000)


@pytest.mark.parametrize(("most_s", "rounds"), [(inf, 3), (0.0, 1)])
def test_no_round_begins_after_the_time_for_them(most_s: float, rounds: int) -> None:
    """There is one at least, and settings say how many there were."""
    found = compare(_Bench(), [SYSTEMS[OURS]], 3, Console(quiet=True), {}, most_s)
    assert len(found.rounds) == rounds


def test_both_parts_of_the_question_that_decides_are_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that is in one part alone has no figures of the other."""
    asked = {"machine": "here", "keys": 5, "minutes": 1.0}
    speed = {**asked, "events": 1_000, "hours": 2.0, "runs": 3}
    live = {**asked, "pace": 140, "seconds": 60}
    parts = {
        "speed": {**speed, "systems": {OURS: {"speed": "2"}, "hop": {"speed": "1"}}, "cannot": {}},
        "live": {**live, "systems": {OURS: {"late": "3"}}, "cannot": {"hop": "it is slow"}},
    }
    file = tmp_path / "deciding.json"
    file.write_bytes(msgspec.json.encode(parts))
    monkeypatch.setattr(measured_speed, "DECIDING", file)
    text = deciding()
    assert "| speed | 2 | 1 |\n| late | 3 | - |\n\n- without hop: it is slow" in text
    assert "at 140 events a second" in text
    monkeypatch.setattr(measured_speed, "DECIDING_KEYS", tmp_path / "none.json")
    assert "python -m benchmarks.deciding" in deciding_keys()
