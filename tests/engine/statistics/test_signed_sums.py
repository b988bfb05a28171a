"""Sums of values of both signs, as a topology tells them, beside all values as decimals."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import LandmarkSum, NetSum, Sum, SumHistogram, Topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.statistics.parted import PartedRunner
from slidestat.declare.statistics.runner import Work
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.emission import Figure
from slidestat.synopses import SumParameters, SynopsisError
from slidestat.synopses.exponential_histogram.units import ceil_quotient, floor_quotient
from tests.audit.test_audit_key import Partition
from tests.engine.cases import laws
from tests.engine.checks import emissions_of
from tests.engine.exact import Values, between
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of
from tests.engine.model import Record
from tests.engine.streams import START_MS

VALUES = {
    "around zero": lambda random: f"{random.gauss(0, 10):.3f}",
    "nearly cancelling": lambda random: random.choice(["1000000.5", "-1000000.4"]),
    "one sign": lambda random: f"-{random.expovariate(0.1):.2f}",
    "many places": lambda random: repr(random.gauss(0, 1e-3)),
    "largest": lambda random: random.choice(["17592186044", "-17592186044", "0.001"]),
    "zeros": lambda random: random.choice(["0", "-0.0", "0.0", "-1"]),
}
SUMS = (
    NetSum(epsilon=0.1),
    NetSum(epsilon=1, name="rough"),
    SumHistogram(edges=(-5, 0, 5, 1e6), epsilon=0.5),
    SumHistogram(edges=(-1e9, 3), epsilon=0.05, name="two"),
)
LAW = Topology(
    name="law",
    source=SOURCE,
    span="1s",
    every="50ms",
    windows=("100ms", "330ms", "1s"),
    statistics=SUMS,
)


def streamed(
    kind: str,
    values: Mapping[str, Callable[[Random], str]] = VALUES,
    events: int = 800,
) -> list[tuple[int, str]]:
    """Times and texts of values."""
    random = Random(kind)
    time, found = START_MS, []
    for _ in range(events):
        time += random.choice([0, 0, 1, 5])
        found.append((time, values[kind](random)))
    return found


def records(stream: list[tuple[int, str]]) -> list[Record]:
    return [
        Record(i, b"a", b'{"key": "a", "time": %d, "value": %s}' % (time, value.encode()), time)
        for i, (time, value) in enumerate(stream)
    ]


@pytest.mark.parametrize("kind", VALUES)
def test_sums_of_both_signs_hold(kind: str) -> None:
    """Each figure within its bounds, which enclose the exact sum of the decimals, and within its
    share of the magnitudes; the audit finds the same.
    """
    stream = streamed(kind)
    partition = Partition(LAW, records(stream))
    told = 0
    for end, emission in partition.emissions["a"].items():
        for figure in emission.figures:
            inside = [
                Fraction(Decimal(value))
                for time, value in stream
                if end - (figure.window_ms or 0) <= time < end
            ]
            check(figure, between(figure, inside))
            told += 1
    assert told > 500
    for finding in partition.audit("a"):
        assert not finding.violation, finding
        assert finding.verdict is not None
        assert finding.verdict.observed is not None
        assert finding.verdict.observed <= finding.verdict.promised


def check(figure: Figure, values: Values) -> None:
    exact = sum(values, Fraction())
    assert figure.estimate is not None
    assert Fraction(figure.lower) <= exact <= Fraction(figure.upper), (figure, exact)
    assert figure.lower <= figure.estimate <= figure.upper
    magnitudes = sum(map(abs, values), Fraction())
    allowed = Fraction(figure.magnitude_error) * magnitudes + Fraction(figure.absolute_error)
    assert abs(Fraction(figure.estimate) - exact) <= allowed, (figure, exact)
    assert figure.relative_error == figure.share_error == 0


@pytest.mark.parametrize("kind", VALUES)
def test_batches_do_not_show(kind: str) -> None:
    """States and emissions are the same bytes, whether events come one by one or all at once."""
    random = Random(kind)
    found = []
    for sizes in ([1_000], [random.randrange(1, 40) for _ in range(200)], [*[1] * 150, 1_000]):
        processor = PartitionProcessor(LAW, SOURCE, PARTITION, MemoryStore())
        rest, outputs = records(streamed(kind)), []
        for size in sizes:
            if rest:
                outputs += outputs_of(processor.process(batch_of(rest[:size])))
                rest = rest[size:]
        snapshot = processor.snapshot()
        assert snapshot is not None
        found.append((msgspec.json.encode(emissions_of(outputs)), snapshot.states))
    assert found[0] == found[1] == found[2]


def test_values_of_one_sign_are_as_exact_as_a_sum() -> None:
    """The same histogram keeps them: estimate and bounds are those of a sum."""
    stream = [(time, value.removeprefix("-")) for time, value in streamed("one sign")]
    asked = replace(LAW, statistics=(Sum(epsilon=0.1), NetSum(epsilon=0.1)))
    partition = Partition(asked, records(stream))
    for emission in partition.emissions["a"].values():
        figures = [(f.estimate, f.lower, f.upper) for f in emission.figures]
        assert figures[:3] == figures[3:]


def no_events() -> Work:
    """Neither events nor questions, of one key."""
    none, starts = np.empty(0, np.int64), np.zeros(2, np.int64)
    return Work(starts, none, {("value",): np.empty(0)}, {}, starts, none, none)


@pytest.mark.parametrize("bad", [b"\x02", b"\x01\x00", b"\x01" + bytes(8) + b"x", bytes(9)])
def test_states_that_are_none_are_refused(bad: bytes) -> None:
    """Of another version, cut short, too long."""
    asked = replace(LAW, statistics=(NetSum(),))
    (runner,) = asked.runners
    assert isinstance(runner, PartedRunner)
    assert runner.of_one.parameters == SumParameters(0.01, 1_000, 3)
    with pytest.raises(SynopsisError, match="is not of 2 parts"):
        runner.run([bad], no_events())


def test_sums_in_each_form() -> None:
    """As Python, as TOML's tables and as flags."""
    needed = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    wanted = Topology(
        **needed,
        statistics=(NetSum(field="amount", epsilon=0.02), SumHistogram(edges=(-1.5, 10))),
    )
    tables = [
        {"kind": "net_sum", "field": "amount", "epsilon": 0.02},
        {"kind": "sum_histogram", "edges": [-1.5, 10]},
    ]
    assert topology_of({**needed, "statistics": tables}) == wanted
    flags = ["net_sum:amount:epsilon=0.02", "sum_histogram:edges=-1.5,10"]
    assert topology_of_flags({**needed, "statistics": flags}) == wanted


