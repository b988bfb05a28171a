"""Numbers computed from figures of which more is known than bounds: some are never negative, some
never more than others, and a figure that is read twice is one number.

Interval arithmetic takes each operand to be anywhere in its bounds, whatever the others are. Proofs
about sums, differences and quotients of figures narrow the bounds here; docs/theory.md has them.

- A sum of figures, each with a factor, is computed with every figure once.
- A quotient of two such sums that share figures has its extremes at corners of the figures' bounds,
  where the divisor is of one sign.
- A sum is not negative if each of its negative terms is at most a positive one; so a quotient lies
  in [0, 1] if dividend, divisor and their difference are not negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import permutations, product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from slidestat.declare.expressions.intervals import (
    Intervals,
    Numbers,
    Truths,
    bounds_of_quotients,
    negated,
    number_of,
    product_of,
    quotient_of,
    quotient_within,
    sum_of,
    values_of_quotient,
)
from slidestat.declare.expressions.nodes import (
    COMPARISONS,
    Call,
    FieldValue,
    Literal,
    Node,
    fields_of,
)
from slidestat.declare.fields import FieldPath
from slidestat.synopses.core.arrays import Bools, Floats

Polynomial = Mapping[tuple[FieldPath, ...], Fraction]
"""The factors of products of figures, none of them 0; the product of none is 1."""

# Larger ones are taken as they are written.
_MOST_TERMS, _MOST_FACTORS, _MOST_CORNERS = 64, 4, 5


@dataclass(frozen=True)
class Known:
    """The facts of a declaration: figures that are never negative, and pairs of which the first is
    never more than the second.
    """

    not_negative: frozenset[FieldPath]
    at_most: frozenset[tuple[FieldPath, FieldPath]]

    def is_not_negative(self, polynomial: Polynomial) -> bool:
        """Return whether a polynomial is proved to be at least 0; each negative term is set off
        against positive ones that are no smaller.
        """
        left = {term: factor for term, factor in polynomial.items() if factor > 0}
        for term, factor in polynomial.items():
            needed = -factor
            for other in left:
                if needed > 0 and left[other] and self._is_at_most(term, other):
                    used = min(needed, left[other])
                    left[other], needed = left[other] - used, needed - used
            if needed > 0:
                return False
        return all(
            not factor or self.not_negative.issuperset(term) for term, factor in left.items()
        )

    def _is_at_most(self, one: tuple[FieldPath, ...], other: tuple[FieldPath, ...]) -> bool:
        if len(one) != len(other) or not one:
            return False
        if len(one) > 1 and not self.not_negative.issuperset((*one, *other)):
            return False
        return any(
            all(a == b or (a, b) in self.at_most for a, b in zip(one, order, strict=True))
            for order in permutations(other)
        )


class _Sum(NamedTuple):
    """A sum with every figure in it once, if it is linear, and its sign."""

    collected: Polynomial | None
    is_not_negative: bool
    is_not_positive: bool


class _Monotone(NamedTuple):
    """A quotient of two sums that grows with some of its figures and falls with all others, as long
    as none is negative and the divisor is positive: it is least and largest at two known corners.
    """

    above: Polynomial
    below: Polynomial
    is_rising: Mapping[FieldPath, bool]


class _Quotient(NamedTuple):
    """A quotient that is always one number, or has its extremes at corners; the signs of dividend,
    divisor and their differences.
    """

    constant: Fraction | None
    monotone: _Monotone | None
    at_corners: tuple[Polynomial, Polynomial] | None
    is_dividend_not_negative: bool
    is_divisor_not_negative: bool
    is_at_most_one: bool
    is_at_least_one: bool


class Facts:
    """The facts that follow for the parts of expressions, each looked at once."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._sums: dict[Node, _Sum | None] = {}
        self._quotients: dict[Node, _Quotient | None] = {}

    def of_sum(self, node: Node) -> _Sum | None:
        """Return what is known of a sum or a difference; None if nothing is."""
        if node not in self._sums:
            self._sums[node] = self._sum(node, polynomial_of(node))
        return self._sums[node]

    def of_quotient(self, node: Call) -> _Quotient | None:
        """Return what is known of a quotient; None if nothing is."""
        if node not in self._quotients:
            above, below = map(polynomial_of, node.operands)
            found = None if above is None or below is None else self._quotient(node, above, below)
            self._quotients[node] = found
        return self._quotients[node]

    def _sum(self, node: Node, polynomial: Polynomial | None) -> _Sum | None:
        if polynomial is None:
            return None
        return _Sum(
            polynomial if _is_linear(polynomial) and not _is_collected(node) else None,
            self._known.is_not_negative(polynomial),
            self._known.is_not_negative(_times(polynomial, Fraction(-1))),
        )

    def _quotient(self, node: Call, above: Polynomial, below: Polynomial) -> _Quotient:
        read = list(fields_of(node))
        repeats = len(set(read)) < len(read)
        may = repeats and len(set(read)) <= _MOST_CORNERS
        is_linear = _is_linear(above) and _is_linear(below)
        is_positive = self._known.is_not_negative
        # Other conditions are as wide as the bounds of their operands.
        is_seen = may or all(isinstance(operand, FieldValue) for operand in node.operands)
        # The dividend's own bounds may be narrower than those at corners then.
        is_cut = self._known.is_not_negative(_times(above, Fraction(-1)))
        return _Quotient(
            _constant(above, below),
            _monotone(above, below) if is_seen and is_linear and not is_cut else None,
            (above, below) if may and is_linear else None,
            is_positive(above),
            is_positive(below),
            is_positive(_plus(below, _times(above, Fraction(-1)))),
            is_positive(_plus(above, _times(below, Fraction(-1)))),
        )


