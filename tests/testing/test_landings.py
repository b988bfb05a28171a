"""The shipped topology of landings on the real flights, every figure beside the exact one."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.emission import Figure
from tests.engine.model import Clock

FILE = Path(__file__).parents[3] / "shared" / "data" / "nyc-flights-2013-by-landing.parquet"
ROWS = 40_000
HOUR = 3_600_000

TOPOLOGY = load_topology("landings")


@dataclass(frozen=True)
class Flight:
    key: str
    time: int
    value: int


@pytest.fixture(scope="module")
def landings() -> list[Flight]:
    """All flights, in the order in which they landed."""
    if not FILE.exists():
        pytest.skip(f"the shared file {FILE.name} is not on this machine")
    table = pq.read_table(FILE, columns=["dest", "departed_at", "arr_delay"])
    times = pc.cast(pc.cast(table["departed_at"], pa.timestamp("ms")), pa.int64())
    delays = pc.cast(table["arr_delay"], pa.int64())  # Raises should one not be whole.
    columns = (table["dest"].to_pylist(), times.to_pylist(), delays.to_pylist())
    return [Flight(*row) for row in zip(*columns, strict=True)]


class Exact:
    """The delays of one airport in event time."""

    def __init__(self, flights: Sequence[Flight]) -> None:
        ordered = sorted(flights, key=lambda flight: flight.time)
        self.times = [flight.time for flight in ordered]
        self.values = [flight.value for flight in ordered]
        self.sums = [0, *accumulate(self.values)]
        self.squares = [0, *accumulate(value * value for value in self.values)]

    def ticks(self) -> set[int]:
        """Those after events, and the first ones at which a window, or the span, has none."""
        every, span = TOPOLOGY.every_ms, TOPOLOGY.span_length.length
        found = {time // every * every + every for time in self.times}
        following = [*self.times[1:], self.times[-1] + span + every]
        for length in (*TOPOLOGY.window_lengths, span):
            silent = [(time + length) // every * every + every for time in self.times]
            found |= {tick for tick, time in zip(silent, following, strict=True) if tick <= time}
        return found

    def check(self, figure: Figure, end: int) -> None:
        """Bounds and promise hold for the exact figure, with nothing to spare."""
        assert figure.window_ms is not None
        first, last = (bisect_left(self.times, t) for t in (end - figure.window_ms, end))
        count = last - first
        if figure.statistic == "count":
            self._within(figure, Fraction(count))
            return
        if not count:
            assert (figure.estimate, figure.lower, figure.upper) == (None, None, None)
            return
        total = self.sums[last] - self.sums[first]
        squares = self.squares[last] - self.squares[first]
        variance = Fraction(squares * count - total * total, count * count)
        match figure.statistic:
            case "mean":
                self._within(figure, Fraction(total, count), variance)
            case "maximum":
                self._within(figure, Fraction(max(self.values[first:last])))
            case "deviation":
                self._deviation(figure, variance)
            case "quantile":
                self._quantile(figure, sorted(self.values[first:last]))
            case other:
                pytest.fail(f"nothing exact to hold {other} against")

    @staticmethod
    def _within(figure: Figure, exact: Fraction, variance: Fraction = Fraction()) -> None:
        estimate, lower, upper = numbers(figure)
        assert lower <= exact <= upper, (figure, exact)
        allowed = Fraction(figure.relative_error) * abs(exact) + Fraction(figure.absolute_error)
        beyond = abs(estimate - exact) - allowed
        deviations = Fraction(figure.deviation_error)
        assert beyond <= 0 or beyond**2 <= deviations**2 * variance, (figure, exact)

    @staticmethod
    def _deviation(figure: Figure, variance: Fraction) -> None:
        """Squares are compared: a square root would have to be rounded."""
        estimate, lower, upper = numbers(figure)
        assert lower >= 0
        assert lower**2 <= variance <= upper**2, (figure, variance)
        relative, absolute = Fraction(figure.relative_error), Fraction(figure.absolute_error)
        assert max(0, estimate - absolute) ** 2 <= variance * (1 + relative) ** 2, figure
        assert (estimate + absolute) ** 2 >= variance * (1 - relative) ** 2, figure

    @staticmethod
    def _quantile(figure: Figure, ordered: Sequence[int]) -> None:
        estimate, lower, upper = numbers(figure)
        assert figure.quantile is not None
        rank = max(1, ceil(Fraction(repr(figure.quantile)) * len(ordered)))
        assert lower <= ordered[rank - 1] <= upper, figure
        p, share = Fraction(repr(figure.quantile)), Fraction(repr(figure.share_error))
        first = max(1, ceil((p - share) * len(ordered)))
        last = min(len(ordered), floor((p + share) * len(ordered)) + 1)
        nearest = min(max(estimate, ordered[first - 1]), ordered[last - 1])
        allowed = Fraction(figure.relative_error) * abs(nearest) + Fraction(figure.absolute_error)
        assert abs(estimate - nearest) <= allowed, figure


def numbers(figure: Figure) -> tuple[Fraction, Fraction, Fraction]:
    """(estimate, lower, upper), each as the number that it is."""
    assert figure.estimate is not None
    assert figure.lower is not None
    assert figure.upper is not None
    assert figure.lower <= figure.estimate <= figure.upper
    return Fraction(figure.estimate), Fraction(figure.lower), Fraction(figure.upper)


def sent(driver: TopologyDriver, flights: Sequence[Flight]) -> TopologyDriver:
    """The driver, when the flights have landed."""
    driver.send(*({"key": f.key, "time": f.time, "value": f.value} for f in flights))
    return driver


def test_every_figure_of_the_landings(landings: list[Flight]) -> None:
    """No flight is late with the shipped lateness, and all that is due comes, on two partitions:
    each figure has the exact one between its bounds and is as near to it as promised.
    """
    flights = landings[:ROWS]
    driver = sent(TopologyDriver(TOPOLOGY, partitions=2), flights)
    driver.close_windows()
    assert (driver.late, driver.dead_letters) == ([], [])
    of_key: dict[str, list[Flight]] = {}
    for flight in flights:
        of_key.setdefault(flight.key, []).append(flight)
    exact = {key: Exact(of_this) for key, of_this in of_key.items()}
    due = {(key, tick) for key, of_this in exact.items() for tick in of_this.ticks()}
    places = [(emission.key, emission.window_end_ms) for emission in driver.emissions]
    assert len(places) == len(due)
    assert set(places) == due
    wanted = [
        (label, window, series.quantile)
        for label, statistic in zip(TOPOLOGY.labels, TOPOLOGY.statistics, strict=True)
        for window in TOPOLOGY.window_lengths
        for series in statistic.series()
    ]
    for emission in driver.emissions:
        figures = emission.figures
        assert [(f.statistic, f.window_ms, f.quantile) for f in figures] == wanted
        for figure in figures:
            exact[emission.key].check(figure, emission.window_end_ms)


def test_the_lateness_is_that_of_the_data(landings: list[Flight]) -> None:
    """All of the year's flights are on time by 12 hours; by 6, the late ones are those that the
    file itself says, and nearly all that went to Honolulu.
    """
    newest = list(accumulate((flight.time for flight in landings), max))
    behind = [before - f.time for f, before in zip(landings[1:], newest, strict=False)]
    assert max(behind) <= TOPOLOGY.lateness_ms < 2 * max(behind)
    late, clock = [], Clock(6 * HOUR)
    for place, flight in enumerate(landings):
        if flight.time < clock.time - 6 * HOUR:
            late.append(place)
        assert clock.read(place, flight.time) is None
    # What is counted of them does not matter here: one quick statistic will do.
    quick = replace(TOPOLOGY, lateness="6h", statistics=TOPOLOGY.statistics[:1])
    driver = sent(TopologyDriver(quick), landings)
    assert [letter.offset for letter in driver.late] == late
    assert {letter.reason for letter in driver.late} == {Reason.LATE}
    to_honolulu = [f.key for f in landings].count("HNL")
    late_ones = [landings[offset].key for offset in late].count("HNL")
    assert (late_ones, to_honolulu) == (699, 701)