TEXT_BOUNDS = (Sum, NetSum, SumHistogram, LandmarkSum)


@settings(laws, max_examples=60)
@given(
    kind=st.sampled_from(TEXT_BOUNDS),
    decimals=st.integers(0, 9),
    units=st.integers(40, 61).flatmap(lambda bits: st.integers(2 ** (bits - 1), 2**bits)),
)
def test_bounds_hold_as_they_are_written(
    kind: type[Sum | NetSum | SumHistogram | LandmarkSum], decimals: int, units: int
) -> None:
    """Whoever reads JSON's decimals finds the exact sum between them: the shortest text of a double
    is up to half of the way to the next one off.
    """
    lower, upper = floor_quotient(units, 10**decimals), ceil_quotient(units, 10**decimals)
    figures = np.array([lower, lower, upper]).reshape(3, 1, 1)
    parts = np.stack((np.zeros((3, 1, 1)), figures), axis=-1)
    statistic = kind(decimals=decimals)
    if isinstance(statistic, SumHistogram):
        statistic = SumHistogram(decimals=decimals, edges=(0.0,))
    name = "landmark_sum" if kind is LandmarkSum else "sum"
    answers = {name: figures, "parted sum": parts}
    numbers = statistic.numbers(answers, np.ones(1))[..., -1].reshape(3)
    read = [Decimal(msgspec.json.encode(float(number)).decode()) for number in numbers]
    assert read[1] <= Decimal(units).scaleb(-decimals) <= read[2]
    assert read[1] <= read[0] <= read[2]
    if upper < 2**53 / 10**decimals:
        assert numbers.tolist() == [lower, lower, upper]
