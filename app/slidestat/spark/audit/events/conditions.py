"""Conditions and computed fields of a declaration, for one event at a time, in plain Python.

An audit shares no code with the workers: sqlglot's tree of the declared text is gone through as it
is, with None for NULL, and numbers are doubles as SQL computes with them;
those from 2^53 on that are no doubles are ints, or Fractions.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_05UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
from sqlglot import exp, parse_one

Number = float | int | Fraction
Value = Number | str | bool | None
# A part of sqlglot's.
Tree = Any
# From there on doubles may be rounded numbers; below it whole ones are computed exactly.
_EXACT, MOST_WHOLE = 2**53, 2**100
_LARGEST = Decimal(sys.float_info.max)


class Rounded(float):
    """A double from 2^53 on that something was rounded to."""


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        return math.fmod(left, right)
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


_COMPUTE: dict[type, Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.Mod: _remainder,
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


class NotComputableError(Exception):
    """An error of a part that decides the outcome and cannot be computed."""


# A field that is only cast is read as a text, as an item is.
_IS_TEXT = "is_text"


@lru_cache(maxsize=1_000)
def _tree(text: str, *, is_truth: bool = False) -> Tree:
    tree = parse_one(text, into=exp.Condition)
    parts = _Parts()
    parts.join([tree], *[_KNOWN] * is_truth)
    for field in parts.fields:
        field.meta[_IS_TEXT] = parts.are_text(tuple(_names(field)))
    return tree


_KNOWN = "known"


class _Parts:
    """The parts of an expression by names for their sorts, and its `fields`; all parts whose sort
    shows are `_KNOWN`.
    """

    def __init__(self) -> None:
        self.fields: list[Tree] = []
        self._cast: list[object] = []
        self._same_as: dict[object, object] = {}

    def are_text(self, name: object) -> bool:
        """Return whether parts of this name are read as texts: they are cast, and no sort shows."""
        root = self._root(name)
        return root != self._root(_KNOWN) and root in map(self._root, self._cast)

    def of(self, tree: Tree) -> object:
        """Return the name of the sort of a part, with all that follows for its own parts."""
        match tree:
            case exp.Paren():
                return self.of(tree.this)
            case exp.Column() | exp.Dot():
                self.fields.append(tree)
                return tuple(_names(tree))
            case exp.Null():
                return id(tree)
            case exp.Coalesce():
                return self.join([tree.this, *tree.expressions])
            case exp.Case():
                branches = [branch.args["true"] for branch in tree.args["ifs"]]
                self.join([branch.this for branch in tree.args["ifs"]], _KNOWN)
                return self.join([*branches, tree.args["default"]])
            case exp.Cast():
                self._cast.append(self.of(tree.this))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                self.of(tree.this)
            case exp.In():
                self.join([tree.this, *tree.expressions])
            case _ if type(tree) in _COMPARE:
                self.join([tree.this, tree.expression])
            case _:
                self.join(list(tree.iter_expressions()), _KNOWN)
        return _KNOWN

    def join(self, trees: Sequence[Tree], *known: object) -> object:
        """Note that parts are of one sort, and return its name."""
        names = [*known, *map(self.of, trees)]
        for name in names[1:]:
            self._same_as[self._root(name)] = self._root(names[0])
        return names[0] if names else _KNOWN

    def _root(self, name: object) -> object:
        while self._same_as.get(name, name) != name:
            name = self._same_as[name]
        return name


def holds(condition: str, fields: Mapping[str, Any]) -> bool:
    """Return whether a condition is true of an event's fields; raises NotComputableError."""
    return _value(_tree(condition, is_truth=True), fields) is True


def computed(expression: str, fields: Mapping[str, Any]) -> Value:
    """Return an expression's value over an event's fields; NotComputableError where it has none."""
    return _value(_tree(expression), fields)


