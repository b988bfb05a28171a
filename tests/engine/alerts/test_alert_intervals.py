"""A condition over bounded figures is certain only where every point in the bounds says so."""

import itertools
import random

import numpy as np
import pytest

from slidestat.declare.alerts import Alert
from slidestat.declare.expressions.intervals import Intervals, Numbers
from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, Node

# x and y are read, whatever they may be.
CONDITIONS = (
    "x > 3",
    "x >= y",
    "x = y",
    "x <> 3 and y < 2",
    "not (x > 3 or y <= 2)",
    "x + y > 3",
    "x - y >= 0 or x * y < 4",
    "x / y > 1",
    "x / y > 1 or y = 0",
    "x in (1, 2, y)",
    "x between y and 4",
    "x is null or x > 2",
    "x is not null and -x < y",
    "(x > 2) is true",
    "not ((x > y) is false)",
    "x > null",
    "x * 0.1 > 0.3",
)


def exact(node: Node, point: dict[str, float | None]) -> bool | float | None:
    """A condition's value for exact figures, with SQL's NULL; plain Python."""
    match node:
        case Literal(value):
            return value
        case FieldValue((name,)):
            return point[name]
        case Call("and", operands):
            found = [exact(o, point) for o in operands]
            return False if False in found else None if None in found else True
        case Call("or", operands):
            found = [exact(o, point) for o in operands]
            return True if True in found else None if None in found else False
        case Call("in", (value, *listed)):
            return exact(Call("or", tuple(Call("=", (value, one)) for one in listed)), point)
        case Call("is null", (value,)):
            return exact(value, point) is None
        case Call("is true", (value,)):
            return exact(value, point) is True
        case Call("is false", (value,)):
            return exact(value, point) is False
        case Call(operator, operands):
            found = [exact(o, point) for o in operands]
            if None in found:
                return None
            if operator == "/":
                return found[0] / found[1] if found[1] else None
            plain = {
                "not": lambda a: not a,
                "negate": lambda a: -a,
                "+": lambda a, b: a + b,
                "-": lambda a, b: a - b,
                "*": lambda a, b: a * b,
                "=": lambda a, b: a == b,
                "<>": lambda a, b: a != b,
                "<": lambda a, b: a < b,
                "<=": lambda a, b: a <= b,
                ">": lambda a, b: a > b,
                ">=": lambda a, b: a >= b,
            }
            return plain[operator](*found)
    raise AssertionError(node)


FIGURES: list[tuple[float | None, float | None, float | None]] = [
    (None, None, None),
    *((e, low, high) for low, e, high in itertools.combinations_with_replacement(range(-1, 6), 3)),
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_what_is_certain_holds_at_every_point(text: str) -> None:
    """And the estimates' truth is SQL's, of themselves."""
    node = Alert(name="a", when=text).condition.node
    chance = random.Random(text)
    pairs = [(chance.choice(FIGURES), chance.choice(FIGURES)) for _ in range(300)]
    pairs += [((a,) * 3, (b,) * 3) for a, b in itertools.product(range(-1, 6), repeat=2)]
    pairs += [(FIGURES[0], one) for one in FIGURES] + [(one, FIGURES[0]) for one in FIGURES]
    table = np.array(pairs, np.float64)
    truths = Intervals(
        len(pairs), {("x",): Numbers.of(table[:, 0]), ("y",): Numbers.of(table[:, 1])}
    ).truths(node)
    seen = set()
    for row, (x, y) in enumerate(pairs):
        points = [
            exact(node, {"x": a, "y": b}) for a in _points(x, chance) for b in _points(y, chance)
        ]
        estimate = exact(node, {"x": x[0], "y": y[0]})
        assert truths.is_true[row] == (estimate is True)
        assert truths.is_false[row] == (estimate is False)
        if truths.surely_true[row]:
            assert set(points) == {True}
            seen.add("true")
        if truths.surely_not_true[row]:
            assert True not in points
            seen.add("not true")
        # Of points nothing is unsure.
        if x[1] == x[2] and y[1] == y[2] and "0.1" not in text:
            assert truths.surely_true[row] == (points[0] is True)
            assert truths.surely_not_true[row] == (points[0] is not True)
    assert seen == ({"not true"} if text == "x > null" else {"true", "not true"})


@pytest.mark.parametrize(
    ("text", "x", "y"),
    [("x + y", 2**53, 1), ("-x - y", 2**53, 1), ("x * y", 3, (2**53 + 1) // 3)],
)
def test_bounds_enclose_whole_numbers_that_no_double_is(text: str, x: int, y: int) -> None:
    """2^53 + 1 is rounded to 2^53, which is no exact result then."""
    node = Alert(name="a", when=f"{text} > 0").condition.node
    assert isinstance(node, Call)
    figures = {(name,): Numbers.of(np.full((1, 3), float(it))) for name, it in (("x", x), ("y", y))}
    found = Intervals(1, figures).numbers(node.operands[0])
    assert found.lowers[0] <= float(found.estimates[0]) <= found.uppers[0]
    least, most = int(found.lowers[0]), int(found.uppers[0])
    assert any(least <= right <= most for right in (2**53 + 1, -(2**53) - 1))


def _points(
    figure: tuple[float | None, float | None, float | None], chance: random.Random
) -> list[float | None]:
    estimate, low, high = figure
    if estimate is None or low is None or high is None:
        return [None]
    return [low, high, estimate, *(chance.uniform(low, high) for _ in range(3))]
