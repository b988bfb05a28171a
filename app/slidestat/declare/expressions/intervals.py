"""Conditions over figures of which bounds are known: what holds by the estimates, and surely.

A number is an estimate in [lower, upper], or NULL; the exact one lies in there. So it is known
which of true, false and NULL a comparison may be, and from that the same of and, or and not.
Figures are taken as if each could be anywhere in its bounds, whatever the others are: a condition
that can only be true is certain. Computed bounds are rounded outwards unless they are exact. A
division by zero gives NULL, as in SQLite and in MySQL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from types import MappingProxyType

import numpy as np

from slidestat.declare.expressions.nodes import COMPARISONS, Call, FieldValue, Literal, Node
from slidestat.declare.fields import FieldPath
from slidestat.synopses.core.arrays import Bools, Floats
from slidestat.synopses.core.rounding import EXACT, down, up


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of n rows: `estimates` float64[n], NaN for NULL; `lowers` and `uppers` float64[n]
    enclose the exact ones, where there are such; `nulls` bool[n] is true where there may be none,
    and `values` bool[n] where there may be one.
    """

    estimates: Floats
    lowers: Floats
    uppers: Floats
    nulls: Bools
    values: Bools

    @classmethod
    def of(cls, figures: Floats) -> "Numbers":
        """Return the numbers of figures float64[n, 3]: estimate, lower, upper; NULL for none."""
        estimates, lowers, uppers = figures.T
        missing = np.isnan(estimates)
        return cls(
            estimates,
            np.where(np.isnan(lowers), -np.inf, lowers),
            np.where(np.isnan(uppers), np.inf, uppers),
            missing,
            ~missing,
        )

    @classmethod
    def within(cls, reach: float, rows: int) -> "Numbers":
        """Return numbers that may be anything from -reach to `reach`, or NULL."""
        always = np.ones(rows, bool)
        return cls(np.zeros(rows), np.full(rows, -reach), np.full(rows, reach), always, always)


@dataclass(frozen=True, slots=True)
class Truths:
    """Truth values of n rows, each bool[n]: whether that of the estimates is true and whether it is
    false, neither for NULL; and whether the exact one may be true, may be false, may be NULL.
    """

    is_true: Bools
    is_false: Bools
    may_be_true: Bools
    may_be_false: Bools
    may_be_null: Bools

    @property
    def surely_true(self) -> Bools:
        """Return bool[n]: where it is true whatever the exact figures are."""
        return self.may_be_true & ~self.may_be_false & ~self.may_be_null

    @property
    def surely_not_true(self) -> Bools:
        """Return bool[n]: where it is false or NULL whatever the exact figures are."""
        return ~self.may_be_true


class Intervals:
    """An evaluator of conditions over `rows` rows; `figures` are those of the fields, and `past`
    those of calls of `ago`.
    """

    def __init__(
        self,
        rows: int,
        figures: Mapping[FieldPath, Numbers],
        past: Mapping[Node, Numbers] = MappingProxyType({}),
    ) -> None:
        self._rows = rows
        self._figures = figures
        self._past = past

    def truths(self, node: Node) -> Truths:
        """Return the truth values of a condition."""
        match node:
            case Literal(value):
                return self._known(np.full(self._rows, value is True), value is None)
            case Call("and", operands):
                return reduce(_and, map(self.truths, operands))
            case Call("or", operands):
                return _not(reduce(_and, (_not(self.truths(operand)) for operand in operands)))
            case Call("not", (value,)):
                return _not(self.truths(value))
            case Call("is true", (value,)):
                return _is_true(self.truths(value))
            case Call("is false", (value,)):
                return _is_true(_not(self.truths(value)))
            case Call("is null", (value,)):
                return _is_null(self.numbers(value))
            case Call("in", (value, *listed)):
                return self.truths(Call("or", tuple(Call("=", (value, it)) for it in listed)))
            case Call(operator, (left, right)) if operator in COMPARISONS:
                return _compared(operator, self.numbers(left), self.numbers(right))
        raise ValueError(f"{node} is no condition over figures")  # Alerts are checked for it.

    def numbers(self, node: Node) -> Numbers:
        """Return the numbers of a subexpression."""
        match node:
            case FieldValue(path):
                return self._figures[path]
            case Call("ago"):
                return self._past[node]
            case Literal(value):
                if value is None:
                    return Numbers.of(np.full((self._rows, 3), np.nan))
                return number_of(Fraction(value), self._rows)
            case Call("negate", (value,)):
                return negated(self.numbers(value))
            case Call("+", (left, right)):
                return sum_of(self.numbers(left), self.numbers(right))
            case Call("-", (left, right)):
                return sum_of(self.numbers(left), negated(self.numbers(right)))
            case Call("*", (left, right)):
                return product_of(self.numbers(left), self.numbers(right))
            case Call("/", (left, right)):
                return quotient_of(self.numbers(left), self.numbers(right))
            case Call("coalesce", operands):
                return reduce(_coalesced, map(self.numbers, operands))
        raise ValueError(f"{node} is no number over figures")  # Alerts are checked for it.

    def _known(self, truth: Bools, is_null: bool) -> Truths:
        null = np.full(self._rows, is_null)
        false = ~truth & ~null
        return Truths(truth, false, truth, false, null)