def _value(tree: Tree, fields: Mapping[str, Any]) -> Value:
    match tree:
        case exp.Paren():
            return _value(tree.this, fields)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(tree.this)
        case exp.Literal():
            return str(tree.this) if tree.is_string else _literal(tree.this)
        case exp.Column() | exp.Dot():
            return _field(tree, fields)
        case exp.And() | exp.Or():
            return _connected(tree, fields)
        case exp.Not():
            truth = _truth(tree.this, fields)
            return None if truth is None else not truth
        case exp.Is() if isinstance(tree.expression, exp.Null):
            return _present(tree.this, fields) is None
        case exp.Is():
            return _truth(tree.this, fields) is bool(tree.expression.this)
        case exp.In():
            among = [(tree.this, one) for one in tree.expressions]
            return _any([lambda pair=pair: _compared(exp.EQ, pair, fields) for pair in among])
        case exp.Like():
            return _like(tree, None, fields)
        case exp.Escape():
            return _like(tree.this, str(tree.expression.this), fields)
        case exp.Case():
            for branch in tree.args["ifs"]:
                if _truth(branch.this, fields):
                    return _value(branch.args["true"], fields)
            return _value(tree.args["default"], fields)
        case exp.TryCast():
            value = _value(tree.this, fields)
            try:
                return _cast(value, tree.args["to"])
            except NotComputableError:
                return None
        case exp.Cast():
            return _cast(_value(tree.this, fields), tree.args["to"])
        case exp.Coalesce():
            found = (_value(one, fields) for one in (tree.this, *tree.expressions))
            return next((value for value in found if value is not None), None)
    return _strict(tree, fields)


def _strict(tree: Tree, fields: Mapping[str, Any]) -> Value:
    """Return the value of an operator that is NULL where an operand is."""
    match tree:
        case exp.Substring():
            start, length = tree.args["start"], tree.args.get("length")
            text, first = _text(tree.this, fields), int(start.this) - 1
            end = None if length is None else first + int(length.this)
            return None if text is None else text[first:end]
        case exp.Lower() | exp.Upper():
            text = _text(tree.this, fields)
            change = str.lower if isinstance(tree, exp.Lower) else str.upper
            return None if text is None else change(text)
        case exp.Neg():
            value = _number(tree.this, fields)
            return None if value is None else type(value)(-value)
        case exp.DPipe():
            texts = [_text(one, fields) for one in (tree.this, tree.expression)]
            return None if None in texts else "".join(map(str, texts))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _arithmetic(tree, fields)
    return _compared(type(tree), (tree.this, tree.expression), fields)


# Python takes four separators of ASCII for spaces, too, and Unicode does not.
SPACES = "".join(x for x in map(chr, range(0x3001)) if x.isspace() and not "\x1c" <= x <= "\x1f")
NUMBER_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _cast(value: Value, kind: Tree) -> Value:
    if value is None:
        return None
    match kind.this:
        case exp.DType.DOUBLE:
            return _as_number(value)
        case exp.DType.BIGINT:
            return _as_bigint(value)
        case exp.DType.TIMESTAMP:
            if not isinstance(value, str):
                raise NotComputableError
            try:
                microseconds, _ = iso_microseconds(value)
            except ValueError as error:
                raise NotComputableError from error
            return float(microseconds) / 1_000
    return _as_text(value)


def _as_number(value: Number | str) -> Number:
    """Return the number that a text writes, as if JSON had it there."""
    if not isinstance(value, str):
        return value if not isinstance(value, bool) else _not_computable()
    text = value.strip(SPACES)
    if not NUMBER_TEXT.fullmatch(text):
        raise NotComputableError
    if math.isinf(nearest := float(text)):
        raise NotComputableError
    if abs(nearest) < _EXACT:
        return nearest
    exact = Decimal(text)
    if abs(exact) > _LARGEST:
        raise NotComputableError
    return number(int(exact) if text.lstrip("+-").isdigit() else exact)


