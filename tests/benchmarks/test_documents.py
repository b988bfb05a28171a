"""Documents tell the figures that were measured, as results/ has them, and no others."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import measured_synopses, results
from benchmarks.bench import Restart, Run
from benchmarks.cases import CaseName
from benchmarks.documents import DOCUMENTS, TEXTS, places, renewed
from benchmarks.latency import Latency
from benchmarks.measure import Measurement
from benchmarks.measured_speed import comparison, workloads
from benchmarks.results import Outcome, as_data, replace_workloads, write
from benchmarks.systems import BARE, OURS

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
                OURS: Latency(10, 12.4, 1_034.0, "the partition's next record"),
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
    from benchmarks.systems import SYSTEMS

    return [name for name in SYSTEMS if name not in (OURS, BARE, FAUST)]


@pytest.mark.usefixtures("latest")
def test_the_long_text_has_costs_and_who_cannot() -> None:
    """Memory, changelog, latency and restart of each system; of one that cannot, why."""
    text = comparison()
    assert (
        "| slidestat | sliding, all windows, with bounds | 205,000 (200,000 - 210,000)"
        " | - | - | 300 | 0 | 12, 1,034 | 3.2, 4.0 |"
    ) in text
    assert "| 2,750 (2,500 - 3,000) | 75 (70 - 80) | 1 | 300 | 12 | 8, 21 | - |" in text
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
