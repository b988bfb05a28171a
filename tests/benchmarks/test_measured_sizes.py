"""Sizes and errors that pages tell are those of the code: counted again here."""

import json
from statistics import median
from typing import Any

import numpy as np
import pytest
from aiokafka.partitioner import DefaultPartitioner

from benchmarks.accuracy.audited import rows
from benchmarks.accuracy.beside_sketches import HOUR_MS, SPAN_MS, SUBJECTS, errors
from benchmarks.accuracy.recounted import RESULTS
from benchmarks.documents.measured_sizes import AUDIT, COSTS, ONE_WINDOW, QUANTILES, REFEREE
from benchmarks.size import one_window, state_sizes
from benchmarks.speed import cost_of_statistics
from benchmarks.speed.referee import PARTITIONS, flights
from slidestat.declare.forms.files import load_declaration
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Quantiles
from slidestat.synopses import (
    Bundle,
    DistinctParameters,
    LeanDistinct,
    LeanDistinctParameters,
    ValueQuantiles,
    union_value_quantiles,
)
from tests.docs.markdown import ROOT

GUIDES = ("choose-a-statistic.md", "many-parties.md")


def test_every_statistic_takes_what_the_readme_says() -> None:
    """Bytes with five, a thousand and 100,000 events; `benchmarks.size.state_sizes` has them."""
    assert state_sizes.sizes() == json.loads(RESULTS.read_text())["sizes"]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in cost_of_statistics.SUBJECTS
        if name.startswith(("quant", "count,", "freq", "lean"))
    ],
)
def test_a_busy_key_takes_what_the_guide_says(name: str) -> None:
    """Bytes with five and 900,000 events; `benchmarks.speed.cost_of_statistics` has them."""
    few, busy, _ = cost_of_statistics.cost(cost_of_statistics.SUBJECTS[name])
    told = json.loads(COSTS.read_text())
    assert list(told) == list(cost_of_statistics.SUBJECTS)
    assert (few, busy) == (told[name]["few"], told[name]["busy"])


def test_one_window_takes_what_the_guide_says() -> None:
    """Bytes of windows of up to 100,000 events; `benchmarks.size.one_window` has all."""
    told: list[dict[str, Any]] = json.loads(ONE_WINDOW.read_text())
    assert [(row["epsilon"], row["events"]) for row in told] == list(one_window.SIZES)
    for row in told:
        assert list(row["bytes"]) == list(one_window.STRUCTURES)
        if row["events"] <= 100_000:
            for name, structure in one_window.STRUCTURES.items():
                found = one_window.bytes_of(structure, row["epsilon"], row["events"])
                assert list(found) == row["bytes"][name]


@pytest.mark.parametrize("name", ["slidestat, all of the stream", "slidestat, its last hour"])
def test_ours_beside_sketches_is_what_the_guide_says(name: str) -> None:
    """Bytes and errors of the same streams; `benchmarks.accuracy.beside_sketches` has them."""
    told: dict[str, Any] = json.loads(QUANTILES.read_text())
    window_ms, run = SUBJECTS[name]
    assert window_ms == (SPAN_MS if "all" in name else HOUR_MS)
    runs = {seed: run(seed) for seed in range(1, told["streams"] + 1)}
    assert round(median(done.bytes for done in runs.values())) == told["rows"][name]["bytes"]
    off = np.max([errors(seed, window_ms, done.quantiles) for seed, done in runs.items()], axis=0)
    assert off[:, 0].tolist() == pytest.approx(told["rows"][name]["value_errors"], rel=1e-9)
    assert off[:, 1].tolist() == pytest.approx(told["rows"][name]["rank_errors"], rel=1e-9)


def test_audited_quantiles_are_what_the_guide_says() -> None:
    """Errors of all quantiles of 100,000 flights; `benchmarks.accuracy.audited` has them."""
    told: dict[str, Any] = json.loads(AUDIT.read_text())
    # An exact maximum bounds the quantiles that are written with it.
    found = rows(told["flights"], ["quantile", "maximum"])
    assert [row for row in told["rows"] if row in found] == found


def test_quantiles_of_all_flights_are_what_the_guide_says() -> None:
    """The referee's answers are those of the union of four states; `benchmarks.speed.referee`."""
    told: dict[str, Any] = json.loads(REFEREE.read_text())
    referee = load_declaration("flights_global")
    assert isinstance(referee, Referee)
    (statistic,) = (one for one in referee.of.statistics if isinstance(one, Quantiles))
    parameters = statistic.parameters(referee.of.span_length.length)
    end, partition = told["window_end_ms"], DefaultPartitioner()
    parts: list[list[tuple[int, float]]] = [[] for _ in range(PARTITIONS)]
    numbers = list(range(PARTITIONS))
    for event in flights(told["events"]):
        if event["time"] < end:
            place = partition(event["key"].encode(), numbers, numbers)
            parts[place].append((event["time"], event["value"]))
    states = {}
    for name, part in enumerate(parts):
        summary = ValueQuantiles.create(parameters)
        summary.insert(*map(np.array, zip(*part, strict=True)))
        states[str(name)] = summary.to_bytes()
    days = [int(row[1].removesuffix("d")) * 86_400_000 for row in told["rows"]]
    union = union_value_quantiles([Bundle.of(states)], [end], days, statistic.quantiles)
    found = {f"quantile {p}": place for place, p in enumerate(statistic.quantiles)}
    checked = 0
    for k, (name, _, *cells, _) in enumerate(told["rows"]):
        if (place := found.get(name)) is not None:
            figures = (union.lowers, union.estimates, union.uppers)
            assert [f"{figure[0, k, place]:,.6g}" for figure in figures] == cells
            checked += 1
    assert checked >= len(statistic.quantiles)


def test_guides_say_how_many_items_are_exact() -> None:
    """And how many bytes of lean distinct items an hour of 100,000 takes."""
    guide, parties = ((ROOT / "docs" / name).read_text() for name in GUIDES)
    exact = DistinctParameters(0.05, 0.01, HOUR_MS, 0).capacity - 1
    assert f"exact up to {exact:,} different items" in guide
    exact = DistinctParameters(0.1, 0.01, HOUR_MS, 0).capacity - 1
    assert f"pairs, up to {exact:,} for an epsilon of 0.1" in parties
    parameters = LeanDistinctParameters(0.05, 0.01, HOUR_MS, 0)
    assert f"exact below {parameters.exact}; beyond" in guide
    lean = LeanDistinct.create(parameters)
    lean.insert(np.arange(100_000) * HOUR_MS // 100_000, np.arange(100_000))
    assert f"{len(lean.to_bytes()) / 1_000:.0f} kB for 100,000 different items" in guide
