"""Conditions say of every event what SQL says."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from slidestat.declare.expressions.expression import Expression, condition
from slidestat.declare.expressions.nodes import Node, Sort, fields_of, text_of
from slidestat.declare.expressions.parsing import parsed
from slidestat.engine.decoding.evaluation import Computed, Evaluation
from slidestat.errors import SlidestatError
from slidestat.spark.audit.events.conditions import NotComputableError, computed as audited, holds
from tests.engine.expressions import NUMBERS, ROWS, TEXTS, by_duckdb, truths, values

laws = settings(
    derandomize=True,
    deadline=None,
    max_examples=250,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Rows = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


def columns(rows: Rows) -> dict[tuple[str, ...], Computed]:
    """The rows as columns of the sorts that the fields have."""
    kinds = {**dict.fromkeys(NUMBERS, pa.float64()), **dict.fromkeys(TEXTS, pa.large_string())}
    return {
        (name,): Computed(pa.array([row[name] for row in rows], kinds.get(name, pa.bool_())))
        for name in rows[0]
    }


def computed(node: Node, rows: Rows) -> list[bool | str]:
    """Of each row whether the condition is true, or that it cannot be told."""
    found, errors = Evaluation(len(rows), columns(rows)).holds(node)
    wrong = np.zeros(len(rows), bool) if errors is None else errors
    assert not (found & wrong).any()
    return ["error" if w else bool(f) for f, w in zip(found, wrong, strict=True)]


def row_by_row(text: str, rows: Rows) -> list[bool | str]:
    """The same as an audit finds it."""
    found: list[bool | str] = []
    for row in rows:
        try:
            found.append(holds(text, row))
        except NotComputableError:
            found.append("error")
    return found


@laws
@given(truths(3), ROWS)
def test_conditions_are_those_of_sql(
    connection: duckdb.DuckDBPyConnection, node: Node, rows: Rows
) -> None:
    """Of any operators in each other, over rows with NULLs: columns at once and an audit's row by
    row agree with DuckDB wherever there is something to compute; and with each other where not.
    """
    text = text_of(node)
    found = computed(node, rows)
    assert found == row_by_row(text, rows), text
    if "error" not in found:
        assert found == [truth is True for truth in by_duckdb(connection, text, rows)], text


@pytest.mark.parametrize(
    "text",
    [
        "(p = q) is not true",
        "p = (q is null)",
        "a = 1 and p is true or q is null",
        "a in (1, 2) is null",
        "not a between 1 and 2 is true",
        "s like 'a%' is not false",
        "case when p = q then a end is null",
        "coalesce(p = q, p) is not true",
    ],
)
def test_tests_bind_as_in_sql(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """What is written without parentheses, of all truths; a test of a comparison has them."""
    rows = [
        {"a": a, "b": 1.0, "s": s, "t": "a", "p": p, "q": q}
        for a, s, p, q in product((1.0, 3.0, None), ("a", None), *[(True, False, None)] * 2)
    ]
    expected = [truth is True for truth in by_duckdb(connection, text, rows)]
    assert computed(parsed(text, "where"), rows) == expected


@pytest.mark.parametrize("text", ["a in (0, 2)", "a in (-0.0, 2)", "a not in (0, 2)"])
def test_minus_zero_is_zero_in_a_list_too(text: str) -> None:
    rows = [{"a": a} for a in (0.0, -0.0, 2.0, 1.0, None)]
    listed = [True, True, True, False, False]
    if "not" in text:
        listed = [False, False, False, True, False]
    assert computed(parsed(text, "where"), rows) == row_by_row(text, rows) == listed


def test_a_field_may_be_called_as_a_sign() -> None:
    assert condition("end > 5 and p is true", "where").text == '("end" > 5) and (p is true)'
    assert condition("5 < isnull", "where").text == "5 < isnull"


@laws
@given(values(3), ROWS)
def test_values_are_those_that_an_audit_finds(node: Node, rows: Rows) -> None:
    """Numbers and texts, row by row in plain Python, to the last bit; errors in the same rows."""
    column, errors, rests = Evaluation(len(rows), columns(rows)).column(node)
    found = column.to_pylist()
    if rests is not None:  # Of whole numbers that no doubles are; NaN of one that is rounded.
        found = [
            int(number) + int(rest) if rest and not np.isnan(rest) else number
            for number, rest in zip(found, np.full(len(rows), rests).tolist(), strict=True)
        ]
    wrong = [False] * len(rows) if errors is None else errors.tolist()
    by_row: list[object] = []
    for row in rows:
        written = {n: Decimal(repr(x)) if isinstance(x, float) else x for n, x in row.items()}
        try:
            by_row.append(audited(text_of(node), written))
        except NotComputableError:
            by_row.append("error")
    assert ["error" if w else x for x, w in zip(found, wrong, strict=True)] == by_row


@laws
@given(truths(3))
def test_an_expression_is_read_as_it_is_written(node: Node) -> None:
    """What it was written from comes back, and is written the same way."""
    if not any(fields_of(node)):
        return
    try:
        read = condition(text_of(node), "where")
    except SlidestatError:  # Of what sort a field is may not follow from so little.
        return
    assert read.text == text_of(read.node)
    assert condition(read.text, "where") == read


@pytest.mark.parametrize(
    ("text", "row", "outcome"),
    [
        ("a / b > 1", {"a": 1, "b": 0}, "error"),
        ("a % b > 1", {"a": 1, "b": 0}, "error"),
        ("a / b > 1", {"a": 0, "b": 0}, "error"),
        ("a * b > 1", {"a": 1e300, "b": 1e300}, "error"),
        ("-(a - b) < 0", {"a": -1.7e308, "b": 1.7e308}, "error"),
        ("not (a / b > 1)", {"a": 1, "b": 0}, "error"),
        ("a / b is null", {"a": 1, "b": 0}, "error"),
        ("b <> 0 and a / b > 1", {"a": 1, "b": 0}, False),
        ("a / b > 1 and b <> 0", {"a": 1, "b": 0}, False),
        ("b = 0 or a / b > 1", {"a": 1, "b": 0}, True),
        ("a / b > 1 or b = 0", {"a": 1, "b": 0}, True),
        ("p and a / b > 1", {"a": 1, "b": 0, "p": None}, "error"),
        ("case when b = 0 then true else a / b > 1 end", {"a": 1, "b": 0}, True),
        ("case when a / b > 1 then true else true end", {"a": 1, "b": 0}, "error"),
        ("coalesce(a, a / b) = 1", {"a": 1, "b": 0}, True),
        ("coalesce(a / b, a) = 1", {"a": 1, "b": 0}, "error"),
        ("coalesce(null, null) in ('', 'x') or a = 1", {"a": 1}, True),
        ("case when a = 1 then null end = 'x'", {"a": 1}, False),
        ("a / b > 1", {"a": None, "b": 0}, False),
        ("a in (1, a / b)", {"a": 1, "b": 0}, True),
        ("a in (2, a / b)", {"a": 1, "b": 0}, "error"),
        ("upper(s) = 'STRASSE'", {"s": "straße"}, True),
        ("a between 1 and 2 and a not between 2 and 1", {"a": 1.5}, True),
        ("s not like 'a!_%' escape '!'", {"s": "a_b"}, False),
        ("s like '%\n%'", {"s": "a\nb"}, True),
        ("substring(s, 2, 2) = '\U0001f600b'", {"s": "a\U0001f600bc"}, True),
    ],
)
def test_what_cannot_be_computed_is_an_error_where_it_decides(
    text: str, row: dict[str, Any], outcome: bool | str
) -> None:
    """Whatever else would have been the same without it is no error."""
    rows = [{**dict.fromkeys(("a", "b", "s", "t", "p", "q")), **row}] * 2
    assert computed(condition(text, "where").node, rows) == [outcome] * 2
    assert row_by_row(condition(text, "where").text, rows) == [outcome] * 2


def test_sorts_of_fields_follow_from_what_is_asked() -> None:
    known: Expression = condition('a.b + 1 > c and "d.e" || s = t and not f and g is null', "where")
    assert dict(known.fields) == {
        ("a", "b"): Sort.NUMBER,
        ("c",): Sort.NUMBER,
        ("d.e",): Sort.TEXT,
        ("s",): Sort.TEXT,
        ("t",): Sort.TEXT,
        ("f",): Sort.TRUTH,
        ("g",): Sort.ANY,
    }