def _and(one: Truths, other: Truths) -> Truths:
    null = (one.may_be_null & (other.may_be_null | other.may_be_true)) | (
        one.may_be_true & other.may_be_null
    )
    return Truths(
        one.is_true & other.is_true,
        one.is_false | other.is_false,
        one.may_be_true & other.may_be_true,
        one.may_be_false | other.may_be_false,
        null,
    )


def _not(truths: Truths) -> Truths:
    return Truths(
        truths.is_false, truths.is_true, truths.may_be_false, truths.may_be_true, truths.may_be_null
    )


def _is_true(truths: Truths) -> Truths:
    return Truths(
        truths.is_true,
        ~truths.is_true,
        truths.may_be_true,
        truths.may_be_false | truths.may_be_null,
        np.zeros_like(truths.is_true),
    )


def _is_null(numbers: Numbers) -> Truths:
    null = np.isnan(numbers.estimates)
    return Truths(null, ~null, numbers.nulls, numbers.values, np.zeros_like(null))


def _compared(operator: str, left: Numbers, right: Numbers) -> Truths:
    match operator:
        case "<>":
            return _not(_compared("=", left, right))
        case ">":
            return _compared("<", right, left)
        case ">=":
            return _not(_compared("<", left, right))
        case "<=":
            return _not(_compared("<", right, left))
    values, nulls = left.values & right.values, left.nulls | right.nulls
    there = ~(np.isnan(left.estimates) | np.isnan(right.estimates))
    if operator == "<":
        is_true = left.estimates < right.estimates
        may_be_true = left.lowers < right.uppers
        may_be_false = left.uppers >= right.lowers
    else:
        is_true = left.estimates == right.estimates
        may_be_true = (left.lowers <= right.uppers) & (right.lowers <= left.uppers)
        may_be_false = ~(
            (left.lowers == left.uppers)
            & (right.lowers == right.uppers)
            & (left.lowers == right.lowers)
        )
    return Truths(
        there & is_true, there & ~is_true, values & may_be_true, values & may_be_false, nulls
    )


def _coalesced(one: Numbers, other: Numbers) -> Numbers:
    is_other = one.nulls & other.values
    lowers = np.where(one.values, one.lowers, np.inf), np.where(is_other, other.lowers, np.inf)
    uppers = np.where(one.values, one.uppers, -np.inf), np.where(is_other, other.uppers, -np.inf)
    values = one.values | is_other
    return Numbers(
        np.where(np.isnan(one.estimates), other.estimates, one.estimates),
        np.where(values, np.minimum(*lowers), -np.inf),
        np.where(values, np.maximum(*uppers), np.inf),
        one.nulls & other.nulls,
        values,
    )


def _are_points(numbers: Numbers) -> bool:
    """Return whether the numbers are known to be exact: both bounds are one array then, and what is
    computed of them is computed once.
    """
    return numbers.lowers is numbers.uppers


def _ends(numbers: Numbers) -> tuple[Floats, ...]:
    return (numbers.lowers,) if _are_points(numbers) else (numbers.lowers, numbers.uppers)


def number_of(value: Fraction, rows: int) -> Numbers:
    """Return a number in so many rows; it may be one that no double is."""
    estimates, lowers, uppers = (np.full(rows, double) for double in _doubles(value))
    return Numbers(estimates, lowers, uppers, np.zeros(rows, bool), np.ones(rows, bool))


@lru_cache(256)
def _doubles(value: Fraction) -> tuple[float, float, float]:
    """Return the double nearest to a number, and its bounds: a condition asks at each tick."""
    return float(value), down(value), up(value)


def negated(numbers: Numbers) -> Numbers:
    """Return the numbers with the other sign."""
    lowers = -numbers.uppers
    uppers = lowers if _are_points(numbers) else -numbers.lowers
    return Numbers(-numbers.estimates, lowers, uppers, numbers.nulls, numbers.values)


