"""What figures may promise: all that workers do, and nothing that is less than declared."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from slidestat.declare.forms.resolved import resolved
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import Distinct, Items, LeanDistinct, Norm, Statistic
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import DeclaredStatistic, declaration_of, promises_less
from tests.engine.cases import topology

TERMS = ("relative_error", "share_error", "deviation_error", "magnitude_error", "absolute_error")
SPAN = 3_600_000


def declared(statistic: Statistic) -> DeclaredStatistic:
    asked = topology(statistics=(statistic,))
    table = msgspec.json.decode(msgspec.json.encode(resolved(asked)))
    return declaration_of(table).statistics[0]


def of_kind(kind: type[Statistic]) -> Iterator[Statistic]:
    """Statistics of a kind with parameters of all sizes, as far as it has them and takes them."""
    plain = Items(name="s", items=("a",)) if kind is Items else kind(name="s")
    for epsilon in (0.0, 0.0001, 0.005, 0.05, 0.3, 0.9):
        for decimals in (0, 2, 6):
            changes = {
                name: value
                for name, value in (("epsilon", epsilon), ("decimals", decimals))
                if hasattr(plain, name)
            }
            try:
                yield replace(plain, **changes)
            except SlidestatError:
                continue


def promised(statistic: Statistic) -> Figure:
    promise = statistic.promise(SPAN)
    terms = {name: getattr(promise, name) for name in (*TERMS, "confidence")}
    return Figure("s", 1.0, 1.0, 1.0, **terms)


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_is_promised_is_what_was_declared(kind: str) -> None:
    """Of every statistic, with parameters of all sizes; and many times a term is not."""
    tried = 0
    for statistic in of_kind(KINDS[kind]):
        figure, of = promised(statistic), declared(statistic)
        assert promises_less(of, figure) == ""
        for name in TERMS:
            more = msgspec.structs.replace(figure, **{name: 40 * getattr(figure, name) + 1e-8})
            assert promises_less(of, more).startswith(f"promises less than is declared: {name} ")
        tried += 1
    assert tried


@pytest.mark.parametrize("statistic", [Distinct(), LeanDistinct(), Norm()])
def test_a_confidence_is_not_less_than_declared(statistic: Statistic) -> None:
    figure, of = promised(statistic), declared(statistic)
    assert figure.confidence < 1
    less = msgspec.structs.replace(figure, confidence=figure.confidence - 1e-9)
    assert promises_less(of, less).startswith("promises less than is declared: confidence ")
