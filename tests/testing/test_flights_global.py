"""The shipped referee on the real flights of four partitions, every figure beside the exact one."""

import ast
import json
from bisect import bisect_left
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slidestat import RefereeDriver, TopologyDriver
from slidestat.declare.forms.files import load_declaration, load_topology
from slidestat.declare.referee import Referee
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Emission, Figure
from slidestat.schemas.synopsis import SynopsisKey, decode_key
from slidestat.synopses import Bundle, DistinctWave, union_distinct_where
from slidestat.synopses.distinct.items import item_ids
from tests.engine.checks import check_figure
from tests.engine.exact import root, variance

PARTIES = load_topology("flights_parties")
REFEREE = load_declaration("flights_global")
ROWS = 20_000


def document(name: str) -> str:
    source = Path(__file__).parents[2] / "topologies" / f"{name}.py"
    return ast.get_docstring(ast.parse(source.read_text())) or ""


@pytest.fixture(scope="module")
def flights() -> list[dict[str, Any]]:
    """The first events of the demo's flights."""
    with resources.as_file(
        resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
    ) as file:
        table = pq.read_table(file).slice(0, ROWS)
    times = pc.cast(pc.cast(table["date"], pa.timestamp("ms")), pa.int64())
    columns = (table["origin"], times, table["delay"], table["destination"])
    return [
        {"key": key, "time": time, "value": delay, "destination": destination}
        for key, time, delay, destination in zip(*(c.to_pylist() for c in columns), strict=True)
    ]


@pytest.fixture(scope="module")
def driver(flights: list[dict[str, Any]]) -> RefereeDriver:
    assert isinstance(REFEREE, Referee)
    found = RefereeDriver(REFEREE, partitions=4)
    for start in range(0, ROWS, 5_000):
        found.send(*flights[start : start + 5_000])
    return found


def test_answers_over_all_partitions_are_right(
    flights: list[dict[str, Any]], driver: RefereeDriver
) -> None:
    """Each final figure holds for the flights of all airports together, as a recount has them."""
    times = [flight["time"] for flight in flights]
    final = [emission for emission in driver.emissions if not emission.provisional]
    assert len(final) >= 4
    assert not driver.dead_letters
    kind_of = dict(zip(PARTIES.labels, PARTIES.statistics, strict=True))
    for emission in final:
        assert emission.parties == [f"flights/{number}" for number in range(4)]
        for figure in emission.figures:
            end = emission.window_end_ms
            window = flights[bisect_left(times, end - figure.window_ms) : bisect_left(times, end)]
            values = [Fraction(flight["value"]) for flight in window]
            destinations = [flight["destination"] for flight in window]
            exact = right(figure, values, destinations)
            check_figure(kind_of[figure.statistic], figure, exact, values)


def right(figure: Figure, values: list[Fraction], destinations: list[str]) -> Fraction | None:
    """The exact figure."""
    match figure.statistic:
        case "count":
            return Fraction(len(values))
        case "distinct_destination":
            return Fraction(len(set(destinations)))
    if not values:
        return None
    mean = sum(values) / len(values)
    match figure.statistic:
        case "mean":
            return mean
        case "maximum":
            return max(values)
        case "quantile":
            rank = max(1, -(-Fraction(repr(figure.quantile)) * len(values) // 1))
            return sorted(values)[int(rank) - 1]
    return root(variance(values))


def test_the_referee_is_told_as_it_is(driver: RefereeDriver) -> None:
    """What its file shows is what comes of the demo's flights."""
    text = document("flights_global")
    shown, _ = json.JSONDecoder().raw_decode(text, text.index("{", text.index("\nOut,")))
    expected = msgspec.convert(shown, Emission)
    emission = next(e for e in driver.emissions if not e.provisional)
    assert len(emission.figures) == 16
    assert msgspec.structs.replace(emission, figures=expected.figures) == expected
    places = [emission.figures.index(figure) for figure in expected.figures]
    assert places == sorted(places)


def test_the_parties_are_told_as_they_are() -> None:
    """What the file shows is published of the event that it shows."""
    text = document("flights_parties")
    event, _ = json.JSONDecoder().raw_decode(text, text.index("{", text.index("\nIn:")))
    driver = TopologyDriver(PARTIES, partitions=4)
    driver.send(event, event, partition=3)
    driver.send(*[event | {"time": 978_328_800_000}] * 3, partition=3)
    *synopses, clock = driver.published[1:]
    for part in (clock.key, clock.value):
        assert part.decode() in text
    (shown,) = (record for record in synopses if b"distinct" in record.key)
    assert shown.key.decode() in text
    assert f"timestamp  {shown.timestamp}" in text
    for name, value in shown.headers:
        assert value.decode() in text[text.index(name) :]
    assert DistinctWave.from_bytes(shown.value).query(604_800_000).estimate == 1


def test_distinct_destinations_of_a_kind_are_asked_for_later(
    flights: list[dict[str, Any]], driver: RefereeDriver
) -> None:
    """From what was published: how many different destinations there are that begin with an S."""
    newest: dict[str, tuple[int, bytes]] = {}
    for record in driver.parties.published:
        key = decode_key(record.key)
        if isinstance(key, SynopsisKey) and key.statistic == "distinct_destination":
            newest[key.party] = (record.timestamp, record.value)
    tick = min(tick for tick, _ in newest.values())
    assert {at for at, _ in newest.values()} == {tick}
    bundle = Bundle.of({party: synopsis for party, (_, synopsis) in newest.items()})
    places = {flight["destination"] for flight in flights if flight["time"] < tick}
    meant = item_ids(sorted(place for place in places if place.startswith("S")))
    (found,) = union_distinct_where(
        bundle, [604_800_000], tick, lambda items: np.isin(items, meant)
    )
    assert found.exact
    assert found.estimate == len(meant) > 10


def test_a_referee_is_no_topology_of_events() -> None:
    """Where one with events of its own is needed, it is refused."""
    with pytest.raises(SlidestatError, match="is a referee"):
        load_topology("flights_global")