def sum_of(one: Numbers, other: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        lowers = one.lowers + other.lowers
        least = most = [(lowers, _is_exact(lowers, one.lowers, other.lowers))]
        if not (_are_points(one) and _are_points(other)):
            uppers = one.uppers + other.uppers
            most = [(uppers, _is_exact(uppers, one.uppers, other.uppers))]
        return _numbers(
            one.estimates + other.estimates,
            least,
            most,
            one.nulls | other.nulls,
            one.values & other.values,
        )


def product_of(one: Numbers, other: Numbers) -> Numbers:
    corners = []
    with np.errstate(all="ignore"):
        for left in _ends(one):
            for right in _ends(other):
                # Nothing times anything is nothing, however much that may be.
                product = np.where((left == 0) | (right == 0), 0.0, left * right)
                corners.append((product, _is_exact(product, left, right)))
        return _numbers(
            one.estimates * other.estimates,
            corners,
            corners,
            one.nulls | other.nulls,
            one.values & other.values,
        )


def quotient_of(one: Numbers, other: Numbers) -> Numbers:
    """Return the quotients of numbers, NULL of a division by zero."""
    with np.errstate(all="ignore"):
        corners = _Quotients().of(one, other)
        has_zero = _may_be_zero(other)
        found = _numbers(
            _estimated_quotients(one, other),
            corners,
            corners,
            one.nulls | other.nulls | has_zero,
            values_of_quotient(one, other),
        )
    if not has_zero.any():
        return found
    lowers = np.where(has_zero, -np.inf, found.lowers)
    return replace(found, lowers=lowers, uppers=np.where(has_zero, np.inf, found.uppers))


def quotient_within(one: Numbers, other: Numbers, lowers: Floats, uppers: Floats) -> Numbers:
    """Return the quotients of numbers, of which the bounds are known."""
    with np.errstate(all="ignore"):
        return Numbers(
            _estimated_quotients(one, other),
            lowers,
            uppers,
            one.nulls | other.nulls | _may_be_zero(other),
            values_of_quotient(one, other),
        )


def values_of_quotient(one: Numbers, other: Numbers) -> Bools:
    """Return where a quotient may exist: where the divisor is not surely 0."""
    found: Bools = one.values & other.values
    found &= (other.lowers != 0) | (other.uppers != 0)
    return found


def _may_be_zero(numbers: Numbers) -> Bools:
    found: Bools = (numbers.lowers <= 0) & (numbers.uppers >= 0)
    return found


def _estimated_quotients(one: Numbers, other: Numbers) -> Floats:
    found: Floats = one.estimates / other.estimates
    found[other.estimates == 0] = np.nan
    return found


_Pairs = Sequence[tuple[Numbers, Numbers]]


def bounds_of_quotients(least: _Pairs, most: _Pairs) -> tuple[Floats, Floats]:
    """Return a lower bound of the quotients of some pairs, and an upper bound of the quotients of
    other pairs; no divisor is 0.
    """
    quotients = _Quotients()
    with np.errstate(all="ignore"):
        lows = [corner for pair in least for corner in quotients.of(*pair)]
        highs = lows if least is most else [it for pair in most for it in quotients.of(*pair)]
        return _outermost(np.minimum, lows, -np.inf), _outermost(np.maximum, highs, np.inf)


class _Quotients:
    """Quotients of bounds, each with where it is exact; what that asks of a bound is asked once."""

    def __init__(self) -> None:
        # The bound itself is kept, so that no other one gets its id.
        self._dividends: dict[int, tuple[Floats, Bools, Bools]] = {}
        self._divisors: dict[int, tuple[Floats, Bools]] = {}

    def of(self, one: Numbers, other: Numbers) -> list[tuple[Floats, Bools]]:
        """Return the quotients of the bounds of two numbers."""
        return [self._of(left, right) for left in _ends(one) for right in _ends(other)]

    def _of(self, left: Floats, right: Floats) -> tuple[Floats, Bools]:
        if id(left) not in self._dividends:
            self._dividends[id(left)] = left, np.abs(left) < EXACT, left == 0
        if id(right) not in self._divisors:
            self._divisors[id(right)] = right, right == np.trunc(right)
        _, is_below, is_zero = self._dividends[id(left)]
        _, is_whole = self._divisors[id(right)]
        quotient = left / right
        exact: Bools = quotient == np.trunc(quotient)
        exact &= is_whole
        exact &= is_below
        exact &= quotient * right == left
        exact |= is_zero
        return quotient, exact


def _numbers(
    estimates: Floats,
    lowers: Sequence[tuple[Floats, Bools]],
    uppers: Sequence[tuple[Floats, Bools]],
    nulls: Bools,
    values: Bools,
) -> Numbers:
    """Return numbers between the least and the largest of some corners, each with where it is
    exact; a NaN bounds nothing.
    """
    if lowers is uppers and len(lowers) == 1 and lowers[0][1].all():
        exact = lowers[0][0]
        return Numbers(estimates, exact, exact, nulls, values)
    return Numbers(
        estimates,
        _outermost(np.minimum, lowers, -np.inf),
        _outermost(np.maximum, uppers, np.inf),
        nulls,
        values,
    )


def _outermost(outer: np.ufunc, corners: Sequence[tuple[Floats, Bools]], end: float) -> Floats:
    """Return the outermost corner, after every corner that is not exact was rounded towards an end.

    Rounding keeps their order. So only the outermost one is rounded, unless all that are equal to
    it are exact: that costs a quarter of rounding each.
    """
    found = reduce(outer, [corner for corner, _ in corners])
    is_rounded = reduce(np.logical_or, ((corner == found) & ~exact for corner, exact in corners))
    rounded = np.where(is_rounded, np.nextafter(found, end), found) if is_rounded.any() else found
    bounds: Floats = np.where(np.isnan(found), end, rounded)
    return bounds


def _is_exact(result: Floats, left: Floats, right: Floats) -> Bools:
    """Return where the result of a sum or a product of two numbers is exact."""
    exact: Bools = np.abs(result) < EXACT
    exact &= (left == np.trunc(left)) & (right == np.trunc(right))
    return exact
