"""Expressions, computed over columns of events by Arrow, with SQL's NULL.

Numbers are doubles. One from 2^53 on may be none: then it is a double and a rest, which is a
double, too, for all below 2^100 (`WHOLE_LIMIT`). Comparisons take both, and what is computed of
whole numbers is computed of fractions, row by row. Where there is none, nothing of that is done.

A value that cannot be computed is an error: a division by zero, a number beyond those of doubles, a
field of another sort than it is read as. Only an error that decides the outcome is one: `false and
ERROR` is false, as `true or ERROR` is true, and of a case the branch taken counts. NULL is nothing
wrong.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import (
    CASTS,
    COMPARISONS,
    WHOLE_LIMIT,
    Call,
    FieldValue,
    Literal,
    Node,
    text_of,
)
from slidestat.declare.fields import FieldPath, field_text
from slidestat.engine.decoding.casts import (
    ROUNDED,
    CastNumbers,
    milliseconds_of,
    numbers_of_texts,
    rest_of,
    texts_of,
    wholes_of,
)
from slidestat.synopses.core.arrays import Bools, Floats
from slidestat.synopses.core.rounding import EXACT

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COMPUTE = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}


def _remainder(left: Fraction, right: Fraction) -> Fraction:
    """Return the remainder with the sign of the dividend, as that of doubles has it."""
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


_OF_FRACTIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": _remainder,
}


class Computed(NamedTuple):
    """A column of `values`, null where there are none, or one value for all rows; and the rows
    without one because of an error, None if there are no such. `rests` float64[rows], or one for
    all rows, is what numbers are more than `values`; NaN of one from 2^53 on that is rounded, and
    None where all are 0.
    """

    values: pa.Array | pa.Scalar
    errors: Bools | None = None
    rests: Floats | float | None = None


class Evaluation:
    """The values of expressions over `rows` events; `columns` have those of the fields."""

    def __init__(self, rows: int, columns: Mapping[FieldPath, Computed]) -> None:
        self._rows = rows
        self._columns = columns

    def holds(self, condition: Node) -> tuple[Bools, Bools | None]:
        """Return bool[rows] where a condition is true, and where it cannot be computed."""
        found = self.of(condition)
        return self._is(found.values, True), found.errors

    def column(self, node: Node) -> Computed:
        """Return the value of an expression in each row, null where it has none."""
        found = self.of(node)
        column = self._spread(found.values)
        if found.errors is not None and found.errors.any():
            column = _null_where(found.errors, column)
        rests = None if found.rests is None else self._rests(found)
        return Computed(column, found.errors, rests)

    def of(self, node: Node) -> Computed:
        """Return the values of a subexpression."""
        match node:
            case FieldValue(path):
                return self._columns[path]
            case Literal(int() | Decimal() as value) if not isinstance(value, bool):
                return Computed(pa.scalar(float(value)), None, rest_of(value))
            case Literal(value):
                return Computed(pa.scalar(value))
            case Call("and" | "or" as operator, operands):
                return self._connected(operator, operands)
            case Call("case", operands):
                return self._case(operands)
            case Call("coalesce", operands):
                return self._coalesce(operands)
            case Call("in", (value, *listed)):
                return self._in(value, listed)
            case Call("like", (value, Literal() as pattern, Literal() as escape)):
                found = self.of(value)
                return Computed(_like(found.values, pattern, escape), found.errors)
            case Call("substring", (value, *places)):
                found = self.of(value)
                return Computed(_part(found.values, places), found.errors)
            case Call(operator, (value, Literal(str(kind)))) if operator in CASTS:
                return self._cast(self.of(value), kind, is_tried=operator == "try_cast")
            case Call("is null", (value,)):
                found = self.of(value)
                return self._known(pc.is_null(found.values), found.errors)
            case Call("is true" | "is false" as operator, (value,)):
                found = self.of(value)
                is_so = self._is(found.values, operator == "is true")
                return self._known(pa.array(is_so), found.errors)
            case Call(operator, operands):
                return self._plain(operator, operands)

    def _cast(self, found: Computed, kind: str, *, is_tried: bool) -> Computed:
        nulls = self._nulls(found.values)
        if kind == "varchar":
            values = self._spread(found.values)
            texts = texts_of(values.to_pylist(), self._rests(found).tolist())
            wrong = np.array([text == ROUNDED for text in texts], bool)
            wrong &= pa.types.is_floating(values.type)
            column, rests = pa.array(texts, pa.large_string()), None
        else:
            cast = self._cast_numbers(found, kind)
            wrong, rests = cast.errors, cast.rests if cast.rests.any() else None
            column = pa.array(cast.values)
        wrong = wrong & ~nulls
        column = _null_where(nulls | wrong, column)
        errors = found.errors if is_tried or not wrong.any() else _either(found.errors, wrong)
        return Computed(column, errors, rests)

    def _cast_numbers(self, found: Computed, kind: str) -> CastNumbers:
        values = self._spread(found.values)
        if pa.types.is_null(values.type):
            values = values.cast(pa.float64())
        if not pa.types.is_floating(values.type):
            texts = _text(values)
            return milliseconds_of(texts) if kind == "timestamp" else numbers_of_texts(texts, kind)
        numbers = CastNumbers(self._each(values), self._rests(found), np.zeros(self._rows, bool))
        return wholes_of(numbers) if kind == "bigint" else numbers

    def _plain(self, operator: str, operands: Sequence[Node]) -> Computed:
        """Return the values of an operator that has one wherever its operands do."""
        found = list(map(self.of, operands))
        values, errors = [one.values for one in found], _either(*(one.errors for one in found))
        match operator:
            case "not":
                return Computed(pc.invert(values[0].cast(pa.bool_())), errors)
            case "negate":
                rests = None if found[0].rests is None else -found[0].rests
                return Computed(pc.negate(values[0].cast(pa.float64())), errors, rests)
            case "lower" | "upper":
                return Computed(_recased(values[0], operator), errors)
            case "||":
                return Computed(pc.binary_join_element_wise(*map(_text, values), _text("")), errors)
        if operator in COMPARISONS:
            left, right = _alike(values)
            if all(one.rests is None for one in found):
                return Computed(_COMPARE[operator](left, right), errors)
            return Computed(_compared(operator, left, right, *map(self._rests, found)), errors)
        left, right = _alike(values, pa.float64())
        result = self._arithmetic(operator, left, right, errors)
        return self._with_rests(operator, result, (left, right), found)

    def _arithmetic(
        self,
        operator: str,
        left: pa.Array | pa.Scalar,
        right: pa.Array | pa.Scalar,
        errors: Bools | None,
    ) -> Computed:
        if operator == "%":
            with np.errstate(invalid="ignore"):
                result = pa.array(
                    np.fmod(*map(self._each, (left, right))),
                    mask=self._nulls(left) | self._nulls(right),
                    from_pandas=False,
                )
        else:
            result = _COMPUTE[operator](left, right)
        # Null is neither: what is not a finite number here went wrong.
        wrong = self._is(pc.is_finite(result), False)
        if not wrong.any():
            return Computed(result, errors)
        return Computed(_null_where(wrong, result), _either(errors, wrong))

    def _with_rests(
        self,
        operator: str,
        result: Computed,
        operands: tuple[pa.Array | pa.Scalar, pa.Array | pa.Scalar],
        found: Sequence[Computed],
    ) -> Computed:
        """Return a result of arithmetic as it is of the numbers themselves, where they are no
        doubles, or the result may be none.
        """
        values = self._each(result.values)
        concerned = np.abs(values) >= EXACT
        for one in found:
            if one.rests is not None:
                concerned |= self._rests(one) != 0  # NaN, too.
        concerned &= np.isfinite(values)
        if not concerned.any():
            return result
        values, rests = values.copy(), np.zeros(self._rows)
        lefts, rights = map(self._each, operands)
        left_rests, right_rests = map(self._rests, found)
        compute = _OF_FRACTIONS[operator]
        for row in np.flatnonzero(concerned).tolist():
            left = _number(lefts[row], left_rests[row])
            right = _number(rights[row], right_rests[row])
            if left is None or right is None or (right == 0 and operator in "/%"):
                rests[row] = np.nan
                continue
            number = compute(left, right)
            values[row], rests[row] = float(number), rest_of(number)
        rests[np.isnan(rests) & (np.abs(values) < EXACT)] = 0
        nothing = pa.array(self._nulls(result.values))
        changed = pc.if_else(nothing, pa.scalar(None, pa.float64()), pa.array(values))
        return Computed(changed, result.errors, rests)

    def _rests(self, computed: Computed) -> Floats:
        """Return the rests of numbers, float64[rows]."""
        rests = 0.0 if computed.rests is None else computed.rests
        return np.full(self._rows, rests) if isinstance(rests, float) else rests

    def _connected(self, operator: str, operands: Sequence[Node]) -> Computed:
        connect = pc.and_kleene if operator == "and" else pc.or_kleene
        found = list(map(self.of, operands))
        errors = _either(*(one.errors for one in found))
        first, *others = (one.values.cast(pa.bool_()) for one in found)
        for other in others:
            first = connect(first, other)
        if errors is not None:
            # One operand may decide, whatever the others are.
            errors = errors & ~self._is(first, operator == "or")
        return Computed(first, errors)

    def _case(self, operands: Sequence[Node]) -> Computed:
        conditions = [self.of(operand) for operand in operands[:-1:2]]
        branches = [self.of(operand) for operand in (*operands[1::2], operands[-1])]
        values = _alike([branch.values for branch in branches], untyped=pa.null())
        open_rows = np.ones(self._rows, bool)
        errors = np.zeros(self._rows, bool)
        result = self._spread(values[-1])
        has_rests = any(branch.rests is not None for branch in branches)
        rests = self._rests(branches[-1]) if has_rests else None
        for condition, branch, value in zip(conditions, branches, values, strict=False):
            if condition.errors is not None:
                errors |= open_rows & condition.errors
                open_rows &= ~condition.errors
            taken = open_rows & self._is(condition.values, True)
            if branch.errors is not None:
                errors |= taken & branch.errors
            result = pc.if_else(pa.array(taken), value, result)
            if rests is not None:
                rests = np.where(taken, self._rests(branch), rests)
            open_rows &= ~taken
        if branches[-1].errors is not None:
            errors |= open_rows & branches[-1].errors
        return self._without(result, errors)._replace(rests=rests)

    def _coalesce(self, operands: Sequence[Node]) -> Computed:
        found = [self.of(operand) for operand in operands]
        values = _alike([one.values for one in found], untyped=pa.null())
        open_rows, errors = np.ones(self._rows, bool), np.zeros(self._rows, bool)
        has_rests = any(one.rests is not None for one in found)
        rests = np.zeros(self._rows) if has_rests else None
        for one in found:
            if one.errors is not None:
                errors |= open_rows & one.errors
                open_rows &= ~one.errors
            if rests is not None:
                rests = np.where(open_rows, self._rests(one), rests)
            open_rows &= self._nulls(one.values)
        return self._without(self._spread(pc.coalesce(*values)), errors)._replace(rests=rests)

    def _in(self, value: Node, listed: Sequence[Node]) -> Computed:
        literals = [one.value for one in listed if isinstance(one, Literal)]
        if len(literals) == len(listed) and None not in literals:
            found = self.of(value)
            (values,) = _alike([self._spread(found.values)])
            has_rests = found.rests is not None or not {int, Decimal}.isdisjoint(
                map(type, literals)
            )
            if not has_rests and not pa.types.is_null(found.values.type):
                among = pc.is_in(_one_zero(values), _one_zero(pa.array(literals, values.type)))
                return Computed(_null_where(self._nulls(values), among), found.errors)
        return self._connected("or", [Call("=", (value, one)) for one in listed])

    def _known(self, values: pa.Array | pa.Scalar, errors: Bools | None) -> Computed:
        """Return values that are never null, but where there is an error."""
        return Computed(values) if errors is None else self._without(self._spread(values), errors)

    def _without(self, values: pa.Array, errors: Bools) -> Computed:
        if not errors.any():
            return Computed(values)
        return Computed(_null_where(errors, values), errors)

    def _spread(self, values: pa.Array | pa.Scalar) -> pa.Array:
        return pa.repeat(values, self._rows) if isinstance(values, pa.Scalar) else values

    def _nulls(self, values: pa.Array | pa.Scalar) -> Bools:
        return self._each(pc.is_null(values))

    def _is(self, values: pa.Array | pa.Scalar, truth: bool) -> Bools:
        """Return bool[rows]: where a value is `truth`, and not null."""
        known = values.cast(pa.bool_())
        return self._each(pc.fill_null(known if truth else pc.invert(known), False))

    def _each(self, values: pa.Array | pa.Scalar) -> npt.NDArray[Any]:
        """Return the values of the rows, numbers or truth values, as an array of their type."""
        found: npt.NDArray[Any] = self._spread(values).to_numpy(zero_copy_only=False)
        return found


def _number(value: float, rest: float) -> Fraction | None:
    """Return the whole number or the double of a double and its rest; None if it may be neither."""
    if not rest.is_integer() or not abs(value) < WHOLE_LIMIT:
        return None
    return Fraction(value) + Fraction(rest)


def _compared(
    operator: str,
    left: pa.Array | pa.Scalar,
    right: pa.Array | pa.Scalar,
    left_rests: Floats,
    right_rests: Floats,
) -> pa.Array:
    """Compare numbers that are doubles and rests: of equal doubles the rests are compared. (The
    nearest doubles are in the order of the numbers.)
    """
    of_rests = (pa.array(np.nan_to_num(rests)) for rests in (left_rests, right_rests))
    rests_hold = _COMPARE[operator](*of_rests)
    return pc.if_else(pc.equal(left, right), rests_hold, _COMPARE[operator](left, right))


def _one_zero(values: pa.Array) -> pa.Array:
    """Return values with 0 for minus zero, which equals it and has other bits."""
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def doubles(values: npt.NDArray[np.float64]) -> pa.Array:
    """Return numbers as a column with null for NaN."""
    nothing = np.isnan(values)
    return pa.array(values, mask=nothing) if nothing.any() else pa.array(values)


def error_of(row: int, known: Expression, columns: Mapping[FieldPath, Computed]) -> str:
    """Return the reason why an expression has no value in a row; `columns` has its fields."""
    for path, sort in known.fields:
        errors = columns[path].errors
        if errors is not None and errors[row]:
            return f"{field_text(path)} is no {sort.value}"
    alone = Evaluation(1, {path: _row(columns[path], row) for path, _ in known.fields})
    for call in _casts_in(known.node):
        value = alone.of(call.operands[0])
        if value.errors is None and alone.of(call).errors is not None:
            shown = repr(alone.column(call.operands[0]).values[0].as_py())
            return f"{text_of(call)} of {shown[:_MOST_SHOWN]}: {_NO_CAST[call.operands[1]]}"
    return "a division by zero, or a number beyond those of doubles"


_MOST_SHOWN = 60
_NO_CAST: dict[Node, str] = {
    Literal("double"): "that is no number of doubles",
    Literal("bigint"): "that is no whole number of 64 bits",
    Literal("timestamp"): "that is no time in ISO 8601",
    Literal("varchar"): "that is rounded",
}


def _row(column: Computed, row: int) -> Computed:
    """Return one row of a column that has no error there."""
    is_column = isinstance(column.values, pa.Array)
    rests = column.rests[row : row + 1] if isinstance(column.rests, np.ndarray) else column.rests
    return Computed(column.values.slice(row, 1) if is_column else column.values, None, rests)


def _casts_in(node: Node) -> Iterator[Call]:
    """Yield the casts of an expression, the inner ones first."""
    if isinstance(node, Call):
        for operand in node.operands:
            yield from _casts_in(operand)
        if node.operator == "cast":
            yield node


def _null_where(rows: Bools, values: pa.Array | pa.Scalar) -> pa.Array:
    return pc.if_else(pa.array(rows), pa.scalar(None, values.type), values)


def _either(*errors: Bools | None) -> Bools | None:
    found = [some for some in errors if some is not None]
    return np.logical_or.reduce(found) if found else None


def _alike(
    values: Sequence[pa.Array | pa.Scalar],
    kind: pa.DataType | None = None,
    untyped: pa.DataType | None = None,
) -> list[pa.Array | pa.Scalar]:
    """Return the values as of one type. NULL on its own has none: it is `untyped`, or a truth
    value, where no other value and no `kind` decides.
    """
    known = (value.type for value in values if not pa.types.is_null(value.type))
    wanted = kind or next(known, untyped or pa.bool_())
    if pa.types.is_string(wanted):
        wanted = pa.large_string()
    return [value if value.type == wanted else value.cast(wanted) for value in values]


def _text(value: pa.Array | pa.Scalar | str) -> pa.Array | pa.Scalar:
    if isinstance(value, str):
        return pa.scalar(value, pa.large_string())
    return value.cast(pa.large_string())


def _recased(values: pa.Array | pa.Scalar, operator: str) -> pa.Array | pa.Scalar:
    """Lower or upper case, as Unicode has it: a character may become two."""
    change = str.lower if operator == "lower" else str.upper
    if isinstance(values, pa.Scalar):
        text = values.as_py()
        return pa.scalar(None if text is None else change(text), pa.large_string())
    coded = values.cast(pa.large_string()).dictionary_encode()
    changed = pa.array([change(text) for text in coded.dictionary.to_pylist()], pa.large_string())
    return changed.take(coded.indices)


def _part(values: pa.Array | pa.Scalar, places: Sequence[Node]) -> pa.Array | pa.Scalar:
    first, *length = (int(place.value) for place in places if isinstance(place, Literal))  # type: ignore[arg-type]  # A number, as was checked.
    stop = first - 1 + length[0] if length else None
    return pc.utf8_slice_codeunits(_text(values), first - 1, stop)


def _like(values: pa.Array | pa.Scalar, pattern: Literal, escape: Literal) -> pa.Array | pa.Scalar:
    expression = _regular(str(pattern.value), str(escape.value or ""))
    return pc.match_substring_regex(_text(values), expression)


def _regular(pattern: str, escape: str) -> str:
    """Return the pattern of a LIKE as a regular expression."""
    wanted, is_escaped = "", False
    for character in pattern:
        if is_escaped or character not in ("%", "_", escape):
            wanted += re.escape(character)
            is_escaped = False
        elif character == escape:
            is_escaped = True
        else:
            wanted += ".*" if character == "%" else "."
    return rf"(?s)\A{wanted}\z"