class KnownIntervals(Intervals):
    """An evaluator of expressions over figures of which `facts` are known."""

    def __init__(
        self,
        rows: int,
        figures: Mapping[FieldPath, Numbers],
        facts: Facts,
        past: Mapping[Node, Numbers] = MappingProxyType({}),
    ) -> None:
        super().__init__(rows, figures, past)
        self._facts = facts

    def truths(self, node: Node) -> Truths:
        """Return the truth values of a condition: a comparison of sums whose difference has a known
        sign has one outcome alone.
        """
        found = super().truths(node)
        match node:
            case Call(operator, (left, right)) if operator in COMPARISONS:
                facts = self._facts.of_sum(Call("-", (left, right)))
                if facts is not None:
                    return _ordered(found, operator, facts)
        return found

    def numbers(self, node: Node) -> Numbers:
        """Return the numbers of a subexpression."""
        match node:
            case Call("/", (above, below)):
                return self._quotient(node, self.numbers(above), self.numbers(below))
            case Call("+" | "-"):
                found, facts = super().numbers(node), self._facts.of_sum(node)
                if facts is None:
                    return found
                if facts.collected is not None:
                    once = self._linear(facts.collected, self._figures)
                    found = _cut(found, once.lowers, once.uppers)
                low = 0.0 if facts.is_not_negative else -np.inf
                return _cut(found, low, 0.0 if facts.is_not_positive else np.inf)
        return super().numbers(node)

    def _quotient(self, node: Call, above: Numbers, below: Numbers) -> Numbers:
        facts = self._facts.of_quotient(node)
        if facts is None or facts.constant is not None:
            found = _of_one_sign(quotient_of(above, below), above, below)
            if facts is None or facts.constant is None:
                return found
            one = number_of(facts.constant, self._rows)
            return _cut(found, one.lowers, one.uppers)
        # The value of a quotient does not matter where it does not exist.
        is_nothing = ~values_of_quotient(above, below)
        is_plain = ((below.lowers > 0) | is_nothing).all()
        if is_plain and facts.monotone is not None and self._is_monotone(facts.monotone):
            found = quotient_within(above, below, *self._at_ends(facts.monotone))
        else:
            found = _of_one_sign(quotient_of(above, below), above, below)
            if facts.at_corners is not None:
                found = _cut(found, *_extremes(self._corners(*facts.at_corners), is_nothing))
        always = np.ones(self._rows, bool)
        is_positive = always if facts.is_divisor_not_negative else below.lowers >= 0
        is_above = always if facts.is_dividend_not_negative else above.lowers >= 0
        low = np.where(is_positive & is_above, 0.0, -np.inf)
        if facts.is_at_least_one:
            low = np.where(is_positive, 1.0, low)
        high = np.where(is_positive, 1.0, np.inf) if facts.is_at_most_one else np.inf
        return _cut(found, low, high)

    def _is_monotone(self, quotient: _Monotone) -> bool:
        """Return whether no figure of a quotient is negative where it is a number."""
        figures = [self._figures[path] for path in quotient.is_rising]
        return all(((it.lowers >= 0) | ~it.values).all() for it in figures)

    def _at_ends(self, quotient: _Monotone) -> tuple[Floats, Floats]:
        """Return the least and the largest of a quotient of figures >= 0; the divisor is > 0."""
        at_least, at_most = {}, {}
        for path, is_rising in quotient.is_rising.items():
            ends = _ends(self._figures[path])
            at_least[path], at_most[path] = ends if is_rising else ends[::-1]
        low, high = (
            [(self._linear(quotient.above, corner), self._linear(quotient.below, corner))]
            for corner in (at_least, at_most)
        )
        return bounds_of_quotients(low, high)

    def _corners(self, above: Polynomial, below: Polynomial) -> list[tuple[Numbers, Numbers]]:
        """Return two sums at each corner of their figures' bounds; equal ones are one object."""
        paths = sorted({path for term in (*above, *below) for path in term})
        found: dict[tuple[object, ...], Numbers] = {}

        def sum_at(polynomial: Polynomial, corner: Mapping[FieldPath, Numbers]) -> Numbers:
            place = (id(polynomial), *(id(corner[term[0]]) for term in polynomial if term))
            if place not in found:
                found[place] = self._linear(polynomial, corner)
            return found[place]

        corners = [
            dict(zip(paths, ends, strict=True))
            for ends in product(*(_ends(self._figures[path]) for path in paths))
        ]
        return [(sum_at(above, corner), sum_at(below, corner)) for corner in corners]

    def _linear(self, polynomial: Polynomial, figures: Mapping[FieldPath, Numbers]) -> Numbers:
        terms = [
            self._term(factor, figures[term[0]]) if term else number_of(factor, self._rows)
            for term, factor in polynomial.items()
        ]
        return reduce(sum_of, terms) if terms else number_of(Fraction(0), self._rows)

    def _term(self, factor: Fraction, figure: Numbers) -> Numbers:
        if abs(factor) == 1:
            return figure if factor > 0 else negated(figure)
        return product_of(number_of(factor, self._rows), figure)


