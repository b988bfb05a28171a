"""An audit takes whole numbers from 2^53 on as they were written."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest

from slidestat import Above, TopItems, Topology
from slidestat.declare.forms.resolved import resolved
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import DeclaredStatistic, declaration_of
from slidestat.spark.audit.derived import computed
from slidestat.spark.audit.events.reading import RawRecord, read_event
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.verdict import judge

E = 2**53
OUTSIDE = "outside its bounds"


def _verdict(kind: str, figure: Figure, texts: list[str]) -> str:
    statistic = DeclaredStatistic(
        label=kind,
        kind=kind,
        paths=(("value",),),
        is_item=False,
        is_landmark=False,
        series=(),
        parameters={},
    )
    numbers = np.arange(len(texts))
    key = ExactKey(numbers, numbers, {statistic.column: texts})
    return judge(key, statistic, figure, slice(0, len(texts)), 1_000).violation


@pytest.mark.parametrize("kind", ["minimum", "maximum", "sample"])
@pytest.mark.parametrize(
    ("lower", "upper", "violation"),
    [(E, E, OUTSIDE), (E - 1, E, OUTSIDE), (E - 1, E + 2, ""), (E + 2, E + 4, OUTSIDE)],
)
def test_a_neighbour_is_no_exact_figure(
    kind: str, lower: float, upper: float, violation: str
) -> None:
    figure = Figure(kind, float(E), float(lower), float(upper), window_ms=1_000)
    assert _verdict(kind, figure, [str(E + 1)]) == violation


def test_neighbours_are_ranked_and_parted_by_edges() -> None:
    texts = [str(E + n) for n in (3, 1, 5, 2)]
    median = Figure("rank_quantile", E + 2.0, E + 2.0, E + 2.0, window_ms=1_000, quantile=0.5)
    assert _verdict("rank_quantile", median, texts) == ""
    for count in (1.0, 2.0):
        figure = Figure("histogram", count, count, count, window_ms=1_000, at_least=E + 4.0)
        assert (_verdict("histogram", figure, texts) == "") is (count == 1)


def test_a_fraction_is_parted_and_named_as_it_was_written() -> None:
    """The double of the first is the edge."""
    topology = Topology(
        name="t", source="s", span="1h", every="1m", statistics=(TopItems(field="n"),)
    )
    declared = declaration_of(msgspec.json.decode(msgspec.json.encode(resolved(topology))))
    for text, count in ((f"{E + 3}.5", 0.0), (f"{E + 4}.5", 1.0)):
        figure = Figure("histogram", count, count, count, window_ms=1_000, at_least=E + 4.0)
        assert _verdict("histogram", figure, [text]) == ""
        record = RawRecord(None, f'{{"key": "a", "time": 1600000000000, "n": {text}}}'.encode(), 0)
        assert read_event(declared, record)[2] == [text]


@pytest.mark.parametrize(
    ("expression", "text", "is_reached"),
    [
        ("coalesce(n, 0) as m", f"{E + 3}.5", False),
        ("case when n > 0 then n else 0 end as m", f"{E + 3}.5", False),
        ("coalesce(n + 0, 0) as m", f"{E + 4}.0", True),
    ],
)
def test_a_fraction_that_an_expression_hands_on_is_parted_as_a_worker_does(
    expression: str, text: str, is_reached: bool
) -> None:
    """As it was written; of what is computed of it both take the double, which is the edge."""
    topology = Topology(
        name="t",
        source="s",
        span="1h",
        every="1m",
        computed=(expression,),
        statistics=(Above(field="m", thresholds=[E + 4]),),
    )
    declared = declaration_of(msgspec.json.decode(msgspec.json.encode(resolved(topology))))
    value = f'{{"key": "a", "time": 1600000000000, "n": {E + 3}.5}}'.encode()
    (number,) = EventDecoder(topology).decode([value]).numbers[0]
    assert (number >= E + 4) == is_reached
    assert read_event(declared, RawRecord(None, value, 0))[2] == [text]


@pytest.mark.parametrize(
    ("literal", "number"),
    [
        ("0.1", Fraction(0.1)),
        (f"{E + 1}.5", E + 1 + Fraction(1, 2)),
        ("1e23", Fraction(10**23)),
        ("1e31", Fraction(1e31)),
    ],
)
def test_a_literal_of_a_derived_figure_is_the_number_that_a_worker_takes(
    literal: str, number: Fraction
) -> None:
    """A double, but from 2^53 to 2^100 what is written."""
    assert computed(literal, ()) == number
