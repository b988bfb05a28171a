"""Expressions, computed over columns of events by Arrow, with SQL's NULL.

What cannot be computed is an error: a division by zero, a number beyond those of doubles, a field
of another sort than it is read as. Only an error that decides the outcome is one: `false and ERROR`
is false, as `true or ERROR` is true, and of a case the branch that is taken counts. NULL is nothing
wrong.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import (
    COMPARISONS,
    Call,
    FieldValue,
    Literal,
    Node,
)
from slidestat.declare.fields import FieldPath, field_text

Bools = npt.NDArray[np.bool_]

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COMPUTE = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}


class Computed(NamedTuple):
    """A column of `values`, null where there are none, or one value for all rows; and the rows
    without one because of an error, None if there are no such.
    """

    values: pa.Array | pa.Scalar
    errors: Bools | None = None


class Evaluation:
    """The values of expressions over `rows` events; `columns` have those of the fields."""

    def __init__(self, rows: int, columns: Mapping[FieldPath, Computed]) -> None:
        self._rows = rows
        self._columns = columns

    def holds(self, condition: Node) -> tuple[Bools, Bools | None]:
        """bool[rows]: where a condition is true, and where it cannot be told."""
        values, errors = self.of(condition)
        return self._is(values, True), errors

    def column(self, node: Node) -> tuple[pa.Array, Bools | None]:
        """Return the value of an expression in each row, null where it has none, and where that
        is because it cannot be computed.
        """
        values, errors = self.of(node)
        column = self._spread(values)
        if errors is not None and errors.any():
            column = _null_where(errors, column)
        return column, errors

    def of(self, node: Node) -> Computed:
        """The values of a part."""
        match node:
            case FieldValue(path):
                return self._columns[path]
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
            case Call("is null", (value,)):
                found = self.of(value)
                return self._known(pc.is_null(found.values), found.errors)
            case Call("is true" | "is false" as operator, (value,)):
                found = self.of(value)
                is_so = self._is(found.values, operator == "is true")
                return self._known(pa.array(is_so), found.errors)
            case Call(operator, operands):
                return self._plain(operator, operands)

    def _plain(self, operator: str, operands: Sequence[Node]) -> Computed:
        """Of an operator that has a value where its operands have."""
        values, errors = self._all(operands)
        match operator:
            case "not":
                return Computed(pc.invert(values[0].cast(pa.bool_())), errors)
            case "negate":
                return Computed(pc.negate(values[0].cast(pa.float64())), errors)
            case "lower" | "upper":
                return Computed(_recased(values[0], operator), errors)
            case "||":
                return Computed(pc.binary_join_element_wise(*map(_text, values), _text("")), errors)
        if operator in COMPARISONS:
            return Computed(_COMPARE[operator](*_alike(values)), errors)
        left, right = _alike(values, pa.float64())
        return self._arithmetic(operator, left, right, errors)

    def _all(self, operands: Sequence[Node]) -> tuple[list[pa.Array | pa.Scalar], Bools | None]:
        found = [self.of(operand) for operand in operands]
        return [one.values for one in found], _either(*(one.errors for one in found))

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
                    np.fmod(*map(self._doubles, (left, right))),
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

    def _connected(self, operator: str, operands: Sequence[Node]) -> Computed:
        connect = pc.and_kleene if operator == "and" else pc.or_kleene
        values, errors = self._all(operands)
        first, *others = (value.cast(pa.bool_()) for value in values)
        for other in others:
            first = connect(first, other)
        if errors is not None:
            # One operand may decide whatever the others are.
            errors = errors & ~self._is(first, operator == "or")
        return Computed(first, errors)

    def _case(self, operands: Sequence[Node]) -> Computed:
        conditions = [self.of(operand) for operand in operands[:-1:2]]
        branches = [self.of(operand) for operand in (*operands[1::2], operands[-1])]
        values = _alike([branch.values for branch in branches], untyped=pa.null())
        open_rows = np.ones(self._rows, bool)
        errors = np.zeros(self._rows, bool)
        result = self._spread(values[-1])
        for condition, branch, value in zip(conditions, branches, values, strict=False):
            if condition.errors is not None:
                errors |= open_rows & condition.errors
                open_rows &= ~condition.errors
            taken = open_rows & self._is(condition.values, True)
            if branch.errors is not None:
                errors |= taken & branch.errors
            result = pc.if_else(pa.array(taken), value, result)
            open_rows &= ~taken
        if branches[-1].errors is not None:
            errors |= open_rows & branches[-1].errors
        return self._without(result, errors)

    def _coalesce(self, operands: Sequence[Node]) -> Computed:
        found = [self.of(operand) for operand in operands]
        values = _alike([one.values for one in found], untyped=pa.null())
        open_rows, errors = np.ones(self._rows, bool), np.zeros(self._rows, bool)
        for one in found:
            if one.errors is not None:
                errors |= open_rows & one.errors
                open_rows &= ~one.errors
            open_rows &= self._nulls(one.values)
        return self._without(self._spread(pc.coalesce(*values)), errors)

    def _in(self, value: Node, listed: Sequence[Node]) -> Computed:
        literals = [one.value for one in listed if isinstance(one, Literal)]
        if len(literals) == len(listed) and None not in literals:
            found = self.of(value)
            (values,) = _alike([self._spread(found.values)])
            if not pa.types.is_null(found.values.type):
                among = pc.is_in(values, pa.array(literals, values.type))
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
        return self._bools(pc.is_null(values))

    def _is(self, values: pa.Array | pa.Scalar, truth: bool) -> Bools:
        """bool[rows]: where it is that, and not null."""
        known = values.cast(pa.bool_())
        is_true = self._bools(pc.fill_null(known if truth else pc.invert(known), False))
        return is_true

    def _bools(self, values: pa.Array | pa.Scalar) -> Bools:
        found: Bools = self._spread(values).to_numpy(zero_copy_only=False)
        return found

    def _doubles(self, values: pa.Array | pa.Scalar) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = self._spread(values).to_numpy(zero_copy_only=False)
        return found


def doubles(values: npt.NDArray[np.float64]) -> pa.Array:
    """Numbers, of which NaN is none."""
    nothing = np.isnan(values)
    return pa.array(values, mask=nothing) if nothing.any() else pa.array(values)


def error_of(row: int, known: Expression, columns: Mapping[FieldPath, Computed]) -> str:
    """Why an expression has no value in a row; `columns` has its fields."""
    for path, sort in known.fields:
        errors = columns[path].errors
        if errors is not None and errors[row]:
            return f"{field_text(path)} is no {sort.value}"
    return "a division by zero, or a number beyond those of doubles"


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
    """The values as of one type: NULL on its own has none, and is `untyped`, or a truth value,
    where nothing else is said.
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
    """The pattern of a like as a regular expression."""
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
