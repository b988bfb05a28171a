"""Means of the values between edges, as a topology emits them, beside all values as decimals."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import msgspec
import numpy as np
import pytest

from slidestat import Mean, MeanHistogram, RootMeanSquare, Topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.statistics.runner import Work
from slidestat.engine.partition import PartitionProcessor
from slidestat.synopses import SynopsisError
from tests.audit.test_audit_key import Partition
from tests.engine.checks import check_figure, emissions_of
from tests.engine.exact import exact
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of
from tests.engine.statistics.test_signed_sums import no_events, records, streamed

VALUES = {
    "around zero": lambda random: f"{random.gauss(0, 10):.3f}",
    "far from zero": lambda random: f"{1e9 + random.gauss(0, 1):.3f}",
    "heavy tail": lambda random: f"{random.paretovariate(1.1):.2f}",
    "rising by steps": lambda random: f"{random.choice([1, 10, 100]) + random.random():.2f}",
    "many places": lambda random: repr(random.gauss(0, 1e-3)),
    "at the edges": lambda random: random.choice(["-5", "0", "5", "4.999", "1000000"]),
    "decimals at the edges": lambda random: random.choice(["0.1", "0.01", "1.1", "0.05"]),
    "an edge alone": lambda _: "0.1",
    "read as an edge": lambda _: "4.9999999999999999",
    "largest": lambda random: random.choice(["1099511627", "-1099511627", "0.001"]),
}
EDGES = (-5.0, 0.0, 0.01, 0.1, 1.1, 5.0, 1e6)
MEANS = (
    MeanHistogram(edges=EDGES, epsilon=0.5),
    MeanHistogram(edges=EDGES, epsilon=0.03, name="finer"),
    MeanHistogram(edges=(3,), decimals=0, name="whole"),
)
# Computed from mean and variance; the largest epsilon is where its promise is nearest to epsilon.
SQUARES = (
    RootMeanSquare(epsilon=0.4),
    RootMeanSquare(epsilon=0.03, name="finer_rms"),
    RootMeanSquare(decimals=0, name="whole_rms"),
)
LAW = Topology(
    name="law",
    source=SOURCE,
    span="1s",
    every="50ms",
    windows=("100ms", "330ms", "1s"),
    statistics=MEANS,
)


@pytest.mark.parametrize("kind", VALUES)
def test_each_mean_keeps_its_promise(kind: str) -> None:
    """Each figure is within its bounds, which lie between its edges, and within its share of the
    deviation of its own values; a range without a value has none; the audit finds the same. A root
    mean square is within its share of itself.
    """
    stream = streamed(kind, VALUES)
    asked = replace(LAW, statistics=(*MEANS, *SQUARES))
    partition = Partition(asked, records(stream))
    checked = 0
    values = [(time, Fraction(v)) for time, v in stream]
    for end, emission in partition.emissions["a"].items():
        figures = iter(emission.figures)
        windows = {n: [v for time, v in values if end - n <= time < end] for n in (100, 330, 1_000)}
        for statistic in asked.statistics:
            for window, inside in windows.items():
                for right in exact(statistic, inside, window):
                    figure = next(figures)
                    assert figure.window_ms == window
                    assert (figure.estimate is None) == (right is None)
                    check_figure(statistic, figure, right, inside)
                    if right is not None:
                        least = figure.at_least
                        assert least is None or figure.lower >= np.nextafter(least, -np.inf)
                        assert figure.below is None or figure.upper <= figure.below
                        checked += 1
    assert checked > 150
    for finding in partition.audit("a"):
        assert not finding.violation, finding
        if finding.verdict is not None and finding.verdict.observed is not None:
            assert finding.verdict.observed <= finding.verdict.promised


def test_an_audit_sees_a_mean_that_is_off() -> None:
    """A mean that is off by half of the deviation of its own values, where a tenth was promised."""
    asked = replace(LAW, statistics=(MeanHistogram(edges=(0,), epsilon=0.1),))
    partition = Partition(asked, records(streamed("around zero", VALUES)))
    end, emission = list(partition.emissions["a"].items())[-1]
    figures = list(emission.figures)
    values = [float(v) for time, v in streamed("around zero", VALUES) if end - 1_000 <= time < end]
    own, of_all = np.std([v for v in values if v >= 0]), np.std(values)
    assert own < of_all / 1.5
    # More than is promised, and less than if the deviation were that of all values.
    off = figures[-1].deviation_error * (own + of_all) / 2
    figures[-1] = msgspec.structs.replace(
        figures[-1], estimate=figures[-1].estimate + off, upper=figures[-1].upper + off
    )
    partition.emissions["a"][end] = msgspec.structs.replace(emission, figures=figures)
    violations = [finding.violation for finding in partition.audit("a") if finding.violation]
    assert violations == ["more off than promised"]


@pytest.mark.parametrize("kind", VALUES)
def test_batches_do_not_show(kind: str) -> None:
    """States and emissions are the same bytes, whether events come one by one or all at once."""
    random = Random(kind)
    found = []
    for sizes in ([1_000], [random.randrange(1, 40) for _ in range(200)], [*[1] * 150, 1_000]):
        processor = PartitionProcessor(LAW, SOURCE, PARTITION, MemoryStore())
        rest, outputs = records(streamed(kind, VALUES)), []
        for size in sizes:
            if rest:
                outputs += outputs_of(processor.process(batch_of(rest[:size])))
                rest = rest[size:]
        snapshot = processor.snapshot()
        assert snapshot is not None
        found.append((msgspec.json.encode(emissions_of(outputs)), snapshot.states))
    assert found[0] == found[1] == found[2]


def test_states_of_other_edges_are_not_taken() -> None:
    """As many ranges, and not the same: what a state means says so."""
    one, other = (MeanHistogram(edges=edges).runner(1_000, ("v",)) for edges in ((0, 1), (0, 2)))
    assert one.meaning != other.meaning


def test_one_range_of_all_values_is_their_mean() -> None:
    """Where all values lie in one range the figure is that of `mean`."""
    asked = replace(LAW, statistics=(Mean(), MeanHistogram(edges=(-1e9,))))
    partition = Partition(asked, records(streamed("around zero", VALUES)))
    for emission in partition.emissions["a"].values():
        means, parted = emission.figures[:3], emission.figures[4::2]
        assert [(f.estimate, f.lower, f.upper) for f in means] == [
            (f.estimate, f.lower, f.upper) for f in parted
        ]


@pytest.mark.parametrize("bad", [b"\x02", b"\x01\x00", b"\x01" + bytes(8) + b"x", bytes(9)])
def test_states_that_are_none_are_refused(bad: bytes) -> None:
    """Of another version, cut short, too long."""
    (runner,) = replace(LAW, statistics=(MeanHistogram(edges=(1,)),)).runners
    with pytest.raises(SynopsisError, match="is not of 2 parts"):
        runner.run([bad], no_events())


def test_means_in_each_form() -> None:
    """As Python, as TOML's tables and as flags."""
    needed = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    wanted = Topology(**needed, statistics=(MeanHistogram(edges=(-1.5, 10), epsilon=0.02),))
    table = {"kind": "mean_histogram", "edges": [-1.5, 10], "epsilon": 0.02}
    assert topology_of({**needed, "statistics": [table]}) == wanted
    flags = ["mean_histogram:edges=-1.5,10:epsilon=0.02"]
    assert topology_of_flags({**needed, "statistics": flags}) == wanted


def test_the_past_of_a_key_of_which_all_was_read_before() -> None:
    """As after a restart: the records that come again are known, and no tick is due."""
    declared = Topology(
        name="t",
        source="s",
        span="20s",
        every="1s",
        windows=("5s",),
        statistics=MEANS,
        derived=("ago(whole_below_3_5s, '5s') as before",),
    )
    [past] = declared.derived_past.values()
    nothing = Work.question(declared.columns, [], np.array([5_000]))
    found = past.runner.run([b""], nothing)
    assert found.states == [b""]
    assert [answer.shape[1] for answer in found.answers.values()] == [0]
