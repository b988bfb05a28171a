"""SQL text to the nodes of an expression, by sqlglot; what it has beyond them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slidestat.declare.expressions.nodes import (
    WHOLE_BITS,
    WHOLE_LIMIT,
    Call,
    FieldValue,
    Literal,
    Node,
)
from slidestat.declare.fields import field_path
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from sqlglot import exp

_KNOWN = (
    "There are = <> < <= > >=, and, or, not, in, between, like, is null, is true, is false, case,"
    " + - * / %, ||, coalesce, lower, upper, substring, cast and try_cast."
)
_MOST_CHARACTERS = 10_000
_MOST_LEVELS = 150
# Types as sqlglot names them; `text` is another name of SQL's for varchar.
_TYPES = {
    "DOUBLE": "double",
    "BIGINT": "bigint",
    "VARCHAR": "varchar",
    "TEXT": "varchar",
    "TIMESTAMP": "timestamp",
}


def parsed(text: str, what: str) -> Node:
    """Parse a text to the node of its expression.

    Raises SlidestatError, naming `what`, for a text that is no expression, and for one with
    operators or functions that are not supported.
    """
    with _limits_of(text, what):
        return _node(_tree(text, what), text, what)


def parsed_with_name(text: str, what: str, example: str) -> tuple[Node, str]:
    """Parse "EXPRESSION as NAME" to the node of the expression, and the name.

    Raises SlidestatError as `parsed`, and for a text of another form, with the `example`.
    """
    with _limits_of(text, what):
        tree, name = _named_tree(text, what, example)
        return _node(tree, text, what), name


@contextmanager
def _limits_of(text: str, what: str) -> Iterator[None]:
    """Raise SlidestatError for a text that is too long, or nested too deep to be parsed."""
    if len(text) > _MOST_CHARACTERS:
        raise SlidestatError(
            f"{what} is {len(text):,} characters long.",
            f"Write at most {_MOST_CHARACTERS:,} characters.",
        )
    try:
        yield
    except RecursionError as error:
        raise _too_deep(what) from error


def _node(tree: exp.Expression, text: str, what: str) -> Node:
    node = _Reader(text, what).node(tree)
    _check_tests(text, what)
    _check_levels(node, what)
    return node


def _check_tests(text: str, what: str) -> None:
    """Raise SlidestatError for `a = b is true`, or `a = b isnull`, which test a = b in SQL, and
    sqlglot reads as a = (b is true).
    """
    from sqlglot import TokenType as T
    from sqlglot.dialects import Dialect

    signs = (T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE)
    tests = (T.IS, T.ISNULL, T.NOTNULL)
    # Whether there is a comparison before, in each of the parentheses and cases that are open.
    compared, before = [False], [T.COMMA, T.COMMA]
    for token in Dialect.get_or_raise(None).tokenize(text):
        kind = token.token_type
        # Behind a sign, these words are the name of a field, and a value.
        is_test = kind in tests and before[1] not in signs
        is_test |= kind is T.NULL and before[1] is T.NOT and before[0] not in signs
        if compared[-1] and is_test:
            name = "not null" if kind is T.NULL else token.text.lower()
            raise SlidestatError(
                f"{what} is {text!r}, and `{name}` comes behind a comparison.",
                "Write what is meant in parentheses: (a = b) is true, or a = (b is true).",
            )
        if kind in (T.L_PAREN, T.CASE):
            compared.append(False)
        elif kind in (T.R_PAREN, T.END) and len(compared) > 1:
            compared.pop()
        elif kind in (T.AND, T.OR, T.COMMA, T.WHEN, T.THEN, T.ELSE):
            compared[-1] = False
        elif kind in signs:
            compared[-1] = True
        before = [before[1], kind]


def _check_levels(node: Node, what: str) -> None:
    """Raise SlidestatError for an expression that could not be computed wherever it is needed: each
    of its levels is a few calls in one another.
    """
    level, levels = [node], 0
    while level:
        level = [part for it in level if isinstance(it, Call) for part in it.operands]
        levels += 1
    if levels > _MOST_LEVELS:
        raise _too_deep(what)


def _too_deep(what: str) -> SlidestatError:
    return SlidestatError(
        f"{what} is nested too deep.",
        f"Write it with fewer levels, at most {_MOST_LEVELS}: each operator of a row of + - * / is"
        " one, and parentheses halve them: (a + b) + (c + d).",
    )


def _named_tree(text: str, what: str, example: str) -> tuple[Any, str]:
    from sqlglot import exp
    from sqlglot.dialects import Dialect
    from sqlglot.errors import SqlglotError

    advice = (
        f"Write an expression as SQL has it and its name: {example}. A name in it that is a word of"
        ' SQL, or has other signs than letters, in double quotes: "order".'
    )
    try:
        found = Dialect.get_or_raise(None).parse_into(exp.Select, f"select {text}")
    except SqlglotError as error:
        raise SlidestatError(f"{what} has {text!r}, which is no SQL.", advice) from error
    match found:
        case [exp.Select(expressions=[exp.Alias() as alias]) as select] if alias.alias and not any(
            value for name, value in select.args.items() if name != "expressions"
        ):
            return alias.this, alias.alias
    raise SlidestatError(f"{what} has {text!r}, which is not one expression as a name.", advice)


_EXAMPLE = (
    "Write a condition as SQL has it, such as status >= 500 and path like '/api/%'; a field"
    ' whose name is a word of SQL, or has other signs than letters, in double quotes: "order".'
)


def _tree(text: str, what: str) -> Any:
    from sqlglot import exp
    from sqlglot.dialects import Dialect
    from sqlglot.errors import ParseError, SqlglotError

    try:
        found = Dialect.get_or_raise(None).parse_into(exp.Condition, text)
    except SqlglotError as error:
        near = ""
        if isinstance(error, ParseError) and error.errors and error.errors[0].get("highlight"):
            near = f" near {error.errors[0]['highlight']!r}"
        raise SlidestatError(f"{what} is {text!r}, which is no SQL{near}.", _EXAMPLE) from error
    if len(found) != 1 or found[0] is None:
        raise SlidestatError(f"{what} is {text!r}, which is not one expression.", _EXAMPLE)
    return found[0]


@lru_cache(maxsize=1)
def _infix() -> dict[type, str]:
    from sqlglot import exp

    return {
        **{exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="},
        **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"},
        **{exp.And: "and", exp.Or: "or", exp.DPipe: "||"},
    }


@lru_cache(maxsize=1)
def _known() -> dict[type, frozenset[str]]:
    """Return the names that parts of each sort of sqlglot's trees may have."""
    from sqlglot import exp

    pair = ("this", "expression")
    known: dict[type, tuple[str, ...]] = {
        **dict.fromkeys(_infix(), pair),
        **dict.fromkeys((exp.Paren, exp.Neg, exp.Not, exp.Lower, exp.Upper), ("this",)),
        **dict.fromkeys((exp.Boolean, exp.Null), ("this",)),
        **dict.fromkeys((exp.Is, exp.Like), (*pair, "negate")),
        exp.Literal: ("this", "is_string"),
        exp.Column: ("this", "table", "db", "catalog"),
        exp.Dot: pair,
        exp.Escape: pair,
        exp.Between: ("this", "low", "high"),
        exp.In: ("this", "expressions"),
        exp.Case: ("this", "ifs", "default"),
        exp.Coalesce: ("this", "expressions"),
        exp.Anonymous: ("this", "expressions"),
        exp.Substring: ("this", "start", "length"),
        exp.Cast: ("this", "to"),
        exp.TryCast: ("this", "to", "safe"),
        # Whether `||` reads NULL as an empty text, and what `/` does with 0: neither is supported
        # here.
        exp.DPipe: (*pair, "safe"),
        exp.Div: (*pair, "safe"),
    }
    return {kind: frozenset(names) for kind, names in known.items()}


