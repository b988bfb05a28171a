"""Expressions and rows that conditions are tried on, and what a real SQL engine says of them."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import duckdb
from hypothesis import strategies as st

from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, Node

# By their sorts; names that are words of SQL, have dots or lie in objects are tried elsewhere.
NUMBERS, TEXTS, TRUTHS = ("a", "b"), ("s", "t"), ("p", "q")
COLUMNS = (*NUMBERS, *TEXTS, *TRUTHS)
TYPES = {**dict.fromkeys(NUMBERS, "double"), **dict.fromkeys(TEXTS, "varchar")}
TYPES |= dict.fromkeys(TRUTHS, "boolean")

_NUMBER = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -2.5, 0.1, 500.0, 2.0**53, 1e300])
# A letter that two capitals stand for has other rules in other engines.
_TEXT = st.sampled_from(
    ["", "a", "A", "b", "ab", "a_b", "a%b", "it's", "é", "É", "ab\nc", "\U0001f600x", " 12 ", "-.5"]
)
_PATTERN = st.sampled_from(["%", "a%", "%b", "a_", "_", "a!%b", "a.b", "%!_%", "", "%\n%", "[a]"])
_VALUES = {"double": _NUMBER, "varchar": _TEXT, "boolean": st.booleans()}

ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | _VALUES[kind] for name, kind in TYPES.items()}),
    min_size=1,
    max_size=12,
)


def _call(operator: str, *operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.tuples(*operands).map(lambda found: Call(operator, found))


def _leaves(names: Sequence[str], literals: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    fields: st.SearchStrategy[Node] = st.sampled_from(names).map(lambda name: FieldValue((name,)))
    return st.one_of(fields, fields, literals.map(Literal), st.just(Literal(None)))


def _with_choices(
    values: st.SearchStrategy[Node], truths: st.SearchStrategy[Node]
) -> st.SearchStrategy[Node]:
    """Those, and a case or a coalesce of them."""
    return st.one_of(
        values,
        _call("coalesce", values, values),
        _call("case", truths, values, values),
        _call("case", truths, values, truths, values, st.just(Literal(None))),
    )


def _numbers(depth: int) -> st.SearchStrategy[Node]:
    leaves = _leaves(NUMBERS, _NUMBER)
    if not depth:
        return leaves
    inner = _numbers(depth - 1)
    cast = _call("try_cast", _texts(depth - 1), st.just(Literal("double")))
    computed = [cast]
    computed += [_call(operator, inner, inner) for operator in "+-*/%"]
    return _with_choices(st.one_of(leaves, *computed, _call("negate", inner)), truths(depth - 1))


def _texts(depth: int) -> st.SearchStrategy[Node]:
    leaves = _leaves(TEXTS, _TEXT)
    if not depth:
        return leaves
    inner = _texts(depth - 1)
    place = st.integers(1, 4).map(lambda n: Literal(float(n)))
    length = st.integers(0, 3).map(lambda n: Literal(float(n)))
    computed = (
        _call("lower", inner),
        _call("upper", inner),
        _call("||", inner, inner),
        _call("substring", inner, place),
        _call("substring", inner, place, length),
    )
    return _with_choices(st.one_of(leaves, *computed), truths(depth - 1))


def _casts(depth: int) -> Iterator[st.SearchStrategy[Node]]:
    """Casts of which engines make different things, or end at the first error."""
    for operator, kind in product(("cast", "try_cast"), ("double", "bigint", "varchar")):
        yield _call(operator, st.one_of(_numbers(depth), _texts(depth)), st.just(Literal(kind)))
    yield _call("cast", _texts(depth), st.just(Literal("timestamp")))


def values(depth: int) -> st.SearchStrategy[Node]:
    """Expressions of numbers and of texts."""
    return st.one_of(_numbers(depth), _texts(depth), *_casts(depth - 1))


def truths(depth: int) -> st.SearchStrategy[Node]:
    """Conditions of at most so many operators in each other."""
    leaves = _leaves(TRUTHS, st.booleans())
    if not depth:
        return leaves
    inner, numbers, texts = truths(depth - 1), _numbers(depth - 1), _texts(depth - 1)
    compared = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    pairs = st.one_of(st.tuples(numbers, numbers), st.tuples(texts, texts))
    escape = st.sampled_from([Literal(None), Literal("!")])
    listed = _call("in", numbers, numbers, _NUMBER.map(Literal))
    literals = (
        _call("in", texts, _TEXT.map(Literal), _TEXT.map(Literal)),
        _call("in", numbers, _NUMBER.map(Literal), _NUMBER.map(Literal)),
    )
    plain = (
        st.builds(Call, compared, pairs),
        _call("like", texts, _PATTERN.map(Literal), escape),
        *(listed, *literals),
        *(_call("is null", values) for values in (inner, numbers, texts)),
        *(_call(operator, inner) for operator in ("not", "is true", "is false")),
        *(_call(operator, inner, inner) for operator in ("and", "or")),
    )
    return _with_choices(st.one_of(leaves, *plain), inner)


def by_duckdb(
    connection: duckdb.DuckDBPyConnection, text: str, rows: Sequence[dict[str, Any]]
) -> list[bool | None]:
    """What DuckDB makes of a condition for each row."""
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    relation = f"create or replace temp table events (place integer, {columns})"
    connection.execute(relation)
    events = connection.table("events")
    for place, row in enumerate(rows):
        events.insert([place, *(row[name] for name in TYPES)])
    found = connection.table("events").order("place").project(f"({text})::boolean").fetchall()
    return [row[0] for row in found]