def _as_bigint(value: Number | str) -> Number:
    found = _as_number(value)
    exact: Any = found
    if isinstance(value, str) and abs(float(found)) >= _EXACT:
        exact = Decimal(value.strip(SPACES))
    if isinstance(found, Rounded) or abs(float(found)) > 2.0**64 or exact != int(found):
        raise NotComputableError
    return found if -(2**63) <= int(found) < 2**63 else _not_computable()


def _as_text(value: Number | str | bool) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Rounded | Fraction):
        raise NotComputableError
    is_short = isinstance(value, int) or (value.is_integer() and abs(value) < MOST_WHOLE)
    return str(int(value)) if is_short else msgspec.json.encode(value).decode()


# Digits that are taken of a number that is not whole; the rest shows in the last digit.
_DIGITS = Context(prec=60, rounding=ROUND_05UP)


def item_text(written: int | Decimal) -> str:
    """Return what a number is called as an item: a whole one, or one from 2^53 on, by its digits,
    others, and those from 2^100 on that were not written as whole ones, by the shortest text of
    their double, which may be whole.
    """
    is_short = -MOST_WHOLE < written < MOST_WHOLE
    if isinstance(written, int) or (is_short and written == written.to_integral_value()):
        return str(int(written))
    if is_short and abs(float(written)) >= _EXACT:
        return f"{_DIGITS.create_decimal(written):f}".rstrip("0")
    nearest = float(written)
    if is_short and nearest.is_integer():
        return str(int(nearest))
    return msgspec.json.encode(nearest).decode()


def _not_computable() -> Any:
    raise NotComputableError


_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d-\d|\d{4}W\d{3})"
    r"(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?"
    r"( ?(?:Z|([+-])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?))?)?",
    re.ASCII,
)


def iso_microseconds(text: str) -> tuple[int, bool]:
    """Return the microseconds since 1970 of a text in ISO 8601, and whether it has a zone; raises
    ValueError for what is no time.
    """
    parts = _ISO.fullmatch(text.strip(SPACES).upper())
    if parts is None:
        raise ValueError(text)
    day, hour, minute, second, fraction, zone, sign, *away = parts.groups()
    is_leap = second == "60"
    moment = datetime.combine(
        date.fromisoformat(day),
        time(int(hour or 0), int(minute or 0), 59 if is_leap else int(second or 0)),
    )
    hours, minutes, seconds = (int(part or 0) for part in away)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(text)
    offset = 3_600 * hours + 60 * minutes + seconds
    whole = (moment - datetime(1970, 1, 1)) // timedelta(seconds=1) + is_leap
    whole += offset if sign == "-" else -offset
    return 1_000_000 * whole + int(f"{fraction or '0':0<6}"[:6]), zone is not None


def _literal(text: str) -> Number:
    try:
        return number(Decimal(text))
    except InvalidOperation:  # Its power has more digits than a Decimal's.
        return float(text)


def _compared(how: type, pair: tuple[Tree, Tree], fields: Mapping[str, Any]) -> bool | None:
    left, right = (_value(one, fields) for one in pair)
    if left is None or right is None:
        return None
    if _kind(left) is not _kind(right):
        raise NotComputableError
    return _COMPARE[how](left, right)


def _kind(value: Value) -> type:
    return type(value) if isinstance(value, str | bool) else float


def _field(tree: Tree, fields: Mapping[str, Any]) -> Value:
    found = _at(tree, fields)
    if isinstance(found, dict | list):
        raise NotComputableError
    if tree.meta[_IS_TEXT] and isinstance(found, int):
        return _as_text(found) if isinstance(found, bool) else item_text(found)
    if found is None or isinstance(found, str | bool):
        return found
    try:
        nearest = number(found)
    except OverflowError as error:
        raise NotComputableError from error
    if math.isinf(nearest):
        raise NotComputableError
    return item_text(found) if tree.meta[_IS_TEXT] else nearest


def number(written: int | Decimal | float) -> Number:
    """Return a number's nearest double; one in [2^53, 2^100) that is no double, as it is."""
    nearest = float(written)
    is_short = -MOST_WHOLE < written < MOST_WHOLE
    is_double = written == nearest or not (is_short or isinstance(written, int))
    if abs(nearest) < _EXACT or is_double:
        return nearest
    if written != int(written):
        return Fraction(written)
    return int(written) if is_short else Rounded(nearest)


