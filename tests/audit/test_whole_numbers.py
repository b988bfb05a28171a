"""An audit takes whole numbers from 2^53 on as they were written."""

import numpy as np
import pytest

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import DeclaredStatistic
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