def _flat(operator: str, left: Node, right: Node) -> Node:
    """Return one call for a row of the same operators whose order does not matter."""
    if operator in ("and", "or", "||") and isinstance(left, Call) and left.operator == operator:
        return Call(operator, (*left.operands, right))
    return Call(operator, (left, right))


class _Reader:
    """A reader of sqlglot's tree of one text."""

    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what

    def node(self, tree: exp.Expression) -> Node:
        """Return the node of a part of the tree; refuse it if any part of it is not supported."""
        from sqlglot import exp

        known = _known().get(type(tree))
        if known is None or any(value for name, value in tree.args.items() if name not in known):
            raise self._unknown(tree)
        if (operator := _infix().get(type(tree))) is not None:
            return _flat(operator, self.node(tree.this), self.node(tree.expression))
        match tree:
            case exp.Paren():
                return self.node(tree.this)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return self._literal(tree)
            case exp.Column() | exp.Dot():
                is_quoted = len(tree.parts) == 1 and bool(tree.parts[0].args.get("quoted"))
                return FieldValue(field_path(self._names(tree), self._what), is_quoted)
            case exp.Neg():
                return self._negated(self.node(tree.this))
            case exp.Not():
                return Call("not", (self.node(tree.this),))
            case exp.Is():
                return self._unless(tree, self._tested(tree))
            case exp.Between():
                value = self.node(tree.this)
                low, high = self.node(tree.args["low"]), self.node(tree.args["high"])
                return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
            case exp.In() if tree.expressions:
                return Call("in", tuple(map(self.node, (tree.this, *tree.expressions))))
            case exp.Like():
                return self._unless(tree, self._like(tree, Literal(None)))
            case exp.Escape() if isinstance(tree.this, exp.Like):
                like = self._like(tree.this, self._character(tree.expression))
                return self._unless(tree.this, like)
            case exp.Case():
                return self._case(tree)
            case exp.Coalesce():
                return Call("coalesce", tuple(map(self.node, (tree.this, *tree.expressions))))
            case exp.Anonymous() if tree.name.lower() == "ago":
                return self._ago(tree)
            case exp.Lower():
                return Call("lower", (self.node(tree.this),))
            case exp.Upper():
                return Call("upper", (self.node(tree.this),))
            case exp.Substring():
                return self._substring(tree)
            case exp.Cast():  # And a TryCast, which is one.
                operator = "try_cast" if isinstance(tree, exp.TryCast) else "cast"
                return Call(operator, (self.node(tree.this), self._type(tree.args["to"])))
        raise self._unknown(tree)

    @staticmethod
    def _unless(tree: exp.Expression, node: Node) -> Node:
        return Call("not", (node,)) if tree.args.get("negate") else node

    def _unknown(self, tree: exp.Expression) -> SlidestatError:
        part = tree.sql()
        return SlidestatError(
            f"{self._what} is {self._text!r}: {part!r} cannot be computed here.",
            f"{_KNOWN} A field whose name is a word of SQL is written in double quotes.",
        )

    def _literal(self, tree: exp.Expression) -> Literal:
        from sqlglot import exp

        if isinstance(tree, exp.Null):
            return Literal(None)
        if isinstance(tree, exp.Boolean):
            return Literal(bool(tree.this))
        if tree.is_string:
            return Literal(str(tree.this))
        try:
            number = float(tree.this)
        except ValueError as error:  # 1e is one to sqlglot.
            raise self._unknown(tree) from error
        if abs(number) == float("inf"):
            raise self._unknown(tree)
        try:
            exact = Decimal(tree.this)
        except InvalidOperation:  # Next to nothing: its power has more digits than a Decimal's.
            return Literal(number)
        if exact >= WHOLE_LIMIT:
            if not tree.this.isdigit() or exact == Decimal(number):
                return Literal(number)
            raise SlidestatError(
                f"{self._what} is {self._text!r}: {tree.this} is a whole number that no double is,"
                " beyond those that are compared exactly.",
                f"Write a whole number below 2^{WHOLE_BITS}, or a double: {number!r}.",
            )
        if number < 2**53 or exact == Decimal(number):
            return Literal(number)
        return Literal(int(exact) if exact == exact.to_integral_value() else exact)

    @staticmethod
    def _negated(node: Node) -> Node:
        if isinstance(node, Literal) and isinstance(node.value, Decimal):
            return Literal(node.value.copy_negate())  # A minus would round it.
        if isinstance(node, Literal) and type(node.value) in (float, int):
            return Literal(-node.value)  # type: ignore[operator]  # It is a number.
        return Call("negate", (node,))

    def _names(self, tree: exp.Expression) -> list[str]:
        """Return the names of a path, outermost first."""
        from sqlglot import exp

        if isinstance(tree, exp.Dot):
            return [*self._names(tree.this), *self._names(tree.expression)]
        if isinstance(tree, exp.Identifier):
            return [str(tree.this)]
        if not isinstance(tree, exp.Column) or not all(
            isinstance(part, exp.Identifier) for part in tree.parts
        ):
            raise self._unknown(tree)
        return [part.name for part in tree.parts]

    def _tested(self, tree: exp.Expression) -> Node:
        from sqlglot import exp

        value, right = self.node(tree.this), tree.expression
        if isinstance(right, exp.Null):
            return Call("is null", (value,))
        if isinstance(right, exp.Boolean):
            return Call("is true" if right.this else "is false", (value,))
        raise self._unknown(tree)

    def _like(self, tree: exp.Expression, escape: Literal) -> Node:
        pattern = self.node(tree.expression)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise SlidestatError(
                f"{self._what} is {self._text!r}: the pattern of like is no text in quotes.",
                "Write it as path like '/api/%'.",
            )
        if escape.value is not None:
            rest = pattern.value.replace(2 * str(escape.value), "")
            if rest.endswith(str(escape.value)):
                raise SlidestatError(
                    f"{self._what} is {self._text!r}: the pattern of like ends with its escape"
                    f" {escape.value!r}, which escapes nothing.",
                    f"Write it twice for the character itself: {2 * str(escape.value)!r}.",
                )
        return Call("like", (self.node(tree.this), pattern, escape))

    def _character(self, tree: exp.Expression) -> Literal:
        literal = self.node(tree)
        character = literal.value if isinstance(literal, Literal) else None
        if isinstance(character, str) and len(character) == 1:
            return Literal(character)
        raise self._unknown(tree)

    def _case(self, tree: exp.Expression) -> Node:
        asked = None if tree.this is None else self.node(tree.this)
        operands: list[Node] = []
        for branch in tree.args["ifs"]:
            condition = self.node(branch.this)
            operands.append(condition if asked is None else Call("=", (asked, condition)))
            operands.append(self.node(branch.args["true"]))
        otherwise = tree.args.get("default")
        operands.append(Literal(None) if otherwise is None else self.node(otherwise))
        return Call("case", tuple(operands))

    def _ago(self, tree: exp.Expression) -> Node:
        match [self.node(part) for part in tree.expressions]:
            case [FieldValue() as figure, Literal(str() as length)]:
                return Call("ago", (figure, Literal(length)))
        raise SlidestatError(
            f"{self._what} is {self._text!r}: {tree.sql()} is not a figure and how long before.",
            "Write ago(count_5m, '1h'): the figure with its window, and a length in quotes.",
        )

    def _substring(self, tree: exp.Expression) -> Node:
        places = [tree.args.get("start"), tree.args.get("length")]
        numbers = [self.node(place) for place in places if place is not None]
        for number, least in zip(numbers, (1, 0), strict=False):
            value = number.value if isinstance(number, Literal) else None
            if not isinstance(value, float) or not value.is_integer() or value < least:
                raise SlidestatError(
                    f"{self._what} is {self._text!r}: substring has other places than numbers.",
                    "Write substring(path, 1, 4): the first character, from 1 on, and how many.",
                )
        return Call("substring", (self.node(tree.this), *numbers))

    def _type(self, tree: exp.Expression) -> Literal:
        known = None if tree.expressions else _TYPES.get(str(tree.this.name))
        if known is None:
            raise SlidestatError(
                f"{self._what} is {self._text!r}: there is no cast to {tree.sql().lower()} here.",
                "Cast to double (numbers with a fraction, and whole ones of up to 30 digits),"
                " bigint, varchar, or timestamp (milliseconds since 1970).",
            )
        return Literal(known)