def polynomial_of(node: Node) -> Polynomial | None:
    """Return an expression as a polynomial of figures; None if it is none, or a large one."""
    match node:
        case FieldValue(path):
            return {(path,): Fraction(1)}
        case Literal(float() | int() | Decimal() as value) if not isinstance(value, bool):
            return {(): Fraction(value)} if value else {}
        case Call("negate", (operand,)):
            found = polynomial_of(operand)
            return None if found is None else _times(found, Fraction(-1))
        case Call("+" | "-" | "*" | "/" as operator, (one, other)):
            left, right = polynomial_of(one), polynomial_of(other)
            return None if left is None or right is None else _computed(operator, left, right)
    return None


def _computed(operator: str, left: Polynomial, right: Polynomial) -> Polynomial | None:
    if operator in ("+", "-"):
        found = _plus(left, right if operator == "+" else _times(right, Fraction(-1)))
    elif operator == "*":
        found = {}
        for one, other in product(left.items(), right.items()):
            term = {tuple(sorted((*one[0], *other[0]))): one[1] * other[1]}
            found = _plus(found, term)
    else:
        if set(right) != {()}:
            return None
        found = _times(left, 1 / right[()])
    is_large = len(found) > _MOST_TERMS or any(len(term) > _MOST_FACTORS for term in found)
    return None if is_large else found


def _plus(one: Polynomial, other: Polynomial) -> dict[tuple[FieldPath, ...], Fraction]:
    found = dict(one)
    for term, factor in other.items():
        found[term] = found.get(term, Fraction(0)) + factor
    return {term: factor for term, factor in found.items() if factor}


def _times(polynomial: Polynomial, factor: Fraction) -> dict[tuple[FieldPath, ...], Fraction]:
    return {term: own * factor for term, own in polynomial.items()}


def _is_linear(polynomial: Polynomial) -> bool:
    return all(len(term) <= 1 for term in polynomial)


def _monotone(above: Polynomial, below: Polynomial) -> _Monotone | None:
    """Return a quotient of two sums as a monotone one; None if it is not seen to be one."""
    is_rising = {}
    for path in sorted({path for term in (*above, *below) for path in term}):
        # The derivative's dividend: the divisor's square is positive.
        derivative = _plus(
            _times(below, above.get((path,), Fraction(0))),
            _times(above, -below.get((path,), Fraction(0))),
        )
        signs = {factor > 0 for factor in derivative.values()}
        if len(signs) > 1:
            return None
        is_rising[path] = signs != {False}
    factors = [*above.values(), *below.values()]
    is_exact = all(factor.denominator == 1 for factor in factors) and sum(map(abs, factors)) <= 16
    is_positive = all(factor > 0 for factor in below.values())
    return _Monotone(above, below, is_rising) if below and is_exact and is_positive else None


def _is_collected(node: Node) -> bool:
    """Return whether a sum is computed of the same terms as it is written."""
    match node:
        case Call("+" | "-", (FieldValue() as one, FieldValue() as other)):
            return one != other
    return False


