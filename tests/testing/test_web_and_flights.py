"""The shipped topologies `web` and `flights` on real events, every figure beside the exact one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import resolved
from slidestat.declare.statistics import TopItems
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission
from slidestat.spark.audit.declaration import declaration_of
from slidestat.spark.audit.events.reading import RawRecord, read_event
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.key import Finding, audit_key

DATA = Path(__file__).parents[3] / "shared" / "data"
REQUESTS = "nasa_http_19950801.tsv.gz"
FLIGHTS = "flights-2001-h1.parquet"
# Busy airports and quiet ones. All flights of some, not some of all: a week then has as many of an
# airport as it really had, which is more than is kept one by one.
AIRPORTS = ("ATL", "ORD", "BOS", "HNL", "ABQ", "ANC", "BIL", "BRO")
DEPARTURES = 650_000  # the first 38 days, of all airports
PARTITIONS = 4
NEVER_MS = -(2**62)

Event = dict[str, Any]


def there(name: str) -> Path:
    """The shared file; the test is skipped where it is not."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the shared file {name} is not on this machine")
    return path


def events_of(**columns: pa.ChunkedArray) -> list[Event]:
    """An event for each row."""
    return pa.table(columns).to_pylist()


def requests() -> list[Event]:
    """A day of a web server, as its topology's file says to produce it."""
    table = pyarrow.csv.read_csv(
        there(REQUESTS),
        read_options=pyarrow.csv.ReadOptions(encoding="latin-1"),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
    )
    return events_of(
        key=pc.cast(table["response"], pa.string()),
        time=pc.multiply(table["time"], 1_000),
        value=table["bytes"],
        host=table["host"],
        url=table["url"],
    )


def departures() -> list[Event]:
    """All departures from AIRPORTS in more than five weeks."""
    columns = ["origin", "date", "delay", "destination"]
    table = pq.read_table(there(FLIGHTS), columns=columns).slice(0, DEPARTURES)
    table = table.filter(pc.is_in(table["origin"], pa.array(AIRPORTS)))
    return events_of(
        key=table["origin"],
        time=pc.cast(pc.cast(table["date"], pa.timestamp("ms")), pa.int64()),
        value=table["delay"],
        destination=table["destination"],
    )


@dataclass(frozen=True)
class Run:
    """A shipped topology over all of its events, and what an audit finds of each figure."""

    topology: Topology
    events: Sequence[Event]
    driver: TopologyDriver
    findings: Sequence[Finding]


def run(name: str, events: Sequence[Event]) -> Run:
    topology = load_topology(name)
    driver = TopologyDriver(topology, PARTITIONS)
    driver.send(*events)
    driver.close_windows()
    return Run(topology, events, driver, audited(topology, events, driver.emissions))


def audited(
    topology: Topology, events: Sequence[Event], emissions: Sequence[Emission]
) -> list[Finding]:
    """What an audit says of the emissions, to whom nothing is given but the records sent."""
    plain = msgspec.json.decode(msgspec.json.encode(resolved(topology)))
    declaration = declaration_of(plain)
    rows: dict[str, list[tuple[int, int, list[str]]]] = defaultdict(list)
    for offset, event in enumerate(events):
        record = RawRecord(None, msgspec.json.encode(event), -1)
        key, time, texts = read_event(declaration, record)
        rows[key].append((time, offset, texts))
    told: dict[str, dict[int, Emission]] = defaultdict(dict)
    for emission in emissions:
        assert emission.window_end_ms not in told[emission.key], "emitted twice"
        told[emission.key][emission.window_end_ms] = emission
    assert told.keys() == rows.keys()
    closed = events[-1]["time"] + declaration.span + declaration.every_ms
    findings: list[Finding] = []
    for key, seen in rows.items():
        columns = {
            column: [texts[place] for _, _, texts in seen]
            for place, column in enumerate(declaration.columns)
        }
        times, offsets = (np.array([row[i] for row in seen], np.int64) for i in (0, 1))
        exact = ExactKey(times, offsets, columns)
        findings += audit_key(declaration, exact, key, told[key], closed, NEVER_MS)
    return findings


@pytest.fixture(scope="module")
def web() -> Run:
    return run("web", requests())


@pytest.fixture(scope="module")
def flights() -> Run:
    return run("flights", departures())


@pytest.fixture(params=["web", "flights"])
def shipped(request: pytest.FixtureRequest) -> Run:
    """Each of the two in its turn."""
    found: Run = request.getfixturevalue(request.param)
    return found


def test_every_event_is_counted(shipped: Run) -> None:
    """The topologies fit the data that they are shipped for: none is late, or a dead letter."""
    assert 30_000 <= len(shipped.events) <= 100_000
    assert (shipped.driver.late, shipped.driver.dead_letters) == ([], [])


def test_every_figure_holds(shipped: Run) -> None:
    """Each emission that is due comes, and no figure is outside its bounds or more off than it
    promises. None may miss by chance, either: there are so few items that all of them are kept.
    """
    assert len(shipped.findings) >= 10_000
    for finding in shipped.findings:
        assert not finding.violation, finding


def test_no_figure_is_left_out(shipped: Run) -> None:
    """Each emission has all statistics, each over all windows, in the order of their declaration;
    top items are at most as many as asked for, the most frequent first.
    """
    topology = shipped.topology
    wanted = [
        (label, window, None if isinstance(statistic, TopItems) else series.quantile)
        for label, statistic in zip(topology.labels, topology.statistics, strict=True)
        for window in topology.window_lengths
        for series in statistic.series()
    ]
    limits = {
        label: statistic.limit
        for label, statistic in zip(topology.labels, topology.statistics, strict=True)
        if isinstance(statistic, TopItems)
    }
    for emission in shipped.driver.emissions:
        found = []
        for place, figures in groupby(
            emission.figures, key=lambda figure: (figure.statistic, figure.window_ms)
        ):
            listed = list(figures)
            if place[0] in limits:
                estimates = [figure.estimate for figure in listed]
                assert len(estimates) <= limits[place[0]]
                assert estimates == sorted(estimates, reverse=True)
                found.append((*place, None))
            else:
                found += [(*place, figure.quantile) for figure in listed]
        events_in = {f.window_ms: f.upper for f in emission.figures if f.statistic == "count"}
        assert found == [place for place in wanted if place[0] not in limits or events_in[place[1]]]


def test_the_bounds_are_put_to_use(shipped: Run) -> None:
    """The events are many enough for each statistic to leave some apart, but two: a maximum is
    declared to be exact, and hosts and airports are so few that all of them are kept.
    """
    apart = {
        finding.figure.statistic
        for finding in shipped.findings
        if finding.figure is not None and finding.figure.lower != finding.figure.upper
    }
    exact = {"maximum", "distinct_host", "distinct_destination"}
    assert apart == {*shipped.topology.labels} - exact