def _at(tree: Tree, fields: Mapping[str, Any]) -> Any:
    found: Any = fields
    for name in _names(tree):
        if found is not None and not isinstance(found, dict):
            raise NotComputableError
        found = None if found is None else found.get(name)
    return found


def _names(tree: Tree) -> Sequence[str]:
    if isinstance(tree, exp.Dot):
        return [*_names(tree.this), *_names(tree.expression)]
    return [tree.name] if isinstance(tree, exp.Identifier) else [part.name for part in tree.parts]


def _present(tree: Tree, fields: Mapping[str, Any]) -> Any:
    """Return a field's value whatever it is, as only its presence is tested."""
    inner = tree.unnest()
    is_field = isinstance(inner, exp.Column | exp.Dot)
    return _at(inner, fields) if is_field else _value(inner, fields)


def _number(tree: Tree, fields: Mapping[str, Any]) -> Number | None:
    value = _value(tree, fields)
    if value is None or isinstance(value, str | bool):
        return _of(float, value)  # type: ignore[return-value]
    return value


def _text(tree: Tree, fields: Mapping[str, Any]) -> str | None:
    return _of(str, _value(tree, fields))  # type: ignore[return-value]


def _truth(tree: Tree, fields: Mapping[str, Any]) -> bool | None:
    return _of(bool, _value(tree, fields))  # type: ignore[return-value]


def _of(kind: type, value: Value) -> Value:
    if value is not None and type(value) is not kind:
        raise NotComputableError
    return value


def _connected(tree: Tree, fields: Mapping[str, Any]) -> bool | None:
    operands = (tree.this, tree.expression)
    if isinstance(tree, exp.Or):
        return _any([lambda one=one: _truth(one, fields) for one in operands])
    # By De Morgan's laws, which hold with NULL as well.
    met = _any([lambda one=one: _not(_truth(one, fields)) for one in operands])
    return _not(met)


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _any(truths: Sequence[Any]) -> bool | None:
    """Return whether one is true, whatever the others are."""
    found: set[bool | None] = set()
    not_computable: NotComputableError | None = None
    for truth in truths:
        try:
            found.add(truth())
        except NotComputableError as error:
            not_computable = error
    if True in found:
        return True
    if not_computable is not None:
        raise not_computable
    return None if None in found else False


def _arithmetic(tree: Tree, fields: Mapping[str, Any]) -> Number | None:
    left, right = _number(tree.this, fields), _number(tree.expression, fields)
    if left is None or right is None:
        return None
    try:
        result = float(_COMPUTE[type(tree)](float(left), float(right)))
    except (ZeroDivisionError, ValueError) as error:
        raise NotComputableError from error
    if not math.isfinite(result):
        raise NotComputableError
    if {int, Fraction}.isdisjoint((type(left), type(right))) and abs(result) < _EXACT:
        return result
    if not any(
        isinstance(one, Rounded | Fraction) or abs(float(one)) >= MOST_WHOLE
        for one in (left, right)
    ):
        exact = _COMPUTE[type(tree)](Fraction(left), Fraction(right))
        result = float(exact)
        if exact.denominator == 1:
            return number(int(exact))
    return result if abs(result) < _EXACT else Rounded(result)


def _like(tree: Tree, escape: str | None, fields: Mapping[str, Any]) -> bool | None:
    text, pattern = _text(tree.this, fields), str(tree.expression.this)
    if text is None:
        return None
    signs = {"%": ".*", "_": "."}
    parts = re.findall(f"{re.escape(escape)}?." if escape else ".", pattern, re.DOTALL)
    expression = "".join(signs.get(part, re.escape(part[-1])) for part in parts)
    is_like = re.fullmatch(expression, text, re.DOTALL) is not None
    return not is_like if tree.args.get("negate") else is_like