def _constant(above: Polynomial, below: Polynomial) -> Fraction | None:
    """Return what a quotient always is, None if it is not one number."""
    if not below or (above and set(above) != set(below)):
        return None
    factors = {above.get(term, Fraction(0)) / factor for term, factor in below.items()}
    return factors.pop() if len(factors) == 1 else None


def _ends(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the lower and the upper bounds as numbers."""
    lowers, uppers = numbers.lowers, numbers.uppers
    return (
        Numbers(lowers, lowers, lowers, numbers.nulls, numbers.values),
        Numbers(uppers, uppers, uppers, numbers.nulls, numbers.values),
    )


def _extremes(
    corners: Sequence[tuple[Numbers, Numbers]], is_nothing: Bools
) -> tuple[Floats, Floats]:
    """Return the least and the largest of quotients at corners, whatever their divisors are;
    infinite where these are not of one sign, anything where `is_nothing`.
    """
    if all(((bottom.lowers > 0) | is_nothing).all() for _, bottom in corners):
        return bounds_of_quotients(corners, corners)
    rows = len(corners[0][0].lowers)
    is_positive = reduce(np.logical_and, [bottom.lowers >= 0 for _, bottom in corners])
    is_negative = reduce(np.logical_and, [bottom.uppers <= 0 for _, bottom in corners])
    low, high = np.full(rows, np.inf), np.full(rows, -np.inf)
    for top, bottom in corners:
        found = _of_one_sign(quotient_of(top, bottom), top, bottom)
        # Next to such a corner it has no limit, or, if both are 0, those of the others.
        is_zero = (bottom.lowers == 0) & (bottom.uppers == 0)
        falls = np.where(is_positive, top.lowers < 0, top.uppers > 0)
        rises = np.where(is_positive, top.uppers > 0, top.lowers < 0)
        least = np.where(is_zero, np.where(falls, -np.inf, np.inf), found.lowers)
        most = np.where(is_zero, np.where(rises, np.inf, -np.inf), found.uppers)
        low, high = np.minimum(low, least), np.maximum(high, most)
    is_sure = (is_positive | is_negative) & (low <= high)
    return np.where(is_sure, low, -np.inf), np.where(is_sure, high, np.inf)


def _cut(numbers: Numbers, lowers: Floats | float, uppers: Floats | float) -> Numbers:
    """Return numbers with bounds that are as narrow as others that hold, too."""
    return replace(
        numbers,
        lowers=np.maximum(numbers.lowers, lowers),
        uppers=np.minimum(numbers.uppers, uppers),
    )


def _ordered(found: Truths, operator: str, difference: _Sum) -> Truths:
    """Return the truth values of a comparison of two numbers, whose order may be known."""
    # The outcomes that are possible. The two may always be equal.
    is_less, is_more = not difference.is_not_negative, not difference.is_not_positive
    may_be_true = {"<": is_less, ">": is_more, "<>": is_less or is_more}.get(operator, True)
    may_be_false = {"<=": is_more, ">=": is_less, "=": is_less or is_more}.get(operator, True)
    return replace(
        found,
        may_be_true=found.may_be_true & may_be_true,
        may_be_false=found.may_be_false & may_be_false,
    )


def _of_one_sign(found: Numbers, above: Numbers, below: Numbers) -> Numbers:
    """Return a quotient with its bounds where the divisor may be 0 and is of one sign: what it is
    of all others.
    """
    is_positive = (below.lowers == 0) & (below.uppers > 0)
    is_negative = (below.uppers == 0) & (below.lowers < 0)
    if not (is_positive | is_negative).any():
        return found
    # A divisor of the other sign is that of the negated dividend.
    largest = np.where(is_negative, -below.lowers, below.uppers)
    low = np.where(is_negative, -above.uppers, above.lowers)
    high = np.where(is_negative, -above.lowers, above.uppers)
    with np.errstate(all="ignore"):
        least = np.where(low < 0, -np.inf, np.nextafter(low / largest, -np.inf))
        most = np.where(high > 0, np.inf, np.nextafter(high / largest, np.inf))
        least = np.where((low == 0) | np.isnan(least), np.where(low == 0, 0.0, -np.inf), least)
        most = np.where((high == 0) | np.isnan(most), np.where(high == 0, 0.0, np.inf), most)
    is_one = is_positive | is_negative
    return replace(
        found,
        lowers=np.where(is_one, least, found.lowers),
        uppers=np.where(is_one, most, found.uppers),
    )
